"""Names of segment files and partition directories: building, parsing and limits.

Kafka: ``LogFileUtils`` and the static methods of ``LocalLog``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.given_values import check_partition
from tidelog.codec.shown_rows import PartitionNumber, TopicName
from tidelog.errors import InvalidArgument, InvalidTopic
from tidelog.records.batch import INT32_MAX, INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"

DELETED_SUFFIX: Final = ".deleted"
"""Suffix of a file that is scheduled for deletion."""
CLEANED_SUFFIX: Final = ".cleaned"
"""Suffix of the files of a segment that the cleaner or a split is still writing."""
SWAP_SUFFIX: Final = ".swap"
"""Suffix of the files of a complete segment that is replacing others."""
RAFT_DELETED_SUFFIX: Final = ".checkpoint.deleted"
"""Suffix of a KRaft snapshot that is scheduled for deletion; the loader ignores it."""

DELETE_DIRECTORY_SUFFIX: Final = "-delete"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"

REMOTE_INDEX_CACHE: Final = "remote-log-index-cache"
"""The one directory in a data directory that Kafka's log manager ignores."""

MAX_TOPIC_LENGTH: Final = 249
MAX_NAME_LENGTH: Final = 255
_OFFSET_DIGITS: Final = 20

_SEGMENT_FILE: Final = re.compile(
    r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot|\.cleaned-[0-9]+-[0-9]+)"
    r"(?:\.[0-9a-f]{32}(?=\.deleted))?(\.deleted|\.cleaned|\.swap)?"
)
_LOOKS_LIKE_A_SEGMENT_FILE: Final = re.compile(
    r".*\.(log|index|timeindex|txnindex|snapshot|deleted|cleaned|swap)", re.DOTALL
)
_INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_NO_TOPICS: Final = ("", ".", "..")
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_OFFSET: Final = re.compile(r"[+-]?[0-9]+")
_DIRECTORY_SUFFIXES: Final = (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
)
_SUFFIXED: Final = {
    suffix: re.compile(rf"(\S+)-(\S+)\.(\S+){suffix}", re.ASCII) for suffix in _DIRECTORY_SUFFIXES
}
_MADE: Final = re.compile(
    rf"([a-zA-Z0-9._-]+)-([0-9]+)\.[0-9a-f]{{32}}(?:{'|'.join(_DIRECTORY_SUFFIXES)})"
)


class TopicPartition(NamedTuple):
    """One partition of one topic. Source: Kafka TopicPartition."""

    topic: TopicName
    partition: PartitionNumber

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def numbers_by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of partitions by their topics, in the order in which they come."""
    found: dict[str, list[int]] = {}
    for key in keys:
        found.setdefault(key.topic, []).append(key.partition)
    return found


class SegmentFileName(NamedTuple):
    """The name of a file of a segment, or of a producer snapshot, in its parts.

    ``kind`` is a suffix such as ``.log``; ``state`` is ``.deleted``, ``.cleaned``, ``.swap``, or
    empty for a file in use.
    """

    offset: int
    kind: str
    state: str

    @property
    def cleaned(self) -> tuple[int, int] | None:
        """Of the mark of a cleaned segment: up to which offset it is clean, and its bytes."""
        _, *numbers = self.kind.split("-")
        return (int(numbers[0]), int(numbers[1])) if numbers else None


def parse_segment_file(name: str) -> SegmentFileName | None:
    """Return the parts of a name of the only form that Kafka writes; None for any other name.

    ``5.log`` and ``+5.log`` are not the segment 5: they would stand for the file that is. A file
    that one of several processes writes for a cleaning has 32 more digits before ``.deleted``: it
    is not part of the log until it is renamed.
    """
    found = _SEGMENT_FILE.fullmatch(name)
    if found is None or int(found[1]) > INT64_MAX:
        return None
    return SegmentFileName(int(found[1]), found[2], found[3] or "")


def log_offsets(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the segments whose .log files are among ``names``."""
    return _offsets(names, LOG_SUFFIX)


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the producer snapshots among ``names``."""
    return _offsets(names, SNAPSHOT_SUFFIX)


def is_foreign_segment_file(name: str) -> bool:
    """Return whether a name ends as that of a segment's file does, but is not one.

    Such a file is left alone. KRaft's own names are not meant.
    """
    # Nearly all names are those of segments.
    is_left = parse_segment_file(name) is None and not name.endswith(RAFT_DELETED_SUFFIX)
    return is_left and _LOOKS_LIKE_A_SEGMENT_FILE.fullmatch(name) is not None


def filename_prefix_from_offset(offset: int) -> str:
    """Return a base offset as the start of a file name: at least 20 digits."""
    return f"{offset:0{_OFFSET_DIGITS}d}"


def log_file(directory: str, base_offset: int, suffix: str = "") -> str:
    """Return the path of the .log file of the segment with this base offset."""
    return _segment_file(directory, base_offset, LOG_SUFFIX + suffix)


def offset_index_file(directory: str, base_offset: int, suffix: str = "") -> str:
    """Return the path of a segment's offset index."""
    return _segment_file(directory, base_offset, INDEX_SUFFIX + suffix)


