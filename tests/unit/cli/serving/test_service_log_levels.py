"""The levels of a service's loggers."""

from __future__ import annotations

import logging

from tidelog.cli.serving.service_log_levels import LogLevels
from tidelog.config.log_levels import TRACE


def test_options_win_over_settings_and_a_change_takes_back_what_was_set() -> None:
    """A logger that is no longer named has its parent's level again."""
    names = ("tidelog", "tidelog.env", "tidelog.cleaner")
    before = {name: logging.getLogger(name).level for name in names}
    levels = LogLevels()
    try:
        levels.apply(["ERROR", "tidelog.env=TRACE"], ["tidelog.cleaner=DEBUG", "WARNING"])
        first = [logging.getLogger(name).getEffectiveLevel() for name in names]
        levels.apply([], ["tidelog.cleaner=DEBUG"])
        second = [logging.getLogger(name).getEffectiveLevel() for name in names]
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)

    assert first == [logging.WARNING, TRACE, logging.DEBUG]
    assert second == [logging.INFO, logging.INFO, logging.DEBUG]
