"""The request log: a line for each answer, with the times of its phases.

Kafka: ``RequestChannel.Request.updateRequestMetrics`` and ``kafka.request.logger``. Two of Kafka's
phases are not here: no request waits in a queue, as the event loop that has read it handles it, and
none is throttled.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.protocol.apis import apis, read_request_header
from tidelog.env.clock import MS_PER_S

if TYPE_CHECKING:
    from tidelog.codec.varint import Bytes

REQUEST_LOG: Final = logging.getLogger("tidelog.broker.requests")
_ID_LENGTH: Final = 100
"""How many characters of a client id are logged: clients choose it, up to 32,767 bytes long."""


class RequestLine:
    """What the log is to say of a request that was handled; made only where that is wanted.

    Times are the loop's, in seconds: ``start`` when it was taken, ``handled`` when its handler had
    returned, ``answered`` when there was an answer, ``begun`` when that answer's turn had come.
    """

    __slots__ = (
        *("_answered", "_begun", "_handled", "_header", "_host"),
        *("_request_bytes", "_response_bytes", "_start"),
    )

    def __init__(self, frame: Bytes, host: str, start: float, handled: float) -> None:
        self._header = read_request_header(frame)
        self._host = host
        self._request_bytes, self._response_bytes = len(frame), 0
        self._start, self._handled = start, handled
        self._answered = self._begun = handled

    def answered(self, now: float) -> None:
        """Note that there is an answer, which waits for those before it."""
        self._answered = now

    def begin(self, parts: list[Any] | None, now: float) -> None:
        """Note that the answer is sent from now on; None: the client expects none."""
        self._response_bytes = sum(map(len, parts or ()))
        self._begun = now

    def write(self, now: float) -> None:
        """Log the request: the socket has taken the answer, or there is no socket any more."""
        sent = now if self._response_bytes else self._begun
        times = (self._start, self._handled, self._answered, self._begun, sent)
        phases = [end - start for start, end in pairwise(times)]
        client_id = self._header.client_id
        REQUEST_LOG.debug(
            "request-answered request=%s version=%d host=%s client_id=%r request_bytes=%d"
            " response_bytes=%d local_time_ms=%.3f remote_time_ms=%.3f"
            " response_queue_time_ms=%.3f response_send_time_ms=%.3f total_time_ms=%.3f",
            *(apis()[self._header.number].name, self._header.version, self._host),
            *(client_id and client_id[:_ID_LENGTH], self._request_bytes, self._response_bytes),
            *(seconds * MS_PER_S for seconds in (*phases, sent - self._start)),
        )
