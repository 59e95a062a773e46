"""The commit of what tasks staged, its repetition, and what an abort does before and after it."""

from __future__ import annotations

import errno
import logging
import shutil
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.machinery.staging import leave

import tidelog
from tidelog.arrow.writing import staged_commit
from tidelog.arrow.writing.staged_commit import StagedWrite, abort_write, commit_write
from tidelog.arrow.writing.staged_rows import PlannedTopic, TaskStaging
from tidelog.arrow.writing.write_plan import known_topics, make_plan, plan_topic
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    CommitTimeout,
    InconsistentTopicId,
    InvalidArgument,
    OldStreamBatch,
    TidelogError,
    TransactionMismatch,
    UnknownTopicOrPartition,
)
from tidelog.spark.options.source_options import SinkOptions
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.directory import CommitPoint
from tidelog.staging.manifest_names import new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.staging.staged_file import list_staged
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.stream_batch import StreamBatch
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from pathlib import Path

FULL = OSError(errno.ENOSPC, "no space left")


def options(path: Path, **others: str) -> SinkOptions:
    return SinkOptions.parse({"path": str(path), "topic": "t"} | others)


def staged(
    given: SinkOptions, *values: str, topic: str = "t", stream: StreamBatch | None = None
) -> StagedWrite:
    """Stage values as one task does, and return the write."""
    count = given.num_partitions or 1
    topics = known_topics(given)
    txn = stream.txn if stream else given.txn_id or uuid4().hex
    new = plan_topic(given, count, given.new_topic_config())
    rng = Random(SYSTEM_CLOCK.monotonic_ns())
    target = BundleWriter(LocalFolder(SYSTEM_FILES, given.path), txn, rng=rng)
    task = TaskStaging(target, topics, new, buffer_bytes=given.write_buffer_bytes)
    if values:
        task.append(
            topic,
            pa.RecordBatch.from_pydict({"key": ["k"] * len(values), "value": list(values)}),
            SYSTEM_CLOCK,
        )
    runs = task.finish(SYSTEM_CLOCK)
    found = topics.get(topic)
    plan = found or new
    planned = PlannedTopic(plan.partitions, plan.topic_id, is_new=found is None)
    return StagedWrite(given, txn, stream, runs, {topic: planned})


def values(path: Path, topic: str = "t") -> list[bytes | None]:
    """Return what readers see."""
    with tidelog.open_read_only(path / f"{topic}-0") as log:
        return [found.value for found in log.records()]


def test_a_repeat_with_the_same_id_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a line that says when it was committed and with how many records."""
    given = options(tmp_path, txnId="daily")
    commit_write(staged(given, "a", "b"))
    done = commit_write(staged(given, "c"))

    assert values(tmp_path) == [b"a", b"b"]
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == []
    (line,) = [one for one in caplog.messages if one.startswith("table-write-skipped")]
    assert f"txn=daily committed_txn=daily committed_ms={done.time_ms} records=2" in line
    other = options(tmp_path, txnId="daily", topic="u")
    with pytest.raises(TransactionMismatch):
        commit_write(staged(other, "d", topic="u"))


def test_a_repeat_with_another_number_of_records_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows may be lost: a stream whose checkpoint was put back may plan its last batch again."""
    given = SinkOptions.parse({"path": str(tmp_path), "topic": "t"}, is_stream=True)
    skips = SinkOptions.parse(
        {"path": str(tmp_path), "topic": "t", "skipOldBatches": "true"}, is_stream=True
    )
    commit_write(staged(given, "a", stream=StreamBatch("q", 0)))
    commit_write(staged(given, "b", "c", stream=StreamBatch("q", 1)))
    commit_write(staged(given, "d", "e", stream=StreamBatch("q", 1)))
    commit_write(staged(skips, "f", stream=StreamBatch("q", 0)))
    assert not [one for one in caplog.messages if one.startswith("repeat-differs")]

    commit_write(staged(given, "b", "c", "lost", stream=StreamBatch("q", 1)))

    (line,) = [one for one in caplog.messages if one.startswith("repeat-differs")]
    assert line.endswith("txn=stream q batch 1 committed_records=2 repeated_records=3")


