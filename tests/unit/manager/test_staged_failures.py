"""What a commit leaves behind when the disk or the process fails, and what follows from it."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor, wait
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.manager_home import ManagerHome, values
from tests.machinery.staging import power_cut_at, stage

from tidelog.embedded.logs import Logs
from tidelog.errors import (
    CommitPending,
    CommitUnfinished,
    InvalidArgument,
    KafkaStorageError,
)
from tidelog.log.listeners import LogListener
from tidelog.readonly.group_positions import OFFSETS_TOPIC, Position
from tidelog.records.batch import INT64_MAX
from tidelog.segment.filenames import TopicPartition
from tidelog.staging import journal
from tidelog.staging.directory import CommitPoint
from tidelog.staging.journal import journal_name
from tidelog.staging.journal_names import JOURNAL_SUFFIX
from tidelog.staging.manifest_names import new_stem
from tidelog.staging.ready import ReadyManifest
from tidelog.staging.ready_expiry import LEFTOVER_MS
from tidelog.staging.staged_file import is_staged_name
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.log_manager import LogManager
    from tidelog.service.log_service import LogService
    from tidelog.staging.commit import Transaction
    from tidelog.staging.finished import CommittedTransaction

FULL = OSError(errno.ENOSPC, "no space left")
NO_DESCRIPTOR = OSError(errno.EMFILE, "too many open files")


class _HighWatermarks(LogListener):
    """Collects the high watermarks that a partition reports."""

    def __init__(self, seen: list[int]) -> None:
        self._seen = seen

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        self._seen.append(high_watermark)


def staged_files(home: ManagerHome) -> list[str]:
    """Name the staged files."""
    return [name for name in home.files() if is_staged_name(name)]


def test_a_transaction_keeps_its_files_while_its_journal_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever error the commit raises: without them the journal could never be applied."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    commit = manager.staged_commits.commit

    def masked(path: str, transaction: Transaction) -> CommittedTransaction:
        try:
            return commit(path, transaction)
        except CommitUnfinished:
            raise KafkaStorageError("another error") from None

    monkeypatch.setattr(manager.staged_commits, "commit", masked)
    home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)
    with pytest.raises(KafkaStorageError, match="another"), Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")

    assert len(staged_files(home)) == 1
    manager.staged_commits.finish_all()
    assert values(manager, "t", 0) == [b"a"]
    assert staged_files(home) == []


def test_records_beyond_the_greatest_offset_are_refused_before_the_journal() -> None:
    """Else the transaction could never be applied, and no other append would be taken."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    manager.truncation.truncate_fully_and_start_at(TopicPartition("t", 0), INT64_MAX - 3)
    txn = Logs(manager).transaction("x")
    for number in range(4):
        txn.append("t", b"%d" % number)
    with pytest.raises(InvalidArgument, match="exceed the greatest offset"):
        txn.commit()

    assert staged_files(home) == []
    with Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")
    assert values(manager, "t", 0) == [b"a"]


def test_more_pieces_than_a_commit_can_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do about it, by the journal and by the manifest alike; nothing is left."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t", 3)
    monkeypatch.setattr(journal, "MAX_FILE_BYTES", 600)
    txn = Logs(manager).transaction("x")
    for number in range(3):
        txn.append("t", b"a", partition=number)
    with pytest.raises(KafkaStorageError, match="'x' was staged in 3 pieces, more than a commit"):
        txn.commit()

    assert staged_files(home) == []
    ids = {"t": manager.topic("t").topic_id}
    pieces = {("t", number): [b"a"] for number in range(3)}
    staged = stage(home.fs, "/data", "x", pieces, rng=Random(0), topic_ids=ids)
    with pytest.raises(KafkaStorageError, match="staged in 3 pieces"):
        ReadyManifest(staged, 1).encoded()


def test_deleting_one_topic_keeps_readers_of_the_others_where_they_were() -> None:
    """A transaction is not seen before all of it is there, and nothing is appended in between."""
    home = ManagerHome()
    manager = home.open()
    for topic in ("t", "u", "v"):
        manager.create_topic(topic)
    for topic in ("u", "v"):
        home.fs.fail("pwrite", f"{topic}-0/00000000000000000000.log", FULL)
    txn = Logs(manager).transaction("x")
    for topic in ("t", "u", "v"):
        txn.append(topic, topic.encode())
    with pytest.raises(CommitUnfinished):
        txn.commit()
    held = manager.partition("t", 0)
    moved: list[int] = []
    held.add_listener(_HighWatermarks(moved))

    manager.delete_topic("u")

    assert (values(manager, "t", 0), moved) == ([], [])
    with pytest.raises(CommitPending):
        held.append_records([record(b"between")])
    manager.staged_commits.finish_all()
    assert (values(manager, "t", 0), values(manager, "v", 0)) == ([b"t"], [b"v"])
    manager.create_topic("u")
    manager.partition("u", 0).append_records([record(b"new")])


