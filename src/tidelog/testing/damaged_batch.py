"""Damage to a stored batch, as a disk may do it, for tests of what a program does about it."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.records.batch import LOG_OVERHEAD
from tidelog.records.file_records import FileRecords
from tidelog.segment.filenames import log_directory_name, log_file, log_offsets

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem


def damage_batch(
    path: str | os.PathLike[str],
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    files: FileSystem = SYSTEM_FILES,
) -> None:
    """Flip one bit of the batch that holds ``offset``, so that its checksum is wrong.

    Readers return the records before it, then raise CorruptMessage. ``path`` is the data directory,
    on the disk ``files``; it may be open. Raises InvalidArgument where no batch has the offset.
    """
    directory = os.path.join(os.path.abspath(path), log_directory_name(topic, partition))
    bases = [base for base in log_offsets(files.list(directory)) if base <= offset]
    if bases:
        segment = log_file(directory, max(bases))
        last_byte = _last_byte_of_batch(files, segment, offset)
        if last_byte is not None:
            with closing(files.open(segment, "r+")) as file:
                file.pwrite(bytes([file.pread(1, last_byte)[0] ^ 1]), last_byte)
            return
    raise InvalidArgument(f"{directory} has no batch with offset {offset} to damage")


def _last_byte_of_batch(files: FileSystem, segment: str, offset: int) -> int | None:
    with FileRecords.open(files, segment) as records:
        for position, header in records.headers():
            if header.base_offset <= offset <= header.base_offset + header.last_offset_delta:
                return position + LOG_OVERHEAD + header.length - 1
    return None
