"""How far a reader may see, under the names that Kafka's consumers use.

Kafka: ``IsolationLevel`` of a consumer and ``Isolation`` of a fetch, in one.
"""

from __future__ import annotations

from enum import StrEnum

from tidelog.errors import InvalidArgument


class Isolation(StrEnum):
    """How far a read may go; equal to its word."""

    READ_UNCOMMITTED = "read_uncommitted"
    """Up to the high watermark, aborted and open transactions included."""
    READ_COMMITTED = "read_committed"
    """Up to the last stable offset, without aborted transactions."""
    LOG_END = "log_end"
    """Up to the log end, for the owner of the log."""

    @classmethod
    def _missing_(cls, value: object) -> Isolation | None:
        """Accept the spelling of ``--up-to`` and ``read_up_to``."""
        return cls.LOG_END if value == "logEnd" else None

    @classmethod
    def of(cls, word: str) -> Isolation:
        """Return the isolation that a word names; raise InvalidArgument for any other word."""
        if isinstance(word, cls):  # as in each fetch
            return word
        try:
            return cls(word)
        except ValueError:
            known = ", ".join(cls)
            raise InvalidArgument(f"isolation {word!r} is not one of {known}") from None


class ReadUpTo(StrEnum):
    """How far a read-only reader goes."""

    HIGH_WATERMARK = "highWatermark"
    LOG_END = "logEnd"

    @classmethod
    def _missing_(cls, value: object) -> ReadUpTo | None:
        """Accept Python's spelling of a word, as of ``isolation="log_end"``."""
        found = next((one for one in cls if one.name.lower() == value), None)
        if found is None:
            raise InvalidArgument(f"read_up_to {value!r} is not one of {', '.join(cls)}")
        return found


def reach(isolation: Isolation | str) -> tuple[bool, ReadUpTo]:
    """Return whether only committed records are read, and how far a reader of this level goes.

    Raises InvalidArgument for an unknown word.
    """
    level = Isolation.of(isolation)
    up_to = ReadUpTo.LOG_END if level is Isolation.LOG_END else ReadUpTo.HIGH_WATERMARK
    return level is Isolation.READ_COMMITTED, up_to
