"""A partition of an internal topic that cannot be read keeps only its own groups and ids out."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.broker_home import DATA, BrokerHome, begun, code, run, with_broker

from tidelog.broker.broker import Broker
from tidelog.error_codes import ErrorCode
from tidelog.errors import DirectoryFull, KafkaStorageError
from tidelog.manager.known_positions import KnownPositions
from tidelog.readonly.group_positions import OFFSETS_TOPIC, group_removal
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import CrashFileSystem, ManualClock, damage_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tidelog.log.log import Log
    from tidelog.manager.known_positions import Through
    from tidelog.manager.partition import Partition

OTHER = "/other"
AT_0, AT_1 = "b", "a"
"""Names that belong to the first and to the second of two partitions."""
OFFLINE = OSError(errno.EIO, "the disk failed")


async def committed(home: BrokerHome, group: str, offset: int = 5) -> ErrorCode:
    """Commit a position of a group."""
    place = {"partitionIndex": 0, "committedOffset": offset, "committedMetadata": ""}
    topics = [{"name": "t", "partitions": [place]}]
    answer = await home.ask(
        "OffsetCommit", 8, groupId=group, generationId=-1, memberId="", topics=topics
    )
    return code(answer["topics"][0]["partitions"][0])


async def positions(home: BrokerHome, *groups: str) -> list[int | ErrorCode]:
    """Return the positions of groups, or why they are not known."""
    topics = [{"name": "t", "partitionIndexes": [0]}]
    wanted = [{"groupId": group, "topics": topics} for group in groups]
    answer = await home.ask("OffsetFetch", 8, groups=wanted, requireStable=True)
    return [
        code(one) if one["errorCode"] else one["topics"][0]["partitions"][0]["committedOffset"]
        for one in answer["groups"]
    ]


async def coordinators(home: BrokerHome, kind: int) -> list[ErrorCode]:
    """Ask for the coordinators of both names."""
    found = await home.ask("FindCoordinator", 4, keyType=kind, coordinatorKeys=[AT_0, AT_1])
    one = await home.ask("FindCoordinator", 3, keyType=kind, key=AT_1)
    assert code(one) is code(found["coordinators"][1])
    return [code(one) for one in found["coordinators"]]


def with_stored(
    test: Callable[[BrokerHome], Coroutine[Any, Any, None]],
    before: Callable[[BrokerHome], None],
) -> None:
    """Run a test at a broker that finds groups and ids of before, two partitions each.

    Each has one in each directory. ``before`` is called before it starts.
    """
    files, clock = CrashFileSystem(), ManualClock()

    async def store() -> None:
        async with BrokerHome(files, clock, more=[OTHER]) as home:
            for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
                home.logs.create_topic(name, 2, is_spread=True)
            home.logs.manager.create_topic("t", path=DATA)
            for name in (AT_0, AT_1):
                assert await committed(home, name) is ErrorCode.NONE
                await begun(home, name)

    async def again() -> None:
        home = BrokerHome(files, clock, more=[OTHER], timers=clock.scheduler())
        before(home)
        async with home:
            await test(home)

    run(store())
    run(again())


def fail_second(home: BrokerHome) -> None:
    """Let the directory fail that has the second partition of each topic."""
    at = home.logs.partition(OFFSETS_TOPIC, 1).log.directory
    assert at == home.logs.partition(TRANSACTIONS_TOPIC, 1).log.directory.replace(
        TRANSACTIONS_TOPIC, OFFSETS_TOPIC
    )
    home.is_left = True
    home.logs.manager.take_dir_offline(at.rpartition("/")[0], OFFLINE)
    home.clock.advance(0)


def damage_second(home: BrokerHome) -> None:
    """Damage the second partition of each topic; or mend it, the second time."""
    for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        data = home.logs.partition(topic, 1).log.directory.rpartition("/")[0]
        damage_batch(data, topic, 0, partition=1, files=home.files)


def test_a_name_that_no_record_has_room_for_is_refused() -> None:
    """Its client would send it again and again if the connection were closed."""

    async def test(home: BrokerHome) -> None:
        name = "x" * 32_768
        assert await committed(home, name) is ErrorCode.INVALID_REQUEST
        answer = await home.ask(
            "InitProducerId", 4, transactionalId=name, transactionTimeoutMs=60_000
        )
        assert code(answer) is ErrorCode.INVALID_REQUEST
        assert await committed(home, name[1:]) is ErrorCode.NONE

    with_broker(test)


@pytest.mark.parametrize("fail", [fail_second, damage_second])
def test_other_groups_are_served(fail: Callable[[BrokerHome], None]) -> None:
    """Clients of its own look for their coordinator again and again, as at a broker of Kafka's."""

    async def test(home: BrokerHome) -> None:
        assert await positions(home, AT_0, AT_1) == [5, ErrorCode.NOT_COORDINATOR]
        assert await committed(home, AT_0, 6) is ErrorCode.NONE
        assert await committed(home, AT_1, 6) is ErrorCode.NOT_COORDINATOR
        listed = await home.ask("ListGroups", 4)
        assert [one["groupId"] for one in listed["groups"]] == [AT_0]
        described = await home.ask("DescribeGroups", 5, groups=[AT_0, AT_1])
        assert [code(one) for one in described["groups"]] == [0, ErrorCode.NOT_COORDINATOR]
        deleted = await home.ask("DeleteGroups", 2, groupsNames=[AT_1, AT_0])
        assert [code(one) for one in deleted["results"]] == [ErrorCode.NOT_COORDINATOR, 0]

    with_stored(test, fail)


