"""What an owner of logs asks of moves between data directories. Kafka: ``ReplicaManager``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import InvalidArgument
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.lifecycle.creator import LogCreator
    from tidelog.manager.lifecycle.move_status import MoveStatus
    from tidelog.manager.lifecycle.mover import PartitionMover
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.manager.partition import Partition


class MoveCalls:
    """The part of a log manager that moves partitions."""

    _creator: LogCreator
    _mover: PartitionMover
    _registry: LogRegistry
    _is_service: bool
    _check_open: Callable[[], None]
    partition: Callable[[str, int], Partition]

    def move_partition(self, topic: str, partition: int, path: str) -> bool:
        """Begin to move a partition to the data directory ``path``; see ``PartitionMover.move``.

        Appends and reads continue meanwhile. Raises UnknownTopicOrPartition, too, and
        InvalidArgument on first use: only a service moves partitions.
        """
        if not self._is_service:
            raise InvalidArgument("moving a partition needs a manager that loads all logs")
        self.partition(topic, partition)
        return self._mover.move(TopicPartition(topic, partition), path)

    def maybe_update_preferred_log_dir(self, topic: str, partition: int, path: str) -> None:
        """Create the partition's next log, current or future, in the data directory ``path``.

        Without effect if one of its logs lies there. Raises LogDirNotFound.
        Source: Kafka maybeUpdatePreferredLogDir.
        """
        self._creator.prefer(TopicPartition(topic, partition), path)

    def moves(self) -> list[MoveStatus]:
        """Return the moves in flight, sorted; on first use those that wait for a service.

        Raises KafkaStorageError.
        """
        self._check_open()
        return self._mover.moves() if self._is_service else self._mover.unopened_moves()

    def cancel_move(self, topic: str, partition: int) -> None:
        """Give a move up, durably: the partition stays as it is, and the copy is deleted.

        Raises InvalidArgument if there is no such move, or if it is decided; KafkaStorageError.
        """
        self._check_open()
        key = TopicPartition(topic, partition)
        if self._is_service:
            self._mover.cancel_on_request(key)
        else:
            self._mover.cancel_unopened(key)

    def throttle_moves(self, bytes_per_second: int | None) -> None:
        """Limit what all moves together copy, until the process ends; None: as the settings do.

        Raises InvalidArgument on first use, where nothing moves, and for a limit below 1.
        """
        if not self._is_service:
            raise InvalidArgument("no service runs here, so nothing is being moved")
        if bytes_per_second is not None and bytes_per_second < 1:
            raise InvalidArgument(f"{bytes_per_second} bytes per second is not a rate above 0")
        self._mover.throttle.set_rate(bytes_per_second)

    def wait_for_move(
        self, topic: str, partition: int, look_ms: int, on_look: Callable[[], None]
    ) -> None:
        """Wait until a partition is no longer moved; ``on_look`` is called before each look again.

        A copy may be left that nobody continues: its source has failed. Raises what has ended the
        partition, if that keeps the move from its end.
        """
        key, registry = TopicPartition(topic, partition), self._registry
        while registry.future(key) is not None and key not in self._mover.ended:
            if registry.current(key) is None:  # raises
                return
            on_look()
            registry.bell.wait(registry.bell.rings, look_ms)

    def why_not_moved(self, topic: str, partition: int) -> str:
        """Return why the last move of a partition ended without success; empty if it did not."""
        return self._mover.ended.get(TopicPartition(topic, partition), "")

    def replace_current_with_future(self, topic: str, partition: int) -> None:
        """Make the copy of a partition its log; see ``PartitionMover``."""
        self._mover.replace_current_with_future(TopicPartition(topic, partition))
