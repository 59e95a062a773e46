"""Commits into a directory that a service, Kafka or a short-lived writer holds."""

from __future__ import annotations

import errno
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.machinery.manager_home import ManagerHome, values
from tests.machinery.staging import leave, power_cut_at, stage

from tidelog.codec.compression import Codec
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.commits import commit_when_possible
from tidelog.env.machine import Machine
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.signals import process_mark
from tidelog.errors import (
    CommitOutcomeUnknown,
    CommitPending,
    CommitTimeout,
    CommitUnfinished,
    DirectoryFull,
    DirectoryLocked,
    InconsistentTopicId,
    InvalidArgument,
    KafkaStorageError,
    MessageTooLarge,
    TopicAlreadyExists,
    TransactionMismatch,
    UnknownTopicOrPartition,
)
from tidelog.mailbox.letter import State
from tidelog.mailbox.wait import Desk
from tidelog.staging.commit_wait import CommitWait
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import NewTopic
from tidelog.staging.journal_names import list_journals
from tidelog.staging.manifest_names import MANIFESTS, new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.staging.staged_file import is_staged_name
from tidelog.staging.stream_batch import StreamBatch
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from tidelog.service.log_service import LogService
    from tidelog.staging.commit import Transaction
    from tidelog.staging.commit_wait import Commit
    from tidelog.staging.finished import CommittedTransaction

T0 = ("t", 0)
TOPIC_ID = UUID(int=7)
ENDED = f"{process_mark().rpartition(' ')[0]} {2**22 + 1}"
"""The mark of a process of this host whose number no process has."""


def machine(home: ManagerHome, sleep_ms: Callable[[int], None] | None = None) -> Machine:
    """Return what a waiting process uses; while it sleeps, the service works."""
    return Machine(
        home.fs, home.clock, InlineScheduler(), Random(5), sleep_ms or home.clock.advance
    )


