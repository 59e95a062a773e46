"""Groups and positions, at a broker without sockets."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.broker_home import (
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

from tidelog.broker.groups import committed_offsets, group_coordinator
from tidelog.broker.groups.joined_readers import enter_reader, write_metadata
from tidelog.codec.messages.message_table import messages_of
from tidelog.codec.messages.message_writer import with_version, write_message
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaStorageError, NonEmptyGroup
from tidelog.mailbox.answer import Answer
from tidelog.manager.consumer_groups import Groups
from tidelog.readonly.group_positions import OFFSETS_TOPIC, removal_records
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.group_step import steps_of
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.known_positions import Through

KEPT_MS = 5 * 60_000


async def joined(
    home: BrokerHome,
    member_id: str = "",
    group: str = "g",
    instance: str | None = None,
    metadata: bytes = b"m",
) -> Any:
    """Let a member join."""
    return await home.ask(
        "JoinGroup",
        5,
        groupId=group,
        sessionTimeoutMs=10_000,
        rebalanceTimeoutMs=10_000,
        memberId=member_id,
        groupInstanceId=instance,
        protocolType="consumer",
        protocols=[{"name": "range", "metadata": metadata}],
    )


async def member_of(home: BrokerHome, instance: str | None = None) -> tuple[str, int]:
    """Return the only member of a stable group."""
    second = await joined(home, instance=instance)
    if instance is None:
        assert code(second) is ErrorCode.MEMBER_ID_REQUIRED
        second = await joined(home, second["memberId"])
    synced = await home.ask(
        "SyncGroup",
        3,
        groupId="g",
        generationId=second["generationId"],
        memberId=second["memberId"],
        assignments=[{"memberId": second["memberId"], "assignment": b"all"}],
    )
    assert synced["assignment"] == b"all"
    return second["memberId"], second["generationId"]


def test_a_group_that_nobody_is_a_member_of_takes_positions() -> None:
    """Of consumers that choose their partitions themselves, and of tools."""

    async def test(home: BrokerHome) -> None:
        assert await position(home) == -1
        assert await commit(home, 5) is ErrorCode.NONE
        assert await position(home) == 5
        assert home.logs.groups.committed("g")[TopicPartition("t", 0)].position.metadata == "here"

    with_broker(test)


def test_a_member_commits_and_a_stranger_does_not() -> None:
    """Nor one of a generation that is over."""

    async def test(home: BrokerHome) -> None:
        member_id, generation = await member_of(home)
        assert await commit(home, 1, member_id, generation) is ErrorCode.NONE
        assert await commit(home, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(home, 2, "x", generation) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(home, 2, member_id, generation - 1) is ErrorCode.ILLEGAL_GENERATION
        assert await position(home) == 1

    with_broker(test)


def test_a_reader_of_the_program_and_clients_exclude_each_other() -> None:
    """Clients wait until the reader has left; a reader is refused while there are clients."""

    async def test(home: BrokerHome) -> None:
        reader = home.logs.reader("t", group="g")
        assert code(await joined(home)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await commit(home, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        reader.close()
        await member_of(home)
        with pytest.raises(tidelog_error(), match="clients of this broker"):
            home.logs.reader("t", group="g")

    with_broker(test)


def test_members_that_leave_while_the_partition_is_offline_leave_the_group_to_readers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody else would, once the partition is back."""

    async def test(home: BrokerHome) -> None:
        member_id, _ = await member_of(home)

        def fail(*_: object) -> None:
            raise KafkaStorageError("the directory is offline")

        with monkeypatch.context() as patch:
            patch.setattr(group_coordinator, "home_of_group", fail)
            await home.ask("LeaveGroup", 3, groupId="g", members=[{"memberId": member_id}])
        with home.logs.reader("t", group="g"):
            assert home.broker.sizes()["NumGroups"] == 1

    with_broker(test)


