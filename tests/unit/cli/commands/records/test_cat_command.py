"""``tidelog cat``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.cli.commands.records.test_txns_command import begin

import tidelog

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


def test_topics_follow_each_other(cli: Cli) -> None:
    """In order of their names, as their partitions; a limit counts the records of all."""
    for name in ("u", "t", "v"):
        cli.on("create", name)
        cli.append(f"{name}1", f"{name}2", topic=name)

    printed = cli.on("cat", "u", "t", "--format", "%t %v").out.splitlines()
    limited = cli.on("cat", "u", "t", "-n", "3", "--format", "csv").out.splitlines()

    assert printed == ["t t1", "t t2", "u u1", "u u2"]
    assert [line.partition(",")[0] for line in limited] == ["topic", "t", "t", "u"]
    assert cli.on("cat", "t", "nobody").code == 2


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


def test_what_is_not_utf8_is_printed_and_appended_again(topic: Cli) -> None:
    """At the first try and without a loss, whichever encoding each of the commands is given."""
    record = (
        '{"key": "k", "value": "AP8=", "valueEncoding": "base64",'
        ' "headers": [["h", "ww==", "base64"], ["i", "j"]], "timestamp": 5}\n'
    )
    assert topic.on("append", "t", "--format", "json", stdin=record).code == 0

    printed = topic.on("cat", "t")

    [row] = printed.rows
    assert (printed.code, printed.err) == (0, "")
    assert {name: row[name] for name in ("key", "value", "valueEncoding", "headers")} == {
        "key": "k",
        "value": "AP8=",
        "valueEncoding": "base64",
        "headers": [["h", "ww==", "base64"], ["i", "j"]],
    }
    for to, how in (("u", "utf8"), ("v", "base64"), ("w", "hex")):
        topic.on("create", to)
        lines = topic.on("cat", "t", "--encoding", how).out
        assert topic.on("append", to, "--format", "json", stdin=lines).code == 0
        assert topic.on("cat", to).out == printed.out.replace('"t"', f'"{to}"')


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
    assert "several topics: name them" in both.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["u"], "no topic u in {}; it has t"),
        (["t", "--partition", 4], "topic t in {} has no partition 4; it has 0"),
    ],
)
def test_what_is_not_there_is_wrong_usage(topic: Cli, words: list[object], why: str) -> None:
    """The error lists the topics that exist, or the topic's partitions."""
    outcome = topic.on("cat", *words)

    assert outcome[:2] == (2, "")
    assert why.format(topic.data) in outcome.err


