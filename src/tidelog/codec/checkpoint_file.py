"""The text form of every checkpoint, and the one safe way to replace a small file.

Owns what the lines are and how a file is replaced so that a crash leaves the old or the new one.
Must not know which logs there are or what an offset means. Kafka: ``CheckpointFile``,
``OffsetCheckpointFile`` and ``LeaderEpochCheckpointFile``.

A checkpoint is a version line, a line with the number of entries, and a line an entry. As in Kafka
there are two kinds of damage. Where the form is wrong (version, counts, number of fields) the file
cannot be trusted, and neither can its disk: KafkaStorageError. Where a field of an entry is no
integer, the file is readable and its content is not: InvalidArgument, which is a ValueError.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from tidelog.errors import CorruptFile, InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem

VERSION: Final = 0
TEMPORARY_SUFFIX: Final = ".tmp"

OffsetCheckpoint: TypeAlias = dict[tuple[str, int], int]
"""An offset for each (topic, partition). Source: Kafka OffsetCheckpointFile."""

E = TypeVar("E")

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_SPACES: Final = re.compile(r"[ \t\n\x0b\f\r]+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


def read_checkpoint(fs: FileSystem, path: str) -> OffsetCheckpoint:
    """Read a file of ``topic partition offset`` lines; a missing one has none. A later line wins.

    Raises:
        KafkaStorageError: the form is wrong.
        InvalidArgument: a partition or an offset is no integer.
    """
    return dict(parse(_read_text(fs, path), _parse_offset, path=path))


def write_checkpoint(fs: FileSystem, path: str, entries: Mapping[tuple[str, int], int]) -> None:
    """Replace the file durably. OSError leaves the old file."""
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in entries.items())
    replace_file(fs, path, format_lines(lines).encode())


def read_leader_epochs(fs: FileSystem, path: str) -> list[tuple[int, int]]:
    """Read ``epoch startOffset`` lines in their order; else as ``read_checkpoint``."""
    return parse(_read_text(fs, path), _parse_epoch, path=path)


def write_leader_epochs(fs: FileSystem, path: str, entries: Iterable[tuple[int, int]]) -> None:
    """Replace the file durably. OSError leaves the old file."""
    lines = (f"{epoch} {start_offset}" for epoch, start_offset in entries)
    replace_file(fs, path, format_lines(lines).encode())


def parse(
    text: str, parse_entry: Callable[[list[str]], E | None], *, path: str = "checkpoint"
) -> list[E]:
    """Return the entries of a checkpoint; an empty text, or one with only a version, has none.

    Args:
        text: the whole file.
        parse_entry: makes an entry of a line's fields; None where their number is wrong,
            InvalidArgument where one is no integer.
        path: names the file in errors.

    Raises:
        KafkaStorageError: unknown version, malformed line, or not as many entries as declared.
        InvalidArgument: a field of an entry is no integer.
    """
    lines = split_lines(text)
    if not lines:
        return []
    version = _parse_header(lines, 0, path)
    if version != VERSION:
        raise KafkaStorageError(f"{path} is of version {version}, not {VERSION}")
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
        raise CorruptFile(f"{path} declares {declared} entries and has {len(entries)}")
    return entries


def format_lines(lines: Iterable[str]) -> str:
    """Return the text of a checkpoint with a line an entry."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, len(entries), *entries))


def replace_file(fs: FileSystem, path: str, data: Buffer) -> None:
    """Give ``path`` the content ``data``, durably and in one step, by way of ``<path>.tmp``.

    An OSError leaves the old file, and perhaps a temporary one that the next call overwrites; only
    one from the last step, the sync of the directory, leaves the new one, perhaps not durably.

    Source: Kafka CheckpointFile.write, Utils.atomicMoveWithFallback.
    """
    temporary = path + TEMPORARY_SUFFIX
    file = fs.open(temporary, "w")
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    finally:
        file.close()
    fs.rename(temporary, path)
    fs.sync_directory(os.path.dirname(path))


def split_lines(text: str) -> list[str]:
    """Return the lines of ``text`` without their ends; Java's line ends, which are fewer."""
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    return lines


def parse_java_integer(text: str, *, bits: int) -> int:
    """Return a signed integer of at most ``bits`` bits as Java reads it; else InvalidArgument."""
    limit = 1 << (bits - 1)
    digits = text.lstrip("+-").lstrip("0")
    if not _INTEGER.fullmatch(text) or len(digits) > bits or not -limit <= int(text) < limit:
        raise InvalidArgument(f"{text[:80]!r} is no integer of {bits} bits")
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
    """Split at runs of white space; a leading run makes an empty first field, as in Java."""
    fields = _SPACES.split(line)
    return fields if len(fields) == 1 or fields[-1] else fields[:-1]


def _malformed(path: str, number: int, line: str) -> CorruptFile:
    return CorruptFile(f"{path}, line {number} is malformed: {line[:80]!r}")


def _read_text(fs: FileSystem, path: str) -> str:
    try:
        return fs.read(path).decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{path} is not UTF-8: {error}") from error
