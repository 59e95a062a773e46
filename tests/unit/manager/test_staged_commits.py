"""Transactions as a manager commits them, and what waits for one that is not applied yet."""

from __future__ import annotations

import errno
import json
from collections import Counter
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.manager_home import ManagerHome
from tests.machinery.staging import power_cut_at

from tidelog.config.log_config import LogConfig
from tidelog.embedded.logs import Logs
from tidelog.errors import (
    CommitPending,
    CommitUnfinished,
    DirectoryFull,
    InvalidArgument,
    InvalidRecord,
    InvalidTopic,
    KafkaStorageError,
    MessageTooLarge,
    OffsetOutOfRange,
    TopicAlreadyExists,
    TransactionMismatch,
    UnknownTopicOrPartition,
)
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import FINISHED_FILE, FINISHED_VERSION, RETENTION_MS, read_finished
from tidelog.staging.journal import JOURNAL_VERSION, journal_name
from tidelog.staging.journal_names import JOURNAL_SUFFIX, list_journals
from tidelog.staging.manifest_names import waiting_hashes
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

KEEP = LogConfig(segment_index_bytes=1200, retention_ms=-1)
FULL = OSError(errno.ENOSPC, "no space left")


def home_with_topics(config: Mapping[str, str] | None = None) -> DataHome:
    """Return a directory with topics t (2 partitions) and u, each with one flushed record."""
    home = DataHome()
    with home.open(defaults=KEEP) as logs:
        logs.create_topic("t", 2, config)
        logs.create_topic("u", 1, config)
        for topic, number in (("t", 0), ("t", 1), ("u", 0)):
            logs.partition(topic, number).append_records([record(b"before", b"k")])
    return home


def write(logs: Logs, txn: str | None = "x", values: tuple[bytes, ...] = (b"a", b"b")) -> None:
    """Commit the values to t-0, and one to u."""
    with logs.transaction(txn) as transaction:
        for value in values:
            transaction.append("t", value, key=b"k", partition=0)
        transaction.append("u", b"c", key=b"k")


def interrupted(home: DataHome, point: CommitPoint = CommitPoint.COMMITTED) -> None:
    """End the process at a moment of a commit."""
    logs = home.open(defaults=KEEP)
    logs.manager.staged_commits.on_point = power_cut_at(point)
    with suppress(PowerCut):
        write(logs)
    home.fs.kill()


def seen(logs: Logs, topic: str = "t") -> list[bytes | None]:
    """Return the values that readers of partition 0 see."""
    return [found.value for found in logs.read(topic, 0)]


def test_a_transaction_writes_to_several_topics() -> None:
    """All records are visible and durable when it has ended, and nothing of ours is left."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs, logs.transaction("x") as txn:
        txn.append("t", b"a", partition=1, headers=[("h", b"1")], timestamp=7)
        txn.append("u", b"b", key=b"k")
    home.fs.power_cut("none")

    assert home.values("t-1") == [b"before", b"a"]
    assert home.values("u-0") == [b"before", b"b"]
    assert txn.committed is not None
    assert (txn.committed.total, dict(txn.committed.records)) == (2, {"t": 1, "u": 1})
    assert home.own_files() == []


def test_nothing_is_seen_before_the_commit() -> None:
    """Records that are staged have no offsets yet."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs, logs.transaction("x") as txn:
        txn.append("u", b"b")
        txn.append("t", b"a", partition=0)

        assert seen(logs) == [b"before"]


def test_an_exception_drops_the_whole_transaction() -> None:
    """Staged files are deleted, and the id stays free."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        with suppress(ZeroDivisionError), logs.transaction("x") as txn:
            txn.append("t", b"a")
            raise ZeroDivisionError

        assert home.own_files() == []
        write(logs)
        assert seen(logs) == [b"before", b"a", b"b"]


def test_a_repeat_is_skipped_and_reports_what_was_committed() -> None:
    """Also with other records, by another process, and without any record at all."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        write(logs)
    with home.open(defaults=KEEP) as logs:
        with logs.transaction("x") as txn:
            txn.append("t", b"other")
        with logs.transaction("x"):
            pass

        assert txn.is_repeat
        assert txn.committed is not None
        assert txn.committed.is_repeat
        assert (txn.committed.total, txn.committed.time_ms) == (3, home.clock.now_ms())
        assert seen(logs) == [b"before", b"a", b"b"]
        assert seen(logs, "u") == [b"before", b"c"]


