"""Where the stored bytes of a sparse file lie, without reading its holes.

A preallocated ``.log`` file is gigabytes of zeros that no block on the disk holds.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile

_BLOCK: Final = 1 << 20


def next_data(file: OpenFile, position: int, end: int) -> int:
    """Return where a byte from ``position`` on may be other than zero, at most ``end``.

    A hole of a sparse file is passed over unread, where the file system knows it.
    """
    try:
        descriptor = file.fileno()
    except (OSError, KafkaStorageError):  # it is in memory, say
        return position
    try:
        return min(os.lseek(descriptor, position, os.SEEK_DATA), end)
    except AttributeError:  # this system has no such seek
        return position
    except OSError as error:
        return end if error.errno == errno.ENXIO else position


def end_of_data(file: OpenFile, start: int, end: int) -> int:
    """Return the byte after the last one of ``[start, end)`` that is not zero; ``start`` if none.

    Raises OSError.
    """
    end = _end_of_blocks(file, start, end)
    while start < end:
        position = max(end - _BLOCK, start)
        block = file.pread(end - position, position)
        used = len(block.rstrip(b"\0"))
        if used:
            return position + used
        end = position
    return start


def _end_of_blocks(file: OpenFile, start: int, end: int) -> int:
    """Return where the last block that the disk holds ends, if the file system can say that."""
    reached = start
    try:
        descriptor = file.fileno()
        while reached < end:
            data = os.lseek(descriptor, reached, os.SEEK_DATA)
            reached = os.lseek(descriptor, data, os.SEEK_HOLE)
    except OSError as error:
        return reached if error.errno == errno.ENXIO else end
    except AttributeError:  # the platform has no such call
        return end
    return min(reached, end)