def test_clients_that_wait_for_a_reader_are_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They ask again all the time; the line says what they wait for."""
    caplog.set_level("INFO", "tidelog.broker.groups")

    async def test(home: BrokerHome) -> None:
        with home.logs.reader("t", group="g"):
            for _ in range(3):
                assert code(await joined(home)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            home.clock.advance(61_000)
            await joined(home)

    with_broker(test)
    text = "clients wait until it is closed: a reader in the process that holds the directory"
    lines = [one.getMessage() for one in caplog.records if "join-put-off" in one.getMessage()]
    assert lines == [f"join-put-off group=g reason={text}"] * 2


@pytest.mark.parametrize(
    ("metadata", "process"),
    [
        (write_metadata(("t",), None, 4711), "process 4711"),
        (b'{"topics": ["t"], "partitions": null}', "a process"),
    ],
    ids=["named", "earlier"],
)
def test_the_process_of_a_reader_that_keeps_positions_from_being_set_is_named(
    metadata: bytes, process: str
) -> None:
    """It has joined the one that holds the directory; one of earlier releases has no number."""

    async def test(home: BrokerHome) -> None:
        groups = home.logs.manager.staged_commits.groups
        held: dict[str, Callable[[], None]] = {}
        enter_reader(groups, "g", metadata, held)
        named = f"a reader in {process} that has joined the one that holds the directory: nothing"
        with pytest.raises(NonEmptyGroup, match=named):
            groups.check(steps_of("g", [TopicPartition("t", 0)], None))
        held["g"]()
        groups.check(steps_of("g", [TopicPartition("t", 0)], None))

    with_broker(test)


def test_a_transaction_of_a_client_does_not_move_a_group_under_its_reader() -> None:
    """Nor does one that does not say which member it is for, as for a plain commit."""

    async def test(home: BrokerHome) -> None:
        producer_id, epoch = await begun(home)
        ids: dict[str, Any] = {"producerId": producer_id, "producerEpoch": epoch}
        ids["transactionalId"] = "x"
        await home.ask("AddOffsetsToTxn", 3, groupId="g", **ids)
        with home.logs.reader("t", group="g"):
            place = {"partitionIndex": 0, "committedOffset": 9, "committedMetadata": None}
            topics = [{"name": "t", "partitions": [place]}]
            answer = await home.ask("TxnOffsetCommit", 3, groupId="g", topics=topics, **ids)
            assert code(answer["topics"][0]["partitions"][0]) is ErrorCode.UNKNOWN_MEMBER_ID

    with_broker(test)


def test_a_position_that_names_an_instance_only_is_checked_against_its_member() -> None:
    """The instance is another member's, which its id shows, or nobody's; as in Kafka."""

    async def test(home: BrokerHome) -> None:
        producer_id, epoch = await begun(home)
        ids: dict[str, Any] = {"producerId": producer_id, "producerEpoch": epoch}
        ids["transactionalId"] = "x"
        await home.ask("AddOffsetsToTxn", 3, groupId="g", **ids)
        await joined(home, instance="one")
        place = {"partitionIndex": 0, "committedOffset": 9, "committedMetadata": None}
        given: dict[str, Any] = {"groupId": "g"}
        given["topics"] = [{"name": "t", "partitions": [place]}]
        for instance, expected in (
            ("one", ErrorCode.FENCED_INSTANCE_ID),
            ("two", ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            member = {"groupInstanceId": instance}
            for name, version, more in (("TxnOffsetCommit", 3, ids), ("OffsetCommit", 8, {})):
                answer = await home.ask(name, version, **given, **member, **more)
                assert code(answer["topics"][0]["partitions"][0]) is expected

    with_broker(test)


def test_members_that_keep_positions_from_being_set_are_named() -> None:
    """Also to another program, which gets the error by a file; gone with them it is taken."""

    async def test(home: BrokerHome) -> None:
        member, _ = await member_of(home)
        groups = home.logs.manager.staged_commits.groups
        steps = steps_of("g", [TopicPartition("t", 0)], None)
        named = r"has members, client.id 'test' at .*: nothing was set"
        with pytest.raises(NonEmptyGroup, match=named) as caught:
            groups.check(steps)
        error = caught.value
        sent = Answer.of_error(error)._replace(args=error.args).encoded()
        with pytest.raises(NonEmptyGroup, match=named):
            raise Answer.parsed(json.loads(sent)).typed_error()
        await home.ask("LeaveGroup", 1, groupId="g", memberId=member)
        groups.check(steps)

    with_broker(test)


@pytest.mark.parametrize("protocols", [[], [{"name": "range", "metadata": b"m"}]])
def test_who_asked_to_join_and_did_not_leaves_the_group_to_readers(
    protocols: list[dict[str, Any]],
) -> None:
    """It was refused, or has not used the id that it got in time."""

    async def test(home: BrokerHome) -> None:
        answer = await home.ask(
            "JoinGroup",
            5,
            groupId="g",
            sessionTimeoutMs=10,
            rebalanceTimeoutMs=10,
            memberId="",
            protocolType="consumer",
            protocols=protocols,
        )
        assert code(answer) in {
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        }
        await asyncio.sleep(0.02)
        with home.logs.reader("t", group="g"):
            assert not home.broker.sizes()["NumGroups"]

    with_broker(test, group_min_session_timeout_ms=1)


def test_positions_are_looked_up_once_for_all_groups_of_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tools ask for a thousand groups, each of which would take as long as all of them."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        looks: list[None] = []
        plain = home.logs.groups.positions

        def positions(**how: Any) -> Any:
            looks.append(None)
            return plain(**how)

        monkeypatch.setattr(home.logs.groups, "positions", positions)
        found = await home.ask("DescribeGroups", 5, groups=["g", "h", "i"])
        assert [one["groupState"] for one in found["groups"]] == ["Empty", "Dead", "Dead"]
        await home.ask("DeleteGroups", 2, groupsNames=["g", "h", "i"])
        assert len(looks) == 2

    with_broker(test)


def tidelog_error() -> type[Exception]:
    """Return the error of a wrong use."""
    from tidelog.errors import InvalidArgument

    return InvalidArgument


def test_members_continue_after_a_restart() -> None:
    """The group was written down: no rebalance, the same generation."""
    files = CrashFileSystem()
    found: list[tuple[str, int]] = []

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            found.append(await member_of(home))

    async def after() -> None:
        member_id, generation = found[0]
        async with BrokerHome(files) as home:
            answer = await home.ask(
                "Heartbeat", 3, groupId="g", generationId=generation, memberId=member_id
            )
            assert code(answer) is ErrorCode.NONE
            assert await commit(home, 3, member_id, generation) is ErrorCode.NONE

    run(before())
    run(after())


async def leave(home: BrokerHome, member_id: str) -> None:
    """Let a member leave."""
    one = {"memberId": member_id, "groupInstanceId": None}
    answer = await home.ask("LeaveGroup", 3, groupId="g", members=[one])
    assert code(answer["members"][0]) is ErrorCode.NONE


def test_sessions_begin_once_heartbeats_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """While other partitions are read, members cannot say that they are alive."""
    files, clock = CrashFileSystem(), ManualClock()
    found: list[tuple[str, int]] = []

    async def before() -> None:
        async with BrokerHome(files, clock) as home:
            home.logs.create_topic("t")
            home.logs.create_topic(OFFSETS_TOPIC, 3)  # the group is in the second
            found.append(await member_of(home))

    def read(self: Groups, number: int, through: Through) -> None:
        plain(self, number, through)
        clock.advance(20_000)

    async def after() -> None:
        monkeypatch.setattr(Groups, "read", read)
        member_id, generation = found[0]
        async with BrokerHome(files, clock, timers=clock.scheduler()) as home:
            assert await commit(home, 3, member_id, generation) is ErrorCode.NONE
            clock.advance(20_000)
            late = await commit(home, 4, member_id, generation)
            assert late is not ErrorCode.NONE

    plain = Groups.read
    run(before())
    run(after())


def test_an_empty_group_is_known_after_a_restart() -> None:
    """Its generations continue, and it can be listed and deleted. Source: Kafka, as it loads."""
    files = CrashFileSystem()
    found: list[Any] = []

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            await leave(home, (await member_of(home))[0])
            found.append(await home.ask("ListGroups", 5))

    async def after() -> None:
        async with BrokerHome(files) as home:
            found.append(await home.ask("ListGroups", 5))
            assert (await joined(home, group="h"))["generationId"] == -1
            member_id, generation = await member_of(home)
            assert generation == 3
            await leave(home, member_id)

    async def delete() -> None:
        async with BrokerHome(files) as home:
            answer = await home.ask("DeleteGroups", 2, groupsNames=["g"])
            assert code(answer["results"][0]) is ErrorCode.NONE

    run(before())
    run(after())
    run(delete())
    group = {"groupId": "g", "protocolType": "consumer", "groupState": "Empty"}
    assert [one["groups"] for one in found] == [[group | {"groupType": "classic"}]] * 2


def test_an_empty_group_that_another_process_deletes_is_gone() -> None:
    """As by ``tidelog groups delete`` before the process listened."""

    async def test(home: BrokerHome) -> None:
        await leave(home, (await member_of(home))[0])
        partition = home.logs.manager.partition(OFFSETS_TOPIC, 0)
        partition.append_records(removal_records("g", [], 1000, is_whole=True))
        assert (await home.ask("ListGroups", 5))["groups"] == []
        (shown,) = (await home.ask("DescribeGroups", 5, groups=["g"]))["groups"]
        assert shown["groupState"] == "Dead"

    with_broker(test)


def test_a_reader_is_shown_that_has_a_group_after_clients() -> None:
    """Tools see who has the partitions, also if clients had the group before."""

    async def test(home: BrokerHome) -> None:
        await leave(home, (await member_of(home))[0])
        with home.logs.reader("t", group="g"):
            (listed,) = (await home.ask("ListGroups", 5))["groups"]
            (shown,) = (await home.ask("DescribeGroups", 5, groups=["g"]))["groups"]
        assert (listed["groupState"], shown["groupState"]) == ("Stable", "Stable")
        assert [one["clientId"] for one in shown["members"]] == ["tidelog"]

    with_broker(test)


def test_a_restarted_instance_takes_its_place_in_a_full_group() -> None:
    """It is not one more member. Other instances are refused."""

    async def test(home: BrokerHome) -> None:
        codes = []
        for instance in ("one", "one", "two"):
            answer = await joined(home, instance=instance)
            codes.append(code(answer))
        assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]

    with_broker(test, group_max_size=1)


def test_positions_of_a_transaction_count_when_it_is_committed() -> None:
    """Until then who wants stable ones waits. Source: KIP-447."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        producer = await begun(home)
        for is_commit, wanted in ((False, 1), (True, 9)):
            await commit_within(home, producer, 9)
            assert await position(home) is ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert await end(home, producer, commit=is_commit) is ErrorCode.NONE
            assert await position(home) == wanted

    with_broker(test)


