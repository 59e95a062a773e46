"""Reading topics from where a consumer group has come to, and committing how far it has come.

Kafka: ``KafkaConsumer`` with partitions assigned by hand.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Final

from tidelog.codec.given_values import check_partition, checked_number, listed
from tidelog.codec.one_line import Told, open_or_closed, shortened
from tidelog.codec.text import check_group
from tidelog.embedded.topic_reads import consumed
from tidelog.embedded.transaction import Transaction
from tidelog.env.attempts import Closable
from tidelog.env.forks import OfOneProcess
from tidelog.env.waiting import IdleTime
from tidelog.errors import (
    DataLoss,
    InvalidArgument,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tidelog.readonly.epoch_lineage import lineage, other_records, parting
from tidelog.readonly.group_positions import Position
from tidelog.records.batch import INT64_MAX
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition, given_partition
from tidelog.staging.group_step import CommittedAt

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.embedded.group_source import OwnLogs
    from tidelog.embedded.joined_source import JoinedSource
    from tidelog.embedded.topic_reads import ConsumedRecord
    from tidelog.errors import TidelogError
    from tidelog.records.record import Record

_log = logging.getLogger(__name__)

LOOK_AGAIN_MS: Final = 1000
"""How long a reader waits at most before it looks again, for new partitions among others."""
_OF_ANOTHER: Final = (
    "it is of another topic of this name, which was deleted, or restored without --keep-ids:"
    " tidelog groups reset sets it in this one"
)
ROUND_RECORDS: Final = 500
"""Records of one partition that are yielded before the next partition gets its turn."""
STARTS: Final = ("earliest", "latest", "none")


class GroupMember(OfOneProcess, Told):
    """The partitions that one reader of a group reads, and its positions in them.

    Kafka: ``SubscriptionState``.
    """

    def __init__(
        self,
        source: OwnLogs | JoinedSource,
        topics: Collection[str],
        group: str,
        *,
        partitions: Collection[int] | None,
        start: str,
        isolation: Isolation | str,
    ) -> None:
        self._isolation: Final = Isolation.of(isolation)
        check_group(group)
        if not topics:
            raise InvalidArgument("a reader reads at least one topic")
        for topic in topics:
            if not isinstance(topic, str):
                raise InvalidArgument(
                    f"{topic!r} is not the name of a topic: name them one by one, as reader("
                    '"orders", "payments", group=...)'
                )
        numbers = None
        if partitions is not None:
            numbers = frozenset(map(check_partition, listed("partitions", partitions)))
        if not isinstance(start, str) or start not in STARTS:
            raise InvalidArgument(f"{start!r} is not one of {', '.join(STARTS)}")
        self.group: Final = group
        self.topics: Final = tuple(dict.fromkeys(topics))
        self._source = source
        self.partitions: Final = numbers
        self._start = start
        self._next: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int | None] = {}
        self._lost: dict[TopicPartition, DataLoss] = {}
        """Committed positions below which the log has other records than the group has read."""
        self._of_others: dict[TopicPartition, OffsetOutOfRange] = {}
        """Positions in other topics of these names, where ``start`` is ``none``."""
        self._passed_over: set[tuple[TopicPartition, Position]] = set()
        self._before: dict[TopicPartition, CommittedAt | None] = {}
        """Where the group was when this took a partition up, or has committed it since."""
        self._within: dict[TopicPartition, tuple[Transaction, int]] = {}
        """Positions that were given to a transaction, and are committed if that is."""
        self._taken_up: dict[TopicPartition, int] = {}
        self._has_begun = False
        self._put_off: dict[TopicPartition, bool] = {}
        """Partitions that are taken up once it is decided where the group is, each with whether it
        was there when this began."""
        self._topic_ids: dict[str, UUID] = {}
        self._jumps = 0
        self._is_open = True
        try:
            self._check_partitions()
            source.join(self)
            self._find_partitions()
        except BaseException:
            self.close()
            raise

    def _told(self) -> str:
        topics = shortened(list(self.topics))
        life = open_or_closed(is_open=self._is_open)
        return f"of group {self.group!r}: topics={topics}, partitions={len(self._next)}, {life}"

    def close(self) -> None:
        """Let another reader of the group read; what was not committed is read again."""
        if self.is_inherited:
            return
        self._is_open = False
        self._source.leave(self)

    # Reading

    def _begin_round(self) -> list[TopicPartition]:
        """Return the partitions to read, new ones among them."""
        self._check_open()
        self._source.join(self)
        self._find_partitions()
        return list(self._next)

    def _peek(self, key: TopicPartition) -> Generator[Record, None, None]:
        """Yield some records of a partition from its position on, which does not move."""
        if key not in self._next:
            return  # a rewind since the round began has put it off
        if key in self._of_others:
            raise self._of_others[key]
        if key in self._lost:
            self._continue_with_others(key)
        records = self._records(key)
        try:
            first = next(records, None)
        except OffsetOutOfRange as error:
            self._next[key] = self._reset(key, error)
            records = self._records(key)
            first = next(records, None)
        if first is not None and self._is_lost(key, first):
            self._continue_with_others(key)
            records = self._records(key)
            first = next(records, None)
        if first is not None:
            yield first
            yield from itertools.islice(records, ROUND_RECORDS - 1)

    def _consume(self, key: TopicPartition, record: Record, jumps: int) -> ConsumedRecord | None:
        """Move the position after a record; None if it was set since there were ``jumps``.

        None, too, if the log has other records below the position by now.
        """
        if self._jumps != jumps:
            return None
        self._check_open()
        if record.leader_epoch != self._epochs.get(key):
            if self._is_lost(key, record):
                return None
            self._epochs[key] = self._epoch_of(key, record)
        self._next[key] = record.offset + 1
        return consumed(*key, record)

    def _is_lost(self, key: TopicPartition, record: Record) -> bool:
        """Return whether another epoch than the position's begins below it, not at the record."""
        if record.leader_epoch != self._epochs.get(key):
            self._check_epoch(key, self._next[key], self._epochs.get(key))
        return key in self._lost

    def _epoch_of(self, key: TopicPartition, record: Record) -> int | None:
        if record.leader_epoch is None:
            return None
        # No checksum covers the epoch of a batch: a position with a damaged one would be taken for
        # one in another log, and what lies below be read again. So the log's own epochs count.
        known = lineage(self._source.epochs(key), record.offset + 1)
        return known[-1][0] if known else record.leader_epoch

    def _move(self, key: TopicPartition, offset: int) -> None:
        """Move the position to an offset, below which there are records that were read."""
        known = lineage(self._source.epochs(key), offset)
        self._next[key], self._epochs[key] = offset, known[-1][0] if known else None

    def _end_of(self, key: TopicPartition) -> int:
        self._checked_topic(key.topic)
        return self._source.end(key, self._isolation)

    def _pass(self, key: TopicPartition, end: int, jumps: int) -> None:
        """Move the position after what is not yielded, such as markers, when all was read.

        ``end`` is that before the reading, and ``jumps`` are as in ``_consume``.
        """
        if self._jumps == jumps and self._is_open and self._next.get(key, end) < end:
            self._move(key, end)

    def _records(self, key: TopicPartition) -> Iterator[Record]:
        records = self._source.records(key, self._next[key], self._isolation)
        # After the log was found: another thread may create the topic again at any moment.
        self._checked_topic(key.topic)
        return records

    def _checked_topic(self, name: str) -> Topic:
        """Return a topic; raise UnknownTopicOrPartition if it is not the one that was taken up."""
        topic = self._source.topic(name)
        if self._topic_ids.setdefault(name, topic.topic_id) != topic.topic_id:
            raise UnknownTopicOrPartition(f"topic {name} was deleted, and is another one now")
        return topic

    def _reset(self, key: TopicPartition, error: OffsetOutOfRange) -> int:
        if self._start == "none":
            raise error
        self._warn_of_reset(key, error)
        return self._first_of(*self._source.bounds(key))

    def _warn_of_reset(self, key: TopicPartition, reason: TidelogError) -> None:
        text = "position-reset directory=%s group=%s offset=%d reason=%s"
        directory = self._source.directory(key)
        _log.warning(text, directory, self.group, self._next[key], reason)

    def _continue_with_others(self, key: TopicPartition) -> None:
        """Go back to where the log has other records than the group has read."""
        error = self._lost[key]
        if self._start == "none":
            raise error
        self._warn_of_reset(key, error)
        self._move(key, error.start_offset)
        del self._lost[key]

    def _check_epoch(self, key: TopicPartition, offset: int, leader_epoch: int | None) -> None:
        """Take note of a position that is one in another log by now."""
        if leader_epoch is None or leader_epoch < 0 or offset <= 0:
            return
        known = ((leader_epoch, offset - 1),)
        at = parting(known, offset, self._source.epochs(key))
        if at is not None:
            end = self._source.bounds(key)[1]
            remedy = ": seek, or reset the group"
            self._lost[key] = other_records(key, at, offset, end, remedy=remedy)

    def _first_of(self, start: int, end: int) -> int:
        return end if self._start == "latest" else start

    # Positions

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record of each partition."""
        return dict(self._next)

    def _committed(self) -> dict[TopicPartition, int]:
        found = self._source.found(self.group).live
        return {key: one.position.offset for key, one in found.items()}

    def lag(self) -> dict[TopicPartition, int]:
        """Return how many offsets lie between each position and the end that it can read to."""
        return {key: max(self._end_of(key) - offset, 0) for key, offset in self._next.items()}

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue with an offset; raise InvalidArgument for a partition that is not read here."""
        key = given_partition(topic, partition)
        if key not in self._next:
            raise InvalidArgument(f"{key} is not read by this reader")
        offset = checked_number(offset, "an offset")
        if not 0 <= offset <= INT64_MAX:
            raise InvalidArgument(f"{offset} is not an offset")
        self._settle(key)
        self._within.pop(key, None)
        self._lost.pop(key, None)
        self._of_others.pop(key, None)
        self._next[key], self._epochs[key] = offset, None
        self._jumps += 1

    def _rewind(self) -> None:
        ids = {name: self._source.topic(name).topic_id for name in self._topic_ids}
        # The offsets of a topic that was created again are those of another log.
        again = {name for name, topic_id in self._topic_ids.items() if ids[name] != topic_id}
        self._taken_up = {key: at for key, at in self._taken_up.items() if key.topic not in again}
        self._next, self._epochs, self._topic_ids = {}, {}, {}
        self._before, self._within, self._lost, self._of_others = {}, {}, {}, {}
        self._jumps += 1
        self._find_partitions()

    def _commit(self, within: Transaction | None) -> None:
        self._check_open()
        if not isinstance(within, Transaction | None):
            raise InvalidArgument(f"{within!r} is not a transaction")
        for key, (txn, _) in list(self._within.items()):
            if txn is not within and not self._settle(key):
                raise InvalidArgument(
                    f"transaction {txn.txn!r}, which was given positions of group {self.group!r},"
                    " has not ended with a commit: rewind, and read again what belonged to it"
                )
        now_ms = self._source.clock.now_ms()
        moved = {key: offset for key, offset in self._next.items() if self._is_moved(key, offset)}
        if not moved:
            return
        for topic in {key.topic for key in moved}:
            self._checked_topic(topic)
        positions = {}
        for key, offset in moved.items():
            epoch = self._epochs.get(key)
            known = -1 if epoch is None else epoch
            positions[key] = Position(offset, known, "", now_ms, self._topic_ids[key.topic])
        before = {key: self._before.get(key) for key in moved}
        if within is not None:
            within.add_positions(self.group, positions, before)
            self._within.update({key: (within, offset) for key, offset in moved.items()})
            return
        self._before.update(self._source.commit(self.group, positions, before))

    def _is_moved(self, key: TopicPartition, offset: int) -> bool:
        """Return whether a position is not the one that was committed, or is to be."""
        if key in self._of_others:
            return False
        before = self._before.get(key)
        return before is None or before.offset != offset or key in self._within

    def _settle(self, key: TopicPartition) -> bool:
        """Take note of the position that a transaction has committed; return whether it has."""
        if key not in self._within:
            return True
        txn, offset = self._within[key]
        done = txn.committed
        record_offset = None if done is None else done.positions.get((self.group, *key))
        if done is None or done.is_repeat or record_offset is None:
            return False
        self._before[key] = CommittedAt(offset, record_offset)
        del self._within[key]
        return True

    def _check_partitions(self) -> None:
        """Raise UnknownTopicOrPartition for a partition that a topic lacks: it would stay idle."""
        for name in self.topics if self.partitions else ():
            numbers = self._source.topic(name).partitions
            absent = (self.partitions or frozenset()) - set(numbers)
            if absent:
                known = f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else "only 0"
                raise UnknownTopicOrPartition(
                    f"topic {name} has no partition {min(absent)}; it has {known}"
                )

    def _find_partitions(self) -> None:
        """Take up partitions that are not read yet, at their committed positions."""
        wanted = [
            TopicPartition(topic, partition)
            for topic in self.topics
            for partition in sorted(self._checked_topic(topic).partitions)
            if self.partitions is None or partition in self.partitions
        ]
        new = [key for key in wanted if key not in self._next]
        if not new:
            return
        is_first, self._has_begun = not self._has_begun, True
        undecided, (committed, of_others) = self._source.standing(self.group)
        for key in self._decided(new, undecided, is_first=is_first):
            was_there = self._put_off.get(key, is_first)
            offset = self._taken_up.get(key)
            if key in committed:
                position = committed[key].position
                offset = position.offset
                self._check_epoch(key, offset, position.leader_epoch)
            self._before[key] = None if key not in committed else committed[key].at
            if offset is None:
                start, end = self._source.bounds(key)
                offset = self._first_of(start, end) if was_there else start
            self._next[key] = self._taken_up[key] = offset
            self._put_off.pop(key, None)  # not before: a disk may have failed, for once
            if key in of_others:
                self._pass_over(key, of_others[key].position)

    def _pass_over(self, key: TopicPartition, position: Position) -> None:
        """Let the group begin again in a topic with the name of another one, or refuse that."""
        if position.offset == self._next[key] == 0:
            return  # it has read nothing of the other one, and skips nothing of this one
        if self._start == "none":
            held, offset = self._source.bounds(key), position.offset
            error = OffsetOutOfRange(offset, *held, reason=_OF_ANOTHER).of_log(str(key))
            self._of_others[key] = error
        elif (key, position) not in self._passed_over:
            self._passed_over.add((key, position))
            text = "position-of-another-topic log=%s group=%s offset=%d reason=%s"
            _log.warning(text, key, self.group, position.offset, _OF_ANOTHER)

    def _decided(
        self, keys: list[TopicPartition], undecided: frozenset[TopicPartition], *, is_first: bool
    ) -> list[TopicPartition]:
        """Return the partitions without those of which a transaction sets the group's position.

        It has processed the records that the group would read next, and may be committed.
        """
        for key in sorted(undecided.intersection(keys)):
            if key not in self._put_off:
                self._put_off[key] = is_first
                text = (
                    "position-undecided log=%s group=%s reason=a transaction that sets it is open"
                )
                _log.warning(text, key, self.group)
        return [key for key in keys if key not in undecided]

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidArgument(f"the reader of group {self.group!r} is closed")