def test_other_transactional_ids_are_served(caplog: pytest.LogCaptureFixture) -> None:
    """And the log says once which partition is not, and why."""

    async def test(home: BrokerHome) -> None:
        await begun(home, AT_0)
        answer = await home.ask(
            "InitProducerId", 4, transactionalId=AT_1, transactionTimeoutMs=60_000
        )
        assert code(answer) is ErrorCode.NOT_COORDINATOR
        home.clock.advance(300_000)
        listed = await home.ask("ListTransactions", 1)
        assert [one["transactionalId"] for one in listed["transactionStates"]] == [AT_0]
        described = await home.ask("DescribeTransactions", 0, transactionalIds=[AT_0, AT_1])
        states = described["transactionStates"]
        assert [code(one) for one in states] == [0, ErrorCode.NOT_COORDINATOR]

    with_stored(test, fail_second)
    logged = [one for one in caplog.messages if one.startswith("coordinator-not-loaded")]
    assert [text.split()[1] for text in logged] == [
        f"log={OFFSETS_TOPIC}-1",
        f"log={TRANSACTIONS_TOPIC}-1",
    ]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_tools_do_not_read_what_is_being_read_or_cannot_be(
    monkeypatch: pytest.MonkeyPatch, *, is_loaded: bool
) -> None:
    """All other clients would wait for as long as that takes."""
    read: list[str] = []
    catch_up = KnownPositions.catch_up

    def noted(known: KnownPositions, log: Log, through: Through = iter) -> None:
        read.append(log.directory.rpartition("-")[2])
        catch_up(known, log, through)

    async def test(home: BrokerHome) -> None:
        if not is_loaded:
            await home.broker.close()
            home.broker = Broker(home.logs.manager, home.config, home.clock.scheduler())
        monkeypatch.setattr(KnownPositions, "catch_up", noted)
        described = await home.ask("DescribeGroups", 5, groups=[AT_0, AT_1])
        deleted = await home.ask("DeleteGroups", 2, groupsNames=[AT_1, AT_0])
        home.clock.advance(home.config.offsets_retention_check_interval_ms)
        codes = [code(one) for one in (*described["groups"], *deleted["results"])]
        loading, lost = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
        assert codes == ([0, lost, lost, 0] if is_loaded else [loading] * 4)
        assert set(read) == ({"0"} if is_loaded else set())

    with_stored(test, damage_second)


