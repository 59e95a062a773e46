"""What a data directory holds and how much room its disk has, as values.

Kafka: ``LogDirDescription`` and ``ReplicaInfo`` of the admin client, from
``ReplicaManager.describeLogDirs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """One log in a data directory. Source: Kafka ReplicaInfo.

    ``size_bytes`` counts the records in all its segments. ``offset_lag`` is by how many offsets the
    log is behind: a future log, which a partition will have once it has moved, behind the log end
    of the present one; any other log behind its high watermark, which is 0 for an only replica.
    None: not known, since the present log lies in another directory.
    """

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int | None
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A data directory. Source: Kafka LogDirDescription.

    ``error`` is why it is offline, None for one in use; an offline one has no replicas. They are in
    order of topic and number, a future log after the present one. ``total_bytes`` is the size of
    the disk, ``usable_bytes`` what this user may still write there; both None where the disk cannot
    be asked.
    """

    path: str
    error: str | None
    replicas: tuple[ReplicaInfo, ...]
    total_bytes: int | None
    usable_bytes: int | None

    @classmethod
    def of(
        cls, path: str, replicas: Iterable[ReplicaInfo], space: tuple[int, int] | None
    ) -> LogDirDescription:
        """Return the description of a directory in use; ``space``: total and usable bytes."""
        ordered = sorted(replicas, key=lambda one: (one.topic, one.partition, one.is_future))
        total_bytes, usable_bytes = (None, None) if space is None else space
        return cls(path, None, tuple(ordered), total_bytes, usable_bytes)

    @classmethod
    def offline(cls, path: str, reason: str) -> LogDirDescription:
        """Return the description of a directory that is offline."""
        return cls(path, reason, (), None, None)

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all logs."""
        return sum(replica.size_bytes for replica in self.replicas)

    def as_json(self) -> Mapping[str, Any]:
        """Return the values under the names that every command uses in JSON."""
        return {
            "directory": self.path,
            "error": self.error,
            "totalBytes": self.total_bytes,
            "usableBytes": self.usable_bytes,
            "replicas": [
                {
                    "topic": replica.topic,
                    "partition": replica.partition,
                    "sizeBytes": replica.size_bytes,
                    "offsetLag": replica.offset_lag,
                    "isFuture": replica.is_future,
                }
                for replica in self.replicas
            ],
        }