def test_a_write_of_no_rows_keeps_its_id_for_its_topic(tmp_path: Path) -> None:
    """A repeat is skipped, and another topic is an error, though nothing was written to it."""
    commit_write(staged(options(tmp_path), "a"))
    commit_write(staged(options(tmp_path, txnId="x")))
    commit_write(staged(options(tmp_path, txnId="x"), "b"))

    assert values(tmp_path) == [b"a"]
    with pytest.raises(TransactionMismatch):
        commit_write(staged(options(tmp_path, txnId="x", topic="u"), "c", topic="u"))


def test_batches_of_a_stream_are_committed_once_and_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An older one is an error, unless ``skipOldBatches`` is true; its rows may be new ones."""
    given = SinkOptions.parse({"path": str(tmp_path), "topic": "t"}, is_stream=True)
    for number, value in ((0, "a"), (1, "b"), (1, "other")):
        commit_write(staged(given, value, stream=StreamBatch("q", number)))
    with pytest.raises(OldStreamBatch):
        commit_write(staged(given, "c", stream=StreamBatch("q", 0)))
    skips = SinkOptions.parse(
        {"path": str(tmp_path), "topic": "t", "skipOldBatches": "true"}, is_stream=True
    )
    commit_write(staged(skips, "c", "d", stream=StreamBatch("q", 0)))

    assert values(tmp_path) == [b"a", b"b"]
    (line,) = [one for one in caplog.messages if one.startswith("old-batch-skipped")]
    assert line.endswith("skipped_records=2")


def test_a_topic_that_changed_since_the_plan_refuses_the_commit(tmp_path: Path) -> None:
    """Rows were distributed over the partitions that were planned."""
    given = options(tmp_path)
    commit_write(staged(given, "a"))
    more, gone, new = staged(given, "b"), staged(given, "c"), staged(given, "d")
    with tidelog.open(tmp_path) as logs:
        logs.create_partitions("t", 2)
    with pytest.raises(InvalidArgument, match=r"t has 2 partitions now.* for 1: run it again"):
        commit_write(more)
    with tidelog.open(tmp_path) as logs:
        logs.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartition, match="deleted during the write"):
        commit_write(gone)
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
    with pytest.raises(InconsistentTopicId):
        commit_write(new)
    assert values(tmp_path) == []


def test_partitions_that_are_added_while_the_driver_commits_refuse_the_commit(
    tmp_path: Path,
) -> None:
    """After its look at the topics, the holder of the directory checks their number again."""
    given = options(tmp_path)
    commit_write(staged(given, "a"))
    write = staged(given, "b")
    transaction = write.transaction(staged_commit.existing_topics(str(tmp_path), write.topics))
    with tidelog.open(tmp_path) as logs:
        logs.create_partitions("t", 2)
        with pytest.raises(InvalidArgument, match=r"t has 2 partitions now.* for 1: run it again"):
            logs.commit_transaction(transaction)

    assert values(tmp_path) == [b"a"]


def test_a_topic_that_was_created_meanwhile_is_used_if_it_fits(tmp_path: Path) -> None:
    """Two first writes may run beside each other."""
    one, two = staged(options(tmp_path), "a"), staged(options(tmp_path), "b")
    three = staged(options(tmp_path, numPartitions="3"), "c")
    commit_write(one)
    commit_write(two)
    with pytest.raises(InvalidArgument, match="topic t has 1 partitions now"):
        commit_write(three)

    assert values(tmp_path) == [b"a", b"b"]


def test_an_abort_before_the_commit_point_deletes_what_was_staged(tmp_path: Path) -> None:
    """And only that: another write's files stay."""
    one, other = staged(options(tmp_path), "a"), staged(options(tmp_path, txnId="x"), "b")
    abort_write(one.options, one.txn, [run.name for run in one.runs])
    abort_write(one.options, one.txn, [run.name for run in one.runs])

    assert list_staged(SYSTEM_FILES, str(tmp_path)) == [run.name for run in other.runs]


def stopped_commit(write: StagedWrite, at: CommitPoint, error: BaseException) -> None:
    """Let a commit fail at a moment of it, and each time that this is reached again."""

    def stop(now: object) -> None:
        if now is at:
            raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(staged_commit, "reached", stop)
        with suppress(PowerCut, TidelogError):
            commit_write(write)


