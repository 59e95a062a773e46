"""Transactions of clients, at a broker without sockets."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.broker_home import (
    DATA,
    BrokerHome,
    add,
    begun,
    code,
    described,
    end,
    ended,
    run,
    with_broker,
    with_clock,
    write,
)

import tidelog
from tidelog.broker.broker import Broker
from tidelog.codec.messages.keyed_message import write_value
from tidelog.error_codes import ErrorCode
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.log.reading.offset_lookup import OffsetTarget
from tidelog.manager.producer_ids import BLOCK, ProducerIds
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC, State, transaction_key
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import TopicPartition
from tidelog.service.requests.home import Home
from tidelog.service.requests.transaction_abort import abort_transaction
from tidelog.testing import CrashFileSystem, ManualClock, damage_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.conftest import Enumerated

    from tidelog.embedded.logs import Logs
    from tidelog.env.scheduler import Handle


def test_a_transaction_is_seen_when_it_is_committed() -> None:
    """Until then a reader of committed records stops before it."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        assert await add(home, producer) is ErrorCode.NONE
        assert await write(home, producer, b"a", 0) is ErrorCode.NONE
        assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 0
        assert await end(home, producer) is ErrorCode.NONE
        found = await home.fetch("t", isolation=1)
        assert (found["lastStableOffset"], found["abortedTransactions"]) == (2, [])

    with_broker(test)


def test_the_latest_time_of_committed_records_is_not_that_of_an_open_transaction() -> None:
    """A reader of committed records does not see it yet. Source: Kafka Partition.fetchOffset."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        place = {"partitionIndex": 0, "timestamp": OffsetTarget.MAX_TIMESTAMP}
        topics = [{"name": "t", "partitions": [place]}]
        found = []
        for level in (1, 0):
            answer = await home.ask(
                "ListOffsets", 7, replicaId=-1, isolationLevel=level, topics=topics
            )
            found.append(answer["topics"][0]["partitions"][0]["offset"])
        assert found == [-1, 0]

    with_broker(test)


def test_a_marker_from_outside_does_not_abort_what_its_client_commits() -> None:
    """``tidelog txns abort`` is refused, and says whose the transaction is and when it ends.

    Also without a broker: the next one would answer the client's commit with success.
    """
    files, clock = CrashFileSystem(), ManualClock(1_700_000_000_000)
    producer = (0, 0)

    def abort(logs: Logs, text: str) -> None:
        asked = {"partitions": {"t": [0]}, "producer_id": producer[0], "first_offset": 0}
        text = rf"transactional id 'x'; nothing was written\. {text}"
        with pytest.raises(InvalidArgument, match=text):
            abort_transaction(Home(logs.manager, logs.manager.machine, DATA), asked)

    async def begin() -> None:
        nonlocal producer
        async with BrokerHome(files, clock) as home:
            home.logs.create_topic("t")
            producer = await begun(home)
            await add(home, producer)
            await write(home, producer, b"a", 0)
            abort(home.logs, r"Its coordinator.*time is over \(2023-11-14 22:14:20 UTC\)")

    async def commit() -> None:
        async with BrokerHome(files, clock) as home:
            assert await end(home, producer) is ErrorCode.NONE
            seen = home.logs.read("t", isolation="read_committed")
            assert [record.value for record in seen] == [b"a"]

    run(begin())
    with tidelog.open(DATA, files=files, clock=clock) as logs:
        abort(logs, "No broker.*start tidelog serve: it aborts it at 2023-11-14 22:14:20 UTC")
    run(commit())


def test_a_marker_from_outside_does_not_go_before_those_of_a_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next start writes them."""
    files, clock = CrashFileSystem(), ManualClock()
    asked = {"partitions": {"t": [0]}, "producer_id": 0, "first_offset": 0}

    async def decide() -> None:
        async with BrokerHome(files, clock) as home:
            home.logs.create_topic("t")
            producer = await begun(home)
            await add(home, producer)
            await write(home, producer, b"a", 0)
            monkeypatch.setattr(home.broker._transactions, "_write_markers", _nothing)
            assert await end(home, producer) is ErrorCode.NONE

    run(decide())
    with tidelog.open(DATA, files=files, clock=clock) as logs:
        home = Home(logs.manager, logs.manager.machine, DATA)
        text = r"No broker.* writes the marker of what was decided \(PrepareCommit\)"
        with pytest.raises(InvalidArgument, match=text):
            abort_transaction(home, asked)


