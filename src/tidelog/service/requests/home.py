"""Where a command is carried out: by a service, or in the command's own process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.machine import Machine
    from tidelog.manager.log_manager import LogManager


def ignore(_part: object) -> None:
    """Do nothing with a part of a result: the whole is enough."""


class Home(NamedTuple):
    """Where a command is carried out: on which manager, and for which of its directories.

    ``report`` is called with what a long command has done so far, part by part.
    """

    manager: LogManager
    machine: Machine
    path: str
    report: Callable[[Any], None] = ignore
