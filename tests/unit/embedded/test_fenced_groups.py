"""A commit of positions counts only if the group is still where its reader took it up."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome
from tests.machinery.staging import power_cut_at

from tidelog.codec.compression import Codec
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.logs import Logs
from tidelog.env.machine import Machine
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import (
    CommitUnfinished,
    IllegalGeneration,
    InvalidArgument,
    NonEmptyGroup,
    TopicAlreadyExists,
)
from tidelog.readonly.group_positions import Position
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import read_finished
from tidelog.staging.group_step import CommittedAt
from tidelog.staging.staged_file import list_staged
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.embedded.group_reader import GroupReader
    from tidelog.embedded.transaction import Transaction
    from tidelog.staging.commit import Transaction as Staged
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.group_step import GroupStep

IN = TopicPartition("in", 0)
FULL = OSError(errno.ENOSPC, "no space left")


class Home(ManagerHome):
    """A machine whose service has the topics ``in``, with some records, and ``out``."""

    def __init__(self, *values: bytes) -> None:
        super().__init__(retention_ms=-1)
        self.logs = Logs(self.open())
        for topic in ("in", "out"):
            self.logs.create_topic(topic)
        self.add(*(values or (b"a", b"b", b"c")))

    def add(self, *values: bytes) -> None:
        """Append values to ``in``."""
        for value in values:
            self.logs.append("in", value)

    def out(self) -> list[bytes | None]:
        """Return the values in ``out``."""
        return [record.value for record in self.logs.read("out")]

    def position(self, group: str = "g") -> int | None:
        """Return where a group is in ``in``."""
        found = self.logs.group_positions().get(group, {}).get(IN)
        return None if found is None else found.offset

    def beside(self) -> BusyDirectory:
        """Return the directory as another process sees it; the service works while that sleeps."""
        machine = Machine(self.fs, self.clock, InlineScheduler(), Random(5), self.clock.advance)
        return BusyDirectory("/data", machine=machine)

    def set_from_outside(
        self, offset: int, before: Mapping[TopicPartition, CommittedAt | None] | None = None
    ) -> Transaction:
        """Commit a position of group g as another process; without ``before`` as an operator."""
        self.clock.advance(1)
        ids = self.logs.topic("in").topic_id
        txn = self.beside().transaction(None, codec=Codec.NONE)
        txn.add_positions("g", {IN: Position(offset, -1, "", 0, ids)}, before)
        txn.commit()
        return txn


def copied(reader: GroupReader, txn: Transaction, count: int | None = None) -> None:
    """Copy records to ``out``, and give the position to the transaction."""
    for number, record in enumerate(reader.read(), 1):
        txn.append("out", record.value)
        if number == count:
            break
    reader.commit(txn)


def left_behind(home: Home, count: int | None = None) -> Transaction:
    """Return a transaction that a reader of group g, closed now, has left to be committed."""
    txn = home.logs.transaction()
    with home.logs.reader("in", group="g") as reader:
        copied(reader, txn, count)
    return txn


@pytest.mark.parametrize("is_first", [True, False], ids=["first commit", "later"])
def test_of_two_readers_that_read_the_same_the_first_to_commit_wins(is_first: bool) -> None:
    """The other one is fenced whole: neither its records nor its positions are committed."""
    home = Home()
    if not is_first:
        with home.logs.reader("in", group="g") as reader:
            next(reader.read())
            reader.commit()
    old, new = left_behind(home), left_behind(home)

    new.commit()
    with pytest.raises(IllegalGeneration) as fenced:
        old.commit()

    began = None if is_first else 1
    assert (fenced.value.began, fenced.value.committed) == (began, 3)
    assert home.out() == ([b"a", b"b", b"c"] if is_first else [b"b", b"c"])
    assert home.position() == 3
    assert list_staged(home.fs, "/data") == []


def test_a_position_does_not_go_back_by_an_older_transaction() -> None:
    """It was given less by a reader that is closed."""
    home = Home()
    old = left_behind(home, 1)
    with home.logs.reader("in", group="g") as reader:
        list(reader.read())
        reader.commit()

        with pytest.raises(IllegalGeneration, match=r"no committed offset of in-0.*offset 3 now"):
            old.commit()

    assert (home.position(), home.out()) == (3, [])


def test_a_transaction_may_end_after_its_reader_was_closed() -> None:
    """As long as nobody else has committed: it is the order of two ``with`` on one line."""
    home = Home()
    with home.logs.transaction() as txn, home.logs.reader("in", group="g") as reader:
        copied(reader, txn)

    assert (home.position(), home.out()) == (3, [b"a", b"b", b"c"])


def test_a_fenced_reader_continues_after_a_rewind() -> None:
    """An older one's transaction was committed under it; what that has read is not read again."""
    home = Home()
    old = left_behind(home, 2)
    with home.logs.reader("in", group="g") as reader:
        first = home.logs.transaction()
        copied(reader, first)
        old.commit()
        with pytest.raises(IllegalGeneration):
            first.commit()
        with pytest.raises(InvalidArgument, match="has not ended with a commit: rewind"):
            reader.commit()
        reader.seek("in", 0, 3)
        with pytest.raises(IllegalGeneration):
            reader.commit()

        reader.rewind()
        with home.logs.transaction() as txn:
            copied(reader, txn)
        home.add(b"d")
        with home.logs.transaction() as txn:
            copied(reader, txn)
        home.add(b"e")
        list(reader.read())
        reader.commit()
        reader.seek("in", 0, 4)
        reader.commit()

    assert home.out() == [b"a", b"b", b"c", b"d"]
    assert home.position() == 4