def test_a_lack_of_descriptors_leaves_a_commit_pending_and_the_directory_online() -> None:
    """Also if the journal cannot be read again: it says nothing about the disk."""
    home = ManagerHome("/a", "/b")
    manager = home.open()
    manager.create_topic("t", path="/a")
    home.fs.fail("open", ".staged", NO_DESCRIPTOR, skipped=2)
    home.fs.fail("open", ".intent", NO_DESCRIPTOR)

    with pytest.raises(CommitUnfinished), Logs(manager).transaction("x", "/a") as txn:
        txn.append("t", b"a")

    assert manager.live_dirs == ["/a", "/b"]
    assert list(manager.staged_commits.pending) == [("/a", "x")]
    with pytest.raises(CommitPending):
        manager.partition("t", 0).append_records([record(b"late")])
    manager.staged_commits.finish_all()
    assert values(manager, "t", 0) == [b"a"]


def interrupt_at_commit_point(point: CommitPoint) -> None:
    if point is CommitPoint.COMMITTED:
        raise KeyboardInterrupt


def test_a_commit_that_was_interrupted_after_its_commit_point_is_finished_by_the_next_act() -> None:
    """An append comes after its records; nobody has to repeat the transaction, or to open again."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    manager.staged_commits.on_point = interrupt_at_commit_point
    home.fs.fail("open", ".intent", NO_DESCRIPTOR)
    with pytest.raises(KeyboardInterrupt), Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")

    assert list(manager.staged_commits.pending) == [("/data", "x")]
    manager.partition("t", 0).append_records([record(b"late")])
    assert values(manager, "t", 0) == [b"a", b"late"]
    assert not manager.staged_commits.pending


@pytest.mark.parametrize("asks_for_all", [False, True])
def test_the_topic_of_an_interrupted_commit_is_there_when_somebody_looks_for_it(
    *, asks_for_all: bool
) -> None:
    """A program that asks whether it exists finishes the commit, as one that uses it would."""
    manager = ManagerHome().open()
    manager.staged_commits.on_point = interrupt_at_commit_point
    txn = Logs(manager).transaction("x")
    txn.create_topic("new")
    txn.append("new", b"a")
    with pytest.raises(KeyboardInterrupt):
        txn.commit()

    found = manager.topics()["new"] if asks_for_all else manager.topic("new")
    assert found.name == "new"
    assert values(manager, "new", 0) == [b"a"]


def test_why_a_transaction_is_pending_is_said_of_an_interrupt_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It has no text, so its kind is named."""
    manager = ManagerHome().open()
    manager.create_topic("t")
    manager.staged_commits.on_point = interrupt_at_commit_point
    with pytest.raises(KeyboardInterrupt), Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")

    (reason,) = (reason for _, reason in manager.staged_commits.pending.values())
    assert reason == "KeyboardInterrupt"
    assert "transaction-pending directory=/data txn=x reason=KeyboardInterrupt" in caplog.text


