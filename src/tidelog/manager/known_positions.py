"""What was read of a partition of ``__consumer_offsets``, so that a second look reads what is new.

Kafka: ``OffsetMetadataManager``, which hears of each record.
"""

from __future__ import annotations

from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ref

from tidelog.readonly.group_positions import Position, read_committed_position, read_group
from tidelog.records.known_records import known_records
from tidelog.staging.group_step import CommittedAt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from uuid import UUID

    from tidelog.log.log import Log
    from tidelog.records.array_rows import Ints
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.record import Record
    from tidelog.segment.filenames import TopicPartition

    _Found = tuple[RecordColumns, Ints]
    Through = Callable[[Iterable[_Found]], Iterator[_Found]]


class Committed(NamedTuple):
    """A group's position in a partition, and the log offset of the record that says it."""

    position: Position
    record_offset: int

    @property
    def at(self) -> CommittedAt:
        """What a fence compares."""
        return CommittedAt(self.position.offset, self.record_offset)


class KnownPositions:
    """The positions that one partition of the topic has, as far as its log was read.

    Any thread may use it; ``_lock`` guards all, and no lock is waited for under it, unless the log
    is being truncated. ``topic_id`` is the topic's. As in Kafka, a commit that belongs to no
    transaction counts at once, and one that does when that is committed, in the order of the log.
    """

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id: Final = topic_id
        self._lock = Lock()
        self._groups: dict[str, dict[TopicPartition, Committed]] = {}
        self._written: dict[str, bool] = {}
        """The groups that clients have had, each with whether it has members, as the log says."""
        self._read_to = 0
        self._log: ref[Log] | None = None
        self._cuts = 0
        """The log that was read, and how often it had been truncated by then."""
        self._opened: dict[int, int] = {}
        """The transactions that were open: their first offsets, by producer."""
        self._undecided: dict[int, dict[str, set[TopicPartition]]] = {}
        """Whose positions they set, by producer and group."""

    def catch_up(self, log: Log, through: Through = iter) -> None:
        """Read what the log has got since the last look, and what was decided since.

        What is read passes ``through``; an error of it is made good by the next look.
        """
        with self._lock:
            # Before the end: of a truncation that comes meanwhile the next look takes notice.
            cuts, replaced_end = log.cuts, log.replaced_end
            if self._is_other(log):
                self._begin_again()
            # Before the transactions: one that begins meanwhile has no record below it.
            end = log.high_watermark
            opened = {id_: first for id_, first in log.open_transactions().items() if first < end}
            start = self._start(log, end, opened)
            if start < max(end, log.log_start_offset):
                found = log.columns_by_transaction(max(start, log.log_start_offset), end, opened)
                with log.watch("reading positions"):
                    self._take(through(found), log.directory)
            # Not past records dropped meanwhile, so that the next look begins again.
            self._read_to = end if log.replaced_end == replaced_end else min(end, self._read_to)
            self._opened = opened
            self._log, self._cuts = ref(log), cuts

    def note(
        self, log: Log, group: str, positions: Mapping[TopicPartition, Position], end: int
    ) -> None:
        """Take positions that were just committed, by no transaction, in records below ``end``.

        So the next look need not read them, unless there is more to be read before them.
        """
        start = end - len(positions)
        if not self._lock.acquire(blocking=False):
            return  # who reads now may read them, too
        try:
            if self._read_to == start and not self._is_other(log):
                known = self._groups.setdefault(group, {})
                for offset, key in enumerate(sorted(positions), start):
                    known[key] = Committed(positions[key], offset)
                self._read_to = end
        finally:
            self._lock.release()

    @property
    def read_to(self) -> int:
        """The offset up to which the log was read."""
        return self._read_to

    def _is_other(self, log: Log) -> bool:
        """Whether what was read may be there no more, or what would undo it may have come and gone.

        Of the positions that were taken back where nobody has looked, the cleaner drops both.
        """
        is_same = self._log is not None and self._log() is log and log.cuts == self._cuts
        return not is_same or log.replaced_end > self._read_to

    def _begin_again(self) -> None:
        self._groups, self._opened, self._undecided = {}, {}, {}
        self._written = {}
        self._read_to = 0

    def _start(self, log: Log, end: int, opened: dict[int, int]) -> int:
        """Return from where on to read: what was not read, or was committed since it was."""
        if end < self._read_to:
            self._begin_again()
        start = self._read_to
        ended = self._opened.items() - opened.items()
        for producer_id, _ in ended:
            self._undecided.pop(producer_id, None)
        if ended:
            aborted = log.collect_aborted_transactions(min(first for _, first in ended), end)
            ended -= {(one.producer_id, one.first_offset) for one in aborted}
        return min((first for _, first in ended), default=start)

    def _take(self, found: Iterable[_Found], directory: str) -> None:
        for columns, owners in found:
            settled = [*columns.select(owners < 0).records()]
            _take_positions(self._groups, settled, directory)
            for _, stored in known_records(settled, read_group, directory):
                if stored.values is None:
                    self._written.pop(stored.group, None)
                else:
                    self._written[stored.group] = bool(stored.values["members"])
            for producer_id in set(owners[owners >= 0].tolist()):
                records = columns.select(owners == producer_id).records()
                groups = self._undecided.setdefault(producer_id, {})
                for _, one in known_records(records, read_committed_position, directory):
                    groups.setdefault(one.group, set()).add(one.key)

    def of_group(self, group: str) -> dict[TopicPartition, Committed]:
        """Return the positions of a group."""
        with self._lock:
            return dict(self._groups.get(group, {}))

    def all(self) -> dict[str, dict[TopicPartition, Position]]:
        """Return the positions of all groups."""
        with self._lock:
            return {
                group: {key: one.position for key, one in found.items()}
                for group, found in self._groups.items()
            }

    def has_members(self, group: str) -> bool:
        """Return whether clients were members of a group when its last record was written."""
        with self._lock:
            return self._written.get(group, False)

    def is_written(self, group: str) -> bool:
        """Return whether there is a record of a group that clients have had."""
        with self._lock:
            return group in self._written

    def undecided(self, group: str) -> frozenset[TopicPartition]:
        """Return the partitions of which an open transaction has set a group's position."""
        with self._lock:
            found = (groups.get(group, ()) for groups in self._undecided.values())
            return frozenset(chain.from_iterable(found))


def _take_positions(
    known: dict[str, dict[TopicPartition, Committed]], records: Iterable[Record], directory: str
) -> None:
    """Take the positions that records of ``__consumer_offsets`` say into ``known``, by group."""
    for record, found in known_records(records, read_committed_position, directory):
        positions = known.setdefault(found.group, {})
        if found.position is None:
            positions.pop(found.key, None)
            if not positions:
                del known[found.group]
        else:
            positions[found.key] = Committed(found.position, record.offset)
