"""Where a command listens, and the check that only this machine reaches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.config.serve_config import LOOPBACK, parse_endpoint
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.config.serve_config import Endpoint


def endpoint_of(text: str) -> Endpoint:
    """Parse what ``--listen`` was given; raise InvalidArgument."""
    try:
        return parse_endpoint(text)
    except ValueError as error:
        raise InvalidArgument(f"--listen: {error}") from None


def check_loopback(endpoints: Iterable[Endpoint], may: str) -> None:
    """Raise InvalidArgument if one can be reached from elsewhere; ``may``: what is then allowed."""
    others = [f"{host}:{port}" for host, port in endpoints if host not in LOOPBACK]
    if others:
        raise InvalidArgument(
            f"{', '.join(others)} can be reached from other machines, and every client that reaches"
            f" it may {may}: add --insecure if that is meant"
        )