@pytest.mark.parametrize("error", [PowerCut(), FULL], ids=["interrupt", "full"])
@pytest.mark.parametrize("point", list(CommitPoint))
def test_an_abort_after_the_commit_point_finishes_the_commit(
    tmp_path: Path, point: CommitPoint, error: BaseException
) -> None:
    """Spark calls it whenever ``commit`` raised, however far that came."""
    given = options(tmp_path, txnId="x")
    commit_write(staged(options(tmp_path), "before"))
    write = staged(given, "a")

    stopped_commit(write, point, error)
    abort_write(given, "x", [run.name for run in write.runs])

    is_committed = point is not CommitPoint.CHECKED
    assert values(tmp_path) == [b"before", *([b"a"] if is_committed else [])]
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == []
    commit_write(staged(given, "a"))
    assert values(tmp_path) == [b"before", b"a"]


def test_a_slower_attempt_of_an_id_keeps_its_files_and_is_skipped(tmp_path: Path) -> None:
    """The commit of the faster one deletes what it staged itself; so does each of them."""
    given = options(tmp_path, txnId="x")
    fast, slow = staged(given, "fast"), staged(given, "slow")
    plan = make_plan(given, {"value": 0}, "x")
    commit_write(fast)

    left = {plan.marker, *(run.name for run in slow.runs)}
    assert set(list_staged(SYSTEM_FILES, str(tmp_path))) == left
    plan.visits(str(tmp_path))
    assert commit_write(slow).is_repeat
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == [plan.marker]
    assert values(tmp_path) == [b"fast"]


def test_an_abort_deletes_its_files_beside_another_attempt_of_its_id(tmp_path: Path) -> None:
    """The journal and the manifest of that name other files; its commit is left to it."""
    given = options(tmp_path, txnId="x")
    fast, slow = staged(given, "fast"), staged(given, "slow")
    stopped_commit(fast, CommitPoint.COMMITTED, FULL)
    transaction = fast.transaction({})
    manifest = ReadyFiles(SYSTEM_FILES, str(tmp_path), new_stem("x", Random(0)))
    leave(manifest, ReadyManifest(transaction, 2**60))

    abort_write(given, "x", [run.name for run in slow.runs])

    assert list_staged(SYSTEM_FILES, str(tmp_path)) == [run.name for run in fast.runs]


def test_an_abort_leaves_a_committed_transaction_to_the_process_that_holds_the_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It deletes nothing that the journal needs."""
    given = options(tmp_path, txnId="x", commitTimeoutMs="0")
    write = staged(given, "a")
    stopped_commit(write, CommitPoint.COMMITTED, FULL)
    lock = SYSTEM_FILES.lock(str(tmp_path / ".lock"))
    with caplog.at_level(logging.WARNING):
        abort_write(given, "x", [run.name for run in write.runs])
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == [run.name for run in write.runs]
    assert "transaction-pending" in caplog.text
    lock.release()
    with tidelog.open(tmp_path):
        assert values(tmp_path) == [b"a"]


def test_a_topic_that_kafka_left_without_an_id_is_written(tmp_path: Path) -> None:
    """It gets its id with the commit."""
    with tidelog.open(tmp_path / "other") as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
    shutil.copytree(tmp_path / "other" / "t-0", tmp_path / "data" / "t-0")
    (tmp_path / "data" / "t-0" / "partition.metadata").unlink()
    for value in ("b", "c"):
        commit_write(staged(options(tmp_path / "data"), value))

    with tidelog.open(tmp_path / "data") as logs:
        assert [found.value for found in logs.read("t")] == [b"a", b"b", b"c"]


def test_the_holder_of_the_directory_commits(tmp_path: Path) -> None:
    """A program that has called ``tidelog.open``; one that does not is waited for in vain."""
    with tidelog.open(tmp_path) as logs:
        commit_write(staged(options(tmp_path, commitTimeoutMs="20000"), "a"))
        assert [found.value for found in logs.read("t")] == [b"a"]
    lock = SYSTEM_FILES.lock(str(tmp_path / ".lock"))
    write = staged(options(tmp_path, commitTimeoutMs="10"), "b")
    with pytest.raises(CommitTimeout):
        commit_write(write)
    lock.release()
    assert values(tmp_path) == [b"a"]
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == []


def test_an_abort_leaves_the_files_of_a_commit_that_another_process_has_begun(
    tmp_path: Path,
) -> None:
    """It may commit them yet: its answer has not come."""
    write = staged(options(tmp_path, txnId="x"), "a")
    manifest = tmp_path / f"{new_stem('x', Random(0))}.claimed"
    manifest.write_text("")
    abort_write(write.options, "x", [run.name for run in write.runs])
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == [run.name for run in write.runs]