def test_an_id_that_was_committed_for_other_topics_is_an_error() -> None:
    """It is a mistake, never skipped in silence; fewer topics are fine."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        with logs.transaction("x") as txn:
            txn.append("u", b"a")
        with pytest.raises(TransactionMismatch, match="'x' was committed before for u, not for t"):
            write(logs)

        assert seen(logs) == [b"before"]


def test_transactions_without_an_id_are_always_new() -> None:
    """And they are not kept in the table of finished ones for longer than needed."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        for _ in range(3):
            write(logs, None)

        assert len(seen(logs)) == 7
    assert len(read_finished(home.fs, home.path)) == 1


def test_an_id_is_forgotten_after_a_week() -> None:
    """The table of finished transactions does not grow for ever."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        write(logs, "old")
        home.clock.advance(7 * 24 * 3_600_000 + 1)
        write(logs, "new")

    assert list(read_finished(home.fs, home.path)) == ["new"]


def test_a_topic_is_created_within_the_commit() -> None:
    """An abort leaves no trace of it, and a repeat finds it there."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        with suppress(ZeroDivisionError), logs.transaction("x") as txn:
            txn.create_topic("new", 3)
            raise ZeroDivisionError
        assert "new" not in logs.topics()
        for _ in range(2):
            with logs.transaction("x") as txn:
                txn.create_topic("new", 3, {"retention.ms": "-1"})
                txn.append("new", b"a", partition=2)

        assert logs.topic("new").config == {"retention.ms": "-1"}
        assert [found.value for found in logs.read("new", 2)] == [b"a"]
        with pytest.raises(TopicAlreadyExists), logs.transaction("y") as txn:
            txn.create_topic("new")
        with pytest.raises(InvalidTopic), logs.transaction("y") as txn:
            txn.create_topic("no/name")


def test_a_transaction_that_the_table_has_no_room_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before its commit, which could never be finished; there is room once others are forgotten."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        write(logs, "first")
        size = len(home.text(FINISHED_FILE))
        monkeypatch.setattr("tidelog.staging.finished.MAX_TABLE_BYTES", size + 10)
        with pytest.raises(KafkaStorageError, match=r"lower that$") as caught:
            write(logs, "second")
        assert not isinstance(caught.value, CommitUnfinished)
        assert not logs.manager.staged_commits.pending
        assert list_journals(home.fs, home.path) == []
        assert [found.value for found in logs.read("u", 0)] == [b"before", b"c"]
        home.clock.advance(RETENTION_MS + 1)
        write(logs, "second")

        assert list(read_finished(home.fs, home.path)) == ["second"]


def test_what_waits_in_the_directory_is_looked_up_once_by_a_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When it writes the table; before only where that has hardly any room left."""
    home = home_with_topics()
    looks = []

    def looking(names: Collection[str]) -> set[str]:
        looks.append(names)
        return waiting_hashes(names)

    monkeypatch.setattr("tidelog.staging.commit.waiting_hashes", looking)
    with home.open(defaults=KEEP) as logs:
        write(logs, "first")
        usual = len(looks)
        size = len(home.text(FINISHED_FILE))
        monkeypatch.setattr("tidelog.staging.finished.MAX_TABLE_BYTES", size + 10)
        home.clock.advance(RETENTION_MS + 1)
        write(logs, "second")

        assert (usual, len(looks) - usual) == (1, 2)


@pytest.mark.parametrize("names", [("a_b",), ("x.y", "x_y")])
def test_topics_whose_metrics_have_one_name_are_refused_before_the_commit(
    names: tuple[str, ...],
) -> None:
    """Beside a topic, or each other: such a commit could never be applied."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        logs.create_topic("a.b")
        txn = logs.transaction("x")
        for name in names:
            txn.create_topic(name)
            txn.append(name, b"a")
        with pytest.raises(InvalidTopic, match="collides with"):
            txn.commit()

        assert sorted(logs.topics()) == ["a.b", "t", "u"]
        assert not logs.manager.staged_commits.pending


