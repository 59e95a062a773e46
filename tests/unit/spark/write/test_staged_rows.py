"""Rows of one task, staged as batches."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidelog.arrow.encode import BatchForm
from tidelog.codec.compression import Codec
from tidelog.errors import InvalidRecord, InvalidTimestamp, InvalidTopic, MessageTooLarge
from tidelog.records.memory import walk
from tidelog.records.record_columns import iterate
from tidelog.records.validation.validate import LeaderPolicy
from tidelog.spark.write.staged_rows import (
    StagingTarget,
    TopicPlan,
    TopicStaging,
    delete_staged_files,
)
from tidelog.staging.staged_file import list_staged
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from tidelog.staging.staged_file import StagedFile

CLOCK = ManualClock()
PLAN = TopicPlan(3, BatchForm(), 1 << 30, 1 << 20, LeaderPolicy())


class Task:
    """A task that stages rows in a data directory of its own."""

    def __init__(self, plan: TopicPlan = PLAN, topic: str = "t") -> None:
        self.fs = CrashFileSystem()
        self.fs.make_directory("/data")
        target = StagingTarget(self.fs, "/data", "txn", Random(0))
        self.staging = TopicStaging(target, topic, plan, 1)

    def append(self, **columns: list[object]) -> None:
        self.staging.append(pa.RecordBatch.from_pydict(columns), CLOCK)

    def finish(self) -> list[StagedFile]:
        return self.staging.finish(CLOCK)

    def content(self, file: StagedFile) -> list[tuple[int, bytes | None, bytes | None]]:
        data = self.fs.read(f"/data/{file.name}")
        found = walk(data, check_crc=True)
        assert found.next_position == len(data) == file.size_bytes
        return [(r.timestamp, r.key, r.value) for r in iterate(data, found.batches)]


def test_each_partition_gets_a_file_with_a_manifest_entry() -> None:
    """A file holds one partition's rows; its entry has their number and maximum timestamp."""
    task = Task()
    task.append(value=["a", "b"], partition=[0, 2])
    task.append(value=["c"], partition=[2])

    files = sorted(task.finish(), key=lambda file: file.partition)

    now = CLOCK.now_ms()
    assert [(f.topic, f.partition, f.records, f.max_timestamp) for f in files] == [
        ("t", 0, 1, now),
        ("t", 2, 2, now),
    ]
    assert [task.content(file) for file in files] == [
        [(now, None, b"a")],
        [(now, None, b"b"), (now, None, b"c")],
    ]
    assert list_staged(task.fs, "/data", "txn") == sorted(file.name for file in files)


def test_no_rows_make_no_files() -> None:
    """A task without rows stages nothing."""
    task = Task()
    task.append(value=[])

    assert task.finish() == []
    assert list_staged(task.fs, "/data") == []


def test_a_file_is_no_larger_than_a_segment() -> None:
    """Each file fits into one segment, and the files follow the order of rows."""
    task = Task(PLAN._replace(partitions=1, segment_bytes=1 << 20))
    for number in range(40):
        task.append(value=[bytes([number]) * (400 << 10)])

    files = task.finish()

    assert len(files) > 1
    firsts = [value[0] for file in files for _, _, value in task.content(file) if value]
    assert firsts == list(range(40))


def test_a_failed_attempt_deletes_its_files() -> None:
    """After ``abandon`` no file is left, neither finished nor open ones."""
    task = Task()
    task.append(value=["a"])
    task.finish()
    task.append(value=[bytes(1 << 19)] * 20)

    task.staging.abandon()

    assert list_staged(task.fs, "/data") == []


def test_deleting_staged_files_twice_is_allowed() -> None:
    """A commit that fails may have deleted some of the files before Spark calls ``abort``."""
    task = Task()
    task.append(value=["a"])
    files = task.finish()

    delete_staged_files(task.fs, "/data", files)
    delete_staged_files(task.fs, "/data", files)

    assert list_staged(task.fs, "/data") == []


def test_a_task_checks_what_a_leader_would() -> None:
    """Null keys in compacted topics, large records, future timestamps and bad names fail early."""
    compacted = Task(PLAN._replace(policy=LeaderPolicy(needs_keys=True)))
    compacted.append(key=[None], value=["v"])
    with pytest.raises(InvalidRecord, match="compacted"):
        compacted.finish()

    small = Task(PLAN._replace(max_message_bytes=100))
    small.append(value=["v" * 100])
    with pytest.raises(MessageTooLarge, match=r"a batch for t-1 of 17. bytes exceeds"):
        small.finish()

    late = Task()
    late.append(value=["v"], timestamp=[datetime.fromtimestamp(CLOCK.now_ms() / 1000 + 7200, UTC)])
    with pytest.raises(InvalidTimestamp, match="of row 0 is outside"):
        late.finish()

    with pytest.raises(InvalidTopic):
        Task(topic="a/b")


def test_batches_have_the_form_of_the_topic() -> None:
    """Batches have the codec and size of the topic's plan."""
    task = Task(PLAN._replace(partitions=1, form=BatchForm(Codec.ZSTD, batch_bytes=1000)))
    task.append(value=["v" * 100] * 50)

    (file,) = task.finish()

    batches = walk(task.fs.read(f"/data/{file.name}")).batches
    assert set(batches.codec.tolist()) == {Codec.ZSTD}
    assert int(batches.records_count.max()) < 10