@pytest.mark.parametrize("partitions", [1, 2])
def test_first_commits_of_two_groups_may_meet(partitions: int) -> None:
    """Both are to create the topic of positions; the later one uses what the earlier has created.

    Unless that has other partitions: the group may belong into another one then.
    """
    home = Home()
    txn = home.logs.transaction()
    with home.logs.reader("in", group="h") as reader:
        copied(reader, txn)
    manager = home.logs.manager
    commit = manager.staged_commits.commit

    def commit_second(path: str, staged: Staged) -> CommittedTransaction:
        if "__consumer_offsets" not in manager.topics():
            home.logs.create_topic("__consumer_offsets", partitions)
        return commit(path, staged)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manager.staged_commits, "commit", commit_second)
        if partitions == 1:
            txn.commit()
        else:
            with pytest.raises(TopicAlreadyExists):
                txn.commit()

    assert home.position("h") == (3 if partitions == 1 else None)
    assert len(home.out()) == (3 if partitions == 1 else 0)
    assert list_staged(home.fs, "/data") == []


def test_first_commits_of_several_programs_may_meet() -> None:
    """Each has planned to create the topic of positions, and looks at the topics only once."""
    home = Home()
    topic_id = home.logs.topic("in").topic_id
    txns = {group: home.beside().transaction(None, codec=Codec.NONE) for group in ("g", "h", "i")}
    for at, (group, txn) in enumerate(txns.items()):
        assert not txn.has_topic("__consumer_offsets")
        txn.append("out", group.encode())
        txn.add_positions(group, {IN: Position(at, -1, "", 0, topic_id)}, {})

    for txn in txns.values():
        txn.commit()

    assert [home.position(group) for group in txns] == [0, 1, 2]
    assert home.out() == [b"g", b"h", b"i"]
    assert list_staged(home.fs, "/data") == []


def test_a_reset_to_the_same_offset_fences_too() -> None:
    """An operator who sets a group back wants the records processed again, by a new reader."""
    home = Home()
    with home.logs.reader("in", group="g") as reader:
        next(reader.read())
        reader.commit()
    old = left_behind(home)

    home.set_from_outside(1)
    with pytest.raises(IllegalGeneration):
        old.commit()

    assert (home.position(), home.out()) == (1, [])


def test_an_operator_does_not_move_a_group_that_has_a_reader() -> None:
    """Its next commit would be fenced; the error asks the operator to end it first."""
    home = Home()
    with home.logs.reader("in", group="g", partitions=[0]):
        with pytest.raises(NonEmptyGroup, match="group 'g' has a reader in the process that holds"):
            home.set_from_outside(2)
        assert home.position() is None
    home.set_from_outside(2)

    assert home.position() == 2


def test_positions_that_another_process_commits_are_fenced() -> None:
    """The steps are in its manifest, and it learns where the group is after its commit."""
    home = Home()
    first = home.set_from_outside(1, before={})
    assert first.committed is not None
    at = CommittedAt(1, first.committed.positions["g", "in", 0])
    for before in ({}, {IN: at._replace(record_offset=7)}, {IN: at._replace(offset=0)}):
        with pytest.raises(IllegalGeneration):
            home.set_from_outside(3, before)
    second = home.set_from_outside(2, {IN: at})

    assert home.position() == 2
    assert second.committed is not None
    assert second.committed.positions == {("g", "in", 0): at.record_offset + 1}
    assert list_staged(home.fs, "/data") == []


