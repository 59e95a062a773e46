"""A part of an object as a file: fetched in large pieces, and ahead of a reader that says how far.

The pieces fetched last are kept while reads continue in them.
"""

from __future__ import annotations

import errno
from collections import deque
from functools import partial
from itertools import pairwise
from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.archive.coarse_index import COARSE_BYTES
from tidelog.env.read_only_file import ReadOnlyFile
from tidelog.env.scheduler import run_ahead
from tidelog.errors import ObjectNotFound
from tidelog.segment.filenames import LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tidelog.env.files import Buffer
    from tidelog.store.objects import Objects

SCAN_BYTES: Final = 8 << 20
"""Bytes fetched at once for a reader that scans, if it does not ask for more."""
LOOK_BYTES: Final = 64 << 10
"""Bytes of other files than ``.log`` that are fetched at once."""
SEEK_BYTES: Final = 3 * COARSE_BYTES
"""Bytes of a ``.log`` file that are fetched where a reader begins.

It begins one entry of the coarse index before the nearest one, and what it looks for may lie in
front of the next one.
"""
_READS_AT_ONCE: Final = 8
"""How many reads of a scan are fetched at once that does not say how far it goes."""
FETCHES_AHEAD: Final = 2
"""How many pieces are fetched while a reader works on those before."""


class Place(NamedTuple):
    """Bytes ``[start, end)`` of an object."""

    name: str
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """How many bytes these are."""
        return self.end - self.start


def size_of(place: Place | bytes) -> int:
    """Return the size of a file in bytes."""
    return len(place) if isinstance(place, bytes) else place.size_bytes


class ArchiveFile(ReadOnlyFile):
    """A part of an object as ``OpenFile``.

    Args:
        store: the archive's objects.
        path: the path as opened.
        place: where the bytes are, or the bytes.
        is_gone: called with the name of an object that is not there, and may raise; after that the
            file is shorter than it was, as one that somebody has cut.
    """

    def __init__(
        self, store: Objects, path: str, place: Place | bytes, is_gone: Callable[[str], None]
    ) -> None:
        self._store = store
        self.path: Final = path
        self._is_gone = is_gone
        self._place = None if isinstance(place, bytes) else place
        self._size = size_of(place)
        self._seek_bytes = SEEK_BYTES if path.endswith(LOG_SUFFIX) else LOOK_BYTES
        self._kept: deque[memoryview] = deque()
        """Pieces that follow each other, from byte ``_at`` to ``_end``."""
        self._at = self._end = 0
        self._last_size = 0
        self._ahead: Generator[bytes | memoryview, None, None] | None = None
        """Yields the pieces from byte ``_end`` on that a reader has said it will read."""
        self._lock = RLock()
        self.holders = 1
        """Number of references."""
        if isinstance(place, bytes):
            self._keep(place)

    def hold(self) -> ArchiveFile:
        """Add a reference."""
        with self._lock:
            self._check_open()
            self.holders += 1
        return self

    def close(self) -> None:
        """Drop a reference; the last one frees what was fetched."""
        with self._lock:
            self.holders = max(self.holders - 1, 0)
            if not self.holders and self._place is not None:
                self._seek(0)

    def fileno(self) -> int:
        """Raise OSError: there is no descriptor."""
        raise OSError(errno.EOPNOTSUPP, "an object has no descriptor", self.path)

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    def will_read(self, start: int, end: int) -> None:
        """Take note that bytes ``[start, end)`` will be read in order, and fetch ahead."""
        with self._lock:
            self._check_open()
            if self._place is None:  # all of it is here
                return
            if not self._holds(start):
                self._seek(start)
            self._stop()
            first, last = self._end, min(end, self._size)
            if last - first > SCAN_BYTES:
                pieces = pairwise((*range(first, last, SCAN_BYTES), last))
                tasks = (partial(self._get, *piece) for piece in pieces)
                self._ahead = run_ahead("tidelog-archive", tasks, FETCHES_AHEAD)

    def pread(self, size: int, position: int) -> bytes:
        """Return bytes, from what was fetched last or from the store."""
        with self._lock:
            return b"".join(self._parts(position, min(position + size, self._size)))

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer``; return the bytes read."""
        view, count = memoryview(buffer).cast("B"), 0
        with self._lock:
            for part in self._parts(position, min(position + len(view), self._size)):
                view[count : count + len(part)] = part
                count += len(part)
        return count

    def _parts(self, position: int, end: int) -> list[memoryview]:
        """Return bytes ``[position, end)``, in parts; fewer if the object is gone."""
        if position >= end:
            return []
        self._check_open()
        if not self._holds(position):
            self._seek(position)
        while self._end < end and self._fetch(position, end):
            pass
        self._last_size = end - position
        parts, at = [], self._at
        for piece in self._kept:
            first, last = max(position - at, 0), min(end - at, len(piece))
            if first < last:
                parts.append(piece[first:last])
            at += len(piece)
        return parts

    def _fetch(self, position: int, end: int) -> bool:
        """Fetch what follows, for a read of ``[position, end)``; return False if it is gone."""
        assert self._place is not None
        last = self._last_to_get(position, end)
        self._forget_before(position)
        try:
            piece = None if self._ahead is None else next(self._ahead, None)
            if piece is None:
                self._stop()
                piece = self._get(self._end, last)
        except ObjectNotFound:
            self._seek(position)
            self._is_gone(self._place.name)
            return False
        self._keep(piece)
        return True

    def _last_to_get(self, position: int, end: int) -> int:
        """Return up to which byte to fetch for a read."""
        if not self._kept:
            least = self._seek_bytes
        else:  # of a scan each read has the size of the one before; another says what it needs
            is_scan = end - position == self._last_size
            least = min(_READS_AT_ONCE * self._last_size, SCAN_BYTES) if is_scan else 0
        return min(max(end, self._end + least), self._size)

    def _get(self, first: int, last: int) -> bytes | memoryview:
        """Return bytes from the store; any thread may call it."""
        assert self._place is not None
        start = self._place.start
        return self._store.get_ranges(self._place.name, [(start + first, start + last)])[0]

    def _keep(self, piece: bytes | memoryview) -> None:
        self._kept.append(memoryview(piece))
        self._end += len(piece)

    def _holds(self, position: int) -> bool:
        """Return whether a read from a byte on continues what is kept."""
        return bool(self._kept) and self._at <= position <= self._end

    def _forget_before(self, position: int) -> None:
        while self._kept and self._at + len(self._kept[0]) <= position:
            self._at += len(self._kept.popleft())

    def _seek(self, position: int) -> None:
        """Keep nothing, and continue at a byte."""
        self._stop()
        self._kept.clear()
        self._at = self._end = position

    def _stop(self) -> None:
        """Fetch nothing ahead any more."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _check_open(self) -> None:
        if not self.holders:
            raise OSError(errno.EBADF, "file is closed", self.path)
