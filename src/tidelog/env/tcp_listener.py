"""Listening for connections by TCP."""

from __future__ import annotations

import socket


def listen_at(host: str, port: int, backlog: int) -> socket.socket:
    """Listen at an address; port 0 is any that is free.

    Raises OSError whose ``filename`` is the address: it is in use, or may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        error.filename = f"{host}:{port}"
        # Python adds the address to the text of some, where it would stand twice.
        error.strerror = (error.strerror or "").partition(" (while ")[0]
        raise
    # Connections inherit it. Without it the second of two responses, or the end of a page, waits
    # for the client's delayed acknowledgement of the first, 40 ms; asyncio sets it only where the
    # protocol of the socket is named, which here it is not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
