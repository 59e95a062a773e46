"""What a program hears that finds no room among those that have joined. Kafka has no such answer.

It comes before any answer, on a connection that is closed then: nothing was asked of anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.protocol.apis import api_named, read_response_header, size_of_frame

if TYPE_CHECKING:
    from tidelog.codec.varint import Bytes

_NUMBER: Final = -1
"""No request has it as its correlation id."""


def write_no_room(most: int) -> bytes:
    """Return what is sent where ``most`` connections of joined programs are open."""
    text = (
        f"takes no more than {most:,} connections of programs that have joined"
        " (tidelog.max.joined.connections): each program has one, and one for each of its readers"
        " of groups"
    )
    parts = [api_named("ApiVersions").response_header(0, _NUMBER), text.encode()]
    return size_of_frame(parts) + b"".join(parts)


def read_no_room(data: Bytes) -> str | None:
    """Return what was said instead of an answer; None: it is an answer."""
    number, at = read_response_header(api_named("ApiVersions"), 0, data)
    return bytes(data[at:]).decode(errors="replace") if number == _NUMBER else None
