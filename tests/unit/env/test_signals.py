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
