"""What a read of one topic covers: directories, partitions, offsets, times and isolation.

Spark: the options of its Kafka source, under the names of ``tidelog``'s Python functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from tidelog.arrow.schema import whole_number
from tidelog.codec.given_values import check_flags, listed
from tidelog.datadir.lock_file import has_writer
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.moments import time_ms
from tidelog.env.paths import absolute_places
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    DataLoss,
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.log.topic_id import is_other_topic, topic_id_or_none
from tidelog.readonly.absent_partitions import BY_ARGUMENT
from tidelog.readonly.chosen_records import RecordFilter
from tidelog.readonly.missing.damaged_range import DamagedRange, skipped_by
from tidelog.readonly.missing.holes import NO_SEGMENT
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.batch import INT64_MAX
from tidelog.records.isolation import Isolation, ReadUpTo, reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypedDict
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.env.moments import Moment
    from tidelog.env.paths import Paths
    from tidelog.errors import CorruptMessage
    from tidelog.readonly.missing.damaged_range import OnDamage
    from tidelog.readonly.missing.holes import Hole
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog

    class ReadArguments(TypedDict, total=False):
        """What narrows a read; see ``tidelog.arrow.read``."""

        partitions: int | Iterable[int] | None
        since: Moment | None
        until: Moment | None
        start_offsets: int | Mapping[int, int] | None
        end_offsets: int | Mapping[int, int] | None
        key: bytes | str | None
        last: int | None
        isolation: Isolation | str
        read_up_to: ReadUpTo | str | None
        allow_partial: bool
        on_damage: OnDamage | None


_INTERNAL: Final = frozenset({"on_unread", "skipping"})
"""Arguments of ``TopicRead.of`` that are not for users."""
F = TypeVar("F", bound="Callable[..., Any]")


def with_read_arguments(function: F) -> F:
    """Let the signature of a function show what its ``narrow`` takes, for help and completion.

    The function raises TypeError for other arguments, with the one that was meant.
    """
    own = [
        one
        for one in signature(function).parameters.values()
        if one.kind is not Parameter.VAR_KEYWORD
    ]
    taken = {one.name for one in own} | _INTERNAL
    more = [one for one in signature(TopicRead.of).parameters.values() if one.name not in taken]
    shown = signature(function).replace(parameters=[*own, *more])

    @wraps(function)
    def checked(*given: object, **named: object) -> object:
        for name in named.keys() - shown.parameters.keys():  # Python would name TopicRead.of
            from difflib import get_close_matches  # noqa: PLC0415 - few names are mistyped

            close = get_close_matches(name, shown.parameters, 1)
            hint = (
                f"did you mean {close[0]}=?" if close else f"it takes {', '.join(shown.parameters)}"
            )
            raise TypeError(f"{function.__name__}() has no argument {name}=; {hint}")
        return function(*given, **named)

    checked.__signature__ = shown  # type: ignore[attr-defined]  # what inspect looks for
    return cast("F", checked)


class Times(NamedTuple):
    """The times ``[since_ms, until_ms)`` of the records that are wanted."""

    since_ms: int = -INT64_MAX
    until_ms: int = INT64_MAX

    @property
    def is_all(self) -> bool:
        """Whether every record is wanted."""
        return self == EVERY_TIME


EVERY_TIME: Final = Times()


class PlannedRange(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of one log, which is closed until it is read.

    ``topic_id``: the id of the topic when the read was planned; None if that is unknown.
    ``damage``: what keeps the read from going beyond its end; None: nothing does. ``directory`` is
    the one that the log is in.
    """

    log: ReadOnlyLog
    start_offset: int
    end_offset: int
    topic_id: UUID | None = None
    damage: CorruptMessage | None = None
    directory: ReadOnlyDirectory | None = None

    def lost(self) -> list[Hole]:
        """Return what no segment holds, as far as it was read, and compaction does not explain."""
        if self.directory is None:
            return []
        return self.directory.lost(self.log, self.start_offset, self.end_offset)

    def check_same(self) -> None:
        """Raise KafkaStorageError if the directory is by now that of another topic.

        All that was read before this call comes from the topic that was planned.
        """
        if self.topic_id is None:
            return
        log = self.log
        if is_other_topic(topic_id_or_none(log.fs, log.directory), self.topic_id):
            text = "was deleted and created again while its topic was read"
            raise KafkaStorageError(f"{log.directory} {text}")


def warn_of_unread(unread: str) -> None:
    """Warn of records that are not read, ``unread``, once a program."""
    warnings.warn(
        f"{unread}; read_up_to='logEnd' reads them, read_up_to='highWatermark' leaves them out"
        " without this warning",
        stacklevel=2,
    )


