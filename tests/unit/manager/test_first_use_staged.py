"""Commits of files that tasks staged, by a process that writes and ends."""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery.directory_home import DataHome, record

from tidelog.errors import KafkaStorageError, MessageTooLarge, UnknownTopicOrPartition
from tidelog.records.builder import build_batch
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction
from tidelog.staging.staged_folder import LocalFolder

if TYPE_CHECKING:
    from tidelog.embedded.logs import Logs
    from tidelog.staging.staged_run import StagedRun


def home_with_topic(seed: int = 0, config: dict[str, str] | None = None) -> DataHome:
    """Return a data directory with topic t."""
    home = DataHome(seed)
    with home.open() as directory:
        directory.create_topic("t", 2, config)
    return home


def stage(home: DataHome, *values: bytes, partition: int = 0, topic: str = "t") -> StagedRun:
    """Stage one batch a value, in one run."""
    bundle = BundleWriter(
        LocalFolder(home.fs, home.path), "txn", rng=Random(f"{values}{partition}")
    )
    for value in values:
        bundle.append(topic, partition, build_batch([record(value)]))
    (run,) = bundle.finish()
    return run


def commit(directory: Logs, runs: list[StagedRun]) -> int:
    """Commit runs; return how many records that were."""
    ids = {"u": UUID(int=5)} | {name: one.topic_id for name, one in directory.topics().items()}
    transaction = Transaction("txn", is_named=False, runs=runs, new_topics=(), topic_ids=ids)
    return directory.commit_transaction(transaction).total


def staged_files(home: DataHome) -> list[str]:
    """Name the staged files."""
    return [name for name in home.files() if name.endswith(".staged")]


def test_committed_files_are_records_of_the_log() -> None:
    """In the order given, with offsets from the log's end on; readers see them at once."""
    home = home_with_topic()
    runs = [stage(home, b"b", b"c"), stage(home, b"d"), stage(home, b"x", partition=1)]
    with home.open() as directory:
        directory.partition("t", 0).append_records([record(b"a")])
        committed = commit(directory, runs)

        assert committed == 4
        assert home.values("t-0") == [b"a", b"b", b"c", b"d"]
        assert home.values("t-1") == [b"x"]
    with home.read_only("t-0") as log:
        assert [found.offset for found in log.records()] == [0, 1, 2, 3]


def test_files_are_deleted_when_all_is_durable() -> None:
    """Not before the checkpoints are written."""
    home = home_with_topic()
    run = stage(home, b"a")
    with home.open() as directory:
        before = len(home.fs.operations)
        commit(directory, [run])
    done = home.fs.operations[before:]

    removed = next(i for i, o in enumerate(done) if o == ("delete", f"{home.path}/{run.name}"))
    watermarks = [i for i, o in enumerate(done) if "replication-offset" in o.path]
    assert min(watermarks) < removed
    assert staged_files(home) == []


@pytest.mark.parametrize("bad", ["changed", "unknown topic", "unknown partition", "gone"])
def test_one_bad_file_stops_the_commit_before_anything_is_appended(bad: str) -> None:
    """Every file is checked first; all stay where they are."""
    home = home_with_topic()
    good = stage(home, b"a")
    other = stage(home, b"b", partition=5 if "partition" in bad else 1)
    if "topic" in bad:
        other = replace(other, topic="u")
    if bad == "changed":
        home.write(other.name, b"changed")
    elif bad == "gone":
        home.fs.delete(f"{home.path}/{other.name}")
    before = staged_files(home)
    with home.open() as directory:
        with pytest.raises((KafkaStorageError, UnknownTopicOrPartition)):
            commit(directory, [good, other])

        assert directory.partition("t", 0).log.log_end_offset == 0
    assert before == staged_files(home)
    assert home.is_marked


@pytest.mark.parametrize("setting", ["max.message.bytes", "internal.segment.bytes"])
def test_batches_the_topic_does_not_take_any_more_are_refused(setting: str) -> None:
    """Too large for the topic, or for one of its segments: nothing is appended."""
    home = home_with_topic(config={setting: "80"})
    runs = [stage(home, b"a"), stage(home, b"b" * 100)]
    with home.open() as directory:
        with pytest.raises(MessageTooLarge):
            commit(directory, runs)

        assert directory.partition("t", 0).log.log_end_offset == 0


def test_a_file_larger_than_a_segment_fills_several() -> None:
    """Pieces that are appended at once never exceed the segment size."""
    home = home_with_topic(config={"internal.segment.bytes": "200"})
    values = [bytes([65 + n]) * 50 for n in range(10)]
    run = stage(home, *values)
    with home.open() as directory:
        commit(directory, [run])
        segments = directory.partition("t", 0).log.segments

        assert len(list(segments)) > 2
    assert values == home.values("t-0")


def test_the_append_time_is_that_of_the_commit() -> None:
    """LogAppendTime topics get the time at which records become part of the log."""
    home = home_with_topic(config={"message.timestamp.type": "LogAppendTime"})
    run = stage(home, b"a")
    home.clock.advance(5_000)
    now_ms = home.clock.now_ms()
    with home.open() as directory:
        commit(directory, [run])

    with home.read_only("t-0") as log:
        assert [now_ms] == [found.timestamp for found in log.records()]


def test_a_failing_disk_leaves_the_files_for_another_try() -> None:
    """The next opening finishes the commit from them."""
    home = home_with_topic()
    run = stage(home, b"a")
    directory = home.open()
    home.fs.fail("sync", ".log", OSError(errno.EIO, "the disk failed"))
    with pytest.raises(KafkaStorageError):
        commit(directory, [run])
    with pytest.raises(KafkaStorageError):
        directory.close()

    assert [run.name] == staged_files(home)
