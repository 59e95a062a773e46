"""What a group's reader reads from: the logs that its own process holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from tidelog.embedded.topic_reads import end_of
from tidelog.manager.group_home import home_of_group
from tidelog.manager.whole_log import records_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidelog.datadir.catalogue import Topic
    from tidelog.env.clock import Clock
    from tidelog.env.waiting import Bell
    from tidelog.log.log import Log
    from tidelog.manager.consumer_groups import Groups, Member
    from tidelog.manager.known_positions import Committed
    from tidelog.manager.log_manager import LogManager
    from tidelog.readonly.epoch_lineage import Epochs
    from tidelog.readonly.group_positions import Position
    from tidelog.records.isolation import Isolation
    from tidelog.records.record import Record
    from tidelog.segment.filenames import TopicPartition
    from tidelog.staging.group_step import CommittedAt


class GroupSource(Protocol):
    """Topics, their records, and the groups that read them."""

    @property
    def clock(self) -> Clock:
        """The time."""

    @property
    def bell(self) -> Bell:
        """Rings when there may be more to read."""

    def topic(self, name: str) -> Topic:
        """Return a topic; raise UnknownTopicOrPartition."""

    def records(self, key: TopicPartition, start: int, isolation: Isolation) -> Iterator[Record]:
        """Yield the records from an offset on; raise OffsetOutOfRange, KafkaStorageError."""

    def end(self, key: TopicPartition, isolation: Isolation) -> int:
        """Return the offset up to which a reader of this level sees."""

    def bounds(self, key: TopicPartition) -> tuple[int, int]:
        """Return the log start offset and the high watermark."""

    def epochs(self, key: TopicPartition) -> Epochs:
        """Return the leader epochs of the partition, as far as they are known."""

    def directory(self, key: TopicPartition) -> str:
        """Return the directory of the partition."""

    def join(self, member: Member) -> None:
        """Add a reader, if it is not there; InvalidArgument if another one reads the same."""

    def leave(self, member: Member) -> None:
        """Remove a reader; nothing if it has left."""

    def committed(self, group: str) -> Mapping[TopicPartition, Committed]:
        """Return the committed positions of a group, without those of topics deleted since."""

    def commit(
        self,
        group: str,
        positions: Mapping[TopicPartition, Position],
        before: Mapping[TopicPartition, CommittedAt | None],
    ) -> Mapping[TopicPartition, CommittedAt]:
        """Commit positions, durably; as ``Groups.commit``."""


class OwnLogs:
    """The logs that this process holds, as a ``GroupSource``."""

    def __init__(self, manager: LogManager, groups: Groups) -> None:
        self._manager: Final = manager
        self._groups: Final = groups
        self.clock: Final = manager.machine.clock
        self.bell: Final = manager.bell
        self.topic: Final = manager.topic
        self.join: Final = groups.join
        self.leave: Final = groups.leave
        self.committed: Final = groups.committed

    def _log(self, key: TopicPartition) -> Log:
        return self._manager.partition(*key).log

    def records(self, key: TopicPartition, start: int, isolation: Isolation) -> Iterator[Record]:
        """Yield the records from an offset on."""
        return records_from(self._log(key), start, isolation, self._manager.machine.fs)

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
        """Commit positions, durably."""
        return self._groups.commit(home_of_group(self._manager, group), group, positions, before)
