"""What some releases of Spark lack: tidelog works with 4.0 to 4.3.

``docs/spark.md`` has the table of what works in which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

Release = tuple[int, int]

FIRST: Final[Release] = (4, 0)
"""The first release with Python data sources that write."""
LAST: Final[Release] = (4, 3)
"""The newest release that was tried."""
_WITH_START: Final[Release] = (4, 2)
"""The first release that passes to a Python source where a batch begins, and so can limit it."""


def spark_release() -> Release:
    """Return the release of the PySpark that is used here; ``LAST`` if there is none."""
    try:
        from pyspark.version import __version__
    except ModuleNotFoundError:
        return LAST
    major, minor = __version__.split(".")[:2]
    return int(major), int(minor)


def check_release(release: Release) -> None:
    """Raise InvalidArgument for a release of Spark that lacks Python data sources."""
    if release < FIRST:
        raise InvalidArgument(
            f"Spark {dotted(release)} has no Python data sources: tidelog needs Spark"
            f" {dotted(FIRST)} to {dotted(LAST)}"
        )


def has_limits(release: Release) -> bool:
    """Return whether batches of a stream can be limited, and end at what is available now.

    Without that, a batch has all that is available.
    """
    return release >= _WITH_START


def check_limits(names: Sequence[str], release: Release) -> None:
    """Raise InvalidArgument for options that limit the batches of a stream in ``release``."""
    if names and not has_limits(release):
        raise InvalidArgument(
            f"option {names[0]} needs Spark {dotted(_WITH_START)} or later: Spark {dotted(release)}"
            " does not pass to a Python source where a batch begins"
        )


def dotted(version: Sequence[int]) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))
