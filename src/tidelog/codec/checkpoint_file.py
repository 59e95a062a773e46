"""The text format of Kafka's checkpoint files, and the atomic replacement of a small file.

A checkpoint is a version line, a line with the number of entries, and one line per entry. As in
Kafka there are two kinds of damage. If the structure is wrong (version, counts, number of fields),
the file cannot be trusted, and neither can its disk: KafkaStorageError. If a field of an entry is
not an integer, the file is intact but its content is wrong: InvalidArgument, a ValueError.

Kafka: ``CheckpointFile``, ``OffsetCheckpointFile`` and ``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

import os
import re
from contextlib import closing, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from tidelog.errors import CorruptFile, InvalidArgument, InvariantError, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem

VERSION: Final = 0
LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
TEMPORARY_SUFFIX: Final = ".tmp"
"""Suffix of a checkpoint or metadata file that is being written."""
MAX_FILE_BYTES: Final = 64 << 20
"""A larger file is not read whole: it holds more than a checkpoint or a catalogue of 100,000
partitions."""

OffsetCheckpoint: TypeAlias = dict[tuple[str, int], int]
"""An offset for each (topic, partition). Source: Kafka OffsetCheckpointFile."""

E = TypeVar("E")

LINE_END: Final = re.compile(r"\r\n|\r|\n")
_SPACES: Final = re.compile(r"[ \t\n\x0b\f\r]+")
_SURELY_WHOLE: Final = 10
"""Fewer digits than this are an integer of 32 bits, and most of thousands have fewer."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


def read_checkpoint(fs: FileSystem, path: str) -> OffsetCheckpoint:
    """Read ``topic partition offset`` lines; {} if the file is missing. The last duplicate wins.

    Raises:
        KafkaStorageError: the structure is wrong.
        InvalidArgument: a partition or an offset is not an integer.
    """
    return dict(_offsets_in(_read_text(fs, path), path))


@lru_cache(8)
def _offsets_in(text: str, path: str) -> Mapping[tuple[str, int], int]:
    """Return the offsets in a text; it is read for each of many calls, and often the same."""
    return dict(parse(text, _parse_offset, path=path))


def write_checkpoint(fs: FileSystem, path: str, entries: Mapping[tuple[str, int], int]) -> None:
    """Replace the file durably. On OSError the old file remains.

    Raises InvariantError for a topic that would make the file unreadable; nothing is written then.
    """
    for topic, _ in entries:
        if not topic or _SPACES.search(topic) or not topic.isprintable():
            raise InvariantError(f"{path} cannot hold the topic name {topic!r}")
    replace_file(fs, path, pack_checkpoint(entries))


def pack_checkpoint(entries: Mapping[tuple[str, int], int]) -> bytes:
    """Return the bytes of a checkpoint of offsets."""
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in entries.items())
    return format_lines(lines).encode()


def read_leader_epochs(fs: FileSystem, path: str) -> list[tuple[int, int]]:
    """Read ``epoch startOffset`` lines in file order; errors as for ``read_checkpoint``."""
    return parse(_read_text(fs, path), _parse_epoch, path=path)


def write_leader_epochs(fs: FileSystem, path: str, entries: Iterable[tuple[int, int]]) -> None:
    """Replace the file durably. On OSError the old file remains."""
    replace_file(fs, path, pack_leader_epochs(entries))


def pack_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """Return the bytes of a file of leader epochs."""
    return format_lines(f"{epoch} {start_offset}" for epoch, start_offset in entries).encode()


def parse(
    text: str, parse_entry: Callable[[list[str]], E | None], *, path: str = "checkpoint"
) -> list[E]:
    """Return the entries of a checkpoint; none if the text is empty or only a version line.

    Args:
        text: the whole file.
        parse_entry: turns a line's fields into an entry. Returns None if there are too many or
            too few fields; raises InvalidArgument if one is not an integer.
        path: the file, for error messages.

    Raises:
        KafkaStorageError: unknown version, malformed line, or a wrong number of entries.
        InvalidArgument: a field of an entry is not an integer.
    """
    lines = split_lines(text)
    if not lines:
        return []
    version = _parse_header(lines, 0, path)
    if version != VERSION:
        raise KafkaStorageError(f"{path} has version {version}; expected {VERSION}")
    if len(lines) == 1:
        return []
    declared = _parse_header(lines, 1, path)
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        try:
            entry = parse_entry(_split_fields(line))
        except InvalidArgument as error:
            raise InvalidArgument(f"{path}, line {number}: {error}") from error
        if entry is None:
            raise _malformed(path, number, line)
        entries.append(entry)
    if len(entries) != declared:
        raise CorruptFile(f"{path} declares {declared} entries but has {len(entries)}")
    return entries


