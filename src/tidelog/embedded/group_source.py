"""What a group's reader reads from: the logs that its own process holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.embedded.topic_reads import end_of
from tidelog.manager.group_home import home_of_group
from tidelog.manager.whole_log import lost_of, records_from
from tidelog.readonly.missing.holes import warn_of_lost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidelog.log.log import Log
    from tidelog.manager.consumer_groups import FoundPositions, Groups
    from tidelog.manager.log_manager import LogManager
    from tidelog.readonly.epoch_lineage import Epochs
    from tidelog.readonly.group_positions import Position
    from tidelog.records.isolation import Isolation
    from tidelog.records.record import Record
    from tidelog.segment.filenames import TopicPartition
    from tidelog.staging.group_step import CommittedAt


class OwnLogs:
    """The logs that this process holds, and the groups that read them.

    ``JoinedSource`` is the same for a program that has joined the one that holds them. ``bell``
    rings when there may be more to read.
    """

    def __init__(self, manager: LogManager, groups: Groups) -> None:
        self._manager: Final = manager
        self._groups: Final = groups
        self.clock: Final = manager.machine.clock
        self.bell: Final = manager.bell
        self.topic: Final = manager.topic
        self.join: Final = groups.join
        self.leave: Final = groups.leave
        self.found: Final = groups.found

    def standing(self, group: str) -> tuple[frozenset[TopicPartition], FoundPositions]:
        """Return the partitions whose position a transaction is to set, and what is committed."""
        # In this order: of a transaction that ends in between, the positions are those that it set.
        undecided = self._groups.undecided(group)
        return undecided, self._groups.found(group)

    def _log(self, key: TopicPartition) -> Log:
        return self._manager.partition(*key).log

    def records(self, key: TopicPartition, start: int, isolation: Isolation) -> Iterator[Record]:
        """Yield the records from an offset on; raise OffsetOutOfRange, KafkaStorageError."""
        partition = self._manager.partition(*key)
        log = partition.log

        def warn(hole: tuple[int, int]) -> None:
            warn_of_lost(log.directory, lost_of(self._manager, partition, [hole]))

        return records_from(log, start, isolation, self._manager.machine.fs, warn)

    def end(self, key: TopicPartition, isolation: Isolation) -> int:
        """Return the offset up to which a reader of this level sees."""
        return end_of(self._log(key), isolation)

    def bounds(self, key: TopicPartition) -> tuple[int, int]:
        """Return the log start offset and the high watermark."""
        log = self._log(key)
        return log.log_start_offset, log.high_watermark

    def epochs(self, key: TopicPartition) -> Epochs:
        """Return the leader epochs of the partition."""
        return self._log(key).epochs.entries

    def directory(self, key: TopicPartition) -> str:
        """Return the directory of the partition."""
        return self._log(key).directory

    def commit(
        self,
        group: str,
        positions: Mapping[TopicPartition, Position],
        before: Mapping[TopicPartition, CommittedAt | None],
    ) -> dict[TopicPartition, CommittedAt]:
        """Commit positions, durably; as ``Groups.commit``."""
        return self._groups.commit(home_of_group(self._manager, group), group, positions, before)
