"""The files of a partition, read without a lock: a snapshot, replaced when it is outdated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.errors import KafkaStorageError
from tidelog.log.topic_id import topic_id_or_none
from tidelog.readonly.checkpoints import NO_LINES, Lines
from tidelog.readonly.held_files import check_topic
from tidelog.readonly.log_snapshot import LogSnapshot, answer
from tidelog.records.batch import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.readonly.read_files import ReadFiles
    from tidelog.readonly.read_only_segment import ReadOnlySegment

S = TypeVar("S", bound="ReadOnlySegment")
T = TypeVar("T")


class PartitionFiles:
    """The segments of one directory; used by one thread at a time.

    ``snapshot`` is the newest one, ``lines`` those of the checkpoints that were read before it was
    taken. ``read_lines`` reads them for the next one. Where damage is skipped, ``past_damage``, the
    log may also hold more than they say.
    """

    def __init__(
        self,
        directory: str,
        fs: ReadFiles,
        lines: Lines = NO_LINES,
        read_lines: Callable[[], Lines] = lambda: NO_LINES,
        *,
        past_damage: bool = False,
    ) -> None:
        """Take a snapshot; FileNotFoundError if there is no such directory."""
        self.directory: Final = directory
        self.fs: Final = fs
        self.past_damage: Final = past_damage
        self._read_lines: Final = read_lines
        # Before the snapshot, which then is of this topic, or ``renew`` finds another one.
        self._topic_id: Final = topic_id_or_none(fs, directory)
        self._take(lines)

    def _take(self, lines: Lines) -> None:
        end_offset = INT64_MAX if self.past_damage else lines.end_offset
        self.snapshot = LogSnapshot.take(self.directory, self.fs, end_offset, self._topic_id)
        self.lines = lines

    @property
    def segments(self) -> tuple[ReadOnlySegment, ...]:
        """The segments of the newest snapshot, in order."""
        return self.snapshot.segments

    def renew(self) -> None:
        """Take another snapshot; KafkaStorageError if the directory is gone, or another topic's."""
        self.release()
        # Read first, so that what the checkpoints promise is in the listing.
        lines = self._read_lines()
        try:
            self._take(lines)
        except FileNotFoundError:
            raise KafkaStorageError(f"{self.directory} was deleted while it was read") from None
        self.check_topic()

    def check_topic(self) -> None:
        """Raise KafkaStorageError if the directory is another topic's by now."""
        check_topic(self.fs, self.directory, self._topic_id)

    def release(self) -> None:
        """Close the files and drop what was read of the indexes; a later read opens them again."""
        self.snapshot.close()

    def ask(self, question: Callable[[LogSnapshot], T]) -> T:
        """Return the answer of a snapshot; where that is outdated, or shows damage, of a new one.

        Raises:
            CorruptMessage: two snapshots in a row show the same damage.
            KafkaStorageError: the files changed during every one of ``MAX_LOOKS`` attempts.
        """

        def look(number: int) -> T:
            if number:
                self.renew()
            return question(self.snapshot)

        return answer(look, lambda: self.directory)


def overlapping(segments: Sequence[S], start: int, end: int) -> list[S]:
    """Return the segments that may hold offsets of ``[start, end)``."""
    ends = [segment.base_offset for segment in segments[1:]] + [INT64_MAX]
    return [
        segment
        for segment, segment_end in zip(segments, ends, strict=False)
        if segment.base_offset < end and segment_end > start
    ]
