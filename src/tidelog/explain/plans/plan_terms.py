"""What plans depend on besides the logs themselves: settings, notes and checkpoints, the time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.errors import TidelogError
from tidelog.explain.plans.recovery_beside import recovery_points
from tidelog.explain.plans.retention_plan import pinned_offsets, plan_retention, retention_config
from tidelog.manager.compaction_plan import CleanerLines, plan_compaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.cleaner.compaction import Compaction
    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.cleaner.rewriting.filter_result import DroppedRecords
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.log.retention.shrunk_log import ShrunkLog
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition

    OnAnswer = Callable[[], Callable[[DroppedRecords], None]]

T = TypeVar("T")


class Planning(NamedTuple):
    """What the plans of one log depend on: settings in force, the cleaner's notes, the time.

    ``pinned_from`` as for ``plan_retention``.
    """

    config: LogConfig
    lines: CleanerLines
    clock: Clock
    pinned_from: int | None = None


class PlanTerms:
    """What the plans of logs in some data directories depend on, each file read once.

    Args:
        directory: the directories, opened.
        clock: its time of day is the one that plans assume.
        overrides: settings that take precedence over those of every topic.
        on_error: is called with why notes, checkpoints or journals cannot be read, which then count
            as empty; None: that is raised.
    """

    def __init__(
        self,
        directory: ReadOnlyDirectory,
        *,
        clock: Clock,
        overrides: Mapping[str, str] = NO_SETTINGS,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self.directory: Final = directory
        self.clock: Final = clock
        self._overrides: Final = overrides
        self._on_error: Final = on_error
        self._configs = cache(lambda topic: directory.config_in_force(topic, overrides))
        self._lines = self._read_once(CleanerLines.read, CleanerLines({}, {}))
        no_points: dict[tuple[str, int], int] = {}
        self._points = self._read_once(recovery_points, no_points)
        self._pinned = cache(lambda path: pinned_offsets(directory.fs, path, on_error))

    def config(self, topic: str) -> LogConfig:
        """Return the settings in force of a topic's logs; InvalidConfig."""
        return self._configs(topic)

    def retention_config(self, topic: str) -> LogConfig:
        """Return those settings as plans of retention take them; InvalidConfig."""
        return retention_config(self.config(topic), self._overrides)

    def cleaner_lines(self, key: TopicPartition) -> CleanerLines:
        """What a cleaner has noted beside a partition; KafkaStorageError for a malformed file."""
        return self._lines(self._path(key))

    def recovery_point(self, key: TopicPartition) -> int | None:
        """The line of a partition in the checkpoint of recovery points; errors the same."""
        return self._points(self._path(key)).get(key)

    def pinned_from(self, key: TopicPartition) -> int | None:
        """The offset from which on a committed transaction keeps everything; None: none does."""
        return self._pinned(self._path(key)).get(key)

    def planning(self, key: TopicPartition) -> Planning:
        """Return what the plans of one log depend on; errors as above."""
        config, lines = self.retention_config(key.topic), self.cleaner_lines(key)
        return Planning(config, lines, self.clock, self.pinned_from(key))

    def retention_of(
        self, key: TopicPartition, opened: Callable[[], ReadOnlyLog], *, with_times: bool = False
    ) -> ShrunkLog:
        """Return what retention would delete of one log; arguments and errors as there."""
        return plan_retention(
            opened,
            self.retention_config(key.topic),
            self.clock,
            pinned_from=self.pinned_from(key),
            with_times=with_times,
        )

    def compaction_of(
        self,
        key: TopicPartition,
        opened: Callable[[], ReadOnlyLog],
        compaction: Compaction | None = None,
        **on_answer: OnAnswer,
    ) -> CompactionFacts:
        """Return how the cleaner stands with one log, and what it would do, by its own rules.

        Other arguments and errors as ``plan_compaction``.
        """
        config, lines = self.config(key.topic), self.cleaner_lines(key)
        return plan_compaction(opened, config, lines, self.clock, compaction, **on_answer)

    def _path(self, key: TopicPartition) -> str:
        return self.directory.part_of(*key).path

    def _read_once(self, read: Callable[[FileSystem, str], T], empty: T) -> Callable[[str], T]:
        """Return what reads a file of a data directory, by the path of that."""

        @cache
        def answer(path: str) -> T:
            try:
                return read(self.directory.fs, path)
            except TidelogError as error:
                if self._on_error is None:
                    raise
                self._on_error(error)
                return empty

        return answer
