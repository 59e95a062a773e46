"""Addresses that a process listens on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def naming_address(host: str, port: int) -> Iterator[None]:
    """Let an OSError inside name the address: one in use, or one that may not be used."""
    try:
        yield
    except OSError as error:
        error.filename = f"{host}:{port}"
        # Python adds the address to the text of some, where it would stand twice.
        error.strerror = (error.strerror or "").partition(" (while ")[0]
        raise