def test_positions_of_a_transaction_are_taken_while_the_leader_assigns() -> None:
    """A plain commit is repeated after the rebalance; a producer would give its work up.

    Source: Kafka ClassicGroup.validateOffsetCommit.
    """

    async def test(home: BrokerHome) -> None:
        member_id = (await joined(home))["memberId"]
        generation = (await joined(home, member_id))["generationId"]
        plain = await commit(home, 1, member_id, generation)
        assert plain is ErrorCode.REBALANCE_IN_PROGRESS
        producer = await begun(home)
        member = {"memberId": member_id, "generationId": generation}
        await commit_within(home, producer, 9, **member)
        assert await end(home, producer) is ErrorCode.NONE
        assert await position(home) == 9

    with_broker(test)


def test_a_transaction_that_ends_between_two_looks_does_not_show_the_position_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its marker may come from another thread at any moment; a reader would read twice."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        producer_id, epoch = producer = await begun(home)
        await commit_within(home, producer, 9)
        marker = build_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=0,
            is_commit=True,
            timestamp=home.clock.now_ms(),
        )
        groups = home.logs.groups
        looks = {name: getattr(groups, name) for name in ("committed", "undecided")}

        def ended_after(name: str, group: str) -> Any:
            found = looks[name](group)
            if not ended:
                ended.append(name)
                offsets = home.logs.partition("__consumer_offsets", 0)
                offsets.append(marker, AppendOrigin.COORDINATOR, transaction_version=0)
            return found

        ended: list[str] = []
        for name in looks:
            monkeypatch.setattr(groups, name, partial(ended_after, name))
        assert await position(home) in {ErrorCode.UNSTABLE_OFFSET_COMMIT, 9}
        assert await position(home) == 9

    with_broker(test)


