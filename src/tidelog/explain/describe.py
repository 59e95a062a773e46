"""The facts of one partition's log as values: segments, sizes, offsets, settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tidelog.codec.uuid_text import format_uuid
from tidelog.config.log_config import DELETION_SETTINGS
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.errors import CorruptMessage, TidelogError
from tidelog.explain.segment_contents import SegmentContents, contents_of
from tidelog.segment.filenames import (
    offset_index_file,
    time_index_file,
    transaction_index_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.env.files import FileSystem
    from tidelog.readonly.holes import Hole
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_topic import ReadOnlyTopic


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One segment: offsets ``[base_offset, end_offset)``; sizes in bytes, 0 without a file."""

    base_offset: int
    end_offset: int
    log_bytes: int
    index_bytes: int
    time_index_bytes: int
    txn_index_bytes: int
    is_active: bool
    contents: SegmentContents | None = None
    """What its batches hold; None unless asked for."""


@dataclass(frozen=True, slots=True)
class HolderFacts:
    """The open transaction that holds the last stable offset; epoch and time -1 if not known.

    ``first_timestamp`` is that of its first record, in ms.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    first_timestamp: int


@dataclass(frozen=True, slots=True)
class HoleFacts:
    """Offsets ``[start_offset, end_offset)`` that no segment holds: a file seems to be lost.

    ``may_be_compacted``: unless the topic is compacted, which is not known.
    """

    start_offset: int
    end_offset: int
    may_be_compacted: bool


@dataclass(frozen=True, slots=True)
class LogFacts:
    """One partition's log as a reader without a lock sees it; ends exclusive, sizes in bytes."""

    topic: str
    partition: int
    directory: str
    topic_id: str | None
    config: Mapping[str, str]
    """The topic's own settings that are known from the data directory."""
    unknown_settings: tuple[str, ...]
    """Settings about deletion that are not known: nothing is deleted by them."""
    inherited_settings: Mapping[str, Mapping[str, str]]
    """Settings of the broker that wrote the topic: ``value`` and ``source``, in Kafka's words."""
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    size_bytes: int
    segments: tuple[SegmentFacts, ...]
    damage: str | None
    last_stable_offset_held_by: HolderFacts | None
    """None unless an open transaction keeps the last stable offset below the high watermark."""
    holes: tuple[HoleFacts, ...] = ()
    """Holes between segments that compaction does not explain."""

    @property
    def has_loss(self) -> bool:
        """Whether there is damage, or a hole."""
        return self.damage is not None or bool(self.holes)

    def as_json(self) -> dict[str, Any]:
        """Return the facts under camel-case names, as every command prints them."""
        facts: dict[str, Any] = _camel(asdict(self))
        return facts


def describe_log(
    log: ReadOnlyLog,
    topic: ReadOnlyTopic | None = None,
    holes: Iterable[Hole] = (),
    *,
    with_contents: bool = False,
) -> LogFacts:
    """Collect the facts of one log; ``topic`` is None where nothing is known of its settings.

    ``holes`` are those that ``ReadOnlyDirectory.unexplained_holes`` returns. ``with_contents``:
    also read all batch headers, to say what each segment holds.

    Raises KafkaStorageError.
    """
    config = NO_SETTINGS if topic is None else topic.config
    unknown = DELETION_SETTINGS if topic is None else topic.unknown_settings
    inherited = {} if topic is None else topic.inherited
    return LogFacts(
        topic=log.topic,
        partition=log.partition,
        directory=log.directory,
        topic_id=_topic_id(log),
        config=dict(config),
        unknown_settings=unknown,
        inherited_settings={
            name: {"value": setting.value, "source": str(setting.source)}
            for name, setting in sorted(inherited.items())
        },
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset(),
        log_end_offset=log.log_end_offset,
        size_bytes=log.size_bytes,
        segments=tuple(_segments(log.fs, log, contents_of(log) if with_contents else {})),
        damage=None if log.damage is None else str(log.damage),
        holes=tuple(HoleFacts(*hole) for hole in holes),
        last_stable_offset_held_by=_holder(log),
    )


def _holder(log: ReadOnlyLog) -> HolderFacts | None:
    """Return the open transaction at the last stable offset; None if none holds it there."""
    stable = log.last_stable_offset()
    if stable == log.high_watermark:
        return None
    try:
        found = log.transactions(aborted=False).open
    except CorruptMessage:
        return None  # verify reports the damage
    return next((HolderFacts(*txn) for txn in found if txn.first_offset == stable), None)


def _topic_id(log: ReadOnlyLog) -> str | None:
    """Return the topic's id as text; None if no file names it or it is unreadable."""
    try:
        found = log.topic_id
    except TidelogError:
        return None  # verify reports what is wrong with it
    return None if found is None else format_uuid(found)


def _segments(
    fs: FileSystem, log: ReadOnlyLog, contents: Mapping[int, SegmentContents]
) -> list[SegmentFacts]:
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset]
    facts = []
    for segment, end_offset in zip(log.segments, ends, strict=False):  # a log may have no segment
        name = log.directory, segment.base_offset, segment.suffix
        facts.append(
            SegmentFacts(
                base_offset=segment.base_offset,
                end_offset=end_offset,
                log_bytes=segment.size_bytes,
                index_bytes=_size(fs, offset_index_file(*name)),
                time_index_bytes=_size(fs, time_index_file(*name)),
                txn_index_bytes=_size(fs, transaction_index_file(*name)),
                is_active=segment is log.segments[-1],
                contents=contents.get(segment.base_offset),
            )
        )
    return facts


def _size(fs: FileSystem, path: str) -> int:
    try:
        return fs.stat(path).size_bytes
    except FileNotFoundError:
        return 0


def _camel(value: Any) -> Any:  # noqa: ANN401 - JSON is any nesting of these
    if isinstance(value, dict):
        return {_camel_name(name): _camel(member) for name, member in value.items()}
    return [_camel(member) for member in value] if isinstance(value, (list, tuple)) else value


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