def test_a_topic_is_refused_beside_one_that_a_commit_has_still_to_create() -> None:
    """By name or by metrics: the commit could not be applied any more."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        txn = logs.transaction("x")
        txn.create_topic("a.b")
        txn.append("t", b"a", partition=0)
        home.fs.fail("open", "tidelog.topics.json.tmp", FULL)
        with pytest.raises(CommitUnfinished):
            txn.commit()
        with pytest.raises(InvalidTopic, match=r"a_b collides with a\.b"):
            logs.create_topic("a_b")
        logs.manager.staged_commits.finish_all()

        assert sorted(logs.topics()) == ["a.b", "t", "u"]


def test_append_time_is_that_of_the_commit_also_after_a_replay() -> None:
    """A replay makes the same bytes: the time stands in the journal."""
    home = home_with_topics({"message.timestamp.type": "LogAppendTime"})
    home.clock.advance(5_000)
    committed_ms = home.clock.now_ms()
    interrupted(home)
    home.clock.advance(5_000)
    with home.open(defaults=KEEP) as logs:
        times = [found.timestamp for found in logs.read("t", 0)]

    assert times[1:] == [committed_ms, committed_ms]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"max.message.bytes": "70"}, MessageTooLarge),
        ({"cleanup.policy": "compact"}, InvalidRecord),
    ],
)
def test_settings_that_changed_since_refuse_the_whole_transaction(
    change: dict[str, str], error: type[Exception]
) -> None:
    """They are checked before the commit point; nothing has changed."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        transaction = logs.transaction("x")
        transaction.append("u", b"a" * 20)
        transaction.append("t", b"b" * 20)
        logs.alter_topic("u", change)
        with pytest.raises(error):
            transaction.commit()

        assert (seen(logs), seen(logs, "u")) == ([b"before"], [b"before"])
    assert home.own_files() == []


def test_partitions_that_were_added_meanwhile_refuse_the_whole_transaction() -> None:
    """Keys were given to the partitions that there were; a repeat gives them to those of now."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        txn = logs.transaction("x")
        txn.append("t", b"a", key=b"k")
        txn.append("u", b"b")
        logs.create_partitions("t", 5)
        with pytest.raises(InvalidArgument, match=r"topic t has 5 partitions now; .* for 2"):
            txn.commit()
        assert seen(logs, "u") == [b"before"]
        assert home.own_files() == []

        with logs.transaction("x") as txn:
            txn.append("t", b"a", key=b"k")
        logs.append("t", b"b", key=b"k")
        read = [[one.value for one in logs.read("t", partition=number)] for number in range(5)]
    assert [b"a", b"b"] in [values[-2:] for values in read]


def test_a_transaction_that_does_not_fit_the_disk_is_refused() -> None:
    """Before the commit point, so that it can be tried again."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        transaction = logs.transaction("x")
        transaction.append("t", b"a" * 10_000, partition=0)
        home.fs.set_free_bytes(12_000)
        with pytest.raises(DirectoryFull):
            transaction.commit()
        home.fs.set_free_bytes(None)

        assert seen(logs) == [b"before"]
    assert home.own_files() == []


def test_records_that_a_leader_refuses_are_refused_when_they_are_added() -> None:
    """The commit has nothing left to refuse."""
    home = home_with_topics({"cleanup.policy": "compact"})
    with home.open(defaults=KEEP) as logs, logs.transaction("x") as txn:
        with pytest.raises(InvalidRecord):
            txn.append("t", b"a")
        with pytest.raises(UnknownTopicOrPartition):
            txn.append("t", b"a", key=b"k", partition=9)
        with pytest.raises(UnknownTopicOrPartition):
            txn.append("none", b"a")
        with pytest.raises(InvalidArgument):
            txn.append("t", "text", key=b"k")  # type: ignore[arg-type]  # as a program may


