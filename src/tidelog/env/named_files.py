"""Reading files that a user has named on the command line, pipes and terminals among them.

``FileSystem.open`` refuses all but regular files, since what is found in a directory may be
anything. Here the user has chosen it, as with ``--config <(...)`` of a shell.
"""

from __future__ import annotations

import os
import select
import stat
from typing import Final

from tidelog.errors import InvalidArgument

_CHUNK_BYTES: Final = 64 << 10


class NamedFiles:
    """Reads files whole. What came from a pipe is kept, since it can be read only once."""

    def __init__(self) -> None:
        self._piped: dict[tuple[str, int, int], bytes] = {}

    def read_stream(self, path: str, max_bytes: int) -> bytes | None:
        """Return all bytes of a pipe or a character device; None for any other kind of file.

        Waits for a process that has the pipe open for writing. The second time the bytes are those
        of the first.

        Raises:
            InvalidArgument: there are more than ``max_bytes``, or a pipe gives none: nobody writes
                to it, or its writer has failed.
            OSError: the file does not exist, or cannot be read.
        """
        found = os.stat(path)
        is_pipe = stat.S_ISFIFO(found.st_mode)
        if not is_pipe and not stat.S_ISCHR(found.st_mode):
            return None
        key = path, found.st_dev, found.st_ino
        data = self._piped.get(key) or _read_to_end(path, max_bytes)
        if is_pipe and not data:
            raise InvalidArgument(f"{path} is a pipe, and nothing was written to it")
        self._piped[key] = data
        return data


def _read_to_end(path: str, max_bytes: int) -> bytes:
    # Without O_NONBLOCK, opening a FIFO waits until somebody opens it for writing.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    found = bytearray()
    try:
        while True:
            try:
                chunk = os.read(descriptor, _CHUNK_BYTES)
            except BlockingIOError:
                select.select([descriptor], [], [])
                continue
            if not chunk:
                return bytes(found)
            found += chunk
            if len(found) > max_bytes:
                raise InvalidArgument(f"{path} gives more than the {max_bytes:,} bytes allowed")
    finally:
        os.close(descriptor)
