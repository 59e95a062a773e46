"""Serves the pages until a signal: the socket, the token, the printed address."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final, NamedTuple

import uvicorn

from tidelog.config.serve_config import LOOPBACK
from tidelog.console.access import FIELD, Access
from tidelog.console.app import make_app
from tidelog.console.desk import Desk
from tidelog.console.group_survey import GroupSurvey
from tidelog.console.partition_survey import PartitionSurvey
from tidelog.console.watch import Watch
from tidelog.env.event_loop import listen_on
from tidelog.env.scheduler import ThreadScheduler
from tidelog.readonly.read_files import reading

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from starlette.types import ASGIApp

    from tidelog.config.serve_config import Endpoint
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Scheduler

_TOKEN_BYTES: Final = 24
_BACKLOG: Final = 64
_KEPT_S: Final = 75
"""How long a connection without requests stays open."""
_LAST_WORD_S: Final = 1
"""How long a stop waits for answers that are being sent."""
_ANY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - asked for with --insecure


class Room(NamedTuple):
    """What answers requests: the desk, and the watch that keeps it fresh."""

    desk: Desk
    watch: Watch

    @classmethod
    def of(
        cls,
        fs: FileSystem,
        paths: Sequence[str],
        clock: Clock,
        scheduler: Scheduler,
        server_properties: Mapping[str, str] | None = None,
    ) -> Room:
        """Return a room over data directories, which are opened by the first page."""
        survey = PartitionSurvey(fs, paths, clock, server_properties)
        groups = GroupSurvey(fs, paths, clock)
        watch = Watch(survey, groups, clock, scheduler)
        return cls(Desk(reading(fs), paths, clock, survey, groups), watch)


def serve_pages(
    fs: FileSystem,
    paths: Sequence[str],
    listen: Sequence[Endpoint],
    clock: Clock,
    *,
    server_properties: Mapping[str, str] | None = None,
    on_address: Callable[[str], None],
) -> None:
    """Serve pages about data directories until SIGINT or SIGTERM, which is raised again.

    ``on_address`` is called with each address to open, token included, once requests are answered.

    Raises:
        InvalidArgument: a path is not a data directory, or they do not belong together.
        OSError: an address is in use, or may not be used; the error names it.
    """
    scheduler = ThreadScheduler(1, "tidelog-console")
    room = Room.of(fs, paths, clock, scheduler, server_properties)
    with room.watch.lock:
        room.watch.freshen()
    with ExitStack() as stack:
        listeners = [stack.enter_context(closing(listen_on(*one, _BACKLOG))) for one in listen]
        bound = [one.getsockname()[:2] for one in listeners]
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        hosts = {one.host.lower() for one in listen}
        access = Access(
            *(token, bound[0][1], LOOPBACK | (hosts - _ANY)), takes_addresses=bool(hosts & _ANY)
        )
        scheduler.start()

        def announce() -> None:
            for host, port in bound:
                shown = f"[{host}]" if ":" in host else host
                on_address(f"http://{shown}:{port}/?{FIELD}={token}")

        server = _Server(make_app(room.desk, room.watch, access), announce)
        asyncio.run(server.serve(sockets=listeners))


class _Server(uvicorn.Server):
    """Calls ``on_start`` once requests are answered, and signals end it in order."""

    def __init__(self, app: ASGIApp, on_start: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="error",
                access_log=False,
                lifespan="off",
                ws="none",
                http="h11",
                server_header=False,
                timeout_keep_alive=_KEPT_S,
                timeout_graceful_shutdown=_LAST_WORD_S,
            )
        )
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._on_start()
