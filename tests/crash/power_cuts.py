"""What a power cut may leave of what a program wrote and did not sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidelog.testing.disk import Kept


class Outcome(NamedTuple):
    """All, nothing, or a part by seed; as for ``CrashFileSystem.power_cut``."""

    kept: Kept | None
    seed: int


def outcomes(seeds: int) -> list[Outcome]:
    """Return the ways in which a power cut may end, ``seeds`` of them in part."""
    return [Outcome("all", 0), Outcome("none", 0), *(Outcome(None, n) for n in range(seeds))]
