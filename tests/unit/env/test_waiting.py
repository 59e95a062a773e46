"""Waiting for a bell to ring."""

from __future__ import annotations

import os

from tidelog.env.waiting import ThreadBell, wait_readable


def test_a_ring_before_the_wait_is_not_missed() -> None:
    """A caller that read the count before it checked its condition is woken at once."""
    bell = ThreadBell()
    seen = bell.rings
    bell.ring()

    assert bell.wait(seen, 60_000) is True


def test_without_a_ring_the_wait_ends() -> None:
    """It returns that there was none."""
    bell = ThreadBell()

    assert bell.wait(bell.rings, 1) is False


def test_a_pipe_is_readable_when_it_has_data() -> None:
    """It is also readable at its end; otherwise it is not."""
    reading, writing = os.pipe()
    try:
        before = wait_readable(reading, 0)
        os.write(writing, b"x")
        assert (before, wait_readable(reading, 60_000)) == (False, True)
    finally:
        os.close(writing)
        os.close(reading)


def test_what_cannot_be_waited_for_counts_as_readable() -> None:
    """Reading it then raises any error."""
    assert wait_readable(-1, 60_000)
