"""When the console looks: while pages are asked for, and no more than a part of the time.

A pass begins with a page. It continues between pages on a background thread, in slices, so that a
page never waits long; the thread that reads holds ``lock``.
"""

from __future__ import annotations

from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.errors import TidelogError
from tidelog.readonly.group_positions import OFFSETS_TOPIC

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tidelog.console.group_survey import GroupSurvey
    from tidelog.console.partition_survey import PartitionSurvey
    from tidelog.env.clock import Clock
    from tidelog.env.scheduler import Scheduler

FIRST_MS: Final = 150
"""How long the console may look around before it answers."""
INLINE_MS: Final = 30
"""How long another one may."""
SLICE_MS: Final = 10
"""How long a page may wait for the pass that runs."""
GAP_MS: Final = 2
"""How long that leaves to pages then."""
_LEAST_PAUSE_MS: Final = 2000
_PAUSES: Final = 10
"""After a pass nothing is looked at for this many times as long as it took."""
_FEW_PARTITIONS: Final = 200


class Watch:
    """Lets the surveys look again where what they know is old."""

    def __init__(
        self,
        partitions: PartitionSurvey,
        groups: GroupSurvey,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        self._partitions: Final = partitions
        self._groups: Final = groups
        self._clock: Final = clock
        self._scheduler: Final = scheduler
        self._is_busy = False
        self._is_reading_groups = False
        self.lock: Final = Lock()

    def freshen(self) -> None:
        """See that what a page shows is not old; the caller holds the lock.

        Raises, the first time only, InvalidArgument for what is not a data directory and for
        directories that do not belong together, and KafkaStorageError.
        """
        survey = self._partitions
        budget_ms = INLINE_MS
        if survey.directory is None:
            survey.begin(survey.open())
            budget_ms = FIRST_MS
        elif not (survey.is_running or self._is_busy) and self._is_due(
            survey.ended_ms, survey.took_ms
        ):
            self._look_again()
        survey.work(budget_ms)
        if survey.is_running and not self._is_busy:
            self._is_busy = True
            self._scheduler.schedule("console-partitions", self._slice, delay_ms=GAP_MS)
        self._freshen_groups()

    def _look_again(self) -> None:
        """Begin another pass: here, or on the background thread where that takes time."""
        if self._partitions.total <= _FEW_PARTITIONS:
            self._open_and_begin(nullcontext())
            return
        self._is_busy = True
        self._scheduler.schedule("console-directories", self._open_behind, delay_ms=GAP_MS)

    def _open_behind(self) -> None:
        try:
            self._open_and_begin(self.lock)
        finally:
            self._slice()

    def _open_and_begin(self, lock: AbstractContextManager[object]) -> None:
        """Open the directories, without the lock, and begin a pass."""
        survey = self._partitions
        try:
            directory = survey.open()
        except (TidelogError, OSError) as error:
            with lock:
                survey.end(str(error))
            return
        with lock:
            survey.begin(directory)

    def _is_due(self, ended_ms: int, took_ms: int) -> bool:
        pause_ms = max(_LEAST_PAUSE_MS, _PAUSES * took_ms)
        return not 0 <= self._clock.now_ms() - ended_ms < pause_ms

    def _slice(self) -> None:
        with self.lock:
            try:
                self._partitions.work(SLICE_MS)
            finally:
                self._is_busy = self._partitions.is_running
        if self._is_busy:
            self._scheduler.schedule("console-partitions", self._slice, delay_ms=GAP_MS)

    def _freshen_groups(self) -> None:
        groups, survey = self._groups, self._partitions
        if self._is_reading_groups or not self._is_due(groups.ended_ms, groups.took_ms or 0):
            return
        if survey.directory is None or OFFSETS_TOPIC not in survey.directory.topic_names:
            return
        is_quick = (groups.took_ms or 0) <= INLINE_MS and survey.total <= _FEW_PARTITIONS
        if is_quick:
            groups.run()
            return
        self._is_reading_groups = True
        self._scheduler.schedule("console-groups", self._read_groups)

    def _read_groups(self) -> None:
        try:
            self._groups.run()
        finally:
            self._is_reading_groups = False