class GroupReader(GroupMember, Closable):
    """Reads topics for a consumer group, from its committed positions on; used by one thread.

    Iterating yields the records that are there, partition by partition in turns, and then waits for
    new ones; ``read`` ends. A position moves after a record when the record is yielded, and
    survives a restart once ``commit`` has returned. So records are seen at least once; exactly once
    where they are processed within a transaction that the positions are committed with.

    >>> with tidelog.open("data") as logs:
    ...     created = [logs.create_topic(name) for name in ("in", "out")]
    ...     logs.append_all("in", [b"1", b"2"])
    ...     with logs.reader("in", group="doubler") as reader, logs.transaction() as txn:
    ...         for record in reader.read():
    ...             txn.append("out", record.value * 2)
    ...         reader.commit(txn)
    ...     with logs.reader("in", group="doubler") as reader:
    ...         list(reader.read())
    ...     [record.value for record in logs.read("out")]
    2
    []
    [b'11', b'22']

    One reader at a time reads a partition for a group: there is no assignment as among Kafka's
    consumers.
    """

    def __iter__(self) -> Iterator[ConsumedRecord]:
        """Yield records, and wait for new ones for ever; errors as ``read``."""
        return self.read(idle_ms=None)

    def read(self, *, idle_ms: int | None = 0) -> Iterator[ConsumedRecord]:
        """Yield records until nothing has come for ``idle_ms``; None: for ever.

        A partition that was added to a topic is read from its start.

        Raises:
            OffsetOutOfRange: a position lies outside its log, or was committed in another topic of
                this name, and ``start`` is ``none``. Otherwise that is logged, and the partition is
                read from the log's start or end on.
            DataLoss: the log was restored, or has lost its end, since the group read it, and
                ``start`` is ``none``. Otherwise that is logged, and the records that have the same
                offsets since are read.
            UnknownTopicOrPartition: a topic was deleted; if it was created again since, ``rewind``
                continues in the new one.
            InvalidArgument: this is closed.
            KafkaStorageError: the disk failed, or the directories were closed.
        """
        bell = self._source.bell
        idle = IdleTime(idle_ms, self._source.clock.monotonic_ns)
        while True:
            seen, found = bell.rings, False
            for key in self._begin_round():
                for record in self._some_of(key):
                    found = True
                    yield record
            if found:
                idle.restart()
                continue
            left_ms = idle.left_ms(LOOK_AGAIN_MS)
            if left_ms <= 0:
                return
            bell.wait(seen, left_ms)

    def _some_of(self, key: TopicPartition) -> Iterator[ConsumedRecord]:
        jumps, end, count = self._jumps, self._end_of(key), 0
        for record in self._peek(key):
            consumed = self._consume(key, record, jumps)
            if consumed is None:
                return
            count += 1
            yield consumed
        if count < ROUND_RECORDS:
            self._pass(key, end, jumps)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The committed position of each partition of the group's that has one."""
        return self._committed()

    def rewind(self) -> None:
        """Go back to the committed positions; without one, to where this began in the partition."""
        self._rewind()

    def commit(self, within: Transaction | None = None) -> None:
        """Commit the positions that have moved, durably.

        ``within`` a transaction they are committed with it, and only if it is: after an abort,
        ``rewind``.

        They are committed only if the group is still where this reader took it up, or has
        committed it since: an older reader's transaction, or another program, may have moved it.
        Then nothing of the transaction is committed either, and ``rewind`` continues where the
        group is now.

        Raises:
            IllegalGeneration: the group is elsewhere; of a transaction its ``commit`` raises this.
            InvalidArgument: this is closed, or a transaction that was given positions before has
                not ended with a commit; ``rewind``, and read again what belonged to it.
            UnknownTopicOrPartition: a topic was deleted.
            KafkaError: as of appends.
        """
        self._commit(within)