def test_positions_are_read_before_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first who asks after a day would keep all clients waiting, while they are read."""
    monkeypatch.setattr(committed_offsets, "_MANY_UNREAD", 10)

    async def test(home: BrokerHome) -> None:
        for offset in range(30):
            await commit(home, offset)
        partition = home.logs.manager.partition(OFFSETS_TOPIC, 0)
        groups, reading = home.logs.groups, home.broker._offsets._reading
        await asyncio.gather(*reading.values())
        await commit(home, 30)
        assert groups.unread(partition) == 0
        producer = await begun(home)
        for offset in range(30):
            await commit_within(home, producer, offset)
        await asyncio.gather(*reading.values())
        assert groups.unread(partition) < 20
        assert await end(home, producer) is ErrorCode.NONE
        assert await position(home) == 29

    with_broker(test)


def test_a_group_is_deleted_only_when_it_is_empty() -> None:
    """With its positions; tools no longer see it then."""

    async def test(home: BrokerHome) -> None:
        member_id, generation = await member_of(home)
        await commit(home, 1, member_id, generation)
        found = await home.ask("DeleteGroups", 2, groupsNames=["g", "none"])
        assert [code(one) for one in found["results"]] == [
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
        await home.ask("LeaveGroup", 3, groupId="g", members=[{"memberId": member_id}])
        found = await home.ask("DeleteGroups", 2, groupsNames=["g"])
        assert code(found["results"][0]) is ErrorCode.NONE
        assert await position(home) == -1
        assert (await home.ask("ListGroups", 4))["groups"] == []
        described = await home.ask("DescribeGroups", 5, groups=["g"])
        assert described["groups"][0]["groupState"] == "Dead"
        again = await home.ask("DeleteGroups", 2, groupsNames=["g"])
        assert code(again["results"][0]) is ErrorCode.GROUP_ID_NOT_FOUND

    with_broker(test)


@pytest.mark.parametrize("has_position", [True, False])
def test_a_deleted_group_gets_nothing_back_from_a_transaction(has_position: bool) -> None:
    """Neither the positions that it had nor those that the transaction has set."""

    async def test(home: BrokerHome) -> None:
        if has_position:
            await commit(home, 1)
        producer = await begun(home)
        await commit_within(home, producer, 9)
        deleted = await home.ask("DeleteGroups", 2, groupsNames=["g"])
        assert code(deleted["results"][0]) is ErrorCode.NONE
        assert await end(home, producer) is ErrorCode.NONE
        assert await position(home) == -1
        again = await home.ask("DeleteGroups", 2, groupsNames=["g"])
        assert code(again["results"][0]) is ErrorCode.GROUP_ID_NOT_FOUND

    with_broker(test)


@pytest.mark.parametrize(("sent", "is_kept"), [(("t",), True), (("other",), False), (None, True)])
def test_positions_of_topics_that_no_member_reads_can_be_deleted(
    sent: tuple[str, ...] | None, is_kept: bool
) -> None:
    """As far as the members say which they read."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        subscription = messages_of("consumer")[0, 0]
        fields = {"topics": list(sent or ()), "userData": None}
        said = b"?" if sent is None else write_message(subscription, fields)
        member_id = (await joined(home))["memberId"]
        joining = await joined(home, member_id, metadata=with_version(0, said))
        assert code(joining) is ErrorCode.NONE
        topics = [{"name": "t", "partitions": [{"partitionIndex": 0}]}]
        answer = await home.ask("OffsetDelete", 0, groupId="g", topics=topics)
        refusal = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_kept else ErrorCode.NONE
        assert code(answer["topics"][0]["partitions"][0]) is refusal
        assert await position(home) == (5 if is_kept else -1)

    with_broker(test)