# A transaction that is committed and not applied yet


def pending(home: DataHome) -> Logs:
    """Return a directory in which the disk is too full to finish a transaction."""
    interrupted(home)
    home.fs.fail("pwrite", ".log", FULL)
    return home.open(defaults=KEEP)


def test_a_full_disk_after_the_commit_point_says_that_it_is_committed() -> None:
    """It must not be repeated under another id; it is applied when there is space again."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
        with pytest.raises(CommitUnfinished, match="is committed, do not repeat it"):
            write(logs)

        assert (seen(logs), seen(logs, "u")) == ([b"before"], [b"before"])
        logs.manager.staged_commits.finish_all()
        assert (seen(logs), seen(logs, "u")) == ([b"before", b"a", b"b"], [b"before", b"c"])
        write(logs)
        assert seen(logs) == [b"before", b"a", b"b"]
    assert home.own_files() == []


def test_a_pending_transaction_blocks_only_the_partitions_that_it_names() -> None:
    """Their appends and commits get a retriable error; reads, and other partitions, continue."""
    home = home_with_topics()
    with pending(home) as logs:
        with pytest.raises(CommitPending) as caught:
            logs.append("t", b"late", partition=0)
        logs.append("t", b"free", partition=1)
        home.fs.fail("pwrite", ".log", FULL)
        with pytest.raises(CommitPending), logs.transaction("y") as txn:
            txn.append("u", b"late")

        assert caught.value.code.retriable
        assert seen(logs) == [b"before"]
        assert [found.value for found in logs.read("t", 1)] == [b"before", b"free"]
        logs.manager.staged_commits.finish_all()
        logs.append("t", b"late", partition=0)
        assert seen(logs) == [b"before", b"a", b"b", b"late"]


def test_a_transaction_stays_known_until_its_journal_is_durably_gone() -> None:
    """A power cut may bring back a journal that was deleted: it is only deleted again."""
    home = home_with_topics()
    with pending(home) as logs:
        home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)
        with logs.transaction() as unnamed:
            unnamed.append("t", b"free", partition=1)

        logs.manager.staged_commits.finish_all()

        assert set(read_finished(home.fs, home.path)) == {"x", unnamed.txn}
        write(logs, "y")
        assert set(read_finished(home.fs, home.path)) == {"x", "y"}


def test_a_transaction_stays_known_while_its_journal_cannot_be_deleted() -> None:
    """Its staged files are gone: it must not be applied again."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        home.fs.fail("delete", JOURNAL_SUFFIX, OSError(errno.EBUSY, "busy"))
        write(logs, None)
        write(logs, "y")
    with home.open(defaults=KEEP) as logs:
        assert logs.manager.staged_commits.pending == {}
        assert len(seen(logs)) == 5
        logs.append("t", b"free", partition=0)
    assert home.own_files() == []


def test_records_of_a_pending_transaction_are_not_seen_by_readers_beside() -> None:
    """High watermarks stay at the journal's base, in memory and in the checkpoint."""
    home = home_with_topics()
    interrupted(home)
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
    with home.open(defaults=KEEP) as logs:
        log = logs.partition("t", 0).log
        logs.flush()

        assert (log.high_watermark, log.log_end_offset) == (1, 3)
        assert home.values("t-0") == [b"before"]
    assert home.values("t-0") == [b"before"]


def test_a_replay_takes_nothing_back_that_readers_beside_have_seen() -> None:
    """The process has ended when all was visible, and before the transaction was finished."""
    home = home_with_topics()
    interrupted(home, CommitPoint.VISIBLE)
    assert home.values("t-0") == [b"before", b"a", b"b"]
    home.fs.fail("open", ".staged", OSError(errno.EMFILE, "too many open files"), 10)

    with home.open(defaults=KEEP) as logs:
        assert list(logs.manager.staged_commits.pending) == [("/data", "x")]
        assert home.values("t-0") == [b"before", b"a", b"b"]
    assert home.values("t-0") == [b"before", b"a", b"b"]


