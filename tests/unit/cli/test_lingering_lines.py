"""Lines as they arrive, and the callback that flushes them."""

from __future__ import annotations

import io
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.lingering_lines import LingeringLines
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[io.BufferedReader, int]]:
    """A pipe: the end to read from, and the file descriptor of the other."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        yield stream, writing


@pytest.mark.parametrize(
    "text", [b"", b"a", b"a\n", b"\n\na", b"a\nb\r\n\n", b"x" * 600_000 + b"\ny"]
)
def test_lines_keep_their_line_ends(text: bytes) -> None:
    """As from a file, however long they are."""
    clock = ManualClock()

    lines = LingeringLines(io.BytesIO(text), pytest.fail, clock)

    assert list(lines) == list(io.BytesIO(text))


def test_a_line_is_flushed_while_waiting_for_the_next(
    pipe: tuple[io.BufferedReader, int],
) -> None:
    """Once, and not again before another line."""
    stream, writing = pipe
    flushed: list[int] = []

    def flush() -> None:
        flushed.append(len(flushed))
        if len(flushed) == 1:
            os.write(writing, b"b\n")
        else:
            os.close(writing)

    os.write(writing, b"a\n")
    lines = LingeringLines(stream, flush, ManualClock(), linger_ms=0)

    assert list(lines) == [b"a\n", b"b\n"]
    assert flushed == [0, 1]


def test_an_input_that_does_not_block_is_read_to_its_end(
    pipe: tuple[io.BufferedReader, int],
) -> None:
    """Another process that shares it may have set it so: nothing there yet is not the end."""
    stream, writing = pipe
    os.set_blocking(stream.fileno(), False)

    children: list[subprocess.Popen[bytes]] = []

    def flush() -> None:
        if not children:
            children.append(subprocess.Popen(["sh", "-c", "sleep 0.2; echo b"], stdout=writing))
            os.close(writing)

    os.write(writing, b"a\n")
    lines = LingeringLines(stream, flush, ManualClock(), linger_ms=0)

    assert list(lines) == [b"a\n", b"b\n"]
    assert children[0].wait() == 0


def test_a_steady_stream_is_flushed_when_the_time_has_passed() -> None:
    """Lines within the time are flushed together, even without a pause between them."""
    clock = ManualClock()
    flushed: list[int] = []
    text = b"a\n" * 300_000
    lines = LingeringLines(io.BytesIO(text), lambda: flushed.append(seen), clock, linger_ms=500)

    seen = 0
    for _ in lines:
        seen += 1
        if seen % 1_000 == 0:
            clock.advance(10)

    assert 3 <= len(flushed) <= 6
    assert seen == 300_000
