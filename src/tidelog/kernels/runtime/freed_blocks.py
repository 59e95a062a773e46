"""How the C library treats the large blocks of memory that work on columns allocates and frees.

glibc returns a freed block of 128 KB or more to the kernel, so the next one consists of new pages,
each of which the kernel clears at its first use: half of the time of appending records of 1 KB.
"""

from __future__ import annotations

from typing import Final

REUSED_BYTES: Final = 16 << 20
"""Freed blocks of up to this size are used again."""


def reuse_freed_blocks() -> None:
    """Make glibc keep freed blocks of up to ``REUSED_BYTES``, and at most twice as much in all.

    Its threshold follows the largest block that was freed. This one is never written to, so it
    takes no memory. Where the environment sets a threshold of malloc, or the C library is another
    one, nothing changes.
    """
    bytearray(REUSED_BYTES)
