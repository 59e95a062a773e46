"""Rows of one task, staged as batches."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.machinery.record_values import iterate

from tidelog.arrow.batch_form import BatchForm
from tidelog.arrow.writing import staged_rows
from tidelog.arrow.writing.staged_rows import BATCHES_PART, TaskStaging, TopicPlan
from tidelog.codec.compression import Codec
from tidelog.errors import (
    InvalidArgument,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    KafkaStorageError,
    MessageTooLarge,
)
from tidelog.records.memory import walk
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.staged_file import list_staged
from tidelog.staging.staged_folder import LocalFolder
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from tidelog.staging.staged_run import StagedRun

CLOCK = ManualClock()
PLAN = TopicPlan(3, BatchForm(), 1 << 30, 1 << 20, LeaderPolicy())
BUFFER = 8 << 20


class Task:
    """A task that stages rows in a data directory of its own."""

    def __init__(self, plan: TopicPlan = PLAN, *, is_new: bool = False) -> None:
        self.fs = CrashFileSystem()
        self.fs.make_directory("/data")
        size = BUFFER // BATCHES_PART
        target = BundleWriter(
            LocalFolder(self.fs, "/data"), "txn", rng=Random(0), buffer_bytes=size
        )
        topics = {} if is_new else {"t": plan}
        self.staging = TaskStaging(target, topics, plan, first_partition=1, buffer_bytes=BUFFER)

    def append(self, topic: str = "t", **columns: list[object]) -> None:
        self.staging.append(topic, pa.RecordBatch.from_pydict(columns), CLOCK)

    def finish(self) -> list[StagedRun]:
        return self.staging.finish(CLOCK)

    def content(self, run: StagedRun) -> list[tuple[int, bytes | None, bytes | None]]:
        data = self.fs.read(f"/data/{run.name}")[run.position : run.end]
        found = walk(data, check_crc=True)
        assert found.next_position == len(data) == run.size_bytes
        return [(r.timestamp, r.key, r.value) for r in iterate(data, found.batches)]

    def values(self, topic: str = "t") -> dict[int, list[bytes | None]]:
        """Finish; return the values of each partition of a topic, in order."""
        found: dict[int, list[bytes | None]] = {}
        for run in self.finish():
            if run.topic == topic:
                values = found.setdefault(run.partition, [])
                values += [value for _, _, value in self.content(run)]
        return found


def test_each_partition_gets_a_run_with_a_manifest_entry() -> None:
    """A run holds one partition's rows; its entry has their number and maximum timestamp."""
    task = Task()
    task.append(value=["a", "b"], partition=[0, 2])
    task.append(value=["c"], partition=[2])

    runs = task.finish()

    now = CLOCK.now_ms()
    assert [(f.topic, f.partition, f.records, f.max_timestamp) for f in runs] == [
        ("t", 0, 1, now),
        ("t", 2, 2, now),
    ]
    assert [task.content(run) for run in runs] == [
        [(now, None, b"a")],
        [(now, None, b"b"), (now, None, b"c")],
    ]


