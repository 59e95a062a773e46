"""What a check of a log directory can find, as values graded by severity."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Severity(StrEnum):
    """How bad a finding is."""

    DAMAGE = "damage"
    """Something is lost, or a reader may get a wrong answer."""

    UNUSUAL = "unusual"
    """Legal, and still worth a look: what a crash, a writer at work or compaction leaves."""


REBUILT: Final = "none needed: it is built anew when the log is opened"
REBUILD: Final = "delete the segment's .index file: the next opening builds its indexes anew"
READABLE: Final = "make the file readable, then verify again"
CUT: Final = (
    "`tidelog recover --full` cuts the log here; `--dry-run` says first what that would lose."
    " With a replica elsewhere, delete the partition here and let it be copied again"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in file ``path``; ``byte`` is where in it, None where that means nothing."""

    severity: Severity
    path: str
    byte: int | None
    what: str
    remedy: str

    def as_json(self) -> dict[str, Any]:
        """Return the finding under the names that the command prints."""
        return {
            "severity": self.severity.value,
            "file": self.path,
            "byte": self.byte,
            "what": self.what,
            "remedy": self.remedy,
        }


def damage(path: str, byte: int | None, what: str, remedy: str) -> Finding:
    """Return a finding of damage."""
    return Finding(Severity.DAMAGE, path, byte, what, remedy)


def unusual(path: str, byte: int | None, what: str, remedy: str = "none needed") -> Finding:
    """Return a finding that is not damage."""
    return Finding(Severity.UNUSUAL, path, byte, what, remedy)
