"""SaslHandshake: clients that would authenticate, at a listener where nobody can.

It is offered all the same, as by Kafka: a client that does not find it goes without a word, and
nobody would know why. Kafka: ``KafkaApis.handleSaslHandshakeRequest``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.seldom_lines import SeldomLines
from tidelog.error_codes import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.client_request import Request
    from tidelog.env.clock import Clock

_REASON: Final = (
    "the client wants to authenticate (SASL), and this listener is PLAINTEXT: set the client's"
    " security.protocol to PLAINTEXT"
)
_log = logging.getLogger(__name__)


class SaslHandshake:
    """Refuses, and logs that."""

    def __init__(self, clock: Clock) -> None:
        self._lines: Final = SeldomLines(clock)

    def handle(self, request: Request) -> dict[str, Any]:
        """Answer that the listener does not authenticate."""
        host = request.peer.host
        if self._lines.is_due(host, _REASON):
            _log.warning("client-refused host=%s reason=%s", host, _REASON)
        return {"errorCode": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
