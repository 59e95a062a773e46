"""Replacing segments of an open log by others that hold the same, cleaned or split.

Kafka: ``UnifiedLog.replaceSegments``, ``splitOverflowedSegment`` and ``createNewCleanedSegment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.env.renamed_files import delete_if_there
from tidelog.log.file_deletion import delete_snapshots
from tidelog.log.split_overflow import open_cleaned_segment, split_overflowed_segment
from tidelog.segment.filenames import CLEANED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.log.state import LogState
    from tidelog.segment.segment import LogSegment


class SegmentSwap:
    """What the cleaner needs of a log besides reading; each method locks by itself.

    A closed log, and one whose disk failed, raises KafkaStorageError.
    """

    def __init__(self, state: LogState) -> None:
        self._state: Final = state

    def new_cleaned_segment(self, base_offset: int) -> LogSegment:
        """Make an empty segment named ``.cleaned``, for ``replace_segments``."""
        with (
            self._state.notices,
            self._state.lock,
            self._state.changing("making a cleaned segment"),
        ):
            return open_cleaned_segment(self._state.context, base_offset)

    def adopt_segment(self, base_offset: int, suffix: str) -> LogSegment:
        """Name a complete segment ``.cleaned`` that ends in ``suffix``, for ``replace_segments``.

        One that an earlier attempt left under that name is deleted first.
        """
        with (
            self._state.notices,
            self._state.lock,
            self._state.changing("adopting a cleaned segment"),
        ):
            context = self._state.context
            context.open_segment(base_offset, suffix=CLEANED_SUFFIX).delete()
            segment = context.open_segment(base_offset, suffix=suffix)
            segment.change_suffix(suffix, CLEANED_SUFFIX)
            return segment

    def delete_cleaned_segment(self, segment: LogSegment) -> None:
        """Delete one that replaces nothing; call this after an error, which stays the one raised.

        If that fails the log goes offline: a split beside the file that is left could lose, in a
        crash, what it split. Opening the log again deletes it.
        """
        try:
            segment.delete()
        except OSError as error:
            self._state.context.guard.take_offline(error)

    def replace_segments(
        self,
        new: Sequence[LogSegment],
        old: Sequence[LogSegment],
        cleaned_end: int | None = None,
    ) -> None:
        """Replace old segments by complete ``.cleaned`` ones; see ``LocalLog``."""
        with self._state.notices, self._state.lock, self._state.changing("replacing segments"):
            following = self._state.local.segments.higher(max(one.base_offset for one in old))
            end = self._state.offsets.log_end_offset if following is None else following.base_offset
            # Before: who sees the new segments sees this, too.
            self._state.replaced_end = max(self._state.replaced_end, end)
            replaced = self._state.local.replace_segments(new, old, cleaned_end)
            self._delete_snapshots_of(replaced)

    @property
    def marked_end(self) -> int | None:
        """Up to where the log is clean by the marks of cleaned segments; None without any."""
        return max(self._state.context.marks.values(), default=None)

    def delete_marks(self) -> None:
        """Delete the marks: the cleaner's checkpoint says as much, durably."""
        with self._state.notices, self._state.lock, self._state.changing("deleting marks"):
            context = self._state.context
            for name in tuple(context.marks):
                delete_if_there(context.fs, context.path(name))
                del context.marks[name]

    def split_segment(self, segment: LogSegment) -> None:
        """Replace a segment whose offsets do not fit by segments whose offsets do.

        Raises InvalidArgument if they do fit.
        """
        with self._state.notices, self._state.lock, self._state.changing("splitting a segment"):
            context, segments = self._state.context, self._state.local.segments
            self._delete_snapshots_of(split_overflowed_segment(context, segments, segment))

    def _delete_snapshots_of(self, segments: Sequence[LogSegment]) -> None:
        bases = [segment.base_offset for segment in segments]
        delete_snapshots(self._state.context, self._state.producers.snapshots, bases)