def test_a_high_watermark_beyond_a_lost_end_shows_no_part_of_a_transaction() -> None:
    """What readers saw there, and a power cut took as it was not flushed, does not come back."""
    home = home_with_topics()
    logs = home.open(defaults=KEEP)
    logs.partition("t", 0).append_records([record(b"lost", b"k"), record(b"lost", b"k")])
    logs.manager._checkpointing.checkpoint_high_watermarks()
    home.fs.power_cut("none")
    interrupted(home)
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)

    with home.open(defaults=KEEP) as logs:
        partition = logs.partition("t", 0)
        partition.maybe_increment_high_watermark()  # as after a move

        assert (partition.log.log_end_offset, seen(logs)) == (3, [b"before"])
        logs.manager.staged_commits.finish_all()
        assert seen(logs) == [b"before", b"a", b"b"]


def test_what_deletes_records_stays_below_a_pending_transaction() -> None:
    """Else a replay could not find out how far the first try came."""
    home = home_with_topics()
    interrupted(home)
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
    with home.open(defaults=KEEP) as logs:
        log = logs.partition("t", 0).log
        with pytest.raises(OffsetOutOfRange):
            log.delete_records(2)
        with pytest.raises(CommitPending):
            log.truncate_to(0)
        with pytest.raises(CommitPending):
            log.truncate_fully_and_start_at(9)
        log.roll()
        log.update_config(LogConfig(retention_ms=0, segment_index_bytes=1200))
        home.clock.advance(1_000)
        log.delete_old_segments()

        assert log.delete_records(-1) == 1
        logs.manager.staged_commits.finish_all()
        assert seen(logs) == [b"a", b"b"]


def test_deleting_a_topic_drops_what_a_transaction_has_still_to_write_to_it() -> None:
    """The other topics get theirs, and a new topic of the name gets nothing."""
    home = home_with_topics()
    with pending(home) as logs:
        logs.delete_topic("t")
        logs.create_topic("t")
        logs.manager.staged_commits.finish_all()

        assert (seen(logs), seen(logs, "u")) == ([], [b"before", b"c"])
    assert home.own_files() == []


def test_a_deleted_topic_is_remembered_while_a_journal_names_it() -> None:
    """Where the journal could not be rewritten, a replay leaves the topic out all the same."""
    home = home_with_topics()
    logs = pending(home)
    home.fs.fail("pwrite", f"{JOURNAL_SUFFIX}.tmp", FULL)
    logs.delete_topic("t")
    home.fs.kill()
    with home.open(defaults=KEEP) as logs:
        assert "t" not in logs.topics()
        assert seen(logs, "u") == [b"before", b"c"]