def time_index_file(directory: str, base_offset: int, suffix: str = "") -> str:
    """Return the path of a segment's time index."""
    return _segment_file(directory, base_offset, TIME_INDEX_SUFFIX + suffix)


def transaction_index_file(directory: str, base_offset: int, suffix: str = "") -> str:
    """Return the path of a segment's transaction index."""
    return _segment_file(directory, base_offset, TXN_INDEX_SUFFIX + suffix)


def producer_snapshot_file(directory: str, offset: int) -> str:
    """Return the path of the snapshot of the producer state before ``offset``."""
    return _segment_file(directory, offset, SNAPSHOT_SUFFIX)


def cleaned_mark_file(directory: str, base_offset: int, end_offset: int, size_bytes: int) -> str:
    """Return the path of the empty file that marks a segment as cleaned up to ``end_offset``.

    It becomes part of the log with its segment, also if Kafka completes the replacement.
    """
    return _segment_file(directory, base_offset, f"{CLEANED_SUFFIX}-{end_offset}-{size_bytes}")


def offset_from_file_name(name: str) -> int:
    """Return the number before the first dot; InvalidArgument if there is none."""
    text = name.partition(".")[0]
    if _OFFSET.fullmatch(text) is None or not INT64_MIN <= int(text) <= INT64_MAX:
        raise InvalidArgument(f"file name {name!r} does not begin with an offset")
    return int(text)


def is_index_file(path: str) -> bool:
    """Return whether this is an offset, time or transaction index without a further suffix."""
    return path.endswith(_INDEX_SUFFIXES)


def is_log_file(path: str) -> bool:
    """Return whether this is a .log file without a further suffix."""
    return path.endswith(LOG_SUFFIX)


def replace_suffix(path: str, old: str, new: str) -> str:
    """Replace the suffix ``old`` by ``new``; InvalidArgument if ``path`` lacks ``old``."""
    if not path.endswith(old):
        raise InvalidArgument(f"{path} does not end in {old!r}")
    return path.removesuffix(old) + new


def check_topic_type(topic: object) -> None:
    """Raise InvalidArgument for what no topic's name can be, such as bytes."""
    if not isinstance(topic, str):
        raise InvalidArgument(f"a topic's name is str, not {type(topic).__name__}")


def given_partition(topic: str, partition: int) -> TopicPartition:
    """Return the partition that a program names; raise InvalidArgument for what can be none."""
    check_topic_type(topic)
    return TopicPartition(topic, check_partition(partition))


def check_topic_name(topic: str) -> None:
    """Raise InvalidTopic if the name is not valid in Kafka. Source: Kafka Topic.validate.

    Raises InvalidArgument, too, as ``check_topic_type``.
    """
    check_topic_type(topic)
    if topic in _NO_TOPICS:
        raise InvalidTopic(f"topic name {topic!r} is not valid")
    if len(topic) > MAX_TOPIC_LENGTH:
        raise InvalidTopic(f"topic name has {len(topic)} characters, more than {MAX_TOPIC_LENGTH}")
    if _TOPIC.fullmatch(topic) is None:
        raise InvalidTopic(f"topic name {topic!r} may only contain letters, digits, '.', '_', '-'")


