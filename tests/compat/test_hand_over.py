"""One command hands a data directory of tidelog to Kafka 4.3.1, and another takes it back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.compat.conftest import SMALL_SEGMENTS, Kafka, append_all, free_ports
from tests.machinery.brokers import served

import tidelog
from tidelog.cli.main import main
from tidelog.codec.uuid_text import format_uuid
from tidelog.config.log_config import LogConfig
from tidelog.datadir.birth import birth_values
from tidelog.datadir.effective_config import is_about_tiers
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Consumed, Java
    from tests.machinery.fields import ProducerFields

pytestmark = pytest.mark.compat

TOPICS = {
    "mixed": SMALL_SEGMENTS,
    "table": {"cleanup.policy": "compact", "min.compaction.lag.ms": "600000"},
    "plain": {"retention.ms": "-1"},
}
QUICK = "offsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=1\n"


def handed_over(java: Java, directory: Path, *words: str) -> Kafka:
    """Run the command; return a broker with the settings that it wrote, on free ports."""
    assert main(["to-kafka", "-d", str(directory), *words]) == 0
    broker, controller = free_ports(2)
    text = (directory / "tidelog.server.properties").read_text("utf-8")
    text = text.replace("localhost:9092", f"127.0.0.1:{broker}")
    text = text.replace("localhost:9093", f"127.0.0.1:{controller}")
    properties = directory.parent / "server.properties"
    properties.write_text(text + QUICK, "utf-8")
    return Kafka(java, directory, properties, broker)


def settings_at(kafka: Kafka, *topics: str) -> dict[str, dict[str, str]]:
    """Return the settings of their own that topics have for the broker."""
    printed = kafka.ask(*(f"settings {topic}" for topic in topics)).split("end\n")
    return {
        topic: dict(line.split("=", 1) for line in lines.splitlines())
        for topic, lines in zip(topics, printed, strict=False)
    }


def read_here(directory: Path, name: str = "mixed-0") -> list[Consumed]:
    """Return the records of a partition as ``Kafka.consume`` does."""
    with tidelog.open_read_only(directory / name) as log:
        return [
            (each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
            for each in log.records()
        ]


def listed(directory: Path) -> dict[str, Any]:
    """Return the topics of the catalogue by name."""
    content = json.loads((directory / "tidelog.topics.json").read_text("utf-8"))
    return {topic["name"]: topic for topic in content["topics"]}


def write(directory: Path) -> tuple[list[tuple[object, ...]], set[int]]:
    """Create the topics, and append batches of every codec, of producers and transactions."""
    with tidelog.open(directory) as logs:
        for name, settings in TOPICS.items():
            logs.create_topic(name, partitions=1 if name == "mixed" else 3, config=settings)
        written = append_all(logs.partition("mixed", 0).log)
        logs.append("plain", b"first", partition=1)
        producer: ProducerFields = {"producer_id": 4321, "producer_epoch": 0}
        batch = build_batch([(SYSTEM_CLOCK.now_ms(), b"k", b"1", ())], **producer, base_sequence=0)
        logs.partition("table", 2).log.append_as_leader(batch)
        with logs.reader("plain", group="readers") as reader:
            next(reader.read())
            reader.commit()
    return written


def test_a_fresh_broker_serves_a_directory_and_gives_it_back(java: Java, tmp_path: Path) -> None:
    """With every partition, record, id and setting; what it changes is in the catalogue after.

    No partition becomes a stray. The ids of new producers differ from those in the logs.
    """
    directory = tmp_path / "data"
    records, aborted = write(directory)
    ids = {name: topic["id"] for name, topic in listed(directory).items()}
    names = sorted(path.name for path in directory.iterdir() if path.is_dir())
    kafka = handed_over(java, directory)

    with kafka.running():
        served, committed, plain = kafka.consume_each(
            ("mixed", "read_uncommitted"), ("mixed", "read_committed"), ("plain", "read_committed")
        )
        settings = settings_at(kafka, *TOPICS)
        kafka.ask(
            *("alter plain retention.ms", "alter table min.compaction.lag.ms=5"),
            *("create later retention.bytes=77", "produce table zstd 20", "transact mixed 3"),
        )
        appended = kafka.consume("mixed")

    assert served == records
    assert committed == [record for record in records if record[0] not in aborted]
    assert plain == []  # its record is in another partition
    born = birth_values(LogConfig()).items()
    untiered = {key: value for key, value in born if not is_about_tiers(key)}
    assert settings == {name: untiered | own for name, own in TOPICS.items()}
    assert appended[: len(records)] == records
    assert len(appended) > len(records)
    after = sorted(path.name for path in directory.iterdir() if path.is_dir())
    assert set(names) <= set(after)
    assert not [name for name in after if "stray" in name]

    assert main(["from-kafka", "-d", str(directory)]) == 0

    topics = listed(directory)
    assert {name: topics[name]["id"] for name in ids} == ids
    assert topics["mixed"]["config"] == TOPICS["mixed"]
    assert topics["plain"]["config"] == {}
    assert topics["table"]["config"] == {**TOPICS["table"], "min.compaction.lag.ms": "5"}
    assert topics["later"]["config"] == {"retention.bytes": "77"}
    assert read_here(directory) == appended
    with tidelog.open(directory) as logs:
        assert logs.append("plain", b"here again", partition=1).offset == 1
        assert set(logs.topics()) >= {*TOPICS, "later", "__consumer_offsets"}
    assert min(producers(directory / "table-0")) >= 5000
    assert main(["verify", str(directory)]) == 0


def producers(directory: Path) -> set[int]:
    """Return the ids of the producers that wrote to a partition."""
    with tidelog.open_read_only(directory) as log:
        pieces = log.pieces(log.log_start_offset, log.log_end_offset)
        return {one for piece in pieces for one in piece.batches.producer_id.tolist()}


@pytest.mark.parametrize("snapshot", [None, "monday"])
def test_a_broker_serves_what_was_restored(
    java: Java, tmp_path: Path, snapshot: str | None
) -> None:
    """From an archive, and from a snapshot: the files that were archived, with their records.

    What the broker appends is of a leader epoch above the one that the restore has begun.
    """
    directory, back, lake = tmp_path / "data", tmp_path / "back", (tmp_path / "lake").as_uri()
    records, aborted = write(directory)
    words = ["archive", "mixed", "-d", str(directory), "--to", lake]
    assert main(words if snapshot is None else [*words, "--snapshot", snapshot]) == 0
    uri = lake if snapshot is None else f"{lake}/snapshots/{snapshot}"
    assert main(["restore", uri, "--to", str(back)]) == 0
    end = tidelog.open_directory_read_only(back).offsets("mixed", 0).log_end_offset
    bases = sorted(int(path.stem) for path in (directory / "mixed-0").glob("*.log"))
    assert (bases[-1], len(bases) > 2) == (end, True)
    for base in bases[:-1]:
        for suffix in (".log", ".index", ".timeindex"):
            name = f"mixed-0/{base:020}{suffix}"
            assert (back / name).read_bytes() == (directory / name).read_bytes()
    with tidelog.open_read_only(back / "mixed-0") as log:
        *_, begun = log.leader_epochs()
    kafka = handed_over(java, back)

    with kafka.running():
        served, committed = kafka.consume_each(
            ("mixed", "read_uncommitted"), ("mixed", "read_committed")
        )
        kafka.ask("produce mixed zstd 3")
        appended = kafka.consume("mixed")

    offsets = [record[0] for record in served]
    assert served == records[: len(served)] != []
    assert offsets[-1] == max(offset for offset, *_ in read_here(back) if offset < end)
    assert committed == [record for record in served if record[0] not in aborted]
    assert appended[: len(served)] == served
    assert [record[0] for record in appended[len(served) :]] == [end, end + 1, end + 2]
    with tidelog.open_read_only(back / "mixed-0") as log:
        *_, led = log.leader_epochs()
    assert (begun[1], led[1]) == (end, end)
    assert led[0] > begun[0] >= 4096


def test_a_directory_goes_back_and_forth(java: Java, tmp_path: Path) -> None:
    """A second hand-over finds the same topics in the broker's own metadata, and writes nothing.

    A topic that was created here meanwhile is not in it, and is named in the refusal.
    """
    directory = tmp_path / "data"
    with tidelog.open(directory) as logs:
        logs.create_topic("t", partitions=2, config={"retention.ms": "-1"})
        logs.append("t", b"ours", partition=0)
        topic_id = format_uuid(logs.topics()["t"].topic_id)
    kafka = handed_over(java, directory)
    with kafka.running():
        kafka.ask("produce t none 3")
    assert main(["from-kafka", "-d", str(directory)]) == 0
    assert listed(directory)["t"]["id"] == topic_id
    with tidelog.open(directory) as logs:
        end = logs.append("t", b"ours again", partition=0).offset

    assert main(["to-kafka", "-d", str(directory)]) == 0
    with kafka.running():
        assert [record[0] for record in kafka.consume("t")][-1] == end
    assert main(["create", "new", "-d", str(directory)]) == 0
    assert main(["to-kafka", "-d", str(directory)]) == 3


def test_a_broker_that_takes_over_again_repeats_no_producer_id(java: Java, tmp_path: Path) -> None:
    """Of those that were given out here meanwhile, which its metadata does not know.

    It would take the first records of a producer for a repeat of another one's, and drop them.
    """
    directory = tmp_path / "data"
    with tidelog.open(directory) as logs:
        logs.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    kafka = handed_over(java, directory)
    with kafka.running():
        kafka.ask("produce t none 1")
    assert main(["from-kafka", "-d", str(directory)]) == 0
    with served(directory) as broker:
        here = replace(kafka, port=int(broker.bootstrap.partition(":")[2]))
        here.ask(*["produce t none 1"] * 3)

    assert main(["to-kafka", "-d", str(directory)]) == 0
    with kafka.running():
        kafka.ask(*["produce t none 1"] * 3)

    assert len(read_here(directory, "t-0")) == 7


def test_a_new_cluster_goes_on_with_the_transactions_of_an_old_one(
    java: Java, tmp_path: Path
) -> None:
    """Without the metadata of the old cluster the directory begins a new one.

    Its coordinator knows the transactional ids, and ends the transaction that was open.
    """
    directory = tmp_path / "data"
    with tidelog.open(directory) as logs:
        logs.create_topic("t", config={"retention.ms": "-1"})
    kafka = handed_over(java, directory)
    with kafka.running():
        kafka.ask("transact t 2")
        before = kafka.consume("t", "read_committed")
    assert main(["from-kafka", "-d", str(directory)]) == 0
    old = tmp_path / "old"
    old.mkdir()
    for name in ("__cluster_metadata-0", "bootstrap.checkpoint", "tidelog.server.properties"):
        (directory / name).rename(old / name)
    assert main(["create", "new", "-d", str(directory)]) == 0

    kafka = handed_over(java, directory)
    with kafka.running():
        kafka.ask("produce new none 1", "transact t 2")
        after, new = kafka.consume_each(("t", "read_committed"), ("new", "read_committed"))

    assert len(new) == 1
    assert after[: len(before)] == before
    assert len(after) > len(before)
    assert main(["verify", str(directory)]) == 0
