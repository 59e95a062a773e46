"""``tidelog describe`` and ``tidelog picture``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tidelog

if TYPE_CHECKING:
    Cli = Any

PICTURE = """\
t-0: 2 offsets, 1 segment, 77 bytes
             0
segments    ├▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▶
             └ log start 0
                                last stable offset, high watermark, log end 2 ┘
"""
TABLE = """\
  base offset  end offset      .log   .index  .timeindex  .txnindex
            0           2  77 bytes  0 bytes    12 bytes    0 bytes
"""
EMPTY = """\
u-0: 0 offsets, 0 segments, 0 bytes
segments    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌▶
             └ log start, last stable offset, high watermark, log end 0
"""

NONE = "no settings of its own"


def title(cli: Cli) -> str:
    """Return the line before topic t of one partition without settings."""
    (_, _, value) = (cli.data / "t-0" / "partition.metadata").read_text().partition("topic_id: ")
    return f"t: 1 partition, id {value.strip()}; {NONE}"


def test_a_topic_is_a_picture_and_a_table(topic: Cli) -> None:
    """Of 80 columns where there is no terminal."""
    topic.append("a", "b")

    assert topic.on("describe") == (0, f"{title(topic)}\n\n{PICTURE}{TABLE}", "")


def test_a_topics_id_and_settings_are_printed_once(cli: Cli) -> None:
    """Before its first partition; also for a single partition's directory."""
    cli.on("create", "t", "-p", 2, "-o", "retention.ms=5", "-o", "cleanup.policy=compact")

    lines = cli.on("describe").out.splitlines()

    settings = "cleanup.policy=compact, retention.ms=5"
    assert lines[0] == title(cli).replace("1 partition,", "2 partitions,").replace(NONE, settings)
    assert sum(settings in line for line in lines) == 1
    assert settings in cli("describe", "-d", cli.data / "t-1").out


def test_what_a_topic_has_since_its_creation_is_shown_where_it_is_not_the_default(
    cli: Cli,
) -> None:
    """With where it comes from; in JSON all of it is."""
    with tidelog.open(cli.data, retention_ms=5, segment_ms=6) as logs:
        logs.create_topic("t", config={"segment.ms": "7"})

    described = cli.on("describe", "t")
    inherited = cli.on("describe", "t", "--json").lines[0]["inheritedSettings"]

    assert described.out.splitlines()[1] == "  since its creation: retention.ms=5"
    assert inherited["retention.ms"] == {"value": "5", "source": "BIRTH_CONFIG"}
    assert inherited["cleanup.policy"] == {"value": "delete", "source": "BIRTH_CONFIG"}


def test_an_unreadable_catalogue_is_reported(topic: Cli) -> None:
    """The logs are shown nevertheless."""
    topic.append("a", "b")
    (topic.data / "tidelog.topics.json").write_text("{")

    outcome = topic.on("describe")

    unknown = (
        "  cleanup.policy, retention.ms, retention.bytes unknown, so nothing is deleted by them"
    )
    assert outcome[:2] == (0, f"{title(topic)}\n{unknown}\n\n{PICTURE}{TABLE}")
    assert outcome.err.startswith(f"tidelog describe: {topic.data}/tidelog.topics.json ")


def test_topics_are_separated_by_a_blank_line(topic: Cli) -> None:
    """In order; or only those that are named."""
    topic.append("a", "b")
    topic.on("create", "u")

    assert topic.on("describe").out.count("\n\nu: 1 partition") == 1
    assert EMPTY in topic.on("describe", "u").out
    assert topic.on("describe", "u", "t").out == topic.on("describe").out
    assert PICTURE not in topic("describe", "-d", topic.data / "u-0").out


