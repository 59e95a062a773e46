"""What a commit needs of the holder of a data directory. ``manager`` implements it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from uuid import UUID

    from tidelog.config.log_config import LogConfig
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.staging.group_step import GroupPartition, GroupStep
    from tidelog.staging.journal import Journal, NewTopic
    from tidelog.staging.staged_run import StagedRun

Key = tuple[str, int]


class CommitPoint(Enum):
    """A moment of a commit. A crash at ``CHECKED`` undoes it; from ``COMMITTED`` on none does."""

    CHECKED = "files and settings are checked, logs are flushed"
    COMMITTED = "the journal is durable"
    CREATED = "new topics are there"
    PLACED = "all batches are in the logs, durably"
    VISIBLE = "the checkpoint of high watermarks is written"
    FINISHED = "the transaction is in the table of finished ones"
    CLEANED = "staged files and journal are deleted"


class StagingDirectory(Protocol):
    """One data directory that this process writes, with all that holds its topics and logs."""

    fs: FileSystem
    path: str
    """The data directory."""
    retention_ms: int
    """Time in ms for which a transaction that a user named is known."""
    written: Journal | None
    """The journal that a commit writes; from then on it may be there."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """Returns the time of day."""

    @property
    def reached(self) -> Callable[[CommitPoint], None]:
        """Takes note of how far a commit is; tests cut the power here."""

    def check_steps(self, steps: Sequence[GroupStep]) -> None:
        """Raise IllegalGeneration or NonEmptyGroup unless groups may take these steps.

        From here on no client that was a member of one before takes another.
        """

    @property
    def position_records(
        self,
    ) -> Callable[[Sequence[GroupPartition]], Mapping[GroupPartition, int]]:
        """Returns the log offsets of the records that say where groups are."""

    def placed(self, journal: Journal, size_bytes: int) -> None:
        """Take note that this many more bytes of a journal are in their logs."""

    def check_room(self, size_bytes: int) -> None:
        """Raise DirectoryFull if the disk has no room for this many more bytes."""

    def plan(self, run: StagedRun, new: Mapping[str, NewTopic]) -> LogConfig:
        """Return the settings of a run's partition; ``new`` topics are yet to be created.

        Raises UnknownTopicOrPartition, and InvalidArgument if another directory holds it.
        """

    def check_new(self, topics: Sequence[NewTopic]) -> None:
        """Raise the error that creating all of these topics would raise."""

    def check_topic(self, topic: str, topic_id: UUID, partitions: int | None) -> None:
        """Raise UnknownTopicOrPartition, or InconsistentTopicId, unless a topic has this id.

        And InvalidArgument unless it has this number of partitions; None: any.
        """

    def topic_ids(self) -> Mapping[str, UUID]:
        """Return the id of every topic."""

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create topics with all their partitions, durably; what is there already stays."""

    def is_deleted(self, journal: Journal, key: Key) -> bool:
        """Return whether the topic of a move was deleted after the commit."""

    def locked(self, keys: Sequence[Key]) -> AbstractContextManager[None]:
        """Keep other writers away from partitions, in this order; their logs are loaded."""

    def log(self, key: Key) -> Log:
        """Return the log of a partition; typed errors if it cannot be used."""

    def hold(self, journal: Journal, *, is_shown: bool = False) -> None:
        """Keep all that deletes records at the journal's base offsets, and high watermarks, too.

        ``is_shown``: all its records are there, and high watermarks rise to the log ends.
        """

    def release(self, journal: Journal) -> None:
        """End ``hold``: the partitions take appends again."""

    def write_high_watermarks(self, journal: Journal) -> None:
        """Make high watermarks durable where they changed; readers beside go by them."""