def test_records_of_no_open_transaction_are_refused() -> None:
    """A batch that comes late would begin one that nobody ends. Source: KIP-890."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        assert await write(home, producer, b"a", 0) is ErrorCode.INVALID_TXN_STATE
        await add(home, producer)
        assert await write(home, producer, b"a", 0) is ErrorCode.NONE
        await end(home, producer)
        assert await write(home, producer, b"late", 1) is ErrorCode.INVALID_TXN_STATE

    with_broker(test)


def test_a_producer_waits_until_its_transaction_is_known_again() -> None:
    """After a restart, before all transactions were read: the client takes a refusal for final."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        assert await add(home, producer) is ErrorCode.NONE
        coordinator = home.broker._transactions
        known = dict(coordinator._by_producer)
        coordinator._by_producer.clear()
        coordinator.shards.loaded.clear()
        assert await write(home, producer, b"a", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        coordinator._by_producer.update(known)
        coordinator.shards.loaded.set()
        assert await write(home, producer, b"a", 0) is ErrorCode.NONE

    with_broker(test)


def test_the_producer_before_is_fenced() -> None:
    """Its open transaction is aborted, and whatever it asks is refused."""

    async def test(home: BrokerHome) -> None:
        old = await begun(home)
        await add(home, old)
        await write(home, old, b"a", 0)
        new = await begun(home)
        assert new[0] == old[0]
        assert new[1] > old[1]
        assert await add(home, old) is ErrorCode.PRODUCER_FENCED
        assert await end(home, old) is ErrorCode.PRODUCER_FENCED
        assert await write(home, old, b"b", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        found = await home.fetch("t", isolation=1)
        assert [one["producerId"] for one in found["abortedTransactions"]] == [old[0]]
        assert found["lastStableOffset"] == found["highWatermark"]

    with_broker(test)


def test_only_the_producer_that_has_asked_gets_its_epoch_again() -> None:
    """One that another instance has fenced would write and commit in that one's transactions."""

    async def test(home: BrokerHome) -> None:
        async def again(producer: tuple[int, int]) -> Any:
            known: dict[str, Any] = {"producerId": producer[0], "producerEpoch": producer[1]}
            timeout_ms = 60_000
            return await home.ask(
                "InitProducerId", 4, transactionalId="x", transactionTimeoutMs=timeout_ms, **known
            )

        first = await begun(home)
        second = await again(first)
        assert code(second) is ErrorCode.NONE
        assert await again(first) == second  # its answer was lost
        open_one = first[0], second["producerEpoch"]
        assert await add(home, open_one) is ErrorCode.NONE
        second = await again(open_one)
        assert await again(open_one) == second
        other = await begun(home)
        for fenced in (first, (first[0], second["producerEpoch"])):
            assert code(await again(fenced)) is ErrorCode.PRODUCER_FENCED
        assert await add(home, other) is ErrorCode.NONE

    with_broker(test)


def test_a_repeated_end_succeeds_and_another_end_does_not() -> None:
    """The answer to the first may have been lost."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        assert await end(home, producer) is ErrorCode.INVALID_TXN_STATE
        await add(home, producer)
        assert await end(home, producer) is ErrorCode.NONE
        assert await end(home, producer) is ErrorCode.NONE
        assert await end(home, producer, commit=False) is ErrorCode.INVALID_TXN_STATE

    with_broker(test)


def test_a_transaction_of_another_is_refused() -> None:
    """By its id, or by a producer that is not its own."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        other = await begun(home, "y")
        assert await add(home, other) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await add(home, producer, "z") is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    with_broker(test)


def test_a_producer_whose_id_was_forgotten_gets_another_one() -> None:
    """It has written nothing for a week; its client aborts, and asks for the next epoch.

    Source: Kafka TransactionCoordinator.prepareInitProducerIdTransit.
    """

    async def test(home: BrokerHome) -> None:
        before = await begun(home)
        home.broker._transactions.transactions.clear()
        assert await add(home, before) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        answer = await home.ask(
            "InitProducerId",
            4,
            transactionalId="x",
            transactionTimeoutMs=60_000,
            producerId=before[0],
            producerEpoch=before[1],
        )
        assert (code(answer), answer["producerEpoch"]) == (ErrorCode.NONE, 0)
        assert answer["producerId"] > before[0]

    with_broker(test)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    """Above ``transaction.max.timeout.ms``, or none."""

    async def test(home: BrokerHome) -> None:
        answer = await home.ask(
            "InitProducerId", 4, transactionalId="x", transactionTimeoutMs=timeout_ms
        )
        assert code(answer) is ErrorCode.INVALID_TRANSACTION_TIMEOUT

    with_broker(test)


def test_producer_ids_are_never_given_out_twice(enumerated: Enumerated) -> None:
    """Across restarts, power cuts and blocks."""
    files, seen = CrashFileSystem(), set()

    async def ask(count: int, *, crashes: bool) -> None:
        async with BrokerHome(files) as home:
            for _ in range(count):
                answer = await home.ask("InitProducerId", 4, transactionalId=None)
                assert code(answer) is ErrorCode.NONE
                assert answer["producerId"] not in seen
                seen.add(answer["producerId"])
            if crashes:
                home.cut_power()

    for number in range(6):
        run(ask(300 * number + 1, crashes=number % 2 == 1))
    enumerated("producer ids", len(seen), at_least=4500)


def test_ids_are_new_whatever_directory_is_offline(enumerated: Enumerated) -> None:
    """Each may have been in use without the others; none knows what they have given out."""
    files, paths, seen = CrashFileSystem(), (DATA, "/second", "/third"), set()
    offline = ((), (0,), (1,), (2,), (0, 1), (1, 2), (), (0, 2), ())

    async def ask(without: tuple[int, ...]) -> None:
        home = BrokerHome(files, more=paths[1:])
        home.is_left = bool(without)
        for number in without:
            home.logs.manager.take_dir_offline(paths[number], OSError(errno.EIO, "it failed"))
        home.clock.advance(0)
        async with home:
            for _ in range(BLOCK + 1):
                answer = await home.ask("InitProducerId", 4, transactionalId=None)
                assert code(answer) is ErrorCode.NONE
                assert answer["producerId"] not in seen
                seen.add(answer["producerId"])

    for without in offline:
        run(ask(without))
    enumerated("producer ids", len(seen), at_least=9000)


def test_a_log_that_cannot_be_read_keeps_no_producer_waiting() -> None:
    """And none gets an id that is in it, of which nothing is known."""
    files = CrashFileSystem()

    async def store() -> None:
        async with BrokerHome(files) as home:
            await begun(home)

    async def ask() -> None:
        home = BrokerHome(files)
        damage_batch(DATA, TRANSACTIONS_TOPIC, 0, files=files)
        async with home:
            answer = await home.ask("InitProducerId", 4, transactionalId=None)
            assert code(answer) is ErrorCode.NONE
            assert answer["producerId"] in range(BLOCK, 1 << 40, BLOCK)

    run(store())
    run(ask())


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_is_ended_by_the_next_start(
    commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut between the decision and the markers loses neither."""
    files = CrashFileSystem()

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            producer = await begun(home)
            await add(home, producer)
            assert await write(home, producer, b"a", 0) is ErrorCode.NONE
            monkeypatch.setattr(home.broker._transactions, "_write_markers", _nothing)
            assert await end(home, producer, commit=commit) is ErrorCode.NONE
            home.cut_power()

    async def after() -> None:
        async with BrokerHome(files) as home:
            found = await home.fetch("t", isolation=1)
            assert found["lastStableOffset"] == found["highWatermark"] == 2
            assert len(found["abortedTransactions"]) == int(not commit)
            assert home.broker._transactions.transactions["x"].state.shown == (
                "CompleteCommit" if commit else "CompleteAbort"
            )

    run(before())
    run(after())


def test_an_open_transaction_survives_a_restart() -> None:
    """Its producer continues it."""
    files = CrashFileSystem()
    found: list[tuple[int, int]] = []

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            found.append(await begun(home))
            await add(home, found[0])
            await write(home, found[0], b"a", 0)

    async def after() -> None:
        async with BrokerHome(files) as home:
            assert await write(home, found[0], b"b", 1) is ErrorCode.NONE
            assert await end(home, found[0]) is ErrorCode.NONE
            seen = home.logs.read("t", isolation="read_committed")
            assert [record.value for record in seen] == [b"a", b"b"]

    run(before())
    run(after())


def test_a_client_that_leaves_does_not_stop_its_transaction_from_ending() -> None:
    """What it has decided gets its markers: else the next producer would wait for ever."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        asked = asyncio.get_running_loop().create_task(end(home, producer))
        for _ in range(3):
            await asyncio.sleep(0)
        assert await described(home) == "PrepareCommit"
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await described(home) == "CompleteCommit"
        assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 2

    with_broker(test)


def test_an_end_is_not_kept_without_its_markers() -> None:
    """The next flush of the coordinator's topic, by another id, keeps the end of this one."""
    files = CrashFileSystem()

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            producer, other = await begun(home), await begun(home, "y")
            await add(home, producer)
            await write(home, producer, b"a", 0)
            assert await end(home, producer) is ErrorCode.NONE
            assert await add(home, other, "y") is ErrorCode.NONE
            home.cut_power()

    async def after() -> None:
        async with BrokerHome(files) as home:
            assert await described(home) == "CompleteCommit"
            assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 2

    run(before())
    run(after())


def test_a_clock_that_was_set_back_does_not_keep_a_transaction_open() -> None:
    """After a restart it has its own timeout again at most."""
    files, delays = CrashFileSystem(), []

    class Timers:
        def schedule(self, name: str, task: Callable[[], object], *, delay_ms: int = 0) -> Handle:
            delays.append((name, delay_ms))
            return asyncio.get_running_loop().call_later(3600, task)

    async def before() -> None:
        async with BrokerHome(files) as home:
            home.logs.create_topic("t")
            await add(home, await begun(home))

    async def after() -> None:
        async with BrokerHome(files, ManualClock(1)) as home:
            again = Broker(home.logs.manager, home.config, Timers())
            await again.start()
            await again.close()

    run(before())
    run(after())
    assert ("transaction-timeout", 60_000) in delays


@pytest.mark.parametrize("policy", ["none", "group"])
def test_a_transaction_that_ends_as_its_time_is_over_is_not_aborted_after_all(policy: str) -> None:
    """The end and the timeout come in one turn of the loop; the next transaction is not fenced."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        coordinator = home.broker._transactions
        ending = asyncio.create_task(coordinator.end("x", producer, is_commit=True))
        home.clock.advance(60_000)
        await ending

        assert await ended(home) == "CompleteCommit"
        assert await add(home, producer) is ErrorCode.NONE
        assert await write(home, producer, b"b", 1) is ErrorCode.NONE

    with_clock(test, tidelog_flush_policy=policy)


def test_the_time_of_a_transaction_that_has_ended_is_not_that_of_the_next_one() -> None:
    """It was over while the end was being written, and is looked at again a second later."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        coordinator = home.broker._transactions
        ending = asyncio.create_task(coordinator.end("x", producer, is_commit=True))
        home.clock.advance(60_000)
        await ending
        await add(home, producer)

        home.clock.advance(59_999)
        await asyncio.sleep(0.01)
        assert await described(home) == "Ongoing"
        home.clock.advance(1)
        assert await ended(home) == "CompleteAbort"

    with_clock(test)


def test_a_transaction_that_gets_a_partition_as_its_time_is_over_is_aborted_later() -> None:
    """Else nothing would end it until the next start, if its client is gone."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("u")
        producer = await begun(home)
        await add(home, producer)
        coordinator, more = home.broker._transactions, [TopicPartition("u", 0)]
        adding = asyncio.create_task(coordinator.add_partitions("x", producer, more))
        home.clock.advance(60_000)
        await adding
        home.clock.advance(1000)
        assert await ended(home) == "CompleteAbort"

    with_clock(test)


def test_a_transaction_whose_beginning_may_not_be_durable_ends_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client may be gone; one that asks again gets an error, too."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)

        async def fail(*_: object) -> None:
            raise KafkaStorageError("the disk failed")

        with monkeypatch.context() as patch:
            patch.setattr(home.broker._flushes, "wait", fail)
            for _ in range(2):
                assert await add(home, producer) is ErrorCode.NOT_COORDINATOR
        assert await described(home) == "Ongoing"
        home.clock.advance(60_000)
        assert await ended(home) == "CompleteAbort"

    with_clock(test)


def test_an_abort_that_fails_is_not_tried_again_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk would keep the event loop busy with nothing else."""

    async def scenario() -> None:
        clock = ManualClock()
        async with BrokerHome(clock=clock, timers=clock.scheduler()) as home:
            home.logs.create_topic("t", 2)
            answer = await home.ask(
                "InitProducerId", 4, transactionalId="x", transactionTimeoutMs=100
            )
            await add(home, (answer["producerId"], answer["producerEpoch"]))
            tries: list[object] = []

            def full(changed: object) -> None:
                tries.append(changed)
                raise KafkaStorageError("no space is left")

            monkeypatch.setattr(home.broker._transactions, "_write", full)
            for _ in range(50):
                clock.advance(10)
                await asyncio.sleep(0)
            assert len(tries) == 1

    run(scenario())
    assert "abort-put-off topic=__transaction_state id='x' reason=no space is left" in caplog.text


def test_a_marker_that_waits_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """For a partition that is offline it may be tried every second, for days."""

    async def scenario() -> None:
        clock = ManualClock()
        home = BrokerHome(clock=clock, more=["/other"], timers=clock.scheduler())
        home.is_left = True
        home.logs.manager.create_topic(TRANSACTIONS_TOPIC, path=DATA)
        home.logs.manager.create_topic("t", path="/other")
        async with home:
            producer = await begun(home)
            await add(home, producer)
            await write(home, producer, b"a", 0)
            home.logs.manager.take_dir_offline("/other", OSError(errno.EIO, "it failed"))
            clock.advance(0)
            assert await end(home, producer) is ErrorCode.NONE
            for _ in range(5):
                clock.advance(1000)
                await asyncio.sleep(0.001)
            assert await described(home) == "PrepareCommit"

    run(scenario())
    assert [one.split()[1] for one in caplog.messages if "marker-put-off" in one] == ["topic=t-0"]


def test_a_marker_that_a_later_producer_has_made_needless_is_left_out() -> None:
    """The log has a higher epoch: the transaction has ended there."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        marker = build_marker(
            producer_id=producer[0],
            producer_epoch=producer[1] + 1,
            coordinator_epoch=0,
            is_commit=False,
            timestamp=1,
        )
        partition = home.logs.manager.partition("t", 0)
        partition.append(marker, AppendOrigin.COORDINATOR, transaction_version=0)
        assert await end(home, producer) is ErrorCode.NONE
        assert await described(home) == "CompleteCommit"

    with_broker(test)


def test_markers_are_tried_again_after_any_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else readers would wait for a decided transaction until the next start."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        coordinator = home.broker._transactions
        later = []

        def fail(*_: object, **_how: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(coordinator, "_schedule", lambda *step: later.append(step))
            patch.setattr(coordinator, "_begin_marker", fail)
            with suppress(MemoryError):
                await end(home, producer)
        assert await described(home) == "PrepareCommit"
        ((work, decided),) = later
        await work(decided)
        assert await described(home) == "CompleteCommit"
        assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 2

    with_broker(test)


def test_a_decision_that_may_not_be_durable_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its id would be busy, and its partitions undecided, until the next start."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        coordinator = home.broker._transactions
        later = []

        async def fail(*_: object) -> None:
            raise KafkaStorageError("the disk failed")

        with monkeypatch.context() as patch:
            patch.setattr(coordinator, "_schedule", lambda *step: later.append(step))
            patch.setattr(home.broker._flushes, "wait", fail)
            assert await end(home, producer) is ErrorCode.NOT_COORDINATOR
            assert await described(home) == "PrepareCommit"
            ((work, decided),) = later
            await work(decided)
        work, decided = later[1]
        await work(decided)
        assert await described(home) == "CompleteCommit"
        assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 2

    with_broker(test)


def test_a_block_of_producer_ids_is_used_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those who waited for it take theirs on the event loop, as all who come later do."""

    async def test(home: BrokerHome) -> None:
        elsewhere = []
        plain = ProducerIds.next

        def taken(ids: ProducerIds) -> int:
            elsewhere.append(ids.has_next)
            with suppress(RuntimeError):
                asyncio.get_running_loop()
                elsewhere.pop()  # this is the thread of the event loop
            return plain(ids)

        monkeypatch.setattr(ProducerIds, "next", taken)
        asked = [home.asking("InitProducerId", 4, transactionalId=None) for _ in range(3)]
        assert len({one["producerId"] for one in await asyncio.gather(*asked)}) == 3
        assert elsewhere == [False]

    with_broker(test)


# Decisions of a Kafka broker's


def decision(**tagged: int) -> list[Any]:
    """Return the record of a commit of version 2, which has raised the epoch of producer 5 to 4."""
    values = {
        "producerId": 5,
        "producerEpoch": 4,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": int(State.PREPARE_COMMIT),
        "transactionPartitions": [{"topic": "t", "partitionIds": [0]}],
        "transactionLastUpdateTimestampMs": 1,
        "transactionStartTimestampMs": 1,
        "clientTransactionVersion": 2,
        **tagged,
    }
    return [(1, transaction_key("x"), write_value("transaction", 0, 1, values), ())]


def with_decision(
    test: Callable[[BrokerHome], Coroutine[Any, Any, None]], *, epoch: int, **tagged: int
) -> None:
    """Run a test where the decision is found, and an open transaction of ``epoch``."""

    async def scenario() -> None:
        home = BrokerHome()
        home.logs.create_topic("t")
        home.logs.create_topic(TRANSACTIONS_TOPIC)
        home.logs.manager.partition(TRANSACTIONS_TOPIC, 0).append_records(decision(**tagged))
        partition = home.logs.manager.partition("t", 0)
        guard = partition.log.start_verification(5, 0, epoch, supports_epoch_bump=False)
        batch = build_batch(
            [(1, None, b"a", ())],
            producer_id=5,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        partition.append(batch, verification_guard=guard)
        async with home:
            await test(home)

    run(scenario())


def test_a_decision_of_version_2_is_carried_out() -> None:
    """By the epoch that it was raised to, with which its producer goes on to the next one."""

    async def test(home: BrokerHome) -> None:
        assert await described(home) == "CompleteCommit"
        found = await home.fetch("t", isolation=1)
        assert (found["lastStableOffset"], found["abortedTransactions"]) == (2, [])
        assert await add(home, (5, 4)) is ErrorCode.NONE

    with_decision(test, epoch=3)


def test_a_decision_of_version_2_commits_nothing_that_came_after_it() -> None:
    """Records of its raised epoch are of the next transaction, whose begin a power cut has lost.

    A marker of version 0 would commit them.
    """

    async def test(home: BrokerHome) -> None:
        assert await described(home) == "CompleteCommit"
        assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 0

    with_decision(test, epoch=4)


def test_the_producer_after_the_last_epoch_is_the_one_that_was_named() -> None:
    """Its client has its id already."""

    async def test(home: BrokerHome) -> None:
        assert await add(home, (5, 4)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await add(home, (99, 0)) is ErrorCode.NONE
        assert await end(home, (99, 0)) is ErrorCode.NONE

    with_decision(test, epoch=3, nextProducerId=99)


async def _nothing(_: object) -> None:
    """Take the place of a step that a crash leaves out."""
