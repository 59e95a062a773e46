"""What a reader skips that was asked to read past damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.codec.offset_text import offsets_text


class DamagedRange(NamedTuple):
    """Bytes ``[position, end)`` of a file that hold no valid batch, and the offsets lost with them.

    Offsets are ``[start_offset, end_offset)``: between the batches before and after the bytes.
    """

    path: str
    position: int
    end: int
    start_offset: int
    end_offset: int
    reason: str

    def __str__(self) -> str:
        offsets = "no offsets"
        if self.start_offset < self.end_offset:
            offsets = offsets_text(self.start_offset, self.end_offset)
        size = self.end - self.position
        return (
            f"{size:,} bytes from byte {self.position:,} of {self.path}, {offsets}: {self.reason}"
        )


OnDamage = Callable[[DamagedRange], None]
"""Called with each damaged range that a read skips, before the records after it."""


def skipped_by(option: str) -> str:
    """Return what a user can do who stands at damage, and has ``option`` to read past it."""
    return (
        f"{option} skips it, and says what is lost; `tidelog rescue` copies all that can be read"
        " into a new directory, and `tidelog verify` says whether an archive has it"
    )


def ignore_damage(_: DamagedRange) -> None:
    """Do nothing, as where the range is reported by another read."""
