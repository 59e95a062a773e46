"""The limit of files that the process may have open."""

from __future__ import annotations

import logging
import sys
from typing import Final

if sys.platform != "win32":
    import resource

_log = logging.getLogger(__name__)

_MOST: Final = 1 << 20
"""Below the maximum of every supported system; macOS refuses its own "unlimited"."""
_MOST_DARWIN: Final = 10_240


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files up to the hard limit; return the limit now in force.

    The usual limit of a shell, 1024 on Linux and 256 on macOS, is too low for a thousand logs.
    """
    if sys.platform == "win32":
        return _MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DARWIN if sys.platform == "darwin" else _MOST
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        _log.warning("descriptor-limit-not-raised soft=%d hard=%d reason=%s", soft, hard, error)
        return soft
    return wanted