def test_a_repeat_is_skipped_and_not_fenced() -> None:
    """The group is where the first try has put it, which the repeat cannot know."""
    home = Home()
    tries = [home.logs.transaction("x") for _ in range(2)]
    for txn in tries:
        with home.logs.reader("in", group="g") as reader:
            copied(reader, txn)
    for txn in tries:
        txn.commit()
    assert tries[1].committed is not None
    assert tries[1].committed.is_repeat

    late = home.logs.transaction("x")
    with home.logs.reader("in", group="g") as reader:
        home.add(b"d")
        copied(reader, late)
        late.commit()
        with pytest.raises(InvalidArgument, match="rewind"):
            reader.commit()
        reader.rewind()
        assert [record.value for record in reader.read()] == [b"d"]
    assert home.out() == [b"a", b"b", b"c"]


def test_what_was_read_for_an_aborted_transaction_is_not_passed_over() -> None:
    """The next commit asks for a rewind, else these records would be in no output."""
    home = Home()
    with home.logs.reader("in", group="g") as reader:
        dropped = home.logs.transaction()
        copied(reader, dropped, 2)
        for _ in ("before it ends", "after that"):
            with pytest.raises(InvalidArgument, match=f"transaction '{dropped.txn}'.*: rewind"):
                reader.commit(home.logs.transaction())
            dropped.abort()
        reader.rewind()
        with home.logs.transaction() as txn:
            copied(reader, txn, 1)
            copied(reader, txn)

    assert (home.position(), home.out()) == (3, [b"a", b"b", b"c"])


def test_a_reader_whose_commit_is_unfinished_doubles_nothing() -> None:
    """It is committed and not applied: nothing is read of its partitions until it is."""
    home = Home()
    with home.logs.reader("in", group="g") as reader:
        list(reader.read())
        reader.seek("in", 0, 0)
        reader.commit()
        home.fs.fail("pwrite", "out-0/00000000000000000000.log", FULL)
        with pytest.raises(CommitUnfinished), home.logs.transaction() as txn:
            copied(reader, txn)
        with pytest.raises(InvalidArgument, match="rewind"):
            reader.commit()

        reader.rewind()
        assert (list(reader.read()), reader.positions) == ([], {})
        home.logs.manager.staged_commits.finish_all()
        assert (list(reader.read()), reader.positions) == ([], {IN: 3})

    assert (home.position(), home.out()) == (3, [b"a", b"b", b"c"])


def test_the_table_of_finished_transactions_tells_positions_after_a_crash() -> None:
    """A journal that is found holds whose they are; later commits drop them from the table."""
    home = Home()
    txn = home.logs.transaction("x")
    with home.logs.reader("in", group="g") as reader:
        copied(reader, txn)

    home.logs.manager.staged_commits.on_point = power_cut_at(CommitPoint.COMMITTED)
    with suppress(PowerCut):
        txn.commit()
    home.restart()
    logs = Logs(home.open())

    assert read_finished(home.fs, "/data")["x"].positions == {("g", "in", 0): 0}
    with logs.transaction("y") as other:
        other.append("out", b"y")
    assert read_finished(home.fs, "/data")["x"].positions == {}


def test_the_group_is_looked_at_while_no_other_commit_can_come_between() -> None:
    """Another one would be undone, if it came between the check and the append."""
    home = Home()
    groups = home.logs.groups
    with home.logs.reader("in", group="g") as reader:
        list(reader.read())
        reader.commit()
        partition = home.logs.partition("__consumer_offsets", 0)
        check, are_locked = groups.check, []

        def checked(steps: Iterable[GroupStep]) -> None:
            check(steps)
            are_locked.append(partition.lock._is_owned())  # type: ignore[attr-defined]  # no type has it

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(groups, "check", checked)
            for txn in (None, home.logs.transaction()):
                home.add(b"d")
                list(reader.read())
                reader.commit(txn)
                if txn is not None:
                    txn.commit()

    assert are_locked == [True, True]


def test_a_rewind_within_a_loop_may_put_a_partition_off() -> None:
    """While a transaction sets its position; the loop comes to it once that has ended."""
    logs = Home().logs
    logs.create_topic("two", 2)
    for number in range(4):
        logs.append("two", b"%d" % number, partition=number // 2)
    found: list[bytes | None] = []
    with logs.reader("two", group="g") as reader:
        for record in reader.read():
            if not found:
                with logs.groups.arriving("g", [TopicPartition("two", 1)]):
                    reader.rewind()
                    assert list(reader.positions) == [("two", 0)]
            found.append(record.value)

    assert found == [b"0", b"0", b"1", b"2", b"3"]
