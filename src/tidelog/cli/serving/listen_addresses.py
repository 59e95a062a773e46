"""The check that only this machine reaches where a command listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.config.serve_config import LOOPBACK
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.config.serve_config import Endpoint


def check_loopback(endpoints: Iterable[Endpoint], may: str) -> None:
    """Raise InvalidArgument if one can be reached from elsewhere; ``may``: what is then allowed."""
    others = [f"{host}:{port}" for host, port in endpoints if host not in LOOPBACK]
    if others:
        raise InvalidArgument(
            f"{', '.join(others)} can be reached from other machines, and every client that reaches"
            f" it may {may}: add --insecure if that is meant"
        )
