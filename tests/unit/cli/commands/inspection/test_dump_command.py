"""``tidelog dump``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import Validated

    Cli = Any


def test_a_log_is_a_line_a_batch(topic: Cli) -> None:
    """With ``--records`` there is also a line for each record."""
    topic.append("a", "b")
    topic.append("c")

    batches = topic("dump", topic.log_file())
    records = topic("dump", "--records", topic.log_file()).rows

    assert (batches.code, [row["count"] for row in batches.rows]) == (0, [2, 1])
    assert [row["value"] for row in records if "value" in row] == ["a", "b", "c"]


def test_a_range_of_offsets_can_be_chosen(topic: Cli) -> None:
    """The batches that contain at least one of them are printed."""
    for value in "abc":
        topic.append(value)

    rows = topic("dump", topic.log_file(), "--from", 1, "--to", 2).rows

    assert [row["baseOffset"] for row in rows] == [1]


def test_of_a_batch_at_the_edge_only_the_records_in_the_range_are_printed(topic: Cli) -> None:
    """The line of the batch itself is printed unchanged."""
    topic.append(*"abcd")

    rows = topic("dump", topic.log_file(), "--records", "--from", 1, "--to", 3).rows

    assert [row.get("lastOffset", row.get("value")) for row in rows] == [3, "b", "c"]


def test_a_range_is_found_by_the_index(cli: Cli) -> None:
    """Bytes before it are not read: damage there has no effect."""
    cli.on("create", "t", "-o", "index.interval.bytes=1", "-o", "max.message.bytes=100")
    cli.append(*"abcd")
    path = cli.log_file()
    path.write_bytes(b"\xff" * 69 + path.read_bytes()[69:])

    whole, later = (cli("dump", path, *words) for words in ([], ["--from", 2]))

    assert (whole.code, later.code) == (1, 0)
    assert [row["baseOffset"] for row in later.rows] == [2, 3]


@pytest.mark.parametrize("words", [["--records"], ["--from", 0], ["--to", 5]])
def test_a_range_of_a_file_without_records_is_wrong_usage(topic: Cli, words: list[object]) -> None:
    """The options are refused rather than ignored."""
    topic.append("a")

    outcome = topic("dump", topic.data / "t-0" / "leader-epoch-checkpoint", *words)

    assert outcome[:2] == (2, "")
    assert "has no records" in outcome.err


def test_the_catalogue_is_a_line_a_topic(cli: Cli) -> None:
    """With id, settings and the directory of each partition; deleted topics by their ids."""
    from tidelog.datadir.catalogue import CATALOGUE_FILE

    cli.on("create", "b", "-p", 2, "-o", "retention.ms=5")
    cli.on("create", "a")

    rows = cli("dump", cli.data / CATALOGUE_FILE).rows

    assert [row["topic"] for row in rows] == ["a", "b"]
    assert (rows[1]["config"], list(rows[1]["partitions"])) == ({"retention.ms": "5"}, ["0", "1"])
    assert list(rows[0]) == ["topic", "topicId", "partitions", "config", "revision"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t-0/00000000000000000000.index", []),
        ("t-0/leader-epoch-checkpoint", [{"epoch": 0, "startOffset": 0}]),
        ("t-0/00000000000000000001.snapshot", []),
        ("replication-offset-checkpoint", [{"topic": "t", "partition": 0, "offset": 1}]),
        (".kafka_cleanshutdown", [{"brokerEpoch": -1}]),
    ],
)
def test_any_file_is_shown(topic: Cli, name: str, expected: list[object]) -> None:
    """One line for each entry."""
    topic.append("a")

    outcome = topic("dump", topic.data / name)

    assert (outcome.code, outcome.rows) == (0, expected)


@pytest.mark.parametrize("how", ["flipped", "torn", "zeros"])
def test_damage_gives_exit_code_1(topic: Cli, how: str) -> None:
    """After every batch that can be read."""
    topic.append("a")
    path = topic.log_file()
    data = path.read_bytes()
    path.write_bytes(
        {
            "flipped": data[:-2] + b"\x77" + data[-1:],
            "torn": data + data[:30],
            "zeros": data + b"\0" * 99,
        }[how]
    )

    outcome = topic("dump", path)

    assert (outcome.code, len(outcome.rows)) == (1, 1)
    assert (outcome.rows[0]["valid"], outcome.err == "") == ((how != "flipped"), how == "flipped")


def test_a_batch_that_does_not_decode_gives_exit_code_1(topic: Cli) -> None:
    """Its header is printed, with the reason."""
    from tidelog.records.batch import BATCH_HEADER
    from tidelog.records.builder import pack_batch

    topic.append("a")
    path = topic.log_file()
    path.write_bytes(pack_batch(BATCH_HEADER.unpack(path.read_bytes()), b"\xff\xff"))

    outcome = topic("dump", path, "--records")

    assert (outcome.code, "error" in outcome.rows[0]) == (1, True)


def test_a_file_of_another_kind_is_wrong_usage(cli: Cli, tmp_path: Any) -> None:
    """The error lists the files that can be printed."""
    (tmp_path / "notes.txt").write_text("hello")

    outcome = cli("dump", tmp_path / "notes.txt")

    assert outcome[:2] == (2, "")
    assert ".timeindex" in outcome.err


def test_a_malformed_checkpoint_gives_exit_code_1(cli: Cli, tmp_path: Any) -> None:
    """The file is the right one; its content is damaged."""
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt zero 5\n")

    assert cli("dump", tmp_path / "replication-offset-checkpoint").code == 1


def test_what_is_not_text_is_marked_as_by_cat(topic: Cli) -> None:
    """Base64 unless another encoding is chosen."""
    topic.on("append", "t", "--format", "text", stdin=b"\xff\n")

    plain = topic("dump", topic.log_file(), "--records")
    chosen = topic("dump", topic.log_file(), "--records", "--encoding", "hex")

    found = [
        (one.code, one.rows[1]["value"], one.rows[1]["valueEncoding"]) for one in (plain, chosen)
    ]
    assert found == [(0, "/w==", "base64"), (0, "ff", "hex")]


def test_what_cannot_be_printed_is_escaped(cli: Cli) -> None:
    """Lone surrogates have no UTF-8, and a terminal must not obey what a file holds."""
    cli.on("create", "t")
    path = cli.data / "tidelog.topics.json"
    path.write_text(
        path.read_text().replace('"config": {}', r'"config": {"a": "\ud800\u009b2J", "b": "ü"}')
    )

    outcome = cli("dump", path)

    assert outcome.code == 0
    assert outcome.rows[0]["config"] == {"a": "\ud800\x9b2J", "b": "ü"}
    assert r'{"a": "\ud800\u009b2J", "b": "ü"}' in outcome.out


def test_several_files_are_printed_with_their_names(topic: Cli) -> None:
    """Each line names its file; a damaged one ends with its error, and the next is printed."""
    topic.append("a")
    log, copy = topic.log_file(), topic.data / f"{1:020d}.log"
    copy.write_bytes(log.read_bytes()[:-1])

    both = topic("dump", copy, log)

    assert both.code == 1
    assert [row["file"] for row in both.rows] == [str(log)]
    assert (
        f"tidelog dump: the last 68 bytes are not a complete batch at byte 0 of {copy}" in both.err
    )
    assert "file" not in topic("dump", log).rows[0]


def test_records_of_internal_topics_are_decoded(topic: Cli) -> None:
    """By the directory's name or ``--decode``; what is not such a record is shown with an error."""
    key, value = "000100016700017400000003", "000300000000000000070000000200026d6400000000000000ff"
    for line in (f'{{"key": "{key}", "value": "{value}"}}\n', '{"key": "00ff", "value": "00"}\n'):
        words = ("append", "t", "--format", "json", "--encoding", "hex")
        assert topic.on(*words, stdin=line).code == 0
    (topic.data / "__consumer_offsets-0").mkdir()
    path = topic.data / "__consumer_offsets-0" / f"{0:020d}.log"
    path.write_bytes(topic.log_file().read_bytes())

    by_name = topic("dump", "--records", path)
    shown = [row for row in by_name.rows if "keySize" in row]

    assert by_name.code == 1
    assert shown[0]["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 3}}
    assert shown[0]["value"] == {
        "version": "3",
        "data": {"offset": 7, "leaderEpoch": 2, "metadata": "md", "commitTimestamp": 255},
    }
    assert (shown[1]["key"], shown[1]["error"]) == ("AP8=", "a key of message 255 is not known")
    by_word = topic("dump", "--records", "--decode", "offsets", topic.log_file())
    assert by_word == by_name
    plain = topic("dump", "--records", "--decode", "none", "--encoding", "hex", path)
    assert [row["key"] for row in plain.rows if "keySize" in row] == [key, "00ff"]


def test_values_are_shown_as_json_where_they_are(topic: Cli, validated: Validated) -> None:
    """The others as they are, with their encoding; the size is that of the bytes."""
    topic.append('{"a": 1}', "oops", "null")

    outcome = topic("dump", "--records", "--encoding", "json", topic.log_file())

    rows = [row for row in outcome.rows if "value" in row]
    assert [(row["value"], row["valueEncoding"], row["valueSize"]) for row in rows] == [
        ({"a": 1}, "json", 8),
        ("oops", "utf8", 4),
        ("null", "utf8", 4),
    ]
    validated("dump", outcome.rows)