def format_lines(lines: Iterable[str]) -> str:
    """Return the text of a checkpoint, one line per entry."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, len(entries), *entries))


def read_small_file(fs: FileSystem, path: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return all bytes of a file such as ``replace_file`` writes.

    Raises CorruptFile for one of more than ``max_bytes``, which may be sparse.
    """
    with closing(fs.open(path)) as file:
        size = file.size()
        if size > max_bytes:
            raise CorruptFile(f"{path} has {size:,} bytes; {max_bytes:,} are allowed")
        return file.pread(size, 0)


def read_if_there(fs: FileSystem, path: str) -> bytes | None:
    """Return what ``read_small_file`` does, None if there is no such file."""
    with suppress(FileNotFoundError):
        return read_small_file(fs, path)
    return None


def replace_file(fs: FileSystem, path: str, data: Buffer) -> None:
    """Replace the content of ``path`` by ``data``; see ``replace_file_by``.

    Raises KafkaStorageError for more than ``MAX_FILE_BYTES``, which no reader would take.
    """
    size = len(data)
    if size > MAX_FILE_BYTES:
        raise KafkaStorageError(f"{path} would have {size:,} bytes; {MAX_FILE_BYTES:,} are allowed")
    replace_file_by(fs, path, lambda _: data)


def replace_file_by(fs: FileSystem, path: str, content: Callable[[str], Buffer]) -> None:
    """Replace the content of ``path``, durably and atomically, via ``<path>.tmp``.

    ``content`` returns the new one; it gets the path of the temporary file, which is empty.

    An error leaves the old file, and the temporary one is deleted. The exception is an error from
    the last step, the sync of the directory: the new file is then in place but may not be durable.

    Source: Kafka CheckpointFile.write, Utils.atomicMoveWithFallback.
    """
    temporary = path + TEMPORARY_SUFFIX
    try:
        with closing(fs.open(temporary, "w")) as file:
            file.truncate(0)
            file.pwrite(content(temporary), 0)
            # Before the rename: else a power cut could leave an empty file under the real name.
            file.sync()
        fs.rename(temporary, path)
    except BaseException:  # an interrupt, too
        with suppress(OSError):
            fs.delete(temporary)  # a full disk needs its space
        raise
    fs.sync_directory(os.path.dirname(path))


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends; only Java's line ends (LF, CR, CRLF) separate them."""
    lines = LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    return lines


def parse_java_integer(text: str, *, bits: int) -> int:
    """Parse a signed integer of at most ``bits`` bits as Java does; else InvalidArgument."""
    if len(text) < _SURELY_WHOLE and text.isascii() and text.isdigit():
        return int(text)
    limit = 1 << (bits - 1)
    digits = text.lstrip("+-").lstrip("0")
    if not _INTEGER.fullmatch(text) or len(digits) > bits or not -limit <= int(text) < limit:
        raise InvalidArgument(f"{text[:80]!r} is not a {bits}-bit integer")
    return int(text)


def _parse_offset(fields: list[str]) -> tuple[tuple[str, int], int] | None:
    if len(fields) != 3:
        return None
    topic, partition, offset = fields
    key = topic, parse_java_integer(partition, bits=32)
    return key, parse_java_integer(offset, bits=64)


def _parse_epoch(fields: list[str]) -> tuple[int, int] | None:
    if len(fields) != 2:
        return None
    epoch, start_offset = fields
    return parse_java_integer(epoch, bits=32), parse_java_integer(start_offset, bits=64)


def _parse_header(lines: list[str], at: int, path: str) -> int:
    try:
        return parse_java_integer(lines[at], bits=32)
    except InvalidArgument as error:
        raise _malformed(path, at + 1, lines[at]) from error


def _split_fields(line: str) -> list[str]:
    """Split at runs of white space; a leading run yields an empty first field, as in Java."""
    fields = _SPACES.split(line)
    return fields if len(fields) == 1 or fields[-1] else fields[:-1]


def _malformed(path: str, number: int, line: str) -> CorruptFile:
    return CorruptFile(f"{path}, line {number} is malformed: {line[:80]!r}")


def _read_text(fs: FileSystem, path: str) -> str:
    try:
        return read_small_file(fs, path).decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{path} is not UTF-8: {error}") from error
