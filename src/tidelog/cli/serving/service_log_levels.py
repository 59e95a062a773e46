"""The levels of a service's loggers, which can change while it runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.config.log_levels import ROOT, parse_log_levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class LogLevels:
    """Sets the levels of loggers, and takes back those it set before."""

    def __init__(self) -> None:
        self._set: Mapping[str, int] = {}

    def apply(self, settings: Iterable[str], options: Iterable[str]) -> None:
        """Set the levels of ``tidelog.log.levels`` and those of ``--log-level``, which win.

        What neither names is logged from INFO up.
        """
        levels = {ROOT: logging.INFO, **parse_log_levels(settings), **parse_log_levels(options)}
        for name in self._set.keys() - levels.keys():
            logging.getLogger(name).setLevel(logging.NOTSET)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        self._set = levels