@pytest.mark.parametrize("command", ["describe", "picture"])
def test_json_is_a_line_a_partition(topic: Cli, command: str) -> None:
    """Its members are in camel case and the same for both commands."""
    topic.append("a", "b")
    topic.on("create", "u", "-o", "retention.ms=5")

    rows = topic.on(command, "--json").rows

    assert [row["config"] for row in rows] == [{}, {"retention.ms": "5"}]

    assert [(row["topic"], row["logEndOffset"]) for row in rows] == [("t", 2), ("u", 0)]
    assert rows[0]["segments"][0]["logBytes"] == 77
    assert rows[0]["directory"] == str(topic.data / "t-0")


@pytest.mark.parametrize("command", ["describe", "picture"])
def test_damage_is_reported_with_the_log(topic: Cli, command: str) -> None:
    """All logs are shown, and the exit code is 1."""
    topic.append("a")
    topic.on("create", "u")
    (topic.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 9\n")

    outcome = topic.on(command)

    assert outcome.code == 1
    assert "DAMAGED: offsets 1 to 8, below the high watermark, are missing" in outcome.out
    assert "u-0" in outcome.out


@pytest.mark.parametrize("command", ["describe", "picture"])
def test_what_is_not_there_is_wrong_usage(topic: Cli, command: str) -> None:
    """The error names the missing topics."""
    outcome = topic.on(command, "t", "x", "y")

    assert outcome[:2] == (2, "")
    assert "no topic x, y in" in outcome.err


def test_an_empty_directory_is_wrong_usage(cli: Cli) -> None:
    """The error explains how partition directories are named."""
    cli.data.mkdir()

    outcome = cli.on("describe")

    assert outcome[:2] == (2, "")
    assert "named <topic>-<partition>" in outcome.err


def test_the_directory_shows_sizes_and_room(topic: Cli) -> None:
    """``--log-dirs``: each log with its size, copies of a move too, and the bytes of the disk."""
    topic.append("a", "b")
    size = topic.log_file().stat().st_size
    copy = topic.data / f"t-0.{'0' * 32}-future"
    copy.mkdir()
    (copy / topic.log_file().name).write_bytes(b"")

    [row] = topic.on("describe", "--log-dirs", "--json").rows
    lines = topic.on("describe", "--log-dirs").out.splitlines()

    logs = [
        {"topic": "t", "partition": 0, "sizeBytes": size, "offsetLag": 0, "isFuture": False},
        {"topic": "t", "partition": 0, "sizeBytes": 0, "offsetLag": 2, "isFuture": True},
    ]
    assert (row["directory"], row["error"], row["replicas"]) == (str(topic.data), None, logs)
    assert 0 < row["usableBytes"] < row["totalBytes"]
    assert lines[0].startswith(f"{topic.data}: 2 logs, {size} bytes; ")
    assert lines[1:] == [f"  t-0: {size} bytes", "  t-0: 0 bytes, future log, 2 behind"]


def test_the_contents_of_segments_can_be_shown(topic: Cli) -> None:
    """Batches, records, the span of their timestamps and the codecs, from the headers."""
    lines = '{"value": "a", "timestamp": 1000}\n{"value": "b", "timestamp": 61000}\n'
    for codec in ("none", "gzip", "gzip"):
        words = ("append", "t", "--format", "json", "--compression", codec)
        assert topic.on(*words, stdin=lines).code == 0

    shown = topic.on("describe", "--segments").out.splitlines()[-1].split("  ")
    (segment,) = topic.on("describe", "--segments", "--json").rows[0]["segments"]

    times = ["1970-01-01 00:00:01 UTC", "1970-01-01 00:01:01 UTC"]
    assert [cell.strip() for cell in shown if cell][-5:] == ["3", "6", *times, "gzip 2, none 1"]
    assert segment["contents"] == {
        "batches": 3,
        "records": 6,
        "controlBatches": 0,
        "transactionalBatches": 0,
        "minTimestamp": 1000,
        "maxTimestamp": 61000,
        "codecs": {"gzip": 2, "none": 1},
        "isWhole": True,
    }
    assert topic.on("describe", "--json").rows[0]["segments"][0]["contents"] is None
