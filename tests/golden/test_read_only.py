"""Logs that Kafka wrote, opened to be read only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.record_values import iterate

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.file_records import FileRecords
from tidelog.records.isolation import ReadUpTo

if TYPE_CHECKING:
    from tests.golden.conftest import Partition


def test_a_read_only_log_gives_the_records_that_kafka_gives(partition: Partition) -> None:
    """Every record that a Java consumer received is read, and no other."""
    with open_read_only(str(partition.directory), fs=SYSTEM_FILES) as log:
        read = [partition.listed(record) for record in log.records()]

    assert partition.records == read


def test_a_read_only_log_has_the_offsets_of_the_broker(partition: Partition) -> None:
    """Log start, log end and high watermark are those that the broker answered with."""
    state = partition.state
    end = state["logEndOffset"]

    with open_read_only(str(partition.directory), fs=SYSTEM_FILES) as log:
        offsets = (log.log_start_offset, log.log_end_offset, log.high_watermark)

    assert (state["logStartOffset"], end, state.get("highWatermark", end)) == offsets


def test_shares_of_a_log_hold_each_record_once(indexed: Partition) -> None:
    """Splits cut at index entries cover the log: together they give what the whole log gives."""
    with open_read_only(str(indexed.directory), fs=SYSTEM_FILES) as log:
        start, end = log.log_start_offset, log.end_offset(ReadUpTo.LOG_END)
        splits = log.splits(start, end, target_bytes=4096)
        offsets = [
            record.offset
            for split in splits
            for record in log.records(split.start_offset, split.end_offset)
        ]

    assert [record["offset"] for record in indexed.records] == offsets


def test_control_records_have_the_keys_and_values_that_kafka_reads(controlled: Partition) -> None:
    """Control records, which no consumer sees, are stored bytes like all others."""
    expected = [(row["offset"], row["key"], row["value"]) for row in controlled.control]

    read = []
    for name in controlled.files(".log"):
        with FileRecords.open(SYSTEM_FILES, str(controlled.directory / name)) as file:
            for piece in file.pieces():
                batches = piece.batches_in_data
                chosen = batches.select(batches.is_control)
                read += [
                    controlled.listed(each) for each in iterate(piece.data, chosen, control=True)
                ]

    assert expected == [(row["offset"], row["key"], row["value"]) for row in read]