@dataclass(frozen=True, slots=True)
class TopicRead:
    """A read of one topic, checked as far as it can be without a look at the files.

    ``partitions`` None: all. ``starts`` and ``ends`` are offsets by partition. ``last``: only that
    many records of each partition, counted from its end; None: all. ``on_unread`` is called with
    what is above a high watermark that nobody raises, as no process writes; None: nothing is.
    ``skipping`` is the option by which users skip damage.
    """

    paths: tuple[str, ...]
    topic: str
    partitions: tuple[int, ...] | None
    starts: int | Mapping[int, int]
    ends: int | Mapping[int, int]
    times: Times
    committed: bool
    up_to: ReadUpTo
    allow_partial: bool
    key: bytes | None = None
    last: int | None = None
    on_damage: OnDamage | None = None
    on_unread: Callable[[str], object] | None = None
    skipping: str = "on_damage=print"
    fs: FileSystem = SYSTEM_FILES

    @classmethod
    def of(
        cls,
        directory: Paths,
        topic: str,
        *,
        partitions: int | Iterable[int] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        start_offsets: int | Mapping[int, int] | None = None,
        end_offsets: int | Mapping[int, int] | None = None,
        key: bytes | str | None = None,
        last: int | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        read_up_to: ReadUpTo | str | None = None,
        allow_partial: bool = False,
        on_damage: OnDamage | None = None,
        on_unread: Callable[[str], object] = warn_of_unread,
        skipping: str = "on_damage=print",
    ) -> TopicRead:
        """Return a read; arguments as ``tidelog.arrow.read``, InvalidArgument for a bad one.

        ``on_unread`` is not called where ``read_up_to`` is given.
        """
        if not isinstance(topic, str):
            raise InvalidArgument(f"a read is of one topic, by its name, not of {topic!r}")
        check_flags(allow_partial=allow_partial)
        committed, up_to = reach(isolation)
        is_asked = read_up_to is not None
        read_up_to = ReadUpTo.HIGH_WATERMARK if read_up_to is None else read_up_to
        if last is not None:
            whole_number("last", last)
        if not (on_damage is None or callable(on_damage)):
            raise InvalidArgument(f"on_damage must be a function, as print, not {on_damage!r}")
        return cls(
            paths=tuple(absolute_places(directory)),
            topic=topic,
            partitions=_numbers(partitions),
            starts=_offsets("start_offsets", start_offsets),
            ends=_offsets("end_offsets", end_offsets),
            times=Times(
                -INT64_MAX if since is None else time_ms(since, SYSTEM_CLOCK.now_ms),
                INT64_MAX if until is None else time_ms(until, SYSTEM_CLOCK.now_ms),
            ),
            committed=committed,
            up_to=up_to if up_to is ReadUpTo.LOG_END else ReadUpTo(read_up_to),
            allow_partial=allow_partial,
            key=_key(key),
            last=last,
            on_damage=on_damage,
            on_unread=None if is_asked else on_unread,
            skipping=skipping,
        )

    def opened(self) -> ReadOnlyDirectory:
        """Open the directories as they are now."""
        accept = None if self.allow_partial else BY_ARGUMENT
        return open_directory_read_only(
            *self.paths, fs=self.fs, accept=accept, topics={self.topic}, asks_holder=True
        )

    def plan(self) -> list[PlannedRange]:
        """Return what to read of each partition now, in order of their numbers.

        Raises:
            UnknownTopicOrPartition: there is no such topic or partition.
            PartitionsElsewhere: partitions are in directories that are not named.
            OffsetOutOfRange: a log does not hold the offsets at which to start or to end.
            InvalidArgument: offsets are given for partitions that are not read, or may not be read
                yet, or end before they start.
            KafkaStorageError: the disk failed, or the files change faster than they can be read.
        """
        directory = self.opened()
        numbers = self.numbers_in(directory)
        starts = _by_partition("start_offsets", self.starts, numbers)
        ends = _by_partition("end_offsets", self.ends, numbers)
        ranges = [
            self._range(directory, number, starts.get(number), ends.get(number))
            for number in numbers
        ]
        if self.on_unread is not None and self.up_to is ReadUpTo.HIGH_WATERMARK:
            logs = [one.log for one in ranges if one.log.partition not in ends]
            self._report_unread([one for one in logs if one.high_watermark < one.log_end_offset])
        return ranges

    def _report_unread(self, logs: list[ReadOnlyLog]) -> None:
        """Report the offsets above the high watermarks of ``logs``, if no process writes there.

        One that writes raises the watermark before long, and such offsets are there all the time.
        """
        if self.on_unread is None or not logs or any(map(has_writer, self.paths)):
            return
        count = sum(one.log_end_offset - one.high_watermark for one in logs)
        first = logs[0]
        more = f" and {len(logs) - 1} more partitions" if len(logs) > 1 else ""
        self.on_unread(
            f"{count:,} offsets above the high watermark, from {first.high_watermark:,} on of"
            f" {self.topic}-{first.partition}{more}, are not read"
        )

    def numbers_in(self, directory: ReadOnlyDirectory) -> list[int]:
        """Return the partitions that are read, in order."""
        if self.partitions is None:
            return directory.numbers_of(self.topic)
        directory.check_present({self.topic: self.partitions})
        topic = directory.topic(self.topic)
        absent = set(self.partitions) - {*topic.partitions, *topic.missing}
        if absent:
            raise UnknownTopicOrPartition(
                f"topic {self.topic} in {directory.name} has no partition {min(absent)}"
            )
        return sorted(self.partitions)

    def _range(
        self, directory: ReadOnlyDirectory, number: int, start: int | None, end: int | None
    ) -> PlannedRange:
        # Before the files: a topic that is created again in between is then another one.
        topic_id = directory.part_of(self.topic, number).id_or_none(self.topic, number)
        with directory.open(self.topic, number, on_damage=self.on_damage) as log:
            visible = log.visible_end(self.up_to, committed=self.committed)
            first = log.log_start_offset if start is None else start
            last = visible if end is None else end
            if not log.log_start_offset <= first <= log.log_end_offset:
                raise log.out_of_range(first)
            if last > log.log_end_offset and log.damage is None:
                raise log.out_of_range(last)
            if end is not None and last > visible:
                raise InvalidArgument(
                    f"{self.topic}-{number} can be read up to offset {visible} now, not to {last}:"
                    " later offsets are above the high watermark (read_up_to='logEnd' reads these"
                    " too), or wait for open transactions"
                )
            if end is not None and last < first:
                raise InvalidArgument(
                    f"{self.topic}-{number}: the end offset {last} is below the start offset"
                    f" {first}"
                )
            if self.last is not None and first < last:
                first = self._filter().start_of_last(
                    log.directory, first, last, self.last, fs=self.fs
                )
            bad = None
            if end is None and self.on_damage is None:
                # Asked before the log is closed: its transactions are forgotten then.
                bad = log.damage_at(visible, committed=self.committed)
            return PlannedRange(log, first, max(first, last), topic_id, bad, directory)

    def report_lost(self, part: PlannedRange) -> None:
        """Report what a range that was read lacks; raise DataLoss if damage is not skipped."""
        for hole in part.lost():
            if self.on_damage is None:
                place = part.log.topic, part.log.partition, hole.start_offset, hole.end_offset
                raise DataLoss(*place, f"{NO_SEGMENT}; {skipped_by(self.skipping)}")
            self.on_damage(DamagedRange(part.log.directory, 0, 0, *hole[:2], NO_SEGMENT))

    def _filter(self) -> RecordFilter:
        since_ms, until_ms = (None, None) if self.times.is_all else self.times
        return RecordFilter(since_ms, until_ms, self.key, committed=self.committed)


