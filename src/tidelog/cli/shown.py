"""When the progress of a command is shown; the command line knows it before anything is loaded."""

from __future__ import annotations

from enum import Enum


class Shown(Enum):
    """When the progress of a command is shown."""

    ON_TERMINAL = "on a terminal"
    ALWAYS = "always"
    NEVER = "never"
