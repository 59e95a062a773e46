"""Signals to a running service."""

from __future__ import annotations

import signal

from tidelog.env.signals import Signals


def test_a_stop_is_seen_before_it_is_waited_for() -> None:
    """As while logs are loaded; ``wait`` returns it all the same."""
    with Signals() as signals:
        before = signals.is_stop_requested()
        signals.stop()
        seen = signals.is_stop_requested(), signals.is_stop_requested()

        assert (before, seen, signals.wait()) == (False, (True, True), False)


def test_a_reload_during_a_start_is_not_lost() -> None:
    """It does not count as a stop, and is returned first."""
    with Signals() as signals:
        signal.raise_signal(signal.SIGHUP)
        requested = signals.is_stop_requested()
        signals.stop()

        assert (requested, signals.wait(), signals.wait()) == (False, True, False)


def test_a_stop_ends_a_wait_and_other_signals_are_not_caught() -> None:
    """A program that has nothing to reload ends with its terminal."""
    before = signal.getsignal(signal.SIGHUP)
    with Signals(reloads=False) as signals:
        seen = signals.is_stopped_within(0)
        signals.stop()

        assert (seen, signals.is_stopped_within(60_000)) == (False, True)
        assert signal.getsignal(signal.SIGHUP) == before
