"""Ranges of offsets as reports name them."""

from __future__ import annotations


def offsets_text(start: int, end: int) -> str:
    """Return offsets ``[start, end)`` as ``offset 3`` or ``offsets 3 to 9``."""
    return f"offsets {start:,} to {end - 1:,}" if end > start + 1 else f"offset {start:,}"
