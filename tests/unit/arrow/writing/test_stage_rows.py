"""The partitions of rows without a key, over the tasks and batches of a write."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.arrow.batch_form import BatchForm
from tidelog.arrow.writing.stage_rows import first_partition
from tidelog.arrow.writing.staged_rows import TaskStaging, TopicPlan
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.stream_batch import StreamBatch
from tidelog.testing import CrashFileSystem, ManualClock


def staged(partitions: int, first: int, rows: int) -> Counter[int]:
    """Stage rows without a key as a task does; return the rows of each partition."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    plan = TopicPlan(partitions, BatchForm(), 1 << 30, 1 << 20, LeaderPolicy())
    target = BundleWriter(LocalFolder(fs, "/data"), "txn", rng=Random(0))
    task = TaskStaging(target, {"t": plan}, plan, first_partition=first, buffer_bytes=8 << 20)
    table = pa.RecordBatch.from_pydict({"value": ["v"] * rows})
    task.append("t", table, ManualClock())
    found: Counter[int] = Counter()
    for run in task.finish(ManualClock()):
        found[run.partition] += run.records
    return found


@settings(max_examples=40, deadline=None)  # the first one imports Arrow's writers
@given(
    partitions=st.integers(1, 7),
    rows=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    rounds=st.integers(1, 2),
    first_batch=st.integers(0, 1 << 40),
)
def test_small_batches_of_a_stream_give_each_partition_the_same_share(
    partitions: int, rows: list[int], rounds: int, first_batch: int
) -> None:
    """Over as many batches as the topic has partitions, or a multiple, whatever task has rows."""
    total: Counter[int] = Counter()
    for batch in range(first_batch, first_batch + rounds * partitions):
        for task, count in enumerate(rows):
            stream = StreamBatch("query", batch)
            total += staged(partitions, first_partition(stream.txn, task, stream), count)

    assert total == dict.fromkeys(range(partitions), rounds * sum(rows))


def test_tasks_of_a_write_start_at_different_partitions() -> None:
    """A repeated task starts where its first attempt did."""
    stream = StreamBatch("query", 5)
    for of in (None, stream):
        starts = [first_partition("txn", task, of) % 4 for task in range(4)]

        assert sorted(starts) == [0, 1, 2, 3]
        assert starts == [first_partition("txn", task, of) % 4 for task in range(4)]


def test_small_batch_writes_do_not_all_start_at_one_partition() -> None:
    """A job that appends a few rows each day, with a transaction id of the day."""
    starts = Counter(first_partition(f"orders-{day}", 0, None) % 4 for day in range(400))

    assert len(starts) == 4
    assert min(starts.values()) > 60
