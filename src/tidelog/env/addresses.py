"""Addresses that a process listens on, and by which browsers reach it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")


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


def is_own_host(host: str, names: frozenset[str], *, takes_addresses: bool) -> bool:
    """Return whether a ``Host`` of HTTP is one of ``names``, or any IP address, if those will do.

    Any web site may have its own name lead here, and a browser would show it the answers.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1].strip("[]").lower()
    return name in names or (takes_addresses and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