@pytest.mark.parametrize("fail", [fail_second, damage_second])
def test_it_is_not_known_which_transactions_are_to_be_ended(
    fail: Callable[[BrokerHome], None],
) -> None:
    """A marker from outside would abort what a client commits once its partition is well."""

    async def test(home: BrokerHome) -> None:
        coordinated, key = home.logs.manager.coordinated, TopicPartition("t", 0)
        assert coordinated is not None
        known, _ = await begun(home, AT_0)
        assert coordinated(known, key) is None
        with pytest.raises(KafkaStorageError, match=r"__transaction_state-1 cannot be read"):
            coordinated(known + 5_000, key)

    with_stored(test, fail)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("fail", [fail_second, damage_second])
def test_nobody_is_named_as_its_coordinator(fail: Callable[[BrokerHome], None], kind: int) -> None:
    """With the code that lets clients ask again."""

    async def test(home: BrokerHome) -> None:
        assert await coordinators(home, kind) == [0, ErrorCode.COORDINATOR_NOT_AVAILABLE]

    with_stored(test, fail)


@pytest.mark.parametrize("kind", [0, 1])
def test_each_key_is_answered_where_the_topic_cannot_be_created(kind: int) -> None:
    """A client takes an answer without its keys as malformed, and gives up."""

    async def scenario() -> None:
        async with BrokerHome() as home:
            home.files.fail("make_directory", "-0", OSError(errno.ENOSPC, "full"), count=2)
            assert await coordinators(home, kind) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
            assert await coordinators(home, kind) == [0, 0]
            assert await coordinators(home, 7) == [ErrorCode.INVALID_REQUEST] * 2

    run(scenario())


def test_a_coordinator_is_named_once_it_is_known_whether_it_can_be_used() -> None:
    """A client that was sent to one that cannot may not ask again."""

    async def test(home: BrokerHome) -> None:
        await home.broker.close()
        home.broker = Broker(home.logs.manager, home.config, home.clock.scheduler())
        asked = asyncio.create_task(coordinators(home, 0))
        await asyncio.sleep(0)
        await home.broker.start()
        assert await asked == [0, ErrorCode.COORDINATOR_NOT_AVAILABLE]

    with_stored(test, damage_second)


def test_a_partition_that_is_well_again_is_taken_up() -> None:
    """Without a restart; what it holds is as it was."""

    async def test(home: BrokerHome) -> None:
        damage_second(home)
        for _ in range(1000):
            home.clock.advance(1000)
            await asyncio.sleep(0.001)
            if [*await coordinators(home, 0), *await coordinators(home, 1)] == [0] * 4:
                break
        assert await positions(home, AT_0, AT_1) == [5, 5]
        assert await begun(home, AT_1) == (1, 1)

    with_stored(test, damage_second)


def test_a_directory_that_fails_later_does_the_same() -> None:
    """Groups that were read from it are not served any more."""

    async def test(home: BrokerHome) -> None:
        assert await positions(home, AT_0, AT_1) == [5, 5]
        fail_second(home)
        assert await positions(home, AT_0, AT_1) == [5, ErrorCode.NOT_COORDINATOR]
        assert await coordinators(home, 1) == [0, ErrorCode.COORDINATOR_NOT_AVAILABLE]

    with_stored(test, lambda _: None)


def test_what_may_pass_leaves_the_coordinator_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients ask again there. librdkafka's ``committed`` raises what sends it elsewhere."""

    async def test(home: BrokerHome) -> None:
        manager = home.logs.manager
        plain = manager.partition

        def partition(topic: str, number: int) -> Partition:
            if number:
                cause = OSError(errno.EMFILE, "too many open files")
                raise KafkaStorageError("it cannot be opened again") from cause
            return plain(topic, number)

        with monkeypatch.context() as patched:
            patched.setattr(manager, "partition", partition)
            waits = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert await positions(home, AT_0, AT_1) == [5, waits]
            assert await committed(home, AT_1) is waits
            assert await coordinators(home, 0) == [0, 0]
            answer = await home.ask(
                "InitProducerId", 4, transactionalId=AT_1, transactionTimeoutMs=60_000
            )
            assert code(answer) is waits
        assert await positions(home, AT_0, AT_1) == [5, 5]

    with_stored(test, lambda _: None)


