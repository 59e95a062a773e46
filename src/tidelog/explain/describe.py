"""The facts of one partition's log as values: segments, sizes, offsets, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tidelog.codec.shown_rows import (
    BaseOffset,
    Damage,
    EndOffset,
    HighWatermark,
    LastStable,
    LogBytes,
    LogEnd,
    LogStart,
    PartitionNumber,
    TopicName,
)
from tidelog.codec.uuid_text import format_uuid
from tidelog.config.deletion_settings import DELETION_SETTINGS
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.datadir.known_setting import KnownSetting
from tidelog.errors import CorruptMessage
from tidelog.explain.segment_contents import SegmentContents, contents_of
from tidelog.log.topic_id import topic_id_or_none
from tidelog.readonly.missing.holes import Hole
from tidelog.readonly.replayed_transactions import OpenTransaction
from tidelog.segment.filenames import (
    offset_index_file,
    time_index_file,
    transaction_index_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.env.files import FileSystem
    from tidelog.explain.transactional_ids import TransactionalIds
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_topic import ReadOnlyTopic


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One segment."""

    base_offset: BaseOffset
    end_offset: EndOffset
    log_bytes: Annotated[int, "Size of the `.log` file, in bytes."]
    index_bytes: Annotated[int, "Size of the `.index` file, in bytes; 0: there is none."]
    time_index_bytes: Annotated[int, "Size of the `.timeindex` file, in bytes; 0: there is none."]
    txn_index_bytes: Annotated[int, "Size of the `.txnindex` file, in bytes; 0: there is none."]
    is_active: Annotated[bool, "Whether it is the last one, to which records are appended."]
    contents: Annotated[SegmentContents | None, "What it holds; null: not asked for."] = None
    is_on_disk: Annotated[bool, "Whether the disk has it; else only the archive has."] = True


@dataclass(frozen=True, slots=True)
class LogFacts:
    """One partition.

    It is as a reader without a lock sees it.
    """

    topic: TopicName
    partition: PartitionNumber
    directory: Annotated[str, "Path of the partition directory."]
    topic_id: Annotated[str | None, "Id of the topic, in Kafka's base64 form; null: not known."]
    config: Annotated[dict[str, Annotated[str, "Value."]], "The topic's own settings, by name."]
    unknown_settings: Annotated[
        tuple[Annotated[str, "Name of a setting."], ...],
        "Settings that decide what is deleted and are not known: nothing is deleted by them.",
    ]
    inherited_settings: Annotated[
        dict[str, KnownSetting],
        "Settings stored when the topic was created, or of the broker that wrote it, by name.",
    ]
    log_start_offset: LogStart
    high_watermark: HighWatermark
    last_stable_offset: LastStable
    log_end_offset: LogEnd
    size_bytes: LogBytes
    segments: Annotated[tuple[SegmentFacts, ...], "The segments, oldest first."]
    damage: Damage
    last_stable_offset_held_by: Annotated[
        OpenTransaction | None,
        "The open transaction that keeps the last stable offset below the high watermark; null:"
        " none does.",
    ]
    holes: Annotated[
        tuple[Hole, ...], "Offsets that no segment holds: a file seems to be lost."
    ] = ()

    @property
    def archived_bytes(self) -> int:
        """Size of the segments that only the archive has, in bytes."""
        return sum(segment.log_bytes for segment in self.segments if not segment.is_on_disk)

    @property
    def has_loss(self) -> bool:
        """Whether there is damage, or a hole."""
        return self.damage is not None or bool(self.holes)


def describe_in(
    directory: ReadOnlyDirectory,
    log: ReadOnlyLog,
    *,
    ids: TransactionalIds | None = None,
    with_contents: bool = False,
) -> LogFacts:
    """Collect the facts of a log of a directory, with its topic's settings and its holes."""
    topic, holes = directory.known_topic(log.topic), directory.unexplained_holes(log)
    return describe_log(log, topic, holes, ids=ids, with_contents=with_contents)


def describe_log(
    log: ReadOnlyLog,
    topic: ReadOnlyTopic | None = None,
    holes: Iterable[Hole] = (),
    *,
    ids: TransactionalIds | None = None,
    with_contents: bool = False,
) -> LogFacts:
    """Collect the facts of one log; ``topic`` is None where nothing is known of its settings.

    ``holes`` are those that ``ReadOnlyDirectory.unexplained_holes`` returns, and ``ids`` the
    transactional ids there. ``with_contents``: also read all batch headers, to say what each
    segment holds.

    Raises KafkaStorageError.
    """
    config = NO_SETTINGS if topic is None else topic.config
    unknown = DELETION_SETTINGS if topic is None else topic.unknown_settings
    inherited = {} if topic is None else topic.inherited
    topic_id = topic_id_or_none(log.fs, log.directory)
    return LogFacts(
        topic=log.topic,
        partition=log.partition,
        directory=log.directory,
        topic_id=None if topic_id is None else format_uuid(topic_id),
        config=dict(config),
        unknown_settings=unknown,
        inherited_settings=dict(sorted(inherited.items())),
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset(),
        log_end_offset=log.log_end_offset,
        size_bytes=log.size_bytes,
        segments=tuple(_segments(log.fs, log, contents_of(log) if with_contents else {})),
        damage=None if log.damage is None else str(log.damage),
        holes=tuple(holes),
        last_stable_offset_held_by=_holder(log, ids),
    )


def _holder(log: ReadOnlyLog, ids: TransactionalIds | None) -> OpenTransaction | None:
    """Return the open transaction at the last stable offset; None if none holds it there."""
    stable = log.last_stable_offset()
    if stable == log.high_watermark:
        return None
    try:
        found = log.transactions(aborted=False)
    except CorruptMessage:
        return None  # verify reports the damage
    opened = (found if ids is None else ids.named(found)).open
    return next((txn for txn in opened if txn.first_offset == stable), None)


def _segments(
    fs: FileSystem, log: ReadOnlyLog, contents: Mapping[int, SegmentContents]
) -> list[SegmentFacts]:
    disk, _ = log.disk_and_archive or (0, 0)
    facts = []
    for segment, end_offset in log.bounded_segments:
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
                is_on_disk=segment.base_offset >= disk,
            )
        )
    return facts


def _size(fs: FileSystem, path: str) -> int:
    try:
        return fs.stat(path).size_bytes
    except FileNotFoundError:
        return 0
