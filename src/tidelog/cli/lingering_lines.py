"""The lines of a file or a pipe, with a callback that flushes what they became before long.

A pipe may pause for hours between two lines; its last records must be durable and visible by then.
"""

from __future__ import annotations

import io
import os
from typing import IO, TYPE_CHECKING, Final

from tidelog.env.clock import NS_PER_MS
from tidelog.env.waiting import wait_readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.env.clock import Clock

LINGER_MS: Final = 1_000
"""Longest time from a line to the flush after it."""
MAX_LINE_BYTES: Final = (1 << 31) - 1
"""What no record may exceed."""
_CHUNK_BYTES: Final = 64 << 10


class LineTooLong(Exception):
    """A line is longer than allowed; no more is read."""


class LingeringLines:
    """Lines with their line ends, as they arrive; can be iterated once.

    A line of more than ``limit_bytes`` raises LineTooLong before it is in memory as a whole.

    ``flush`` is called about ``linger_ms`` after the first line since the last call, even while
    waiting for the next line. It is not called at the end, nor without a line since the last call.
    """

    def __init__(
        self,
        stream: IO[bytes],
        flush: Callable[[], object],
        clock: Clock,
        *,
        linger_ms: int = LINGER_MS,
        limit_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self._stream = stream
        self._flush = flush
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._linger_ms = linger_ms
        self._linger_ns = linger_ms * NS_PER_MS
        self._due_ns: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        rest: list[bytes] = []
        rest_bytes = 0
        for chunk in self._chunks():
            *lines, last = chunk.split(b"\n")
            for line in lines:
                if rest_bytes + len(line) > self._limit_bytes:
                    raise LineTooLong
                rest_bytes = 0
                yield b"".join([*rest, line, b"\n"])
                rest.clear()
                if self._due_ns is None:
                    self._due_ns = self._clock.monotonic_ns() + self._linger_ns
            if last:
                rest.append(last)
                rest_bytes += len(last)
                if rest_bytes > self._limit_bytes:
                    raise LineTooLong
            self._flush_if_due()
        if rest:
            yield b"".join(rest)

    def _chunks(self) -> Iterator[bytes]:
        """Yield bytes as soon as they arrive."""
        try:
            number = self._stream.fileno()
        except (OSError, io.UnsupportedOperation):  # bytes in memory are always ready
            yield from iter(lambda: self._stream.read(_CHUNK_BYTES), b"")
            return
        read = getattr(self._stream, "read1", self._stream.read)
        while True:
            while self._due_ns is not None:
                left_ns = self._due_ns - self._clock.monotonic_ns()
                if wait_readable(number, max(left_ns // NS_PER_MS, 0)):
                    break
                self._flush_if_due()
            # Of what another process has set to O_NONBLOCK, as it may with an input that it shares,
            # a read that would have to wait looks like one at the end.
            while not (os.get_blocking(number) or wait_readable(number, self._linger_ms)):
                continue
            chunk = read(_CHUNK_BYTES)
            if not chunk:
                return
            yield chunk

    def _flush_if_due(self) -> None:
        if self._due_ns is not None and self._clock.monotonic_ns() >= self._due_ns:
            self._due_ns = None
            self._flush()
