"""A small HTTP server on the loopback interface, for what a service shows of itself.

It answers GET and HEAD of a few fixed paths. Connections are few, short and closed after one
answer, so that a client that hangs holds up nothing else.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.env.addresses import is_own_host, naming_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HOST: Final = "127.0.0.1"
MAX_CONNECTIONS: Final = 8
TIMEOUT_S: Final = 2.0
"""How long a client may take to send each part of its request, or to read the answer."""
DEADLINE_S: Final = 10.0
"""How long a connection may last in all; a client that sends a byte now and then is cut off."""
_POLL_S: Final = 0.1

_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """An HTTP response: status code, ``Content-Type`` and body."""

    status: int
    content_type: str
    body: bytes


_NOT_FOUND: Final = Answer(404, "text/plain", b"not found\n")
_FOREIGN: Final = Answer(400, "text/plain", b"this is not an address of this service\n")
_FAILED: Final = Answer(500, "text/plain", b"internal error\n")


class LocalHttpServer:
    """Listens from the start on; answers on threads of its own between ``start`` and ``close``.

    Args:
        port: the TCP port of 127.0.0.1; 0: any that is free.
        routes: the answer to each path, computed for each request, on any thread.
        hosts: the names under which it is reached, besides all addresses.
        deadline_s: how many seconds a connection may last in all.

    Raises:
        OSError: the port is in use, or may not be used; the error names the address.
    """

    def __init__(
        self,
        port: int,
        routes: Mapping[str, Callable[[], Answer]],
        hosts: frozenset[str],
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        with naming_address(HOST, port):
            self._server = _Server(port, routes, hosts, deadline_s)
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_port

    def start(self) -> None:
        """Begin to answer."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and free the port."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self,
        port: int,
        routes: Mapping[str, Callable[[], Answer]],
        hosts: frozenset[str],
        deadline_s: float,
    ) -> None:
        self.routes = routes
        self.hosts = hosts
        self._deadline_s = deadline_s
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._due_s: dict[Any, float] = {}  # by connection that is open; guarded by _lock
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server for the host's name, as HTTPServer would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection, or let it wait where there is no descriptor for it."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_POLL_S)  # it is still there, so the loop would come back at once
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Answer on a thread; close the connection if there are too many."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        with self._lock:
            self._due_s[request] = time.monotonic() + self._deadline_s
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread has begun, which would release the slot
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Answer, then let the next connection in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as inherited
        """Close a connection, which has no deadline from then on."""
        with self._lock:
            self._due_s.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Shut down the connections whose deadline has passed; their threads then end."""
        with self._lock:
            now_s = time.monotonic()
            for request in [one for one, due_s in self._due_s.items() if due_s <= now_s]:
                del self._due_s[request]
                with suppress(OSError):  # the client has closed it
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Log what went wrong with a connection; clients come and go."""
        del request
        _log.debug("http-connection-failed path=%s", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = TIMEOUT_S
    server_version = "tidelog"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the answer to the path, whatever the query."""
        answer = self._answer()
        self._send_head(answer)
        self.wfile.write(answer.body)

    def do_HEAD(self) -> None:
        """Send the answer without its body."""
        self._send_head(self._answer())

    def _answer(self) -> Answer:
        # Browsers always send a host, simple clients may not.
        host = self.headers.get("Host")
        if host is not None and not is_own_host(host, self.server.hosts, takes_addresses=True):
            return _FOREIGN
        route = self.server.routes.get(self.path.partition("?")[0])
        try:
            return _NOT_FOUND if route is None else route()
        except Exception:  # noqa: BLE001 - a request must not end the service, whatever it meets
            _log.exception("http-request-failed path=%s", self.path)
            return _FAILED

    def _send_head(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - a name of http.server
        """Log a request at DEBUG."""
        _log.debug("http-request path=%s answer=%s", self.path_or_nothing, format % args)

    @property
    def path_or_nothing(self) -> str:
        """The path, which a malformed request lacks."""
        return getattr(self, "path", "")
