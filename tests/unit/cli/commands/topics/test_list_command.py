"""``tidelog list``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.conftest import Validated

    Cli = Any

LISTED = """\
  partition  log start  last stable  high watermark  log end  segments      size
  t-0                1            2               2        3         1  85 bytes
  u-0                0            0               0        0         0   0 bytes
"""
COUNTS = {"damaged": 0, "missing": 0, "unanswered": 0}


def test_each_partition_is_a_line(topic: Cli) -> None:
    """Offsets, the number of segments, and the size; or the same as JSON."""
    topic.append("a", "b", "c")
    topic.on("create", "u")
    topic.on("delete-records", "t", "-p", "all", "--before", 1)
    (topic.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 2\n")

    assert topic.on("list") == (0, LISTED, "")
    assert topic.on("list", "u", "--json").rows == [
        {
            "topic": "u",
            "partition": 0,
            "logStartOffset": 0,
            "lastStableOffset": 0,
            "highWatermark": 0,
            "logEndOffset": 0,
            "segments": 0,
            "sizeBytes": 0,
            "damage": None,
        }
    ]
    assert topic.on("list", "u", "--json").counts == COUNTS | {"partitions": 1}


def test_damage_and_missing_partitions_are_reported(topic: Cli) -> None:
    """On standard error; exit code 1. The others are listed."""
    topic.append("a")
    topic.on("create", "u")
    (topic.data / "u-0" / "partition.metadata").unlink()
    (topic.data / "u-0").rmdir()
    data = bytearray(topic.log_file().read_bytes())
    data[-1] ^= 1
    topic.log_file().write_bytes(data * 2)

    outcome = topic.on("list")

    assert outcome.code == 1
    assert "u-0 is listed in tidelog.topics.json" in outcome.err
    assert "CRC" in outcome.err
    assert outcome.out.splitlines()[1].split()[0] == "t-0"


def test_partitions_can_be_sorted_by_what_they_hold(topic: Cli) -> None:
    """Those with the most first; of equal ones, and by name, in their usual order."""
    for name, values in (("few", ["x" * 900]), ("many", ["y"] * 5), ("none", [])):
        assert topic.on("create", name).code == 0
        if values:
            topic.append(*values, topic=name)

    def order(*words: str) -> list[str]:
        return [row["topic"] for row in topic.on("list", "--json", *words).rows]

    assert order() == order("--sort", "name") == ["few", "many", "none", "t"]
    assert order("--sort", "size") == ["few", "many", "none", "t"]
    assert order("--sort", "offsets") == ["many", "few", "none", "t"]
    assert order("--sort", "segments") == ["few", "many", "none", "t"]
    assert topic.on("list", "--sort", "offsets").out.splitlines()[1].split()[0] == "many-0"
    assert topic.on("list", "--sort", "color").code == 2


TOPICS = """\
  topic  partitions  offsets  segments       size
  few             2        1         2  970 bytes
  many            1        5         1  101 bytes
  none            1        0         0    0 bytes
"""


def test_topics_can_be_listed_with_their_sums(cli: Cli, validated: Validated) -> None:
    """A line a topic, sorted as partitions are; damage is reported as of partitions."""
    for name, partitions, values in (
        ("many", 1, ["y"] * 5),
        ("few", 2, ["x" * 900]),
        ("none", 1, []),
    ):
        assert cli.on("create", name, "-p", partitions).code == 0
        if values:
            cli.append(*values, topic=name)

    text = cli.on("list", "--topics", "--sort", "size")
    by_offsets = cli.on("list", "--topics", "--sort", "offsets", "--json")
    cli.log_file("many-0").write_bytes(b"x" * 100)
    damaged = cli.on("list", "many", "--topics")

    assert text == (0, TOPICS, "")
    assert [row["topic"] for row in by_offsets.rows] == ["many", "few", "none"]
    assert by_offsets.counts == COUNTS | {"partitions": 4}
    validated("list topics", by_offsets.lines)
    assert (damaged.code, damaged.out.split()[5]) == (1, "many")
    assert "many-0" in damaged.err