def test_only_a_commit_that_was_left_unfinished_is_an_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Lines about each commit would fill the log; a counter has their number."""
    caplog.set_level("INFO", logger="tidelog")
    manager = ManagerHome().open()
    manager.create_topic("t")
    with Logs(manager).transaction("usual") as txn:
        txn.append("t", b"a")
    manager.staged_commits.on_point = interrupt_at_commit_point
    with pytest.raises(KeyboardInterrupt), Logs(manager).transaction("left") as txn:
        txn.append("t", b"b")
    manager.staged_commits.on_point = lambda _: None
    manager.staged_commits.finish_all()

    lines = [line for line in caplog.messages if line.startswith("transaction-committed")]
    assert lines == ["transaction-committed directory=/data txn=left records=1"]


def test_a_commit_is_finished_in_a_log_whose_reopening_was_interrupted_too() -> None:
    """It was closed, and is opened before the commit continues; until then nothing moves in it."""
    manager = ManagerHome().open()
    manager.create_topic("t")
    manager.staged_commits.on_point = interrupt_at_commit_point
    with pytest.raises(KeyboardInterrupt), Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")
    log = manager.all_logs()[0]
    log.require_reopening("an append was interrupted")
    log.close_handlers()

    manager.staged_commits.finish_transaction("/data", "x")

    assert values(manager, "t", 0) == [b"a"]
    assert not manager.staged_commits.pending


def test_a_group_reads_nothing_again_that_an_interrupted_commit_has_committed() -> None:
    """Its first one, which also creates the topic of the positions."""
    logs = Logs(ManagerHome().open())
    for topic in ("in", "out"):
        logs.create_topic(topic)
    logs.append_all("in", [b"1", b"2"])
    reader = logs.reader("in", group="g")
    logs.manager.staged_commits.on_point = interrupt_at_commit_point
    txn = logs.transaction()
    for one in reader.read():
        txn.append("out", one.value)
    reader.commit(txn)
    with pytest.raises(KeyboardInterrupt):
        txn.commit()

    positions = logs.group_positions()["g"]
    reader.rewind()

    assert [one.offset for one in positions.values()] == [2]
    assert list(reader.read()) == []
    assert [one.value for one in logs.read("out")] == [b"1", b"2"]


def test_a_group_that_commits_does_not_wait_for_a_commit_that_waits_for_it() -> None:
    """With its partition locked it does not finish one that was interrupted; others may do so."""
    logs = Logs(ManagerHome().open())
    topic, _, home = (logs.create_topic(name) for name in ("in", "out", OFFSETS_TOPIC))
    partition = logs.partition(home.name, 0)
    logs.manager.staged_commits.on_point = interrupt_at_commit_point
    with pytest.raises(KeyboardInterrupt), logs.transaction() as txn:
        txn.append("out", b"a")
    key = TopicPartition("in", 0)
    moved = {key: Position(0, -1, "", 1, topic.topic_id)}

    with ThreadPoolExecutor() as pool, logs.manager.shared.registry.change_lock:
        committing = pool.submit(logs.groups.commit, partition, "g", moved, {key: None})
        done, _ = wait([committing], timeout=30)

    assert done
    assert set(committing.result()) == {key}


def test_a_start_without_descriptors_for_the_journals_fails_and_can_be_repeated() -> None:
    """The directory is not taken offline: it is the process that lacks something."""
    home = ManagerHome("/a", "/b")
    manager = home.open()
    manager.create_topic("t", path="/a")
    home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)
    with pytest.raises(CommitUnfinished), Logs(manager).transaction("x", "/a") as txn:
        txn.append("t", b"a")
    home.restart()
    home.fs.fail("open", ".intent", NO_DESCRIPTOR)

    with pytest.raises(KafkaStorageError, match=r"the journals of /a: .* too many open"):
        home.make()

    manager = home.open()
    assert values(manager, "t", 0) == [b"a"]


@pytest.mark.parametrize(
    ("operation", "path"), [("sync_directory", "/data"), ("sync", ".intent.tmp")]
)
def test_a_sync_that_fails_before_the_commit_point_takes_the_directory_offline(
    operation: str, path: str
) -> None:
    """Nothing is committed: what a second sync would report as durable may be lost."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    home.clock.advance(1)

    def fail(point: CommitPoint) -> None:
        if point is CommitPoint.CHECKED:
            home.fs.fail(operation, path, OSError(errno.EIO, "the disk failed"))

    manager.staged_commits.on_point = fail
    with pytest.raises(KafkaStorageError, match="failed"), Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")

    assert manager.live_dirs == []
    home.restart()
    with Logs(home.open()).transaction("x") as txn:
        txn.append("t", b"a")
    assert txn.committed is not None
    assert not txn.committed.is_repeat


def unsynced_name(replaced: str) -> tuple[ManagerHome, LogService]:
    """Return a service whose commit to t and u had no descriptor to sync the name of a file."""
    home = ManagerHome(retention_ms=-1)
    manager = home.open()
    for topic in ("t", "u"):
        manager.create_topic(topic)
    home.clock.advance(10_000)
    txn = Logs(manager).transaction("x")
    txn.append("t", b"a")
    txn.append("u", b"b")
    rename = home.fs.rename

    def renamed(source: str, target: str) -> None:
        rename(source, target)
        if target.endswith(replaced):
            home.fs.fail("sync_directory", "/data", NO_DESCRIPTOR)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.fs, "rename", renamed)
        with pytest.raises(CommitUnfinished):
            txn.commit()
    assert manager.live_dirs == ["/data"]
    return home, manager


