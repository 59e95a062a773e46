"""Logs that were written here, in a broker of Kafka 4.3.1; and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.compat.conftest import hand_over

import tidelog
from tidelog.cli.main import main
from tidelog.codec.compression import Codec
from tidelog.errors import DirectoryLocked
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Kafka, Written
    from tests.machinery.fields import ProducerFields

    from tidelog.log.log import Log

pytestmark = pytest.mark.compat


def read_here(directory: Path) -> list[tuple[object, ...]]:
    """Return the records of a partition as ``Kafka.consume`` does."""
    with tidelog.open_read_only(directory) as log:
        return [
            (each.offset, each.timestamp, each.key, each.value, each.headers)
            for each in log.records()
        ]


def test_a_broker_serves_a_log_that_was_written_here(kafka: Kafka, written: Written) -> None:
    """Put into a stopped broker, a log is served whole, and committed records to who asks so.

    The broker appends to it, and the result reads here; beside the running broker, too.
    """
    settings = "internal.segment.bytes=16384,index.interval.bytes=512,retention.ms=-1"
    with kafka.running():
        kafka.ask(f"create mixed {settings}")
    target = kafka.directory / "mixed-0"
    hand_over(written.directory, target)

    with kafka.running():
        served = kafka.consume("mixed")
        committed = kafka.consume("mixed", "read_committed")
        kafka.ask("produce mixed zstd 1000")
        consumed = kafka.consume("mixed")
        with tidelog.open_read_only(target) as log:
            read_beside = [record.offset for record in log.records(end_offset=log.log_end_offset)]

    assert served == written.records
    assert committed == written.committed
    assert consumed[: len(served)] == served
    assert len(consumed) == len(served) + 1000
    assert [record[0] for record in consumed] == read_beside
    assert consumed == read_here(target)


def test_a_broker_goes_on_where_we_appended_in_its_directory(kafka: Kafka) -> None:
    """In a broker's own data directory we append while it is down, never while it is up."""
    with kafka.running():
        kafka.ask("create flights retention.ms=-1", "produce flights gzip 10")
        with pytest.raises(DirectoryLocked):
            tidelog.open(kafka.directory)

    with tidelog.open(kafka.directory) as opened:
        partition = opened.partition("flights", 0)
        for codec in Codec:
            partition.append_records(
                [(1_700_000_001_000 + codec, codec.kafka_name.encode(), b"here", ())], codec=codec
            )

    with kafka.running():
        kafka.ask("produce flights none 10")
        consumed = kafka.consume("flights")
    keys = [f"java-{number}".encode() for number in range(10)]
    assert [record[2] for record in consumed] == [
        *keys,
        *(codec.kafka_name.encode() for codec in Codec),
        *keys,
    ]
    assert list(range(25)) == [record[0] for record in consumed]
    assert consumed == read_here(kafka.directory / "flights-0")


def test_a_broker_serves_a_topic_that_we_compacted(kafka: Kafka) -> None:
    """Its own records and ours, of all codecs and of transactions, less what we dropped.

    Between, the directory is ours: all of its logs are loaded, and all are left for the broker.
    """
    settings = "cleanup.policy=compact,segment.bytes=1048576,min.cleanable.dirty.ratio=0.99"
    with kafka.running():
        kafka.ask(f"create table {settings}", "create other retention.ms=-1")
        kafka.ask("produce table gzip 10", "produce table none 10", "produce other zstd 10")

    ours = {"cleanup.policy": "compact", "internal.segment.bytes": "2000"}
    no_cleaner = {"log.cleaner.enable": "false"}
    with tidelog.open(kafka.directory, config=no_cleaner, overrides=ours) as opened:
        append_table(opened.partition("table", 0).log)
    words = [word for key, value in ours.items() for word in ("-o", f"{key}={value}")]
    assert main(["compact", "table", "-d", str(kafka.directory), *words]) == 0

    with kafka.running():
        served, other = kafka.consume("table"), kafka.consume("other")
        committed = kafka.consume("table", "read_committed")
        kafka.ask("produce table lz4 10")
        grown = kafka.consume("table")

    theirs = [key for _, _, key, *_ in served if str(key).startswith("b'java-")]
    assert len(served) < 10 + 10 + 5 * 20
    assert len(set(theirs)) == len(theirs) == 10
    assert all(record in served for record in committed)
    assert (len(other), len(grown)) == (10, len(served) + 10)
    assert grown == read_here(kafka.directory / "table-0")
    with tidelog.open_read_only(kafka.directory / "table-0") as log:
        read = [each.offset for each in log.records(committed=True)]
    assert read[: len(committed)] == [each[0] for each in committed]


def append_table(log: Log) -> None:
    """Append the same few keys in batches of every codec, one in a transaction that is aborted."""
    now_ms = 1_700_000_001_000
    for number in range(20):
        for codec in Codec:
            records = [(now_ms + number, b"ours-%d" % (number % 4), b"%d" % number * 50, ())]
            log.append_as_leader(build_batch(records, codec=codec))
    producer: ProducerFields = {"producer_id": 5, "producer_epoch": 0}
    guard = log.start_verification(5, 0, 0, supports_epoch_bump=False)
    batch = build_batch(
        [(now_ms, b"ours-0", b"aborted", ())], **producer, base_sequence=0, transactional=True
    )
    log.append_as_leader(batch, verification_guard=guard)
    marker = build_marker(**producer, coordinator_epoch=1, is_commit=False, timestamp=now_ms)
    log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    log.append_as_leader(build_batch([(now_ms, b"last", b"", ())]))
