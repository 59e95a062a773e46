"""What an owner of logs asks of the cleaner about one partition. Kafka: ``LogManager``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.manager.cleaning import Cleaning


class CleaningControl:
    """The part of a log manager that stops and resumes the cleaning of a partition.

    Without a cleaner, as on first use, only what is done on demand is stopped.
    """

    _cleaning: Cleaning

    def abort_cleaning(self, topic: str, partition: int) -> None:
        """Stop the cleaning of a partition and wait until it has stopped; it may begin again.

        Several threads may do so at once: each waits. Source: Kafka abortCleaning, which refuses a
        second abort.
        """
        self._cleaning.abort(TopicPartition(topic, partition))

    def abort_and_pause_cleaning(self, topic: str, partition: int) -> None:
        """Stop the cleaning of a partition, and allow none until ``resume_cleaning``.

        Pauses add up. Source: Kafka abortAndPauseCleaning, which refuses a second abort.
        """
        self._cleaning.pause(TopicPartition(topic, partition))

    def resume_cleaning(self, topic: str, partition: int) -> None:
        """Undo one pause; InvalidArgument if there is none. Source: Kafka resumeCleaning."""
        self._cleaning.resume(TopicPartition(topic, partition))
