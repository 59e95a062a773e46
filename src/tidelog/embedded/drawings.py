"""What draws logs for notebooks, when one asks."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, TypeVar

from tidelog.codec.one_line import Told
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.datadir.catalogue import Topic
    from tidelog.explain.pictures.notebook import LogDrawing
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_topic import ReadOnlyTopic

T = TypeVar("T", "Topic", "ReadOnlyTopic")


class DrawnLogs(Told):
    """The base of topics and their logs that a notebook shows as drawings of their files."""

    def _look(self) -> ReadOnlyDirectory:
        """Return the directories as they are now, to read only."""
        raise NotImplementedError

    def _chosen(self, topic: str, partition: int | None, *offsets: int | None) -> list[int]:
        """Return the partitions that a read covers; see ``numbers_to_read``."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return drawing(self, self._look)()

    def picture(self, topic: str, partition: int | None = None) -> LogDrawing:
        """Return a drawing of a topic's logs, or of one, which a notebook shows.

        It shows what the files hold, with the high watermark of the last checkpoint. Batches,
        transactions and leader epochs are drawn of one log of up to 8 MiB, else segments and
        offsets only. Raises UnknownTopicOrPartition, PartitionsElsewhere, KafkaStorageError,
        OffsetOutOfRange.
        """
        from tidelog.explain.pictures.notebook import draw_logs  # noqa: PLC0415 - few draw

        numbers = self._chosen(topic, partition)
        return draw_logs(self._look(), [TopicPartition(topic, number) for number in numbers])

    def _shown(self, topic: T) -> T:
        """Return the topic as a notebook shows it, with its logs."""
        return copy(topic).drawn_by(drawing(topic, self._look, topic.name))


def drawing(
    held: object,
    look: Callable[[], ReadOnlyDirectory],
    topic: str | None = None,
    partition: int | None = None,
) -> Callable[[], str]:
    """Return what makes the HTML of an object with logs; arguments as of ``logs_html``."""

    def draw() -> str:
        from tidelog.explain.pictures.notebook import logs_html  # noqa: PLC0415 - few draw

        return logs_html(held, look, topic, partition)

    return draw