def test_records_above_the_high_watermark_are_counted(topic: Cli) -> None:
    """Standard error names the option that prints them, ``--up-to logEnd``."""
    topic.append("a", "b", "c")
    (topic.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")

    outcome = topic.on("cat", "t")

    assert [row["value"] for row in outcome.rows] == ["a"]
    assert "t-0 has 2 offsets above its high watermark 1; use --up-to logEnd" in outcome.err
    assert topic.values("--up-to", "logEnd") == ["a", "b", "c"]
    assert topic.on("cat", "t", "--up-to", "logEnd").err == ""


def test_a_rescue_counts_what_it_leaves_above_the_high_watermark(topic: Cli) -> None:
    """A crash leaves one that is too low: with ``--skip-damage`` that is a loss."""
    topic.append("a", "b", "c")
    (topic.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")

    outcome = topic.on("cat", "t", "--skip-damage")

    assert ([row["value"] for row in outcome.rows], outcome.code) == (["a"], 1)
    assert "t-0: 2 records above the high watermark 1 not read: add --up-to" in outcome.err
    whole = topic.on("cat", "t", "--skip-damage", "--up-to", "logEnd")
    assert ([row["value"] for row in whole.rows], whole.code, whole.err) == (["a", "b", "c"], 0, "")


@pytest.mark.parametrize("start", [2, 1_000])
def test_a_rescue_counts_and_prints_what_lies_below_the_log_start(topic: Cli, start: int) -> None:
    """Also where a crash has left a log start beyond the log's end, so that it looks empty."""
    topic.append("a", "b", "c")
    (topic.data / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    (topic.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 3\n")

    outcome = topic.on("cat", "t", "--skip-damage")
    whole = topic.on("cat", "t", "--skip-damage", "--below-start")

    below = min(start, 3)
    assert [row["value"] for row in outcome.rows] == ["a", "b", "c"][below:]
    assert f"{below} records below the log start {start:,} not read" in outcome.err
    assert outcome.code == 1
    assert ([row["value"] for row in whole.rows], whole.code) == (["a", "b", "c"], 0)


def test_a_rescue_counts_what_follows_an_open_transaction(topic: Cli) -> None:
    """With ``--isolation read_committed`` it is not read."""
    begin(topic, 1)
    topic.append("a")
    words = ("cat", "t", "--skip-damage", "--isolation", "read_committed")

    outcome = topic.on(*words)

    assert ([row["value"] for row in outcome.rows], outcome.code) == (["plain"], 1)
    assert "2 records above the last stable offset 1 not read: leave out" in outcome.err


def test_a_start_outside_the_log_is_reported(topic: Cli) -> None:
    """On standard error, with the log's end or start; it is not an error."""
    topic.append("a", "b", "c")
    topic.on("delete-records", "t", "-p", "all", "--before", 1)

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
    assert outcome.err == (
        f"tidelog cat: the CRC of a batch is wrong at byte {size} of {path}: --skip-damage skips"
        " it, and says what is lost; `tidelog rescue` copies all that can be read into a new"
        " directory, and `tidelog verify` says whether an archive has it\n"
    )


def test_damage_hides_no_other_partition(cli: Cli) -> None:
    """Each is printed as far as it is sound, and each damage is named."""
    assert cli.on("create", "t", "-p", 3).code == 0
    lines = [json.dumps({"partition": n, "value": v}) + "\n" for v in "ab" for n in range(3)]
    for line in lines:
        assert cli.on("append", "t", "--format", "json", stdin=line).code == 0
    for name in ("t-0", "t-1"):
        path = cli.log_file(name)
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")

    outcome = cli.on("cat", "t")

    found = [(row["partition"], row["value"]) for row in outcome.rows]
    assert found == [(0, "a"), (1, "a"), (2, "a"), (2, "b")]
    assert (outcome.code, outcome.err.count("\n")) == (1, 2)
    assert all(str(cli.log_file(name)) in outcome.err for name in ("t-0", "t-1"))
    assert len(cli.on("cat", "t", "-n", 2).rows) == 2


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


# Which records


def test_a_limit_counts_over_all_partitions(cli: Cli) -> None:
    """As ``head -n`` does, not each partition's."""
    cli.on("create", "t", "-p", 2)
    for partition in (0, 1):
        cli.on("append", "t", "-p", partition, stdin="a\nb\n")

    assert [row["partition"] for row in cli.on("cat", "t", "-n", 3).rows] == [0, 0, 1]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--last", 2], "ef"),
        (["--last", 0], ""),
        (["--last", 99], "bcdef"),
        (["--last", 2, "--to", 4], "cd"),
        (["--last", 3, "-n", 1], "d"),
        (["--last", 2, "--until", 40], "bc"),
        (["--from", "end"], ""),
    ],
)
def test_the_last_records_can_be_chosen(topic: Cli, words: list[object], values: str) -> None:
    """Those before the end of the range that the other options choose."""
    given = "".join(
        json_line(value=value, timestamp=10 * number)
        for number, value in enumerate("abcdef", start=1)
    )
    topic.on("append", "t", "--format", "json", stdin=given)
    topic.on("delete-records", "t", "-p", "all", "--before", 1)

    assert topic.values(*words) == list(values)


@pytest.mark.parametrize(
    ("words", "code", "values", "skipped"),
    [
        (["--last", 2], 0, "ef", 0),
        (["--last", 2, "--skip-damage"], 0, "ef", 0),
        (["--last", 4], 1, "b", 0),
        (["--last", 4, "--skip-damage"], 1, "bdef", 1),
    ],
)
def test_damage_counts_among_the_last_records_only(
    topic: Cli, words: list[object], code: int, values: str, skipped: int
) -> None:
    """It is reported once, and only where records are printed from before it."""
    with tidelog.open(topic.data) as logs:  # one writer, so that each batch has an index entry
        for value in "abcdef":
            logs.append("t", value.encode() * 5_000)
    data = bytearray(topic.log_file().read_bytes())
    data[len(data) // 6 * 3 - 2] ^= 1
    topic.log_file().write_bytes(data)

    outcome = topic.on("cat", "t", "--format", "text", *words)

    assert (outcome.code, "".join(line[0] for line in outcome.out.split())) == (code, values)
    assert outcome.err.count("skipped") == skipped


def test_the_last_records_are_found_behind_gaps(topic: Cli) -> None:
    """Compaction has left few of many offsets: the search goes further back, and no further."""
    topic.on("alter", "t", "-o", "cleanup.policy=compact", "-o", "internal.segment.bytes=4096")
    for start in range(0, 6_000, 3_000):
        rest = "".join(json_line(key="k", value=str(start + n)) for n in range(3_000))
        lines = json_line(key=f"only {start}", value=f"old {start}") + rest
        topic.on("append", "t", "--format", "json", stdin=lines)
    assert topic.on("compact", "t").code == 0
    values = topic.values()
    assert len(values) < 6_000

    for count in (1, 2, 3_000, 3_002):
        assert topic.values("--last", count) == values[-count:]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--key", "a"], ["1", "4"]),
        (["--key", ""], ["6"]),
        (["--key", "YWI=", "--encoding", "base64"], ["Mg=="]),
        (["--key", "b"], []),
        (["--grep", "a"], ["1", "2", "4", "xay"]),
        (["--grep", "^[0-9]$", "--key", "a"], ["1", "4"]),
        (["--grep", "ü"], ["für"]),
        (["--grep", "a", "--last", 2], ["4", "xay"]),
        (["--grep", "a", "-n", 3], ["1", "2", "4"]),
    ],
)
def test_records_can_be_chosen_by_key_and_pattern(
    topic: Cli, words: list[object], values: list[str]
) -> None:
    """A key is compared whole; a pattern is searched in keys and values. Null has no bytes."""
    records: list[tuple[str | None, str | None]] = [
        *(("a", "1"), ("ab", "2"), (None, "für"), ("a", "4"), ("c", None), ("", "6"), ("c", "xay"))
    ]
    lines = "".join(json_line(key=key, value=value) for key, value in records)
    topic.on("append", "t", "--format", "json", stdin=lines)

    assert topic.values(*words) == values


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--grep", "("], "not a regular expression"),
        (["--from", "start"], "not a whole number"),
        (["--last", 2, "--from", "end"], "give one of them"),
        (["--key", "xyz", "--encoding", "hex"], "the key is not valid hex"),
        (["--format", "yaml"], "not one of json, text, raw, csv, arrow, parquet, nor a text"),
        (["--format", "%x"], "%x is not known"),
        (["--format", r"%v\x"], r"\x is not known"),
        (["--format", "%"], "'%' at the end stands for nothing"),
        (["--follow", "--to", 3], "--follow has no end, and --to sets one"),
        (["--from", 3, "--to", 2], "--to ends before --from begins"),
        (["--since", 3, "--until", 2], "--until ends before --since begins"),
    ],
)
def test_a_choice_that_cannot_be_meant_is_wrong_usage(
    topic: Cli, words: list[object], why: str
) -> None:
    """Exit code 2, nothing printed, and the rule."""
    outcome = topic.on("cat", "t", *words)

    assert outcome[:2] == (2, "")
    assert why in outcome.err