def test_a_name_that_a_pending_transaction_will_create_is_taken() -> None:
    """Else its records would have no topic."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        home.fs.fail("pwrite", "tidelog.topics.json.tmp", FULL)
        txn = logs.transaction("x")
        txn.create_topic("new")
        txn.append("new", b"a")
        with pytest.raises(CommitUnfinished):
            txn.commit()
        with pytest.raises(CommitPending):
            logs.create_topic("new")
        logs.manager.staged_commits.finish_all()

        assert seen(logs, "new") == [b"a"]


def test_a_log_that_lost_what_was_durable_is_left_to_the_user() -> None:
    """It cannot be said what of the transaction is there; only its partitions are blocked."""
    home = home_with_topics()
    interrupted(home)
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
    with home.open(defaults=KEEP) as logs:
        logs.partition("t", 0)
    path = "/data/t-0/00000000000000000000.log"
    with closing(home.fs.open(path, "r+")) as file:
        file.truncate(0)
    with home.open(defaults=KEEP) as logs:
        with pytest.raises(CommitPending):
            logs.append("t", b"x", partition=0)
        logs.append("t", b"x", partition=1)
        reasons = [reason for _, reason in logs.manager.staged_commits.pending.values()]

    assert "is not known" in reasons[0]


def test_a_second_try_goes_by_the_journal_as_the_first_left_it() -> None:
    """It may name other places since: after what another writer appended in between."""
    home = home_with_topics()
    interrupted(home)
    path = f"{home.path}/{journal_name('x')}"
    home.fs.rename(path, f"{path}.hidden")
    with home.open(defaults=KEEP) as logs:
        logs.append("t", b"other", partition=0)
    home.fs.rename(f"{path}.hidden", path)
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL, 2)
    with home.open(defaults=KEEP) as logs:
        logs.manager.staged_commits.finish_all()
        assert seen(logs, "u") == [b"before"]
        logs.manager.staged_commits.finish_all()

        assert seen(logs) == [b"before", b"other", b"a", b"b"]
        assert seen(logs, "u") == [b"before", b"c"]


def test_deleting_a_topic_keeps_the_places_of_the_others() -> None:
    """The journal is rewritten as it is on the disk, not as it was at first."""
    home = home_with_topics()
    interrupted(home)
    path = f"{home.path}/{journal_name('x')}"
    home.fs.rename(path, f"{path}.hidden")
    with home.open(defaults=KEEP) as logs:
        logs.append("t", b"other", partition=0)
    home.fs.rename(f"{path}.hidden", path)
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
    with home.open(defaults=KEEP) as logs:
        logs.delete_topic("u")
        logs.manager.staged_commits.finish_all()

        assert seen(logs) == [b"before", b"other", b"a", b"b"]


def test_a_repeat_that_began_before_the_first_was_committed_is_skipped() -> None:
    """What it has staged is deleted."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        late = logs.transaction("x")
        late.append("t", b"late", partition=0)
        write(logs)

        assert late.commit().total == 3
        assert seen(logs) == [b"before", b"a", b"b"]
    assert home.own_files() == []


def test_a_dropped_transaction_is_given_up() -> None:
    """What is in the logs stays, the partitions take appends again, and the id is free."""
    home = home_with_topics()
    interrupted(home)
    home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL)
    with home.open(defaults=KEEP) as logs:
        logs.manager.staged_commits.drop(home.path, "x")

        assert (seen(logs), seen(logs, "u")) == ([b"before", b"a", b"b"], [b"before"])
        write(logs, "x", (b"again",))
        assert seen(logs, "u") == [b"before", b"c"]
        with pytest.raises(InvalidArgument, match="'x' is not pending"):
            logs.manager.staged_commits.drop(home.path, "x")
    assert home.own_files() == []


@pytest.mark.parametrize("seed", range(8))
def test_a_dropped_transaction_does_not_come_back_after_a_power_cut(seed: int) -> None:
    """Its journal is durably gone when it is reported as dropped."""
    home = DataHome(seed)
    with home.open(defaults=KEEP) as logs:
        logs.create_topic("t", 1)
        logs.create_topic("u", 1)
    interrupted(home)
    home.fs.fail("pwrite", ".log", FULL, count=2)
    logs = home.open(defaults=KEEP)
    logs.manager.staged_commits.drop(home.path, "x")
    home.fs.power_cut("none" if seed == 0 else None)

    with home.open(defaults=KEEP) as logs:
        assert (seen(logs), seen(logs, "u")) == ([], [])


def test_a_journal_that_cannot_be_deleted_is_not_reported_as_dropped() -> None:
    """The transaction stays pending, and its staged files stay."""
    home = home_with_topics()
    with pending(home) as logs:
        home.fs.fail("delete", JOURNAL_SUFFIX, FULL)
        with pytest.raises(KafkaStorageError, match="dropping 'x'"):
            logs.manager.staged_commits.drop(home.path, "x")
        assert len(home.own_files()) == 2


def test_a_service_finishes_the_journals_that_it_finds() -> None:
    """After its logs have recovered, and before clients come."""
    home = ManagerHome(retention_ms=-1)
    with home.open() as manager:
        manager.create_topic("t", 2)
    data = DataHome()
    data.fs, data.clock = home.fs, home.clock
    logs = data.open(defaults=KEEP)
    logs.manager.staged_commits.on_point = power_cut_at(CommitPoint.COMMITTED)
    with suppress(PowerCut), logs.transaction("x") as txn:
        txn.append("t", b"a", partition=1)
    home.restart()
    with home.open() as manager:
        found = [one.value for one in manager.partition("t", 1).log.records()]

    assert found == [b"a"]
    assert list_journals(home.fs, "/data") == []