@pytest.mark.parametrize("replaced", [".intent", "tidelog.transactions.json"])
def test_a_retry_begins_by_making_durable_what_it_goes_by(replaced: str) -> None:
    """The journal, or the table of finished transactions."""
    home, manager = unsynced_name(replaced)
    before = len(home.fs.operations)

    manager.staged_commits.finish_all()

    assert home.fs.operations[before] == ("sync_directory", "/data")
    assert (values(manager, "t", 0), values(manager, "u", 0)) == ([b"a"], [b"b"])
    assert staged_files(home) == []


def test_a_power_cut_during_a_retry_leaves_the_journal() -> None:
    """Else records would stay of a transaction that nobody knows: a repeat would double them."""
    home, manager = unsynced_name(".intent")

    manager.staged_commits.on_point = power_cut_at(CommitPoint.PLACED)
    with pytest.raises(PowerCut):
        manager.staged_commits.finish_all()
    home.fs.power_cut("none")
    home.scheduler.forget()

    manager = home.open()
    with Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")
    assert (values(manager, "t", 0), values(manager, "u", 0)) == ([b"a"], [b"b"])


def interrupted_clean_up(home: ManagerHome) -> LogService:
    """Interrupt a retry of x, which writes to t and u, after its journal is deleted."""
    manager, txn = left_pending(home)

    def interrupt(point: CommitPoint) -> None:
        if point is CommitPoint.CLEANED:
            raise KeyboardInterrupt

    manager.staged_commits.on_point = interrupt
    with pytest.raises(KeyboardInterrupt):
        manager.staged_commits.finish_all()
    assert journal_name(txn) not in home.files()
    manager.staged_commits.on_point = lambda _: None
    return manager


def left_pending(home: ManagerHome) -> tuple[LogService, str]:
    """Return a service with topics t and u, and the id of a commit that it has still to apply."""
    manager = home.open()
    for topic in ("t", "u"):
        manager.create_topic(topic)
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
    txn = Logs(manager).transaction("x")
    for topic in ("t", "u"):
        txn.append(topic, topic.encode())
    with pytest.raises(CommitUnfinished):
        txn.commit()
    return manager, "x"


def test_a_journal_that_is_gone_counts_as_finished() -> None:
    """An interrupt after its deletion neither stops a healthy directory nor holds a partition."""
    home = ManagerHome()
    manager = interrupted_clean_up(home)

    with Logs(manager).transaction("y") as txn:
        txn.append("t", b"next")

    assert (manager.live_dirs, manager.staged_commits.pending) == (["/data"], {})
    assert values(manager, "t", 0) == [b"t", b"next"]
    assert values(manager, "u", 0) == [b"u"]


def test_a_topic_of_a_journal_that_is_gone_can_be_deleted() -> None:
    """The deletion finds no journal to take the topic out of, and takes that for finished."""
    home = ManagerHome()
    manager = interrupted_clean_up(home)

    manager.delete_topic("t")

    assert (manager.live_dirs, manager.staged_commits.pending) == (["/data"], {})
    assert values(manager, "u", 0) == [b"u"]


def test_a_transaction_that_was_given_up_is_not_applied_after_an_interrupt() -> None:
    """Its journal is deleted first; the next act releases its partitions."""
    home = ManagerHome()
    manager, txn = left_pending(home)
    delete = home.fs.delete

    def deleting(path: str) -> None:
        delete(path)
        if path.endswith(JOURNAL_SUFFIX):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.fs, "delete", deleting)
        with pytest.raises(KeyboardInterrupt):
            manager.staged_commits.drop("/data", txn)

    manager.staged_commits.finish_all()

    manager.partition("u", 0).append_records([record(b"after")])
    assert (manager.live_dirs, manager.staged_commits.pending) == (["/data"], {})
    assert values(manager, "u", 0) == [b"after"]


