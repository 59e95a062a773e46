"""What a check of a log directory can find, as values graded by severity."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from tidelog.codec.shown_rows import Named
from tidelog.env.files import WRONG_KIND
from tidelog.errors import CorruptArchive, InvalidArgument, KafkaStorageError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")


class Severity(StrEnum):
    """How bad a finding is."""

    DAMAGE = "damage"
    """Something is lost, or a reader may get a wrong answer."""

    UNUSUAL = "unusual"
    """Legal, and still worth a look: what a crash, a writer at work or compaction leaves."""


REBUILT: Final = "none needed: it is built again when the log is opened"
REBUILD: Final = "delete the segment's .index file: the next opening builds its indexes again"
READABLE: Final = "make the file readable, then verify again"
RESCUE: Final = "`tidelog rescue` copies all that can be read into a new directory"
CUT: Final = (
    "`tidelog rescue` copies all that can be read, before and after this, into a new directory."
    " `tidelog recover --full` cuts the log here; `--dry-run` says first what that would lose."
    " With a replica elsewhere, delete the partition here and let it be copied again"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding."""

    severity: Annotated[
        Severity, "damage: something is lost, or readers may get wrong answers; unusual: legal."
    ]
    path: Annotated[str, Named("file"), "Path of the file."]
    byte: Annotated[int | None, "Where in the file, in bytes; null: nowhere in particular."]
    what: Annotated[str, "What was found."]
    remedy: Annotated[str, "What can be done."]


def damage(path: str, byte: int | None, what: str, remedy: str) -> Finding:
    """Return a finding of damage; an error may begin with the path, which is not said twice."""
    return Finding(Severity.DAMAGE, path, byte, what.removeprefix(f"{path}: "), remedy)


def unusual(path: str, byte: int | None, what: str, remedy: str = "none needed") -> Finding:
    """Return a finding that is not damage."""
    return Finding(Severity.UNUSUAL, path, byte, what, remedy)


def raise_unanswered(error: Exception) -> None:
    """Raise the error of a store that gave no answer: that says nothing of what is there."""
    if isinstance(error, StoreError) and not isinstance(error, CorruptArchive):
        raise error


def attempt(
    read: Callable[[], T], path: str, remedy: str, byte: int | None = None
) -> Generator[Finding, None, T | None]:
    """Return what ``read`` finds in a file; if it cannot be read, yield that, and return None.

    ``remedy`` is for what the file holds: nothing is known of one that the disk does not give.
    Raises StoreError where a store gave no answer.
    """
    try:
        return read()
    except (KafkaStorageError, InvalidArgument) as error:
        raise_unanswered(error)
        cause = error.__cause__
        is_unread = isinstance(cause, OSError) and cause.errno not in WRONG_KIND
        yield damage(path, byte, str(error), READABLE if is_unread else remedy)
        return None
