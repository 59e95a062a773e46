"""What the console knows of all partitions, found in small steps; only what has changed is read.

The numbers are those of ``tidelog list``. One pass over many partitions takes seconds: it continues
between pages, a few milliseconds at a time, and each page shows what is known by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.console.seen_damage import SeenDamage
from tidelog.env.clock import MS_PER_S, NS_PER_MS
from tidelog.errors import CorruptMessage, TidelogError, UnknownTopicOrPartition
from tidelog.explain.listed_partition import ListedPartition, list_partition
from tidelog.readonly.read_again import read_again
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.readonly.checkpoints import Lines
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_topic import MissingPartition


_NEAR_BYTES: Final = 4096
_LEAST_MS: Final = 1000
"""Of a shorter time no growth is shown."""
_WINDOW_MS: Final = 60_000
"""Growth is that of about this long."""


class Surveyed(NamedTuple):
    """One partition as it was when it was last looked at.

    ``listed`` is None where it could not be read, and ``problem`` says why; it also says what is
    damaged at its end, or was found damaged by a page (``SeenDamage``).
    ``oldest_ms`` is the timestamp of the first batch, ``written_ms`` when the last segment was
    written to; -1: not known. ``growth`` is offsets per second while the console looked.
    """

    key: TopicPartition
    listed: ListedPartition | None
    problem: str | None
    oldest_ms: int = -1
    written_ms: int = -1
    growth: float | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of its segments; 0 if it could not be read."""
        return 0 if self.listed is None else self.listed.size_bytes


class _Mark(NamedTuple):
    """What stays the same as long as a log does."""

    path: str
    changed_ms: int
    active_path: str
    active_bytes: int
    active_ms: int
    lines: Lines


class _Known(NamedTuple):
    """A partition that was looked at, and what shows whether it has changed; None: look again."""

    surveyed: Surveyed
    mark: _Mark | None


class _Sample(NamedTuple):
    """The end of a log at some time."""

    at_ms: int
    end_offset: int


