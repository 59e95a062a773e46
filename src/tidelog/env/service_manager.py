"""Messages to systemd, or another service manager with its protocol: ready, stopping.

Source: sd_notify(3). Nothing is sent unless ``NOTIFY_SOCKET`` says where to.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "NOTIFY_SOCKET"
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_TIMEOUT_S: Final = 1.0

_log = logging.getLogger(__name__)


def notify_service_manager(state: str, environment: Mapping[str, str]) -> bool:
    """Send ``state``; return whether it was sent. A failure is logged, and changes nothing."""
    address = environment.get(VARIABLE, "")
    if not address or not hasattr(socket, "AF_UNIX"):
        return False
    if address.startswith("@"):  # a socket without a file
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_TIMEOUT_S)
            sender.connect(address)
            sender.sendall(state.encode())
    except (OSError, ValueError) as error:
        path = environment[VARIABLE]
        _log.warning("service-manager-not-notified path=%s reason=%s", path, error)
        return False
    return True