# Other forms


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["--format", "text"], "ü\n\n\n"),
        (["--format", "raw"], "ü"),
        (["--format", "%t-%p@%o %T %k=%v %K/%V 100%%"], None),
        (["--format", r"%k\0"], "k\0\0\0"),
        (["--format", r"%k\\"], "k\\\n\\\n\\\n"),
        (["--format", "%s %S %h", "-n", 1], 'ü 2 [["h", "x"]]\n'),
        (["--format", "text", "--encoding", "hex"], "c3bc\n\n\n"),
        (
            ["--format", "csv"],
            (
                "topic,partition,offset,timestamp,key,value,headers,keyEncoding,valueEncoding\n"
                't,0,0,5,k,ü,"[[""h"", ""x""]]",,\nt,0,1,6,,"",[],,\nt,0,2,7,"",,[],,\n'
            ),
        ),
        (
            ["--format", "csv", "-n", 0],
            "topic,partition,offset,timestamp,key,value,headers,keyEncoding,valueEncoding\n",
        ),
    ],
)
def test_records_can_be_printed_in_other_forms(
    topic: Cli, words: list[object], out: str | None
) -> None:
    """Null is empty in all of them; CSV quotes text that is empty."""
    lines = (
        json_line(key="k", value="ü", headers=[["h", "x"]], timestamp=5)
        + json_line(value="", timestamp=6)
        + json_line(key="", value=None, timestamp=7)
    )
    topic.on("append", "t", "--format", "json", stdin=lines)

    outcome = topic.on("cat", "t", *words)

    filled = "t-0@0 5 k=ü 1/2 100%\nt-0@1 6 = -1/0 100%\nt-0@2 7 = 0/-1 100%\n"
    assert outcome == (0, filled if out is None else out, "")


def test_bytes_that_are_not_text_are_printed_as_they_are(topic: Cli) -> None:
    """By text, raw and texts with directives; CSV, like JSON, says how they are written."""
    topic.on("append", "t", "--format", "text", stdin=b"\xff\n")

    assert topic.on("cat", "t", "--format", "csv").out.endswith(",/w==,[],,base64\n")
    hexadecimal = topic.on("cat", "t", "--format", "csv", "--encoding", "hex")
    assert hexadecimal.out.endswith(",ff,[],hex,hex\n")


def test_messages_group_the_digits_of_offsets(topic: Cli) -> None:
    """As every table does."""
    topic.append(*(str(number) for number in range(1500)))

    assert topic.on("cat", "t", "--from", 2000).err == (
        "tidelog cat: t-0 ends at 1,500, before offset 2,000\n"
    )


@pytest.mark.parametrize("form", ["text", "raw", "csv", "arrow", "%v"])
def test_values_as_json_need_lines_of_json(topic: Cli, form: str) -> None:
    """The other forms have no place for them."""
    outcome = topic.on("cat", "t", "--encoding", "json", "--format", form)

    assert outcome.code == 2
    assert f"--encoding json and --format {form} cannot be combined" in outcome.err


def test_a_key_is_chosen_as_text_where_values_are_json(topic: Cli) -> None:
    """A key is text, whatever its record's value is."""
    given = json_line(key="1", value="[1]") + json_line(key="2", value="[2]")
    topic.on("append", "t", "--format", "json", stdin=given)

    rows = topic.on("cat", "t", "--encoding", "json", "--key", "2").rows

    assert [(row["key"], row["value"]) for row in rows] == [("2", [2])]
