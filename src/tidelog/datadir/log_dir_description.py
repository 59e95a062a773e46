"""What a data directory holds and how much room its disk has, as values.

Kafka: ``LogDirDescription`` and ``ReplicaInfo`` of the admin client, from
``ReplicaManager.describeLogDirs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tidelog.codec.one_line import Told, shortened
from tidelog.codec.shown_rows import LogBytes, Named, PartitionNumber, TopicName

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A log.

    The lag is not known where the present log lies in another directory; it is 0 for an only
    replica. Source: Kafka ReplicaInfo.
    """

    topic: TopicName
    partition: PartitionNumber
    size_bytes: LogBytes
    offset_lag: Annotated[
        int | None,
        "Offsets by which it lags: a future log against the present one, any other against its"
        " high watermark; null: not known.",
    ]
    is_future: Annotated[bool, "Whether it is the copy of a move that is under way."]


@dataclass(frozen=True, slots=True, repr=False)
class LogDirDescription(Told):
    """The data directory.

    One that cannot be read has no replicas; a future log comes after the present one. Source: Kafka
    LogDirDescription.
    """

    path: Annotated[str, Named("directory"), "Its path."]
    error: Annotated[str | None, "Why it cannot be read; null: it can."]
    total_bytes: Annotated[int | None, "Size of the disk, in bytes; null: not known."]
    usable_bytes: Annotated[
        int | None, "What this user may still write to it, in bytes; null: not known."
    ]
    replicas: Annotated[tuple[ReplicaInfo, ...], "Its logs, by topic and number."]

    def _told(self) -> str:
        state = "online" if self.error is None else f"offline, {shortened(self.error)}"
        return (
            f"{self.path!r}: replicas={len(self.replicas)}, size_bytes={self.size_bytes},"
            f" usable_bytes={self.usable_bytes}, {state}"
        )

    @classmethod
    def of(
        cls, path: str, replicas: Iterable[ReplicaInfo], space: tuple[int, int] | None
    ) -> LogDirDescription:
        """Return the description of a directory in use; ``space``: total and usable bytes."""
        ordered = sorted(replicas, key=lambda one: (one.topic, one.partition, one.is_future))
        total_bytes, usable_bytes = (None, None) if space is None else space
        return cls(path, None, total_bytes, usable_bytes, tuple(ordered))

    @classmethod
    def offline(cls, path: str, reason: str) -> LogDirDescription:
        """Return the description of a directory that is offline."""
        return cls(path, reason, None, None, ())

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all logs."""
        return sum(replica.size_bytes for replica in self.replicas)
