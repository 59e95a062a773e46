"""Lines as they come, and the call that settles them."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.lingering_lines import LingeringLines
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[io.BufferedReader, int]]:
    """A pipe: the end that is read, and the number of the other."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        yield stream, writing


@pytest.mark.parametrize(
    "text", [b"", b"a", b"a\n", b"\n\na", b"a\nb\r\n\n", b"x" * 600_000 + b"\ny"]
)
def test_lines_come_with_their_ends(text: bytes) -> None:
    """As a file gives them, however long they are."""
    clock = ManualClock()

    lines = LingeringLines(io.BytesIO(text), pytest.fail, clock)

    assert list(lines) == list(io.BytesIO(text))


def test_a_line_is_settled_while_the_next_is_waited_for(
    pipe: tuple[io.BufferedReader, int],
) -> None:
    """Once, and not again before there is another line."""
    stream, writing = pipe
    settled: list[int] = []

    def settle() -> None:
        settled.append(len(settled))
        if len(settled) == 1:
            os.write(writing, b"b\n")
        else:
            os.close(writing)

    os.write(writing, b"a\n")
    lines = LingeringLines(stream, settle, ManualClock(), linger_ms=0)

    assert list(lines) == [b"a\n", b"b\n"]
    assert settled == [0, 1]


def test_lines_that_keep_coming_are_settled_when_it_is_time() -> None:
    """Without a pause, too; what came within the time is settled at once."""
    clock = ManualClock()
    settled: list[int] = []
    text = b"a\n" * 300_000
    lines = LingeringLines(io.BytesIO(text), lambda: settled.append(seen), clock, linger_ms=500)

    seen = 0
    for _ in lines:
        seen += 1
        if seen % 1_000 == 0:
            clock.advance(10)

    assert 3 <= len(settled) <= 6
    assert seen == 300_000
