"""The transactional ids of clients, and their transactions. Kafka: ``TransactionCoordinator``.

A transaction is decided once its Prepare record is durable: markers follow, and are written again
by the next start if a crash comes between. All on the event loop: what is appended to
``__transaction_state`` and to the partitions is appended there, unless a partition is held: see
``Appends``. Meanwhile, and during flushes, other requests about the id are refused.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import Refusal
from tidelog.broker.shards import Shards
from tidelog.config.serve_config import FlushPolicy
from tidelog.env.event_loop import in_thread
from tidelog.error_codes import ErrorCode
from tidelog.errors import (
    InvalidProducerEpoch,
    KafkaError,
    KafkaStorageError,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from tidelog.manager.group_home import internal_topic
from tidelog.manager.producer_ids import ProducerIds
from tidelog.readonly.group_positions import partition_of_group
from tidelog.readonly.transactional_id import (
    DECIDED,
    ENDED,
    LAST_EPOCH,
    NO_EPOCH,
    NO_TIME,
    TRANSACTIONS_TOPIC,
    State,
    Transaction,
    stored_transactions,
    transaction_record,
    transaction_tombstone,
)
from tidelog.records.batch import NO_PRODUCER_ID
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

    from tidelog.broker.data.appends import Appends
    from tidelog.broker.data.flushes import Flushes
    from tidelog.broker.groups.classic_group import Timers
    from tidelog.datadir.catalogue import Topic
    from tidelog.env.scheduler import Handle
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)

_NO_ID: Final = "the transactional id is empty"
_RETRY_MS: Final = 1000
_AT_ONCE: Final = 16
"""Markers, each of which takes up to a millisecond of the event loop."""
_MOOT: Final = (UnknownTopicOrPartition, TransactionCoordinatorFenced, InvalidProducerEpoch)
"""Of a marker: the partition was deleted, or a later coordinator or producer has ended the
transaction there. Source: Kafka TransactionMarkerRequestCompletionHandler."""
_EXPIRY_LOOK_MS: Final = 3_600_000


class TransactionCoordinator:
    """All transactional ids. Only the event loop uses it."""

    def __init__(
        self, manager: LogManager, appends: Appends, flushes: Flushes, timers: Timers
    ) -> None:
        self._manager = manager
        self._appends = appends
        self._flushes = flushes
        self._timers = timers
        self._producer_ids = ProducerIds(manager)
        self.transactions: dict[str, Transaction] = {}
        self._by_producer: dict[int, Transaction] = {}
        self._timeouts: dict[str, Handle] = {}
        self._busy: set[str] = set()
        """Ids whose transaction is being ended, or whose producer is being changed."""
        self._put_off: dict[str, set[TopicPartition]] = {}
        """Partitions that do not take the marker of an id yet."""
        self.shards: Final = Shards(manager, TRANSACTIONS_TOPIC, timers, self._take_up)
        self._expiry: Handle | None = None
        self._is_closed = False
        self._reserving = asyncio.Lock()
        manager.coordinated = self.coordinated
        self._tasks: set[asyncio.Task[None]] = set()

    # Life

    async def load(self) -> None:
        """Take up transactions: decided ones are ended, open ones wait for their time."""
        await self.shards.load()
        # A partition that is held keeps its own transactions waiting only: they are begun together.
        await asyncio.gather(*self._tasks)
        await self._look_for_expired()

    async def _take_up(self, number: int) -> None:
        for found in (await in_thread(partial(self._stored, number))).values():
            self._keep(found)
            if found.state is State.ONGOING:
                self._watch(found)
            elif found.state in DECIDED:
                self._begin(self._write_markers, found)

    def _stored(self, number: int) -> dict[str, Transaction]:
        """Return the transactional ids that were written down in a partition, on any thread."""
        log = self._manager.partition(TRANSACTIONS_TOPIC, number).log
        records = self.shards.while_open(log.records())
        with log.watch("reading transactions"):
            return stored_transactions(records, log.directory)

    def close(self) -> None:
        """Stop all timers."""
        self._manager.coordinated = None
        self._is_closed = True
        self.shards.close()
        for timer in (*self._timeouts.values(), *([self._expiry] if self._expiry else ())):
            timer.cancel()
        self._timeouts.clear()

    def _keep(self, found: Transaction) -> None:
        old = self.transactions.get(found.transactional_id)
        self.transactions[found.transactional_id] = found
        self._by_producer[found.producer_id] = found
        # Only of another producer: a thread that appends would take its own for unknown meanwhile.
        if old is not None and old.producer_id != found.producer_id:
            self._by_producer.pop(old.producer_id, None)

    async def _look_for_expired(self) -> None:
        """Forget ids that were not used for ``transactional.id.expiration.ms``, and come back."""
        now_ms = self._manager.machine.clock.now_ms()
        limit_ms = self._manager.config.transactional_id_expiration_ms
        topic, failed = self._manager.topics().get(TRANSACTIONS_TOPIC), set[int]()
        for name, found in tuple(self.transactions.items()):
            if topic is None or (failed and _number_in(topic, name) in failed):
                continue  # as others before it: each would be logged
            # While an append waits, an id that comes later in this list may be taken into use.
            is_same = self.transactions.get(name) is found and name not in self._busy
            if is_same and found.state in ENDED and found.updated_ms + limit_ms < now_ms:
                try:
                    await self._forget(found, now_ms)
                except KafkaError as error:
                    text = "id-not-forgotten topic=%s id=%r reason=%s"
                    _log.warning(text, TRANSACTIONS_TOPIC, name, error)
                    failed.add(_number_in(topic, name))
                await asyncio.sleep(0)  # there may be thousands
                if self._is_closed:
                    return  # another coordinator may have given the next ones out again
        self._expiry = self._timers.schedule(
            "id-expiry", partial(self._begin, self._look_for_expired), delay_ms=_EXPIRY_LOOK_MS
        )

    async def _forget(self, found: Transaction, now_ms: int) -> None:
        name = found.transactional_id
        with self._alone(name):
            records = [transaction_tombstone(name, now_ms)]
            home = self._home(name)
            await self._appends.run(home, partial(home.append_records, records))
            del self.transactions[name]
            self._by_producer.pop(found.producer_id, None)

    # The topic

    def create_topic(self) -> Topic:
        """Create ``__transaction_state``, of one partition, unless it exists; on any thread."""
        return internal_topic(self._manager, TRANSACTIONS_TOPIC)

    def _home(self, transactional_id: str) -> Partition:
        topic = self._manager.topic(TRANSACTIONS_TOPIC)
        return self._manager.partition(TRANSACTIONS_TOPIC, _number_in(topic, transactional_id))

    async def _write(self, changed: Transaction) -> Partition:
        """Append a transactional id as it is to be; return where."""
        now_ms = self._manager.machine.clock.now_ms()
        changed.updated_ms = now_ms
        home = self._home(changed.transactional_id)
        records = [transaction_record(changed, now_ms)]
        await self._appends.run(home, partial(home.append_records, records))
        self._keep(changed)
        return home

    async def _write_durably(self, changed: Transaction) -> None:
        await self._flushes.wait_if_wanted(await self._write(changed))

    # Producers

    async def new_id(self) -> int:
        """Return the id of a new producer; raise KafkaError if there is none to give out."""
        # Not while a thread reserves a block: it is about to take the first id of that.
        if self._producer_ids.has_next and not self._reserving.locked():
            return self._producer_ids.next()
        async with self._reserving:  # else two threads would use it at once
            if self._producer_ids.has_next:  # a block was reserved meanwhile
                return self._producer_ids.next()
            return await in_thread(self._producer_ids.next)

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int
    ) -> tuple[int, int]:
        """Return the id and epoch of the next producer of an id; the ones before are fenced.

        ``producer_id`` and ``epoch`` are those that the producer has, -1 for a new one.
        Source: Kafka TransactionCoordinator.handleInitProducerId.
        """
        self._check_id(transactional_id)
        limit_ms = self._manager.config.transaction_max_timeout_ms
        if not 0 < timeout_ms <= limit_ms:
            raise Refusal(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"a timeout of {timeout_ms} ms is not one of 1 to {limit_ms}",
            )
        if TRANSACTIONS_TOPIC not in self._manager.topics():
            await in_thread(self.create_topic)
        with self._alone(transactional_id):
            known = self.transactions.get(transactional_id)
            if known is None:  # also of a producer that has it from before the id was forgotten
                new = Transaction(transactional_id, await self.new_id(), 0, timeout_ms)
            else:
                is_repeat = _is_repeat(known, producer_id, epoch)
                if known.state in DECIDED:
                    raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
                if is_repeat and known.state is not State.ONGOING:
                    # The request that it repeats may have failed to make that durable.
                    await self._flushes.wait_if_wanted(self._home(transactional_id))
                    return known.producer_id, known.epoch
                if known.state is State.ONGOING:
                    known = await self._abort_for_next(known)
                new = await self._next_of(known, timeout_ms)
                # Who has asked may ask again. Of another instance that is nobody: the one before,
                # which it fences, must not get its epoch.
                new.previous_id, new.previous_epoch = producer_id, epoch
            await self._write_durably(new)
            return new.producer_id, new.epoch

    async def _next_of(self, known: Transaction, timeout_ms: int) -> Transaction:
        """Return a transactional id with the next epoch, or a new producer after the last one."""
        new = replace(
            known,
            timeout_ms=timeout_ms,
            state=State.EMPTY,
            partitions=set(),
            started_ms=NO_TIME,
        )
        if known.epoch < LAST_EPOCH:
            new.epoch = known.epoch + 1
        else:
            new.producer_id, new.epoch = await self.new_id(), 0
        return new

    async def _abort_for_next(self, known: Transaction) -> Transaction:
        """Abort what the producer before has left open, with an epoch that fences it."""
        await self._decide(known, is_commit=False, fences=True)
        ended = self.transactions[known.transactional_id]
        if ended.state in DECIDED:  # a partition does not take its marker yet
            raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        return ended

    @contextmanager
    def _alone(self, transactional_id: str) -> Iterator[None]:
        """Keep other requests about an id out; refuse this one where another is at work."""
        if transactional_id in self._busy:
            raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        self._busy.add(transactional_id)
        try:
            yield
        finally:
            self._busy.discard(transactional_id)

    # Partitions

    async def add_partitions(
        self, transactional_id: str, producer: tuple[int, int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Add partitions to the transaction, which begins with the first ones."""
        known = self._checked(transactional_id, producer)
        with self._alone(transactional_id):
            if known.state in DECIDED:
                raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
            added = set(partitions)
            if known.state is State.ONGOING and added <= known.partitions:
                # The request that has added them may have failed to make that durable.
                await self._flushes.wait_if_wanted(self._home(transactional_id))
                return
            is_new = known.state is not State.ONGOING
            now_ms = self._manager.machine.clock.now_ms()
            changed = replace(
                known,
                state=State.ONGOING,
                partitions=added if is_new else known.partitions | added,
                started_ms=now_ms if is_new else known.started_ms,
                previous_id=NO_PRODUCER_ID,
                previous_epoch=NO_EPOCH,
            )
            home = await self._write(changed)
            if is_new:  # also if the flush fails: else nothing would end it if its client is gone
                self._watch(changed)
            # A partition whose record is lost would never get a marker.
            await self._flushes.wait_if_wanted(home)

    def _check_id(self, transactional_id: str) -> None:
        """Refuse an id whose part of the topic is not loaded, and an empty one."""
        self.shards.check(transactional_id)
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST, _NO_ID)

    def _checked(self, transactional_id: str, producer: tuple[int, int]) -> Transaction:
        """Return the id of a request; refuse another producer's, or a fenced one's."""
        self._check_id(transactional_id)
        known = self.transactions.get(transactional_id)
        if known is None or known.producer_id != producer[0]:
            raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.epoch != producer[1]:
            raise Refusal(ErrorCode.PRODUCER_FENCED)
        return known

    def check_writer(
        self, transactional_id: str | None, producer: tuple[int, int], key: TopicPartition
    ) -> None:
        """Refuse a producer that has no open transaction with this partition.

        On any thread; raises KafkaStorageError where that is not known yet, as ``coordinated``.
        Source: Kafka handleVerifyPartitionsInTransaction and AddPartitionsToTxnManager.
        """
        known = self._known(producer[0], "the producer's transaction: nothing was written")
        if not transactional_id:
            raise Refusal(ErrorCode.INVALID_REQUEST, _NO_ID)
        if known is None or known.transactional_id != transactional_id:
            raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.epoch != producer[1]:
            raise Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, f"the epoch is {known.epoch}")
        if known.state is not State.ONGOING or key not in known.partitions:
            reason = f"{key} is not in an open transaction of {transactional_id!r}"
            raise Refusal(ErrorCode.TRANSACTION_ABORTABLE, reason)

    def coordinated(self, producer_id: int, key: TopicPartition) -> Transaction | None:
        """Return a producer's transaction that is to be ended in a partition.

        On any thread. Raises KafkaStorageError while this is being loaded, and for a producer that
        is not known while a partition of the topic cannot be read.
        """
        why = "the transaction: its client could commit it later; nothing was written"
        known = self._known(producer_id, why)
        return known if known is not None and known.is_to_end_in(key) else None

    def _known(self, producer_id: int, what: str) -> Transaction | None:
        """Return a producer's transactional id; ``what`` a partition that is not read may have."""
        if not self.shards.loaded.is_set():
            raise KafkaStorageError(
                "the transactions of this broker are still being read; nothing was written, try"
                " again later"
            )
        known = self._by_producer.get(producer_id)
        if known is None and (unread := self.shards.unread):
            places = ", ".join(map(str, unread))
            raise KafkaStorageError(f"{places} cannot be read, and may have {what}")
        return known

    # The end

    async def end(
        self, transactional_id: str, producer: tuple[int, int], *, is_commit: bool
    ) -> None:
        """Commit or abort; a repeated request succeeds. Source: Kafka endTransaction."""
        known = self._checked(transactional_id, producer)
        with self._alone(transactional_id):
            wanted = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
            prepared = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
            if known.state is wanted:
                return
            if known.state is prepared:
                raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
            if known.state is not State.ONGOING:
                raise Refusal(ErrorCode.INVALID_TXN_STATE)
            await self._decide(known, is_commit=is_commit)

    async def _decide(self, known: Transaction, *, is_commit: bool, fences: bool = False) -> None:
        timer = self._timeouts.pop(known.transactional_id, None)
        if timer is not None:
            timer.cancel()
        state = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
        epoch = known.epoch + 1 if fences else known.epoch
        decided = known.decided(state, epoch)
        try:
            # Before the markers: after a power cut that keeps some of them and not the decision,
            # the transaction would be aborted in the other partitions.
            await self._write_durably(decided)
        except BaseException:
            if self.transactions[known.transactional_id] is known:
                self._watch(known, at_least_ms=_RETRY_MS)
            else:  # it may be on the disk: nobody can decide otherwise any more
                self._schedule(self._decide_again, decided)
            raise
        await self._write_markers(decided)

    async def _write_markers(self, decided: Transaction) -> None:
        """Write the markers that are missing, durably; what fails is tried again."""
        if self.transactions.get(decided.transactional_id) is not decided:
            return
        try:
            is_ended = await self._try_to_end(decided)
        except BaseException:
            # Nothing else ends it before the next start: its readers would wait until then.
            self._schedule(self._write_markers, decided)
            raise
        if not is_ended:
            self._schedule(self._write_markers, decided)

    async def _try_to_end(self, decided: Transaction) -> bool:
        """Write the missing markers and then the end; return whether all is written."""
        is_commit = decided.state is State.PREPARE_COMMIT
        written, left = await self._append_markers(decided, is_commit=is_commit)
        # An end that a power cut keeps, and not its markers, would leave them unwritten for good.
        left |= await self._not_durable(decided, written)
        if not left:
            try:
                await self._write(decided.ended())
            except KafkaError as error:
                _log.warning("end-put-off topic=%s reason=%s", TRANSACTIONS_TOPIC, error)
            else:
                self._put_off.pop(decided.transactional_id, None)
                return True
        decided.partitions = left
        return False

    async def _append_markers(
        self, decided: Transaction, *, is_commit: bool
    ) -> tuple[dict[TopicPartition, Partition], set[TopicPartition]]:
        """Return where markers were written, and where none could be for now."""
        begun = {}
        for key in sorted(decided.partitions):
            begun[key] = self._begin_marker(key, decided, is_commit=is_commit)
            if len(begun) % _AT_ONCE == 0:
                await asyncio.sleep(0)  # others would wait for the markers of thousands
        # All have begun before one is waited for: partitions that are held are waited for together.
        written, left = {}, set()
        for key, found in begun.items():
            try:
                if isinstance(found, KafkaError):
                    raise found
                written[key] = await found if isinstance(found, asyncio.Task) else found
            except _MOOT as error:
                _log.warning("marker-not-written topic=%s reason=%s", key, error)
            except KafkaError as error:
                self._note_put_off(decided, key, error)
                left.add(key)
        return written, left

    def _begin_marker(
        self, key: TopicPartition, decided: Transaction, *, is_commit: bool
    ) -> Partition | asyncio.Task[Partition] | KafkaError:
        try:
            partition = self._manager.partition(*key)
            write = partial(self._write_marker, partition, decided, is_commit=is_commit)
            return self._appends.call(partition, write)
        except KafkaError as error:
            return error

    async def _decide_again(self, decided: Transaction) -> None:
        """Write a decision once more, of which it is not known whether it is durable."""
        again = replace(decided)
        try:
            await self._write_durably(again)
        except KafkaError as error:
            _log.warning("decision-put-off topic=%s reason=%s", TRANSACTIONS_TOPIC, error)
            self._schedule(self._decide_again, self.transactions[decided.transactional_id])
        else:
            await self._write_markers(again)

    def _schedule(
        self, work: Callable[[Transaction], Coroutine[Any, Any, None]], decided: Transaction
    ) -> None:
        """Continue with a decided transaction after a while."""
        self._timers.schedule("decided", partial(self._begin, work, decided), delay_ms=_RETRY_MS)

    async def _not_durable(
        self, decided: Transaction, written: Mapping[TopicPartition, Partition]
    ) -> set[TopicPartition]:
        """Flush markers, all at once; return where that failed."""
        if self._flushes.policy is FlushPolicy.NONE:
            return set()
        waits = [self._flushes.wait(partition) for partition in written.values()]
        found = dict(
            zip(written, await asyncio.gather(*waits, return_exceptions=True), strict=True)
        )
        failed = {key: error for key, error in found.items() if error is not None}
        for key, error in failed.items():
            self._note_put_off(decided, key, error)
        return set(failed)

    def _note_put_off(
        self, decided: Transaction, key: TopicPartition, error: BaseException
    ) -> None:
        """Log once that a marker waits for its partition: it is tried every second."""
        noted = self._put_off.setdefault(decided.transactional_id, set())
        if key not in noted:
            noted.add(key)
            _log.warning("marker-put-off topic=%s reason=%s", key, error)

    def _write_marker(
        self, partition: Partition, decided: Transaction, *, is_commit: bool
    ) -> Partition:
        """Append a marker; return where."""
        marker = build_marker(
            producer_id=decided.producer_id,
            producer_epoch=decided.epoch,
            coordinator_epoch=self._home(decided.transactional_id).leader_epoch,
            is_commit=is_commit,
            timestamp=self._manager.machine.clock.now_ms(),
        )
        partition.append(marker, AppendOrigin.COORDINATOR, transaction_version=decided.version)
        return partition

    # Time

    def _watch(self, ongoing: Transaction, *, at_least_ms: int = 0) -> None:
        """Abort the transaction when its time is over, in ``at_least_ms`` from now on.

        A clock that was set back since it began gives it no more than its time again.
        """
        now_ms = self._manager.machine.clock.now_ms()
        left_ms = min(ongoing.started_ms + ongoing.timeout_ms - now_ms, ongoing.timeout_ms)
        name = ongoing.transactional_id
        if name in self._timeouts:  # of the transaction before: it would end this one early
            self._timeouts[name].cancel()
        self._timeouts[name] = self._timers.schedule(
            "transaction-timeout", lambda: self._time_out(name), delay_ms=max(left_ms, at_least_ms)
        )

    def _time_out(self, name: str) -> None:
        self._timeouts.pop(name, None)
        if self._late(name) is not None:
            _log.warning("transaction-timed-out topic=%s id=%r", TRANSACTIONS_TOPIC, name)
            self._begin(self._abort_late, name)

    def _late(self, name: str) -> Transaction | None:
        """Return the transaction of an id if it is to be aborted now; watch it while it is busy."""
        known = self.transactions.get(name)
        # Its client may have ended it since, and begun the next one, which has a time of its own.
        if known is None or known.state is not State.ONGOING or name in self._timeouts:
            return None
        if name in self._busy:
            self._watch(known, at_least_ms=_RETRY_MS)
            return None
        return known

    def _begin(self, work: Callable[..., Coroutine[Any, Any, None]], *given: Any) -> None:  # noqa: ANN401 - what the work takes
        task = asyncio.get_running_loop().create_task(work(*given))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _abort_late(self, name: str) -> None:
        known = self._late(name)
        if known is None:
            return
        try:
            with self._alone(name):
                await self._decide(known, is_commit=False, fences=True)
        except KafkaError as error:
            _log.warning("abort-put-off topic=%s id=%r reason=%s", TRANSACTIONS_TOPIC, name, error)

    def described(self, name: str) -> dict[str, Any]:
        """Return what DescribeTransactions says of an id."""
        self._check_id(name)
        known = self.transactions.get(name)
        if known is None:
            raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return {
            "transactionalId": name,
            "transactionState": known.state.shown,
            "transactionTimeoutMs": known.timeout_ms,
            "transactionStartTimeMs": known.started_ms,
            "producerId": known.producer_id,
            "producerEpoch": known.epoch,
            "topics": [
                {"topic": topic, "partitions": numbers}
                for topic, numbers in numbers_by_topic(sorted(known.partitions)).items()
            ],
        }

    def listed(self, filters: dict[str, Any]) -> dict[str, Any]:
        """Return what ListTransactions says of the ids that its filters leave."""
        self.shards.check_loaded()
        states = {state.shown: state for state in State}
        wanted = {states[name] for name in filters["stateFilters"] if name in states}
        producers = set(filters["producerIdFilters"])
        open_since_ms = self._manager.machine.clock.now_ms() - filters["durationFilter"]
        found = [
            known
            for known in self.transactions.values()
            if (not filters["stateFilters"] or known.state in wanted)
            and (not producers or known.producer_id in producers)
            # One that has none open has a start of -1, and passes, as in Kafka.
            and (filters["durationFilter"] < 0 or known.started_ms <= open_since_ms)
        ]
        return {
            "unknownStateFilters": [n for n in filters["stateFilters"] if n not in states],
            "transactionStates": [
                {
                    "transactionalId": known.transactional_id,
                    "producerId": known.producer_id,
                    "transactionState": known.state.shown,
                }
                for known in found
            ],
        }


def _number_in(topic: Topic, transactional_id: str) -> int:
    """Return the number of the partition of an id: Kafka spreads them as it does groups."""
    return partition_of_group(transactional_id, len(topic.partitions))


def _is_repeat(known: Transaction, producer_id: int, epoch: int) -> bool:
    """Return whether a producer asks again for what it has got; refuse one that is fenced.

    Source: Kafka TransactionMetadata.prepareIncrementProducerEpoch.
    """
    if producer_id == NO_PRODUCER_ID:
        return False
    if (producer_id, epoch) == (known.producer_id, known.epoch):
        return False
    if (producer_id, epoch) == (known.previous_id, known.previous_epoch):
        return True
    raise Refusal(ErrorCode.PRODUCER_FENCED)