def test_a_directory_that_is_offline_is_said_to_be() -> None:
    """With the reason, where a path is given and where there is only one directory."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    home.fs.fail("sync", "t-0/00000000000000000000.log", OSError(errno.EIO, "the disk failed"))
    logs = Logs(manager)
    with pytest.raises(KafkaStorageError), logs.transaction("x") as txn:
        txn.append("t", b"a")

    for path in (None, "/data"):
        with pytest.raises(KafkaStorageError, match=r"/data is offline: .*the disk failed"):
            logs.transaction("y", path)
    with pytest.raises(KafkaStorageError, match=r"/data is offline: .*the disk failed"):
        manager.staged_commits.drop("/data", "x")


def half_deleted(home: ManagerHome | DataHome, manager: LogManager) -> None:
    """Let x create t and write to t and u; then delete t, which the journal still names.

    The disk is too full to write to u, and to write the journal without t.
    """
    manager.create_topic("u")
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
    txn = Logs(manager).transaction("x")
    txn.create_topic("t")
    txn.append("t", b"a")
    txn.append("u", b"b")
    with pytest.raises(CommitUnfinished):
        txn.commit()
    home.fs.fail("open", ".intent.tmp", FULL)
    manager.delete_topic("t")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_topic_that_is_made_again_has_nothing_to_do_with_a_pending_transaction(
    is_restarted: bool,
) -> None:
    """The rest of the transaction is applied, and the new topic takes appends meanwhile."""
    home = ManagerHome(retention_ms=-1)
    manager = home.open()
    half_deleted(home, manager)
    manager.create_topic("t")
    if is_restarted:
        home.restart()
        home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
        manager = home.open()

    manager.partition("t", 0).append_records([record(b"new")])
    with pytest.raises(CommitPending):
        manager.partition("u", 0).append_records([record(b"late")])
    home.clock.advance(60_000)

    assert list(manager.staged_commits.pending) == []
    assert (values(manager, "t", 0), values(manager, "u", 0)) == ([b"new"], [b"b"])


def test_a_topic_stays_deleted_while_a_file_of_a_journal_names_it() -> None:
    """Also if the process closes in order, and though its own journal is without the topic."""
    home = DataHome()
    with home.open() as logs:
        half_deleted(home, logs.manager)
    for _ in range(2):
        with home.open() as logs:
            assert "t" not in logs.topics()
            assert [one.value for one in logs.read("u")] == [b"b"]
            assert list(logs.manager.staged_commits.pending) == []


class _CountedLock:
    """Counts how often it is taken; ``number`` is that of the hold of now, 0 without one."""

    def __init__(self) -> None:
        self.number = self._taken = self._depth = 0

    def __enter__(self) -> None:
        if not self._depth:
            self._taken += 1
            self.number = self._taken
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.number = 0


def test_no_commit_begins_between_the_look_at_an_old_file_and_its_deletion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction that commits meanwhile would lose what it has staged."""
    home = ManagerHome()
    manager = home.open(tidelog_staged_retention_ms=60_000)
    manager.create_topic("t")
    ids = {"t": manager.topic("t").topic_id}
    stage(home.fs, "/data", "x", {("t", 0): [b"a"]}, rng=home.rng, topic_ids=ids)
    stem = new_stem("y", home.rng)
    home.fs.write(f"/data/{stem}.refused", b"")
    home.clock.set_time_of_day(home.clock.now_ms() + 2 * LEFTOVER_MS)
    lock = _CountedLock()
    holds: list[int] = []
    monkeypatch.setattr(manager.shared.registry, "change_lock", lock)
    for name in ("list", "stat", "delete"):
        operation = getattr(home.fs, name)

        def noted(path: str, operation: Callable[[str], object] = operation) -> object:
            holds.append(lock.number)
            return operation(path)

        monkeypatch.setattr(home.fs, name, noted)

    manager.tasks.delete_staged_files()

    assert set(holds) == {1}
    assert staged_files(home) == []
    assert f"{stem}.refused" not in home.files()


def test_a_commit_that_is_finished_by_a_repeat_of_its_id_is_applied_once() -> None:
    """Its own steps use partitions, which is an act that finishes what was interrupted, too."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")

    def interrupt(point: CommitPoint) -> None:
        if point is CommitPoint.COMMITTED:
            raise KeyboardInterrupt

    manager.staged_commits.on_point = interrupt
    with pytest.raises(KeyboardInterrupt), Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")
    manager.staged_commits.on_point = lambda _: None

    manager.staged_commits.finish_all()

    assert not manager.staged_commits.pending
    assert values(manager, "t", 0) == [b"a"]
