"""A broker in this process, on a free port."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.server import BrokerServer
from tidelog.config.serve_config import ServeConfig
from tidelog.config.sources import broker_config
from tidelog.embedded.doors import start_logs
from tidelog.env.paths import absolute_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

    from tidelog.embedded.logs import Logs


class Served(NamedTuple):
    """A broker that runs: where clients find it, and the logs that it serves."""

    bootstrap: str
    logs: Logs


@contextmanager
def served(
    *paths: str | PathLike[str], config: Mapping[str, str] | None = None, **settings: object
) -> Iterator[Served]:
    """Serve data directories in the body of a ``with``.

    ``config`` is for ``tidelog.open``; ``settings`` are those of listeners, with underscores for
    dots.
    """
    listening = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    given = listening | {name.replace("_", "."): str(value) for name, value in settings.items()}
    server = BrokerServer(ServeConfig.parse(given))
    try:
        opened = broker_config(config or {}, [absolute_path(path) for path in paths])
        with start_logs(opened, make_door=server.start) as logs:
            host, port = server.addresses[0]
            yield Served(f"{host}:{port}", logs)
    finally:
        server.close()
