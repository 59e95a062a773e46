"""Waiting for a ring."""

from __future__ import annotations

from tidelog.env.waiting import ThreadBell


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