def test_rows_are_encoded_before_arrow_cannot_join_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offsets in a column have 32 bits, however large the buffer is."""
    monkeypatch.setattr(staged_rows, "MOST_ROWS_BYTES", 150)
    task = Task()
    for _ in range(3):
        task.append(value=["a" * 40], partition=[0])

    (run,) = task.finish()

    data = task.fs.read(f"/data/{run.name}")[run.position : run.end]
    assert walk(data).batches.records_count.tolist() == [2, 1]


def test_a_task_makes_one_file_and_one_sync_whatever_the_number_of_partitions() -> None:
    """Also for several topics; its name is durable with the commit."""
    task = Task(PLAN._replace(partitions=50))
    for topic in ("t", "u"):
        task.append(topic, value=[f"{n}" for n in range(50)], partition=list(range(50)))

    runs = task.finish()

    assert len(runs) == 100
    assert list_staged(task.fs, "/data", "txn") == [runs[0].name]
    done = [one.name for one in task.fs.operations]
    assert (done.count("sync"), done.count("sync_directory")) == (1, 0)


def test_a_partition_with_many_rows_gets_files_that_its_log_can_adopt() -> None:
    """From an eighth of a segment on, of at most a segment."""
    task = Task(PLAN._replace(segment_bytes=150_000, max_batch_bytes=100_000))
    for _ in range(6):
        task.append(value=["v" * 4_000] * 15, partition=[1] * 15)
    task.append(value=["small"], partition=[2])

    runs = task.finish()

    sizes = [run.size_bytes for run in runs if run.partition == 1]
    assert len(sizes) == 3
    assert max(sizes) <= 150_000
    assert len({run.name for run in runs}) == 4
    assert {run.position for run in runs} == {0}


def test_no_rows_make_no_files() -> None:
    """A task without rows stages nothing."""
    task = Task()
    task.append(value=[])

    assert task.finish() == []
    assert list_staged(task.fs, "/data") == []


def test_a_task_holds_at_most_its_buffer() -> None:
    """It writes runs as it continues; the rows of a partition stay in order."""
    task = Task(PLAN._replace(partitions=2))
    for number in range(64):
        task.append(value=[bytes([number]) * (250 << 10)] * 2, partition=[0, 1])
        pending = task.fs.operations
    writes = [one for one in pending if one.name == "pwrite"]

    found = task.values()

    assert len(writes) >= 8
    assert {n: [value[0] for value in found[n] if value] for n in found} == {
        0: list(range(64)),
        1: list(range(64)),
    }


def test_rows_without_a_key_start_at_the_task_s_partition() -> None:
    """Tasks spread them: each fills a batch of one partition, then of the next."""
    task = Task(PLAN._replace(form=BatchForm(batch_bytes=1000)))
    task.append(key=[None] * 30, value=["v" * 100] * 30)

    found = {run.partition: run.records for run in task.finish()}
    first = Task()
    first.append(key=[None], value=["v"])

    assert found == {0: 10, 1: 10, 2: 10} or sorted(found) == [0, 1, 2]
    assert [run.partition for run in first.finish()] == [1]


def test_a_failed_attempt_deletes_its_file() -> None:
    """After ``abandon`` nothing is left, whether it was finished or not."""
    task = Task()
    task.append(value=[bytes(1 << 19)] * 20)
    task.staging.abandon()
    other = Task()
    other.append(value=["a"])
    other.finish()
    other.staging.abandon()

    assert list_staged(task.fs, "/data") == list_staged(other.fs, "/data") == []


def test_a_task_whose_disk_fails_stages_nothing_more() -> None:
    """Rows are missing from then on, so even one that continued would have no runs to commit."""
    task = Task()
    task.fs.fail("pwrite", ".staged", OSError(errno.ENOSPC, "full"))
    with pytest.raises(KafkaStorageError, match=r"staging in /data failed: .*full"):
        task.append(value=[bytes(1 << 19)] * 20)
    task.append(value=["a"])
    with pytest.raises(KafkaStorageError, match=r"failed before: .*full"):
        task.finish()

    assert list_staged(task.fs, "/data") == []


def test_a_task_checks_what_a_leader_would() -> None:
    """Null keys in compacted topics, large records, future timestamps and bad names fail early."""
    compacted = Task(PLAN._replace(policy=LeaderPolicy(needs_keys=True)))
    compacted.append(key=[None], value=["v"])
    with pytest.raises(InvalidRecord, match="compacted"):
        compacted.finish()

    unknown = Task(PLAN._replace(policy=LeaderPolicy(needs_keys=True, is_policy_known=False)))
    unknown.append(key=[None], value=["v"])
    with pytest.raises(InvalidRecord, match=r"^row 0 has no key, .* tidelog alter TOPIC"):
        unknown.finish()

    small = Task(PLAN._replace(max_batch_bytes=100))
    small.append(value=["v" * 100])
    with pytest.raises(MessageTooLarge, match=r"a batch for t-1 of 17. bytes exceeds"):
        small.finish()

    late = Task()
    late.append(value=["v"], timestamp=[datetime.fromtimestamp(CLOCK.now_ms() / 1000 + 7200, UTC)])
    with pytest.raises(InvalidTimestamp, match="of row 0 is outside"):
        late.finish()

    badly_named = Task(is_new=True)
    badly_named.append("a/b", value=["v"])
    with pytest.raises(InvalidTopic):
        badly_named.finish()


def test_a_row_for_a_topic_that_cannot_be_written_fails() -> None:
    """With the reason that the plan gives."""
    task = Task(PLAN._replace(refusal="it lies elsewhere"))
    task.append(value=["v"])

    with pytest.raises(InvalidArgument, match="it lies elsewhere"):
        task.finish()


def test_batches_have_the_form_of_the_topic() -> None:
    """Batches have the codec and size of the topic's plan."""
    task = Task(PLAN._replace(partitions=1, form=BatchForm(Codec.ZSTD, batch_bytes=1000)))
    task.append(value=["v" * 100] * 50)

    (run,) = task.finish()

    batches = walk(task.fs.read(f"/data/{run.name}")).batches
    assert set(batches.codec.tolist()) == {Codec.ZSTD}
    assert int(batches.records_count.max()) < 10