class PartitionSurvey:
    """The partitions of some data directories, looked at again and again.

    ``directory`` is what the last pass has opened, or the first while it runs; None before.
    ``seen`` is the damage that pages have found. ``is_whole``: a pass has ended. ``failure`` says
    why the last one could not. All is used by one thread at a time.
    """

    def __init__(
        self,
        fs: FileSystem,
        paths: Sequence[str],
        clock: Clock,
        server_properties: Mapping[str, str] | None = None,
    ) -> None:
        self._fs: Final = fs
        self._paths: Final = paths
        self._clock: Final = clock
        self._properties: Final = server_properties
        self._known: dict[TopicPartition, _Known] = {}
        self._samples: dict[TopicPartition, tuple[_Sample, _Sample]] = {}
        self.seen: Final = SeenDamage(fs)
        self._strays: dict[TopicPartition, str] = {}
        """Partitions of which a directory has one of another topic of the name, and why."""
        self._steps: Iterator[None] | None = None
        self._worked_ns = 0
        self.directory: ReadOnlyDirectory | None = None
        self.missing: tuple[MissingPartition, ...] = ()
        self.is_whole = False
        self.failure: str | None = None
        self.total = 0
        self.ended_ms = 0
        self.took_ms = 0

    @property
    def is_running(self) -> bool:
        """Whether a pass has begun and not ended."""
        return self._steps is not None

    @property
    def partitions(self) -> list[Surveyed]:
        """What is known, in order of topics and numbers."""
        return [self._with_seen(one.surveyed) for one in self._known.values()]

    def of(self, key: TopicPartition) -> Surveyed | None:
        """Return what is known of a partition; None: nothing yet."""
        known = self._known.get(key)
        return None if known is None else self._with_seen(known.surveyed)

    def problem_of(self, key: TopicPartition) -> str | None:
        """Return what is wrong with a partition, as far as is known; it need not be listed yet."""
        surveyed = self.of(key)
        return self.seen.of(key) if surveyed is None else surveyed.problem

    def _with_seen(self, surveyed: Surveyed) -> Surveyed:
        if surveyed.problem is not None:
            return surveyed
        problem = self.seen.of(surveyed.key) or self._strays.get(surveyed.key)
        return surveyed._replace(problem=problem)

    def open(self) -> ReadOnlyDirectory:
        """Open the directories for a pass and look where partitions are; nothing else changes.

        Another thread may use the survey meanwhile. Raises InvalidArgument for what is not a data
        directory, and for directories that do not belong together; KafkaStorageError.
        """
        directory = open_directory_read_only(
            *self._paths,
            fs=self._fs,
            server_properties=self._properties,
            accept=None,
            asks_holder=True,
        )
        _ = directory.topics, directory.missing  # what they say is looked up once
        return directory

    def begin(self, directory: ReadOnlyDirectory) -> None:
        """Begin a pass over directories that were opened for it; one that runs continues."""
        if self._steps is None:
            self._steps, self._worked_ns = self._pass(directory), 0

    def work(self, budget_ms: int) -> None:
        """Continue the pass for about this long; see ``is_running``."""
        if self._steps is None:
            return
        started = now = self._clock.monotonic_ns()
        try:
            while now - started < budget_ms * NS_PER_MS:
                if next(self._steps, self) is self:
                    self.end(None)
                    break
                now = self._clock.monotonic_ns()
        except (TidelogError, OSError) as error:
            self.end(str(error))
        self._worked_ns += self._clock.monotonic_ns() - started
        self.took_ms = self._worked_ns // NS_PER_MS

    def run(self) -> None:
        """Do a whole pass now."""
        self.begin(self.open())
        while self.is_running:
            self.work(_LEAST_MS)

    def end(self, failure: str | None) -> None:
        """End a pass; ``failure``: why it could not go through, or begin."""
        self._steps, self.failure = None, failure
        self.ended_ms = self._clock.now_ms()

    def _pass(self, directory: ReadOnlyDirectory) -> Iterator[None]:
        strays = {one.key: str(one) for one in directory.strays()}
        keys, missing = sorted({*directory.partitions, *strays}), directory.missing
        before, found = self._known, dict[TopicPartition, _Known]()
        if not self.is_whole:
            self.directory, self.missing, self._known = directory, missing, found
        self.total = len(keys)
        yield
        for key in keys:
            known: _Known | None = _Known(Surveyed(key, None, strays.get(key)), None)
            if directory.has(*key):
                known = self._look(directory, key, before.get(key))
            if known is not None:
                found[key] = known
            yield
        self.directory, self.missing, self._known = directory, missing, found
        self._strays = strays
        self._samples = {key: two for key, two in self._samples.items() if key in found}
        self.is_whole = True

    def _look(
        self, directory: ReadOnlyDirectory, key: TopicPartition, before: _Known | None
    ) -> _Known | None:
        """Return what a partition is like; None if it was deleted."""
        try:
            part = directory.part_of(*key)
            path, lines = part.partition_path(*key), part.checkpoints.lines_of(key)
            self.seen.forget_changed(key, path)
            if (
                before is not None
                and before.mark is not None
                and _is_same(directory.fs, before.mark, path, lines)
            ):
                return self._grown(before)
            changed_ms = directory.fs.stat(path).mtime_ms

            def read() -> _Known:
                with part.open(*key) as log:
                    return _known_of(log, changed_ms, lines)

            return self._grown(read_again(directory.fs, path, read))
        except (UnknownTopicOrPartition, FileNotFoundError):
            self.seen.forget(key)
            return None
        except (TidelogError, OSError) as error:
            return _Known(Surveyed(key, None, str(error)), None)

    def _grown(self, known: _Known) -> _Known:
        """Return what is known with its growth: since a minute ago, or as long as it is known."""
        surveyed = known.surveyed
        if surveyed.listed is None:
            return known
        now = _Sample(self._clock.now_ms(), surveyed.listed.log_end_offset)
        first, last = self._samples.get(surveyed.key, (now, now))
        if now.at_ms - first.at_ms > _WINDOW_MS and last.at_ms > first.at_ms:
            first = last
        self._samples[surveyed.key] = first, now
        passed = now.at_ms - first.at_ms
        growth = None
        if passed >= _LEAST_MS:
            growth = max(now.end_offset - first.end_offset, 0) * MS_PER_S / passed
        return known._replace(surveyed=surveyed._replace(growth=growth))


def _known_of(log: ReadOnlyLog, changed_ms: int, lines: Lines) -> _Known:
    listed, active = list_partition(log), log.segments[-1] if log.segments else None
    surveyed = Surveyed(TopicPartition(log.topic, log.partition), listed, listed.damage)
    if active is None:
        return _Known(surveyed, None)
    try:
        written_ms = log.fs.stat(active.path).mtime_ms
    except FileNotFoundError:  # it was deleted meanwhile, so the next pass finds another one
        return _Known(surveyed, None)
    surveyed = surveyed._replace(oldest_ms=_oldest(log), written_ms=written_ms)
    mark = _Mark(log.directory, changed_ms, active.path, active.size_bytes, written_ms, lines)
    return _Known(surveyed, mark)


def _oldest(log: ReadOnlyLog) -> int:
    """Return the timestamp of the first batch; -1 if there is none, or it is damaged."""
    try:
        for piece in log.pieces(log.log_start_offset, log.log_end_offset, piece_bytes=_NEAR_BYTES):
            return int(piece.batches.max_timestamp[0])
    except CorruptMessage:
        pass  # the page of the log shows the damage
    return -1


def _is_same(fs: FileSystem, mark: _Mark, path: str, lines: Lines) -> bool:
    """Return whether a log is as it was, by the times and sizes of its files."""
    if mark.path != path or mark.lines != lines:
        return False
    if fs.stat(path).mtime_ms != mark.changed_ms:
        return False
    active = fs.stat(mark.active_path)
    return (active.size_bytes, active.mtime_ms) == (mark.active_bytes, mark.active_ms)