@pytest.mark.parametrize("skipped", range(3))
@pytest.mark.parametrize("is_first", [True, False], ids=["at the start", "later"])
def test_a_disk_that_cannot_be_read_keeps_its_own_groups_out(is_first: bool, skipped: int) -> None:
    """It is offline from then on; others are served, and so is what begins later."""

    def fail(home: BrokerHome) -> None:
        log = home.logs.partition(OFFSETS_TOPIC, 1).log
        home.files.fail("pread", f"{log.directory}/{0:020}.log", OFFLINE, skipped=skipped)
        home.is_left = True

    async def test(home: BrokerHome) -> None:
        if not is_first:
            assert await positions(home, AT_1) == [5]
            # Something to be read: what clients commit here is known.
            home.logs.manager.partition(OFFSETS_TOPIC, 1).append_records([group_removal("x", 1)])
            fail(home)
        home.clock.advance(0)
        found = await positions(home, AT_0, AT_1)
        assert found == [5, ErrorCode.NOT_COORDINATOR]
        assert await begun(home, AT_0) == (0, 1)

    with_stored(test, fail if is_first else lambda _: None)


def test_while_a_partition_is_read_again_its_clients_ask_again() -> None:
    """As at a broker of Kafka's that loads it; nobody hears that the coordinator is elsewhere."""

    async def test(home: BrokerHome) -> None:
        shards = home.broker._coordinator.shards
        begun, goes_on = asyncio.Event(), asyncio.Event()
        plain = shards._take_up

        async def take_up(number: int) -> None:
            begun.set()
            await goes_on.wait()
            await plain(number)

        shards._take_up = take_up
        assert await positions(home, AT_1) == [ErrorCode.NOT_COORDINATOR]
        home.clock.advance(1000)
        await begun.wait()
        assert await positions(home, AT_1) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        assert await coordinators(home, 0) == [0, ErrorCode.COORDINATOR_NOT_AVAILABLE]
        goes_on.set()
        assert shards._task is not None
        await shards._task
        assert await positions(home, AT_1) == [ErrorCode.NOT_COORDINATOR]

    with_stored(test, damage_second)


def test_a_full_disk_leaves_no_group_to_clients_that_have_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Readers of this program may have it, though nobody could write down that it is empty."""

    async def test(home: BrokerHome) -> None:
        member = await joined(home)
        assert set(home.logs.groups._of_clients) == {"g"}
        log = home.logs.partition(OFFSETS_TOPIC, 0).log

        def full(*_: object, **__: object) -> None:
            raise DirectoryFull("/data")

        with monkeypatch.context() as patched:
            patched.setattr(log, "append_as_leader", full)
            await home.ask("LeaveGroup", 2, groupId="g", memberId=member)
        home.logs.reader("t", group="g").close()

    async def scenario() -> None:
        async with BrokerHome() as home:
            home.logs.create_topic("t")
            await test(home)

    run(scenario())


async def joined(home: BrokerHome) -> str:
    """Join the group as its only member, and take the assignment; return the member's id."""
    how: dict[str, Any] = {
        "sessionTimeoutMs": 10_000,
        "rebalanceTimeoutMs": 10_000,
        "protocolType": "consumer",
    }
    protocols = [{"name": "range", "metadata": b""}]
    found = await home.ask("JoinGroup", 3, groupId="g", memberId="", protocols=protocols, **how)
    member: str = found["memberId"]
    mine = [{"memberId": member, "assignment": b"all"}]
    synced = await home.ask(
        "SyncGroup", 2, groupId="g", generationId=1, memberId=member, assignments=mine
    )
    assert code(synced) is ErrorCode.NONE
    return member
