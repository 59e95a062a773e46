"""A group that clients of the broker and readers in Python read, one after the other."""

from __future__ import annotations

import errno
import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.broker_home import (
    DATA,
    BrokerHome,
    begun,
    code,
    commit,
    commit_within,
    end,
    position,
    run,
    with_broker,
)
from tests.unit.broker.groups.test_group_requests import member_of

import tidelog
from tidelog.error_codes import ErrorCode
from tidelog.errors import CommitUnfinished, IllegalGeneration, NonEmptyGroup
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from tidelog.embedded.transaction import Transaction


def left_behind(home: BrokerHome) -> Transaction:
    """Return a transaction with what a reader, closed since, has read of ``t``, and its position.

    A reader in another program loses its group like this when the broker is started again.
    """
    txn = home.logs.transaction()
    with home.logs.reader("t", group="g") as reader:
        for record in reader.read():
            txn.append("out", record.value)
        reader.commit(txn)
    return txn


def out(home: BrokerHome) -> list[bytes | None]:
    """Return the values in ``out``."""
    return [record.value for record in home.logs.read("out", isolation="read_committed")]


def test_a_reader_that_has_lost_its_group_to_clients_commits_nothing() -> None:
    """They may have read the same; their commits are not fenced by where the group is."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("out")
        home.logs.append("t", b"a")
        txn = left_behind(home)
        member, generation = await member_of(home)

        with pytest.raises(NonEmptyGroup, match=r"client\.id 'test'"):
            txn.commit()
        assert (out(home), await position(home)) == ([], -1)

        assert await commit(home, 1, member, generation) is ErrorCode.NONE
        await home.ask("LeaveGroup", 1, groupId="g", memberId=member)
        with home.logs.reader("t", group="g") as reader:
            assert list(reader.read()) == []

    with_broker(test)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_reader_waits_for_the_transaction_of_a_client_that_was_there_before(
    is_commit: bool,
) -> None:
    """It has processed what the reader would read, and may be committed after the reader has."""

    async def test(home: BrokerHome) -> None:
        home.logs.append("t", b"a")
        producer = await begun(home)
        await commit_within(home, producer, 1)
        with home.logs.reader("t", group="g") as reader:
            assert (list(reader.read()), reader.positions) == ([], {})
            await end(home, producer, commit=is_commit)
            home.logs.append("t", b"b")
            values = [record.value for record in reader.read()]
            assert values == ([b"b"] if is_commit else [b"a", b"b"])
            reader.commit()
        assert await position(home) == 2

    with_broker(test)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_partition_that_had_to_wait_is_read_from_where_the_reader_was_told(start: str) -> None:
    """It was there when the reader began, unlike a partition that is added later."""

    async def test(home: BrokerHome) -> None:
        home.logs.append("t", b"a")
        producer = await begun(home)
        await commit_within(home, producer, 1)
        with home.logs.reader("t", group="g", start=start) as reader:
            await end(home, producer, commit=False)
            assert len(list(reader.read())) == (start == "earliest")
            home.logs.append("t", b"b")
            assert [record.value for record in reader.read()][-1:] == [b"b"]

    with_broker(test)


def test_what_was_read_before_a_client_had_the_group_is_fenced_by_its_open_transaction() -> None:
    """Whether that is committed is not known yet, and it would be after the reader's."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("out")
        home.logs.append("t", b"a")
        txn = left_behind(home)
        producer = await begun(home)
        await commit_within(home, producer, 1)

        with pytest.raises(IllegalGeneration):
            txn.commit()
        await end(home, producer)
        assert (out(home), await position(home)) == ([], 1)

    with_broker(test)


def test_clients_wait_for_a_commit_that_is_not_applied_yet() -> None:
    """It has the records that they would read; a reader that comes after it waits as well."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("out")
        home.logs.append("t", b"a")
        await commit(home, 0)
        txn = left_behind(home)
        full = OSError(errno.ENOSPC, "no space left")
        home.files.fail("pwrite", "out-0/00000000000000000000.log", full)
        with pytest.raises(CommitUnfinished):
            txn.commit()

        assert await position(home) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        wanted: dict[str, Any] = {"groupId": "g", "topics": None}
        answer = await home.ask("OffsetFetch", 7, **wanted, requireStable=False)
        assert code(answer) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        with home.logs.reader("t", group="g") as reader:
            assert list(reader.read()) == []
        home.files.mend()
        home.logs.manager.staged_commits.finish_all()
        assert (out(home), await position(home)) == ([b"a"], 1)

    with_broker(test)


@pytest.mark.parametrize("is_within", [True, False], ids=["within a transaction", "alone"])
def test_members_of_before_a_restart_do_not_commit_after_a_reader(is_within: bool) -> None:
    """A program has read the group while the broker was down, and they hold the same records."""
    files, members = CrashFileSystem(), []

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            home.logs.append("t", b"a")
            members.append(await member_of(home))

    async def after() -> None:
        async with BrokerHome(files) as home:
            assert await commit(home, 1, *members[0]) is ErrorCode.UNKNOWN_MEMBER_ID
            assert await position(home) == 1
            member, generation = await member_of(home)
            assert await commit(home, 2, member, generation) is ErrorCode.NONE

    run(before())
    with (
        tidelog.open(DATA, files=files, clock=ManualClock()) as logs,
        logs.reader("t", group="g") as reader,
        logs.transaction() as txn,
    ):
        assert len(list(reader.read())) == 1
        reader.commit(txn if is_within else None)
    run(after())


def test_a_group_that_its_readers_have_left_takes_no_memory() -> None:
    """Programs may read by a group of another name each time."""

    async def test(home: BrokerHome) -> None:
        for number in range(3):
            with home.logs.reader("t", group=f"g-{number}"):
                assert home.logs.groups.with_readers() == {f"g-{number}"}
        assert home.logs.groups._members == {}
        for number in range(3):
            home.logs.reader("t", group=f"g-{number}")  # and nobody has it
            gc.collect()
        assert home.logs.groups.with_readers() == set()
        assert list(home.logs.groups._members) == ["g-2"]

    with_broker(test)