def test_a_service_tries_again_by_itself() -> None:
    """A task finishes what a full disk had stopped."""
    home = ManagerHome(retention_ms=-1)
    with home.open() as manager:
        manager.create_topic("t", 2)
        staged = Logs(manager).transaction("x")
        staged.append("t", b"a", partition=1)
        home.fs.fail("pwrite", "t-1/00000000000000000000.log", FULL)
        with pytest.raises(CommitUnfinished):
            staged.commit()
        home.clock.advance(60_000)

        assert [one.value for one in manager.partition("t", 1).log.records()] == [b"a"]


# Files of our own


@pytest.mark.parametrize("name", [journal_name("x"), FINISHED_FILE])
def test_a_file_of_a_newer_version_is_refused_untouched(name: str) -> None:
    """What it means is not known here, so nothing is written to the directory."""
    home = home_with_topics()
    with home.open(defaults=KEEP) as logs:
        write(logs)
    interrupted(home) if name != FINISHED_FILE else None
    newest = JOURNAL_VERSION if name != FINISHED_FILE else FINISHED_VERSION
    text = json.dumps({"version": newest + 1, "other": "form"})
    home.write(name, text)
    words = f"has version {newest + 1}; this tidelog reads up to {newest}"
    refused = pytest.raises(KafkaStorageError, match=words)
    with refused, home.open(defaults=KEEP) as logs:
        write(logs, "y")

    assert home.text(name) == text
    assert home.values("t-0") == [b"before", b"a", b"b"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": "x"}', '{"version": 1}', "\0" * 9])
def test_a_damaged_journal_is_refused(text: str) -> None:
    """A part of a transaction is never applied."""
    home = home_with_topics()
    home.write(journal_name("x"), text)

    with pytest.raises(KafkaStorageError, match="cannot be read"):
        home.open(defaults=KEEP)


def test_a_journal_names_no_file_outside_the_directory() -> None:
    """What is read from a file is input."""
    home = home_with_topics()
    interrupted(home)
    name = journal_name("x")
    content = json.loads(home.text(name))
    content["moves"][0]["run"]["name"] = "../../etc/passwd"
    home.write(name, json.dumps(content))

    with pytest.raises(KafkaStorageError, match="is not the name of a staged file"):
        home.open(defaults=KEEP)


def test_the_sweep_spares_the_files_that_a_journal_names() -> None:
    """However old they are."""
    home = home_with_topics()
    logs = pending(home)
    home.clock.advance(30 * 24 * 3_600_000)
    before = home.own_files()
    manager = logs.manager
    manager._deleter.delete_staged_files(manager.config.tidelog_staged_retention_ms)

    assert len(before) == 2
    assert home.own_files() == before


# Syncs


def syncs(home: DataHome, values: tuple[bytes, ...] = (b"a", b"b")) -> Counter[str]:
    """Count the syncs of a second transaction, by what is synced."""
    with home.open(defaults=KEEP) as logs:
        write(logs, "warm")
        before = len(home.fs.operations)
        write(logs, "counted", values)
        done = home.fs.operations[before:]
    kinds = {"sync": "file", "sync_directory": "directory"}
    return Counter(
        f"{kinds[one.name]} {one.path.rpartition('/')[2].removesuffix('.tmp')}"
        for one in done
        if one.name in kinds
    )


def test_a_commit_syncs_a_constant_and_once_for_each_log() -> None:
    """One for the staged file, eight for the commit, one for each log that it writes to."""
    found = syncs(home_with_topics())
    logs = found.pop("file 00000000000000000000.log")
    staged = sum(count for name, count in found.items() if name.endswith(".staged"))
    found = Counter({name: n for name, n in found.items() if not name.endswith(".staged")})

    assert (logs, staged) == (2, 1)
    assert found == {
        f"file {journal_name('counted')}": 1,
        "file replication-offset-checkpoint": 1,
        f"file {FINISHED_FILE}": 1,
        "directory data": 4,
    }
