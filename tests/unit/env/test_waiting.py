"""Waiting for a ring."""

from __future__ import annotations

import os

from tidelog.env.waiting import ThreadBell, wait_readable


def test_a_ring_before_the_wait_is_not_missed() -> None:
    """Whoever read the count before it looked is woken at once."""
    bell = ThreadBell()
    seen = bell.rings
    bell.ring()

    assert bell.wait(seen, 60_000) is True


def test_without_a_ring_the_wait_ends() -> None:
    """It says that there was none."""
    bell = ThreadBell()

    assert bell.wait(bell.rings, 1) is False


def test_a_pipe_is_readable_when_something_lies_in_it() -> None:
    """Or when it has ended; else not."""
    reading, writing = os.pipe()
    try:
        before = wait_readable(reading, 0)
        os.write(writing, b"x")
        assert (before, wait_readable(reading, 60_000)) == (False, True)
    finally:
        os.close(writing)
        os.close(reading)


def test_what_cannot_be_waited_for_is_readable() -> None:
    """Reading it says what is wrong."""
    assert wait_readable(-1, 60_000)