class Home(ManagerHome):
    """A machine whose service has the topic t with two partitions."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.topic_ids: dict[str, UUID] = {}

    def started(self, config: Mapping[str, str] | None = None, **settings: Any) -> LogService:
        """Start the service, create the topic and let all tasks run once."""
        manager = self.open(**settings)
        if "t" not in manager.topics():
            manager.create_topic("t", 2, config)
        self.topic_ids = {name: one.topic_id for name, one in manager.topics().items()}
        self.clock.advance(1)
        return manager

    def commit(self, transaction: Transaction, **how: Any) -> CommittedTransaction:
        """Commit as another process than the service."""
        how = {"machine": machine(self), **how}
        return commit_when_possible(["/data"], "/data", transaction, **how)

    def own_files(self) -> list[str]:
        """Name the staged files and manifests."""
        names = self.files()
        return [one for one in names if is_staged_name(one) or MANIFESTS.find([one])]

    def state(self) -> set[State]:
        """Return the states of the only manifest."""
        found = MANIFESTS.find(self.files())
        return next(iter(found.values()), set())


def staged(
    home: Home,
    some: Mapping[tuple[str, int], list[bytes]],
    txn: str = "x",
    *,
    is_named: bool = True,
    new: tuple[NewTopic, ...] = (),
    ids: Mapping[str, UUID] | None = None,
) -> Transaction:
    """Stage values, beside the process that holds the directory."""
    rng = Random(len(home.files()))
    known = home.topic_ids if ids is None else ids
    return stage(
        *(home.fs, "/data", txn, some),
        rng=rng,
        topic_ids={name: known[name] for name, _ in some if name in known},
        new_topics=new,
        is_named=is_named,
    )


def test_a_service_commits_for_a_process_that_waits() -> None:
    """Within about a second; the records are served at once, and no file is left."""
    home = Home()
    manager = home.started()
    begun_ms = home.clock.now_ms()

    done = home.commit(staged(home, {T0: [b"a", b"b"], ("t", 1): [b"c"]}))

    assert (done.txn, done.records) == ("x", {"t": 3})
    assert values(manager, "t", 0) == [b"a", b"b"]
    assert values(manager, "t", 1) == [b"c"]
    assert home.own_files() == []
    assert home.clock.now_ms() - begun_ms <= 1200


def test_a_free_directory_is_committed_to_by_the_process_itself() -> None:
    """Without a manifest, and without waiting."""
    home = Home()
    home.started().shutdown()
    begun_ms = home.clock.now_ms()

    home.commit(staged(home, {T0: [b"a"]}))

    assert values(home.open(), "t", 0) == [b"a"]
    assert (home.own_files(), home.clock.now_ms()) == ([], begun_ms)


def test_a_waiter_commits_itself_once_the_holder_has_ended() -> None:
    """As after a short-lived writer, which commits for nobody."""
    home = Home()
    home.started().shutdown()
    lock = home.fs.lock("/data/.lock")
    slept: list[int] = []

    def sleep(ms: int) -> None:
        slept.append(ms)
        home.clock.advance(ms)
        if len(slept) == 4:
            lock.release()

    home.commit(staged(home, {T0: [b"a"]}), machine=machine(home, sleep))

    assert slept == [200] * 4
    assert values(home.open(), "t", 0) == [b"a"]
    assert home.own_files() == []


def test_kafka_commits_for_nobody_and_the_wait_ends_with_an_error_that_names_it() -> None:
    """Nothing was written, nothing will be, and no file is left."""
    home = Home()
    home.started().shutdown()
    home.fs.lock("/data/.lock")

    with pytest.raises(
        CommitTimeout, match=r"in use by process \d+.* within 3,000 ms; nothing was written"
    ) as caught:
        home.commit(staged(home, {T0: [b"a"]}), timeout_ms=3000)

    assert isinstance(caught.value, DirectoryLocked)
    assert (caught.value.txn, caught.value.timeout_ms) == ("x", 3000)
    assert home.own_files() == []


def test_without_a_timeout_a_busy_directory_is_an_error_at_once() -> None:
    """No manifest is written."""
    home = Home()
    home.started()

    with pytest.raises(DirectoryLocked):
        home.commit(staged(home, {T0: [b"a"]}), timeout_ms=0)

    assert home.own_files() == []


def test_a_repeat_is_skipped_while_the_directory_is_in_use() -> None:
    """It needs no lock; its files are deleted, and other topics are an error."""
    home = Home()
    manager = home.started()
    home.commit(staged(home, {T0: [b"a"]}))
    begun_ms = home.clock.now_ms()

    again = home.commit(staged(home, {T0: [b"other"]}))

    assert (again.is_repeat, again.total) == (True, 1)
    assert (values(manager, "t", 0), home.clock.now_ms()) == ([b"a"], begun_ms)
    new = NewTopic("u", TOPIC_ID, 1, {})
    with pytest.raises(TransactionMismatch, match="'x' was committed before for t, not for u"):
        home.commit(staged(home, {("u", 0): [b"a"]}, new=(new,)))
    assert home.own_files() == []


def killed_before_it_cleaned_up() -> Home:
    """Return a machine on which a process that committed x has left its journal behind."""
    home = Home()
    home.started().shutdown()

    with suppress(PowerCut):
        home.commit(staged(home, {T0: [b"a"]}), on_point=power_cut_at(CommitPoint.FINISHED))
    home.restart()
    assert list_journals(home.fs, "/data") != []
    return home


def test_a_repeat_cleans_up_after_a_first_run_that_was_killed() -> None:
    """So that Kafka can open the directory afterwards, although nothing is written again."""
    home = killed_before_it_cleaned_up()

    again = home.commit(staged(home, {T0: [b"a"]}))

    assert again.is_repeat
    assert (list_journals(home.fs, "/data"), home.own_files()) == ([], [])
    assert values(home.open(), "t", 0) == [b"a"]


def test_a_repeat_is_skipped_though_it_cannot_clean_up() -> None:
    """As while Kafka holds the directory; the next process that opens it for writing cleans up."""
    home = killed_before_it_cleaned_up()
    left, lock = home.own_files(), home.fs.lock("/data/.lock")

    assert home.commit(staged(home, {T0: [b"a"]})).is_repeat

    assert home.own_files() == left
    lock.release()
    assert values(home.open(), "t", 0) == [b"a"]
    assert (list_journals(home.fs, "/data"), home.own_files()) == ([], [])


def test_a_waiter_looks_for_its_answer_once_more_before_it_gives_up() -> None:
    """As after a pause of the machine: the holder withdraws the manifest in the last moment."""
    home = Home()
    home.started().shutdown()
    transaction = staged(home, {T0: [b"a"]})

    def open_here() -> AbstractContextManager[Commit]:
        if home.clock.elapsed_ms() > 6000:
            for stem in MANIFESTS.find(home.files()):
                ReadyFiles(home.fs, "/data", stem).change(State.WAITING, State.WITHDRAWN)
        raise DirectoryLocked("/data", 7)

    wait = CommitWait(
        *("/data", transaction, open_here),
        timeout_ms=3000,
        desk=Desk(home.fs, home.clock, home.rng, lambda _: home.clock.advance(7000)),
    )
    with pytest.raises(CommitTimeout):
        wait.run()
    assert home.own_files() == []


def test_a_waiter_whose_manifest_was_withdrawn_commits_nothing_when_it_gets_the_lock() -> None:
    """As when a holder whose clock is ahead withdraws it between its look and its try."""
    home = Home()
    home.started().shutdown()
    transaction = staged(home, {T0: [b"a"]})

    def commit(_: Transaction) -> CommittedTransaction:
        raise AssertionError

    @contextmanager
    def open_here() -> Iterator[Commit]:
        found = MANIFESTS.find(home.files())
        for stem in found:
            ReadyFiles(home.fs, "/data", stem).change(State.WAITING, State.WITHDRAWN)
        if not found:
            raise DirectoryLocked("/data", 7)
        yield commit

    desk = Desk(home.fs, home.clock, home.rng, home.clock.advance)
    wait = CommitWait("/data", transaction, open_here, timeout_ms=3000, desk=desk)
    with pytest.raises(CommitTimeout):
        wait.run()
    assert home.own_files() == []


def test_a_topic_that_such_a_commit_creates_is_served_at_once() -> None:
    """With its settings, which also decide about its batches."""
    home = Home()
    manager = home.started()
    new = NewTopic("u", TOPIC_ID, 3, {"retention.ms": "-1"})

    home.commit(staged(home, {("u", 2): [b"a"]}, new=(new,)))

    assert values(manager, "u", 2) == [b"a"]
    assert manager.topic("u").config == {"retention.ms": "-1"}
    assert len(list(manager.partitions("u"))) == 3


def test_a_refusal_is_the_error_that_the_commit_raised() -> None:
    """With its class and values; nothing was written, and no file is left."""
    home = Home()
    manager = home.started({"max.message.bytes": "100"})

    with pytest.raises(MessageTooLarge) as caught:
        home.commit(staged(home, {T0: [b"a" * 200]}))

    assert (caught.value.what, caught.value.limit_bytes) == ("a staged batch", 100)
    assert values(manager, "t", 0) == []
    assert home.own_files() == []


def test_a_topic_that_was_deleted_or_created_meanwhile_is_a_refusal() -> None:
    """Before the commit point: a journal for it could never be applied."""
    home = Home()
    manager = home.started()
    deleted = staged(home, {T0: [b"a"]}, "deleted")
    replaced = staged(home, {T0: [b"a"]}, "replaced")
    manager.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic t"):
        home.commit(deleted)
    manager.create_topic("t", 2)
    with pytest.raises(InconsistentTopicId, match="topic t has id"):
        home.commit(replaced)
    new = NewTopic("t", TOPIC_ID, 2, {})
    with pytest.raises(TopicAlreadyExists, match="topic t exists"):
        home.commit(staged(home, {T0: [b"a"]}, "created", new=(new,), ids={}))
    beyond = staged(home, {("u", 2): [b"a"]}, "u", new=(NewTopic("u", TOPIC_ID, 2, {}),))
    with pytest.raises(UnknownTopicOrPartition, match="topic u has no partition 2"):
        home.commit(beyond)

    assert home.own_files() == []
    assert list(manager.staged_commits.pending) == []


def test_partitions_that_were_added_since_planning_are_a_refusal() -> None:
    """Keys would lie in the wrong partitions; by the holder of the directory, and without one."""
    home = Home()
    manager = home.started()
    planned = [
        replace(staged(home, {T0: [b"a"]}, txn), partitions={"t": 2}) for txn in ("x", "y", "z")
    ]
    home.commit(planned[0])
    manager.create_partitions("t", 3)

    text = "topic t has 3 partitions now; the transaction was planned for 2: run it again"
    with pytest.raises(InvalidArgument, match=text):
        home.commit(planned[1])
    manager.shutdown()
    home.scheduler.forget()
    with pytest.raises(InvalidArgument, match=text):
        home.commit(planned[2])

    assert home.own_files() == []
    assert values(home.open(), "t", 0) == [b"a"]


def test_an_unnamed_transaction_is_known_until_its_waiter_has_seen_it() -> None:
    """The service may commit others before the waiter looks."""
    home = Home()
    manager = home.started()
    waited: list[int] = []

    def sleep(ms: int) -> None:
        home.clock.advance(2000)  # the service commits the transaction meanwhile
        for number in range(2):
            one = staged(home, {T0: [b"b"]}, f"other {len(waited)}-{number}", is_named=False)
            manager.staged_commits.commit("/data", one)
        waited.append(ms)

    done = home.commit(staged(home, {T0: [b"a"]}, is_named=False), machine=machine(home, sleep))

    assert (done.txn, done.total, len(waited)) == ("x", 1, 1)
    assert values(manager, "t", 0) == [b"a", b"b", b"b"]
    manager.staged_commits.commit("/data", staged(home, {T0: [b"c"]}, "last", is_named=False))
    assert list(read_finished(home.fs, "/data")) == ["last"]


def test_a_claim_whose_process_has_ended_is_void() -> None:
    """The next holder commits the transaction, until its deadline."""
    home = Home()
    manager = home.started()
    begun: list[str] = []

    def sleep(ms: int) -> None:
        if not begun:  # a service claims the manifest and ends
            stem = next(iter(MANIFESTS.find(home.files())))
            ReadyFiles(home.fs, "/data", stem).change(State.WAITING, State.CLAIMED)
            begun.append(stem)
        home.clock.advance(ms)

    home.commit(staged(home, {T0: [b"a"]}), machine=machine(home, sleep))

    assert values(manager, "t", 0) == [b"a"]
    assert home.own_files() == []


def test_a_waiter_does_not_give_up_while_the_holder_commits() -> None:
    """It waits as long again, and then reports that the outcome is not known."""
    home = Home()
    home.started().shutdown()
    home.fs.lock("/data/.lock")

    def sleep(ms: int) -> None:
        home.clock.advance(ms)
        for stem in MANIFESTS.find(home.files()):
            ReadyFiles(home.fs, "/data", stem).change(State.WAITING, State.CLAIMED)

    begun_ms = home.clock.now_ms()
    with pytest.raises(CommitOutcomeUnknown, match="repeat it with the same id"):
        home.commit(staged(home, {T0: [b"a"]}), timeout_ms=3000, machine=machine(home, sleep))

    assert home.clock.now_ms() - begun_ms == 6000
    assert home.state() == {State.CLAIMED}
    assert [one for one in home.files() if is_staged_name(one)] != []


def test_what_a_full_disk_keeps_from_being_applied_is_reported_as_committed() -> None:
    """The service applies it when there is space, and the same id is then a repeat."""
    home = Home()
    manager = home.started()
    home.fs.fail("open", "0.log", OSError(errno.ENOSPC, "full"), 10_000)
    home.fs.fail("pwrite", "0.log", OSError(errno.ENOSPC, "full"), 10_000)

    with pytest.raises(CommitUnfinished, match="is committed, do not repeat it"):
        home.commit(staged(home, {T0: [b"a"]}), timeout_ms=3000)
    assert list(manager.staged_commits.pending) == [("/data", "x")]
    with pytest.raises(CommitPending):
        home.commit(staged(home, {T0: [b"b"]}, "y"), timeout_ms=3000)

    home.fs._faults.reset()
    home.clock.advance(20_000)
    assert values(manager, "t", 0) == [b"a"]
    assert home.commit(staged(home, {T0: [b"a"]})).is_repeat


def test_a_disk_without_space_for_the_records_refuses_them() -> None:
    """As a commit in the same process does; below the reserve, the error names the setting."""
    home = Home(internal_segment_bytes=1_000_000)
    home.started(tidelog_reserve_bytes=40_000)
    transaction = staged(home, {T0: [b"a" * 100_000]})
    home.fs.set_free_bytes(50_000)

    with pytest.raises(DirectoryFull, match="bytes free; 100,072 are needed"):
        home.commit(transaction, timeout_ms=3000)
    home.fs.set_free_bytes(39_999)
    home.clock.advance(1000)
    with pytest.raises(DirectoryFull, match=r"less than tidelog\.reserve\.bytes, 40,000, free"):
        home.commit(staged(home, {T0: [b"a"]}), timeout_ms=3000)

    assert home.own_files() == []


def test_a_fault_of_the_program_is_answered() -> None:
    """Before the commit point: its waiter need not wait for the time-out to hear of it."""
    home = Home()
    manager = home.started()

    def fail(point: CommitPoint) -> None:
        if point is CommitPoint.CHECKED:
            raise ValueError("a fault")

    manager.staged_commits.on_point = fail
    begun_ms = home.clock.now_ms()
    with pytest.raises(KafkaStorageError, match="failed unexpectedly: ValueError"):
        home.commit(staged(home, {T0: [b"a"]}), timeout_ms=60_000)

    assert home.clock.now_ms() - begun_ms < 5_000
    manager.staged_commits.on_point = lambda _: None
    home.commit(staged(home, {T0: [b"a"]}, "y"))
    assert values(manager, "t", 0) == [b"a"]


def test_nobody_commits_after_the_deadline() -> None:
    """The waiter has ended; the service deletes the manifest and the staged files."""
    home = Home()
    manager = home.started()
    manager.shutdown()
    home.scheduler.forget()
    transaction = staged(home, {T0: [b"b"]})
    ready = ReadyFiles(home.fs, "/data", new_stem("x", Random(0)))
    leave(ready, ReadyManifest(transaction, home.clock.now_ms() + 3000))
    home.clock.advance(3000)
    manager = home.started()
    home.clock.advance(2000)
    assert values(manager, "t", 0) == []
    assert home.state() == {State.WITHDRAWN}
    home.clock.set_time_of_day(home.clock.now_ms() + 3_600_000)
    home.clock.advance(310_000)
    assert home.own_files() == []


def test_an_interrupt_withdraws_the_manifest() -> None:
    """Nothing is committed later, and no file is left."""
    home = Home()
    home.started().shutdown()
    lock = home.fs.lock("/data/.lock")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        home.commit(staged(home, {T0: [b"a"]}), machine=machine(home, interrupt))

    assert home.own_files() == []
    lock.release()
    assert values(home.open(), "t", 0) == []


def test_staged_files_stay_where_it_cannot_be_told_whether_they_are_needed() -> None:
    """The holder has claimed the manifest, and the disk does not say so."""
    home = Home()
    home.started().shutdown()
    lock = home.fs.lock("/data/.lock")

    def claim(_: int) -> None:
        ready = next(name for name in home.files() if name.endswith(".ready"))
        home.fs.rename(f"/data/{ready}", f"/data/{ready[:-5]}claimed")
        home.fs.fail("exists", ".claimed", OSError(errno.EIO, "the disk failed"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        home.commit(staged(home, {T0: [b"a"]}), machine=machine(home, claim))

    assert [name for name in home.files() if is_staged_name(name)]
    lock.release()


def test_an_order_to_stop_leaves_the_transaction_to_its_waiter() -> None:
    """A service that closes in an orderly way commits nothing any more."""
    home = Home()
    manager = home.started()
    slept: list[int] = []

    def sleep(ms: int) -> None:
        slept.append(ms)
        if len(slept) == 1:
            manager.shutdown()
            home.scheduler.forget()
        home.clock.advance(ms)

    home.commit(staged(home, {T0: [b"a"]}), machine=machine(home, sleep))

    assert values(home.open(), "t", 0) == [b"a"]
    assert home.own_files() == []


def test_the_directory_of_the_files_must_be_one_of_those_given() -> None:
    """Its partitions could not be written."""
    home = Home()
    home.started()
    transaction = staged(home, {T0: [b"a"]})

    with pytest.raises(InvalidArgument, match="/data is not one of /other"):
        commit_when_possible(["/other"], "/data", transaction, machine=machine(home))


def test_metrics_count_what_is_committed_for_others() -> None:
    """Committed, refused, and still waiting."""
    home = Home()
    manager = home.started()
    home.commit(staged(home, {T0: [b"a"]}))
    with pytest.raises(UnknownTopicOrPartition):
        home.commit(staged(home, {("no", 0): [b"a"]}, "y", ids={"no": TOPIC_ID}))
    home.fs.write(f"/data/{new_stem('z', Random(0))}.ready", b'{"version": 99}')
    home.clock.advance(1000)

    found = {one.name: one.value for one in manager.metrics() if one.name.startswith("Commits")}

    assert found == {
        "CommitsForOthersCount": 1,
        "CommitsRefusedCount": 1,
        "CommitsWaitingCount": 1,
    }


def test_metrics_count_transactions_and_show_the_last_batch_of_each_stream() -> None:
    """Records, bytes and repeats, those of streams apart from others."""
    home = Home()
    manager = home.started()
    home.commit(staged(home, {T0: [b"a"]}))
    sizes = []
    for number in (4, 5, 5):
        batch = StreamBatch("q", number)
        transaction = staged(home, {T0: [b"a", b"b"]}, batch.txn)
        sizes.append(sum(run.size_bytes for run in transaction.runs))
        manager.staged_commits.commit("/data", replace(transaction, stream=batch))

    found = {
        (one.name, dict(one.tags).get("origin", "")): one.value
        for one in manager.metrics()
        if one.type in ("Transactions", "Streams") and one.name != "CommitTimeMs"
    }

    assert {key: value for key, value in found.items() if key[1] == "stream"} == {
        ("CommittedCount", "stream"): 2,
        ("Records", "stream"): 4,
        ("Bytes", "stream"): sizes[0] + sizes[1],
        ("SkippedCount", "stream"): 1,
    }
    assert found["Records", "transaction"] == found["CommittedCount", "transaction"] == 1
    assert (found["LastBatchId", ""], found["LastBatchRecords", ""]) == (5, 2)


def test_a_manifest_that_cannot_be_deleted_does_not_make_a_commit_fail() -> None:
    """The records are there; a later sweep deletes it."""
    home = Home()
    manager = home.started()
    home.fs.fail("delete", ".claimed", OSError(errno.EACCES, "no"), 100)
    home.commit(staged(home, {T0: [b"a"]}))
    manager.shutdown()
    home.scheduler.forget()
    lock = home.fs.lock("/data/.lock")

    def sleep(ms: int) -> None:
        home.clock.advance(ms)
        lock.release()

    home.commit(staged(home, {T0: [b"b"]}, "y"), machine=machine(home, sleep))

    assert values(home.open(), "t", 0) == [b"a", b"b"]


@pytest.mark.parametrize("state", [State.WAITING, State.CLAIMED])
def test_a_manifest_of_a_finished_transaction_is_deleted(state: State) -> None:
    """Its waiter has ended, and another process has committed the transaction."""
    home = Home()
    manager = home.started()
    home.commit(staged(home, {T0: [b"a"]}))
    again = staged(home, {T0: [b"b"]})
    ready = ReadyFiles(home.fs, "/data", new_stem("x", Random(0)))
    leave(ready, ReadyManifest(again, home.clock.now_ms() + 3000))
    ready.change(State.WAITING, state)
    home.clock.advance(1000)

    assert MANIFESTS.find(home.files()) == {}
    assert values(manager, "t", 0) == [b"a"]


def left_by(home: Home, mark: str) -> None:
    """Leave a manifest of an unnamed transaction, as a process of this mark that never looks."""
    transaction = staged(home, {T0: [b"a"]}, is_named=False)
    ready = ReadyFiles(home.fs, "/data", new_stem("x", Random(0)))
    leave(ready, ReadyManifest(transaction, home.clock.now_ms() + 3000, mark))


@pytest.mark.skipif(not process_mark(), reason="the marks of processes are those of Linux")
@pytest.mark.parametrize("has_restarted", [False, True])
def test_the_answer_to_a_killed_process_is_deleted(has_restarted: bool) -> None:
    """By the holder that has committed, and by a later one that finds the claim."""
    home = Home()
    manager = home.started()
    left_by(home, ENDED if not has_restarted else "")
    home.clock.advance(1000)
    if has_restarted:
        assert home.state() == {State.CLAIMED}
        manager.shutdown()
        stem = next(iter(MANIFESTS.find(home.files())))
        ready = ReadyFiles(home.fs, "/data", stem)
        manifest = replace(ready.manifest(State.CLAIMED), mark=ENDED)
        home.fs.write(ready.path(State.CLAIMED), manifest.encoded())
        manager = home.started()
    home.clock.advance(2000)

    assert home.own_files() == []
    assert values(manager, "t", 0) == [b"a"]


@pytest.mark.skipif(not process_mark(), reason="the marks of processes are those of Linux")
def test_the_answer_to_a_process_that_runs_is_kept_for_it() -> None:
    """Though others are committed meanwhile; so is that to one of another host."""
    for mark in (process_mark(), f"elsewhere {ENDED}"):
        home = Home()
        manager = home.started()
        left_by(home, mark)
        home.clock.advance(1000)
        other = staged(home, {T0: [b"b"]}, "other", is_named=False)
        manager.staged_commits.commit("/data", other)
        home.clock.advance(3000)

        assert home.state() == {State.CLAIMED}
        assert list(read_finished(home.fs, "/data")) == ["x", "other"]


def test_an_answer_that_cannot_be_read_is_an_unknown_outcome() -> None:
    """The service has committed; the error of the disk does not report that it has not."""
    home = Home()
    manager = home.started()

    def sleep(_: int) -> None:
        home.clock.advance(1000)
        home.fs.fail("exists", ".ready", OSError(errno.EIO, "it failed"))

    with pytest.raises(CommitOutcomeUnknown, match="repeat it with the same id"):
        home.commit(staged(home, {T0: [b"a"]}), machine=machine(home, sleep))

    assert values(manager, "t", 0) == [b"a"]
    assert home.commit(staged(home, {T0: [b"a"]})).is_repeat


def test_an_interrupt_during_the_commit_withdraws_it() -> None:
    """Before the commit point nothing is left; after it the journal decides."""
    home = Home()
    home.started().shutdown()

    def interrupt(at: CommitPoint) -> Callable[[object], None]:
        def act(point: object) -> None:
            if point is at:
                raise KeyboardInterrupt

        return act

    with pytest.raises(KeyboardInterrupt):
        home.commit(staged(home, {T0: [b"a"]}), on_point=interrupt(CommitPoint.CHECKED))
    with pytest.raises(KeyboardInterrupt):
        home.commit(staged(home, {T0: [b"b"]}, "y"), on_point=interrupt(CommitPoint.COMMITTED))

    assert values(home.open(), "t", 0) == [b"b"]
    assert [one for one in home.own_files() if MANIFESTS.find([one])] == []


@pytest.mark.parametrize("what", ["a failed disk", "a full disk"])
def test_an_error_of_closing_does_not_hide_that_a_transaction_is_committed(what: str) -> None:
    """The disk fails, or is full, from the commit point on; a repeat does not write it twice."""
    home = Home()
    home.started().shutdown()
    home.scheduler.forget()

    def fail(point: CommitPoint) -> None:
        if point is CommitPoint.COMMITTED and what == "a full disk":
            home.fs.set_free_bytes(0)
        elif point is CommitPoint.COMMITTED:
            home.fs.fail("sync", "t-0/00000000000000000000.log", OSError(errno.EIO, "it failed"))

    with pytest.raises(CommitUnfinished, match="is committed, do not repeat it"):
        home.commit(staged(home, {T0: [b"a"]}), on_point=fail)
    home.fs.set_free_bytes(None)
    home.restart()

    home.commit(staged(home, {T0: [b"a"]}))
    assert values(home.open(), "t", 0) == [b"a"]


def test_the_error_of_a_holder_that_is_left_does_not_replace_an_unfinished_commit() -> None:
    """Whatever holds the directory, and whatever that raises at its end."""
    home = Home()
    home.started().shutdown()

    def commit(_: Transaction) -> CommittedTransaction:
        raise CommitUnfinished("it is committed")

    @contextmanager
    def open_here() -> Iterator[Commit]:
        try:
            yield commit
        finally:
            raise KafkaStorageError("closing failed")

    wait = CommitWait(
        *("/data", staged(home, {T0: [b"a"]}), open_here),
        timeout_ms=0,
        desk=Desk(home.fs, home.clock, home.rng, home.clock.advance),
    )
    with pytest.raises(CommitUnfinished, match="it is committed"):
        wait.run()
    assert [one for one in home.files() if is_staged_name(one)] != []


def test_a_transaction_beside_a_holder_keeps_its_files_once_it_is_committed() -> None:
    """The next opening of the directory needs them, though closing it fails now."""
    home = Home()
    home.started().shutdown()
    home.scheduler.forget()
    home.fs.fail("sync", "t-0/00000000000000000000.log", OSError(errno.EIO, "it failed"))
    txn = BusyDirectory("/data", machine=machine(home)).transaction("x", codec=Codec.NONE)
    txn.append("t", b"a", partition=0)
    txn.append("t", b"b", partition=1)

    with pytest.raises(CommitUnfinished):
        txn.commit()
    home.restart()

    manager = home.open()
    assert (values(manager, "t", 0), values(manager, "t", 1)) == ([b"a"], [b"b"])
    assert home.own_files() == []
