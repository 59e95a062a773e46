"""What the console knows of consumer groups; the numbers are those of ``tidelog groups``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.env.clock import NS_PER_MS
from tidelog.errors import TidelogError
from tidelog.explain.groups import GroupPosition, group_positions
from tidelog.readonly.read_only_directory import open_directory_read_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.segment.filenames import TopicPartition


class GroupSurvey:
    """The committed positions of all groups, read whole each time.

    ``failure`` says why they could not be read the last time; what was known before stays. Another
    thread may read meanwhile what the last reading found.
    """

    def __init__(self, fs: FileSystem, paths: Sequence[str], clock: Clock) -> None:
        self._fs: Final = fs
        self._paths: Final = paths
        self._clock: Final = clock
        self.positions: list[GroupPosition] = []
        self.lags: dict[TopicPartition, int] = {}
        """The largest lag of a group in each partition."""
        self.failure: str | None = None
        self.ended_ms = 0
        self.took_ms: int | None = None

    def run(self) -> None:
        """Read them all."""
        started = self._clock.monotonic_ns()
        try:
            directory = open_directory_read_only(
                *self._paths, fs=self._fs, accept=None, asks_holder=True
            )
            positions = group_positions(directory)
        except (TidelogError, OSError) as error:
            self.failure = str(error)
        else:
            lags: dict[TopicPartition, int] = {}
            for one in positions:
                if one.lag is not None:
                    lags[one.key] = max(lags.get(one.key, one.lag), one.lag)
            self.positions, self.lags, self.failure = positions, lags, None
        self.ended_ms = self._clock.now_ms()
        self.took_ms = (self._clock.monotonic_ns() - started) // NS_PER_MS