@pytest.mark.parametrize(("policy", "is_kept"), [("group", True), ("each", True), ("none", False)])
@pytest.mark.parametrize("name", ["DeleteGroups", "OffsetDelete"])
def test_a_deletion_that_is_answered_outlives_a_power_cut(
    name: str, policy: str, is_kept: bool
) -> None:
    """As what was committed does, by the same policy."""
    files = CrashFileSystem()

    async def delete() -> None:
        async with BrokerHome(files, tidelog_flush_policy=policy) as home:
            home.logs.create_topic("t")
            await commit(home, 5)
            home.logs.flush()
            if name == "DeleteGroups":
                answer = await home.ask(name, 2, groupsNames=["g"])
                assert code(answer["results"][0]) is ErrorCode.NONE
            else:
                topics = [{"name": "t", "partitions": [{"partitionIndex": 0}]}]
                answer = await home.ask(name, 0, groupId="g", topics=topics)
                assert code(answer) is ErrorCode.NONE
            home.cut_power()

    async def look() -> None:
        async with BrokerHome(files) as home:
            assert await position(home) == (-1 if is_kept else 5)

    run(delete())
    run(look())


def test_positions_are_kept_for_ever_by_default() -> None:
    """Whatever the time is."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        home.clock.advance(10 * KEPT_MS)
        home.broker._expire()
        assert await position(home) == 1

    with_broker(test)


@pytest.mark.parametrize("minutes", [-1, 5])
def test_a_group_that_has_nothing_left_is_forgotten(minutes: int) -> None:
    """Each console consumer has a group of its own; one that may get positions yet stays."""

    async def test(home: BrokerHome) -> None:
        member_id, _ = await member_of(home)
        home.broker._expire()
        assert len((await home.ask("ListGroups", 4))["groups"]) == 1
        await leave(home, member_id)
        producer = await begun(home)
        await commit_within(home, producer, 3)
        home.broker._expire()
        assert len((await home.ask("ListGroups", 4))["groups"]) == 1
        await end(home, producer, commit=False)
        home.broker._expire()
        assert (await home.ask("ListGroups", 4))["groups"] == []

    with_broker(test, offsets_retention_minutes=minutes)


def test_positions_expire_once_nobody_reads_for_the_group() -> None:
    """As old as the commit, and as the time since the last member has left."""

    async def test(home: BrokerHome) -> None:
        member_id, generation = await member_of(home)
        await commit(home, 1, member_id, generation)
        home.clock.advance(2 * KEPT_MS)
        home.broker._expire()
        assert await position(home) == 1  # it has a member

        await home.ask("LeaveGroup", 3, groupId="g", members=[{"memberId": member_id}])
        home.clock.advance(KEPT_MS - 1)
        home.broker._expire()
        assert await position(home) == 1

        with home.logs.reader("t", group="g"):
            home.clock.advance(1)
            home.broker._expire()
            assert await position(home) == 1

        home.broker._expire()
        assert await position(home) == -1
        assert (await home.ask("ListGroups", 4))["groups"] == []

    with_broker(test, offsets_retention_minutes=5)


def test_many_groups_expire_in_turns() -> None:
    """Between fifties of them the event loop does what others wait for; none is left out."""

    async def test(home: BrokerHome) -> None:
        for number in range(120):
            await commit(home, 1, group=f"g{number:03}")
        home.clock.advance(2 * KEPT_MS)

        left = []
        for _ in range(3):
            home.broker._expire()
            left.append(len((await home.ask("ListGroups", 4))["groups"]))

        assert left == [70, 20, 0]

    with_broker(test, offsets_retention_minutes=5)


def test_the_age_of_positions_outlives_a_restart() -> None:
    """Of a group that clients left, and of one that never had a member."""
    files, clock = CrashFileSystem(), ManualClock()

    async def before() -> None:
        async with BrokerHome(files, clock) as home:
            home.logs.create_topic("t")
            member_id, generation = await member_of(home)
            await commit(home, 1, member_id, generation)
            clock.advance(2 * KEPT_MS)
            await home.ask("LeaveGroup", 3, groupId="g", members=[{"memberId": member_id}])

    async def after() -> None:
        async with BrokerHome(files, clock, offsets_retention_minutes=5) as home:
            home.broker._expire()
            assert await position(home) == 1
            clock.advance(KEPT_MS)
            home.broker._expire()
            assert await position(home) == -1

    run(before())
    run(after())


def test_a_position_of_a_transaction_that_ends_meanwhile_does_not_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread may end it at any moment: its position is as old as its commit."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        home.clock.advance(2 * KEPT_MS)
        producer = await begun(home)
        await commit_within(home, producer, 9)
        marker = build_marker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            coordinator_epoch=0,
            is_commit=True,
            timestamp=home.clock.now_ms(),
        )
        plain = home.broker._coordinator.positions

        def then_end() -> Any:
            found = plain()
            monkeypatch.undo()
            offsets = home.logs.partition("__consumer_offsets", 0)
            offsets.append(marker, AppendOrigin.COORDINATOR, transaction_version=0)
            return found

        monkeypatch.setattr(home.broker._coordinator, "positions", then_end)
        home.broker._expire()
        assert await position(home) == 9

    with_broker(test, offsets_retention_minutes=5)
