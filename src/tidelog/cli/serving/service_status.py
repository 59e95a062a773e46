"""What a service shows of itself: metrics in files, metrics and health by HTTP, its state."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Final

from tidelog.config.serve_config import LOOPBACK
from tidelog.env.service_manager import READY, STOPPING, notify_service_manager
from tidelog.manager.metrics.health import degraded_reasons
from tidelog.manager.metrics.metric import as_prometheus
from tidelog.manager.metrics.metrics_file import MetricsFiles

if TYPE_CHECKING:
    from tidelog.env.local_http import Answer, LocalHttpServer
    from tidelog.service.log_service import LogService

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_OK, _UNAVAILABLE = 200, 503
_log = logging.getLogger("tidelog.run")


class ServiceStatus:
    """Follows a service from its start to its end.

    ``http_port`` is that of 127.0.0.1 for ``/metrics`` and ``/health``, None: no HTTP. It is bound
    at once, so that an OSError for a port in use comes before anything is opened.
    """

    def __init__(self, http_port: int | None = None) -> None:
        self._manager: LogService | None = None
        self._files: MetricsFiles | None = None
        self._state = "starting"
        self._server: LocalHttpServer | None = None
        if http_port is not None:
            from tidelog.env.local_http import LocalHttpServer

            routes = {"/metrics": self.metrics, "/health": self.health}
            self._server = LocalHttpServer(http_port, routes, LOOPBACK)
            self._server.start()
            _log.info("http-listening path=http://127.0.0.1:%d", self._server.port)

    def begin(self, manager: LogService) -> None:
        """Show the metrics of ``manager``, which is about to load its logs."""
        self._manager = manager
        self._files = MetricsFiles(manager)
        self._files.start()

    def ready(self) -> None:
        """Show that all logs are loaded."""
        self._state = "ready"
        if self._files is not None:
            self._files.write()  # what was written at the start knows no logs
        notify_service_manager(READY, os.environ)

    def stopping(self) -> None:
        """Show that the service ends, and remove the files of metrics; once is enough."""
        if self._state == "stopping":
            return
        self._state = "stopping"
        notify_service_manager(STOPPING, os.environ)
        if self._files is not None:
            self._files.stop()

    def close(self) -> None:
        """Stop answering; also where the start has failed."""
        self.stopping()
        if self._server is not None:
            self._server.close()

    def metrics(self) -> Answer:
        """Return all metrics in Prometheus' text format."""
        from tidelog.env.local_http import Answer

        if self._manager is None:
            return Answer(_UNAVAILABLE, PROMETHEUS, b"")
        return Answer(_OK, PROMETHEUS, as_prometheus(self._manager.metrics()).encode())

    def health(self) -> Answer:
        """Return the state as JSON; 503 unless the service takes appends and reads."""
        from tidelog.env.local_http import Answer

        state, reasons = self._state, list[str]()
        if state == "ready" and self._manager is not None:
            reasons = degraded_reasons(self._manager.state_metrics())
            state = "degraded" if reasons else state
        body = json.dumps({"status": state, "reasons": reasons}) + "\n"
        status = _OK if state in {"ready", "degraded"} else _UNAVAILABLE
        return Answer(status, "application/json", body.encode())
