"""Timers of a broker that follow the clock of a test."""

from __future__ import annotations

import asyncio

from tidelog.testing import ManualClock
from tidelog.testing.kafka_broker import _ClockTimers


def test_a_task_that_is_cancelled_before_its_turn_does_not_run() -> None:
    """Also one that is due, and waits for the event loop: such as the end of a session."""

    async def scenario() -> None:
        clock, ran = ManualClock(), []
        timers = _ClockTimers(clock)
        for name in ("kept", "cancelled"):
            timer = timers.schedule(name, lambda name=name: ran.append(name), delay_ms=10)  # type: ignore[misc]  # a default is known
        clock.advance(10)
        timer.cancel()
        await asyncio.sleep(0)
        assert ran == ["kept"]

    asyncio.run(scenario())


def test_a_timer_that_a_broker_has_left_behind_does_not_stop_the_clock() -> None:
    """A broker that was stopped in the middle of a transaction would have continued later."""
    clock, ran = ManualClock(), []

    async def scenario() -> None:
        _ClockTimers(clock).schedule("late", lambda: ran.append("late"), delay_ms=10)

    asyncio.run(scenario())
    clock.advance(10)

    assert not ran
