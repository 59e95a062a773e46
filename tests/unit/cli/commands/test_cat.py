"""``tidelog cat``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cli = Any

MEMBERS = [
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "key",
    "value",
    "headers",
    "leaderEpoch",
]


def json_line(**members: object) -> str:
    """Return a line for ``append --format json``."""
    import json

    return json.dumps(members) + "\n"


def test_each_record_is_a_line_with_its_members_in_order(topic: Cli) -> None:
    """JSON, one record a line."""
    given = json_line(key="k", value="a\nb", headers=[["h", "x"]], timestamp=5)
    topic.on("append", "t", "--format", "json", stdin=given)

    outcome = topic.on("cat", "t")

    assert outcome[::2] == (0, "")
    assert outcome.rows == [
        {
            "topic": "t",
            "partition": 0,
            "offset": 0,
            "timestamp": 5,
            "timestampType": "CreateTime",
            "key": "k",
            "value": "a\nb",
            "headers": [["h", "x"]],
            "leaderEpoch": 0,
        }
    ]
    assert list(outcome.rows[0]) == MEMBERS


def test_partitions_follow_each_other(cli: Cli) -> None:
    """Partitions in order of their numbers, records in order of their offsets."""
    cli.on("create", "t", "-p", 11)
    for partition in (10, 2):
        cli.on("append", "t", "-p", partition, stdin="a\nb\n")

    rows = cli.on("cat", "t").rows

    assert [(row["partition"], row["offset"]) for row in rows] == [(2, 0), (2, 1), (10, 0), (10, 1)]
    assert [row["partition"] for row in cli.on("cat", "t", "--partition", 10).rows] == [10, 10]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], "abcdef"),
        (["--from", 2], "cdef"),
        (["--to", 2], "ab"),
        (["--from", 2, "--to", 4], "cd"),
        (["--from", 4, "--to", 2], ""),
        (["--from", 99], ""),
        (["--to", 99], "abcdef"),
        (["-n", 2], "ab"),
        (["-n", 0], ""),
        (["--from", 3, "-n", 1], "d"),
        (["--since", 30], "cdef"),
        (["--until", 30], "ab"),
        (["--since", 20, "--until", 50], "bcd"),
    ],
)
def test_a_range_can_be_chosen(topic: Cli, words: list[object], values: str) -> None:
    """By offset, by time and by count; ends are exclusive."""
    given = "".join(
        json_line(value=value, timestamp=10 * number)
        for number, value in enumerate("abcdef", start=1)
    )
    topic.on("append", "t", "--format", "json", stdin=given)

    assert topic.values(*words) == list(values)


def test_bytes_are_text_in_the_chosen_encoding(topic: Cli) -> None:
    """UTF-8, unescaped, by default; base64 and hex for any bytes."""
    topic.append("ü☃")

    assert '"value": "ü☃"' in topic.on("cat", "t").out
    assert topic.values("--encoding", "base64") == ["w7zimIM="]
    assert topic.values("--encoding", "hex") == ["c3bce29883"]


def test_what_is_no_utf8_is_refused(topic: Cli) -> None:
    """Exit code 2; the records before it are printed, and the error names the option to use."""
    topic.on("append", "t", "--format", "text", stdin=b"good\n\xff\nlater\n")

    outcome = topic.on("cat", "t")

    assert outcome.code == 2
    assert [row["value"] for row in outcome.rows] == ["good"]
    assert "tidelog cat: the value at offset 1 is not valid UTF-8" in outcome.err
    assert "use --encoding base64 or hex" in outcome.err


def test_one_partitions_directory_can_be_named(topic: Cli) -> None:
    """No topic is needed then; a trailing slash makes no difference."""
    topic.append("a")

    for directory in (topic.data / "t-0", f"{topic.data}/t-0/"):
        assert [row["value"] for row in topic("cat", "-d", directory).rows] == ["a"]


def test_a_topic_must_be_named_where_there_are_several(topic: Cli) -> None:
    """It may be omitted where there is only one."""
    topic.append("a")
    alone = topic.on("cat")
    topic.on("create", "u")
    both = topic.on("cat")

    assert (alone.code, len(alone.rows)) == (0, 1)
    assert both[:2] == (2, "")
    assert "several topics; name one" in both.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["u"], "no topic u in"),
        (["t", "--partition", 4], "no topic t with a partition 4 in"),
    ],
)
def test_what_is_not_there_is_wrong_usage(topic: Cli, words: list[object], why: str) -> None:
    """The error lists the topics that exist."""
    outcome = topic.on("cat", *words)

    assert outcome[:2] == (2, "")
    assert why in outcome.err
    assert "it has t" in outcome.err


def test_records_above_the_high_watermark_are_counted(topic: Cli) -> None:
    """Standard error names the option that prints them, ``--up-to logEnd``."""
    topic.append("a", "b", "c")
    (topic.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")

    outcome = topic.on("cat", "t")

    assert [row["value"] for row in outcome.rows] == ["a"]
    assert "t-0 has 2 offsets above its high watermark 1; use --up-to logEnd" in outcome.err
    assert topic.values("--up-to", "logEnd") == ["a", "b", "c"]
    assert topic.on("cat", "t", "--up-to", "logEnd").err == ""


def test_a_start_outside_the_log_is_reported(topic: Cli) -> None:
    """On standard error, with the log's end or start; it is not an error."""
    topic.append("a", "b", "c")
    topic.on("delete-records", "t", "--before", 1)

    behind, before = (topic.on("cat", "t", "--from", start) for start in (9, 0))

    assert behind == (0, "", "tidelog cat: t-0 ends at 3, before offset 9\n")
    assert before.err == "tidelog cat: t-0 begins at 1; earlier offsets were deleted\n"
    assert [row["value"] for row in before.rows] == ["b", "c"]
    assert topic.on("cat", "t").err == ""


def test_damage_is_reported_after_the_records_before_it(topic: Cli) -> None:
    """Exit code 1, and an error with the file and the byte."""
    for value in ("a", "b", "c"):
        topic.append(value)
    path = topic.log_file()
    data = bytearray(path.read_bytes())
    size = len(data) // 3
    data[size + 66] ^= 1
    path.write_bytes(data)

    outcome = topic.on("cat", "t")

    assert outcome.code == 1
    assert [row["value"] for row in outcome.rows] == ["a"]
    assert outcome.err == (f"tidelog cat: the CRC of a batch is wrong at byte {size} of {path}\n")


def test_reading_changes_no_file(topic: Cli) -> None:
    """Neither names, sizes, times nor contents."""
    topic.append("a", "b")

    def listing() -> dict[str, tuple[int, int, bytes]]:
        """Return all files with size, time and content."""
        files = [path for path in topic.data.rglob("*") if path.is_file()]
        return {
            str(path): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
            for path in files
        }

    before = listing()
    for command in ("cat", "describe", "picture"):
        assert topic.on(command).code == 0
    assert topic("dump", topic.log_file()).code == 0

    assert listing() == before
