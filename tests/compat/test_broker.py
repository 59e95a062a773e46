"""Logs that were written here, in a broker of Kafka 4.3.1; and back."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.codec.compression import Codec
from tidelog.errors import DirectoryLocked

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Kafka, Written

pytestmark = pytest.mark.compat


def hand_over(written: Written, target: Path) -> None:
    """Put a log's files in the place of those of an empty partition; its topic id stays."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in written.directory.iterdir():
        if path.name != "partition.metadata":
            shutil.copyfile(path, target / path.name)


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
    hand_over(written, target)

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