def _numbers(given: int | Iterable[int] | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    several = (given,) if isinstance(given, int) else listed("partitions", given)
    return tuple(dict.fromkeys(whole_number("partitions", one) for one in several))


def _offsets(name: str, given: int | Mapping[int, int] | None) -> int | Mapping[int, int]:
    if isinstance(given, int):
        return whole_number(name, given)
    if not isinstance(given, Mapping | None):
        raise InvalidArgument(f"{name} must be an offset, or offsets by partition, not {given!r}")
    return {number: whole_number(name, offset) for number, offset in (given or {}).items()}


def _key(given: bytes | str | None) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if not isinstance(given, str):
        raise InvalidArgument(f"key must be bytes or text, not {given!r}")
    try:
        return given.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"key {given!r} is not valid Unicode") from None


def _by_partition(
    name: str, given: int | Mapping[int, int], numbers: list[int]
) -> Mapping[int, int]:
    """Return offsets by partition; one offset alone is that of the only partition."""
    if isinstance(given, int):
        if len(numbers) != 1:
            raise InvalidArgument(
                f"{len(numbers)} partitions are read, and offset {given} belongs to one of them:"
                f" say which, as {name}={{0: {given}}}"
            )
        return {numbers[0]: given}
    others = sorted(set(given) - set(numbers))
    if others:
        raise InvalidArgument(f"{name} names partition {others[0]}, which is not read")
    return given


def narrowed(ranges: Iterable[PlannedRange], start: int, end: int) -> Iterator[PlannedRange]:
    """Yield the parts of ranges that lie in offsets ``[start, end)``.

    An empty one is kept if it lies there as a whole, or if damage hides what may lie there: to read
    it reports damage.
    """
    for whole in ranges:
        last = min(whole.end_offset, end)
        first = min(max(whole.start_offset, start), last)
        bad = whole.damage if last < end else None
        part = whole._replace(start_offset=first, end_offset=last, damage=bad)
        if first < last or bad is not None or part == whole:
            yield part