def log_directory_name(topic: str, partition: int) -> str:
    """Return the directory name of a partition."""
    return f"{topic}-{partition}"


def log_delete_directory_name(topic: str, partition: int, unique_id: str) -> str:
    """Return the name of a partition scheduled for deletion; the topic is cut to fit 255.

    ``unique_id`` is a random UUID as 32 hex digits, here and below.
    """
    return _capped_name(topic, f"-{partition}.{unique_id}{DELETE_DIRECTORY_SUFFIX}")


def log_stray_directory_name(topic: str, partition: int, unique_id: str) -> str:
    """Return the name of a stray partition; the topic is cut to fit 255."""
    return _capped_name(topic, f"-{partition}.{unique_id}{STRAY_DIRECTORY_SUFFIX}")


def log_future_directory_name(topic: str, partition: int, unique_id: str) -> str:
    """Return the name of a partition's future copy; InvalidTopic beyond 255 characters."""
    name = f"{topic}-{partition}.{unique_id}{FUTURE_DIRECTORY_SUFFIX}"
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopic(f"future directory name exceeds 255 characters: {name}")
    return name


def is_future_directory(name: str) -> bool:
    """Return whether the directory is a copy that will replace a partition."""
    return _is_made(name, FUTURE_DIRECTORY_SUFFIX)


def is_delete_directory(name: str) -> bool:
    """Return whether the directory is scheduled for deletion.

    Only a name that Kafka or tidelog gives to such a directory counts: ``photos-delete`` does not.
    """
    return _is_made(name, DELETE_DIRECTORY_SUFFIX)


def is_stray_directory(name: str) -> bool:
    """Return whether the directory is stray: it belongs to no known topic."""
    return _is_made(name, STRAY_DIRECTORY_SUFFIX)


def is_suffixed_directory(name: str) -> bool:
    """Return whether the directory is one of these three."""
    return _is_made(name, _DIRECTORY_SUFFIXES)


def _is_made(name: str, suffix: str | tuple[str, ...]) -> bool:
    # The pattern takes twenty times as long, and nearly all of thousands have no suffix.
    found = _MADE.fullmatch(name) if name.endswith(suffix) else None
    return found is not None and found[1] not in _NO_TOPICS and int(found[2]) <= INT32_MAX


def current_directory_of_future(path: str) -> str | None:
    """Return the directory that a future copy will replace; None if it is not a future copy."""
    found = _SUFFIXED[FUTURE_DIRECTORY_SUFFIX].fullmatch(path)
    return None if found is None else f"{found[1]}-{found[2]}"


def parse_topic_partition(name: str) -> TopicPartition:
    """Parse the name of a partition directory, with or without a suffix.

    The topic of a ``-delete`` or ``-stray`` directory may have been cut, see above.

    Raises:
        InvalidTopic: the name is not that of a partition; a path never is.

    Source: Kafka UnifiedLog.parseTopicPartitionName.
    """
    topic, _, partition = _without_unique_id(name).rpartition("-")
    is_name = bool(topic) and "/" not in topic and _OFFSET.fullmatch(partition) is not None
    if not is_name or int(partition) > INT32_MAX:
        raise _not_a_partition(name)
    return TopicPartition(topic, int(partition))


def _without_unique_id(name: str) -> str:
    for suffix, form in _SUFFIXED.items():
        if name.endswith(suffix):
            if form.fullmatch(name) is None:
                raise _not_a_partition(name)
            return name.rpartition(".")[0]
    return name


def _not_a_partition(name: str) -> InvalidTopic:
    return InvalidTopic(f"directory name {name!r} does not have the form topic-partition")


def _offsets(names: Iterable[str], kind: str) -> list[int]:
    # The pattern takes far longer, and few of the names end like this.
    found = map(parse_segment_file, (name for name in names if name.endswith(kind)))
    return [each.offset for each in found if each is not None]


def _capped_name(topic: str, rest: str) -> str:
    return topic[: MAX_NAME_LENGTH - len(rest)] + rest


def _segment_file(directory: str, offset: int, suffix: str) -> str:
    return f"{directory}/{filename_prefix_from_offset(offset)}{suffix}"
