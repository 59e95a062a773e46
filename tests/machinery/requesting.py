"""A service on a fake disk, and a process that asks it to act; time passes as that one waits."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

from tests.machinery.manager_home import ManagerHome

from tidelog.errors import DirectoryLocked
from tidelog.mailbox.wait import Desk
from tidelog.manager.log_manager import LogManager
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home
from tidelog.service.requests.request_client import Asker, here_or_there
from tidelog.testing.faults import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.env.files import FileSystem
    from tidelog.testing.disk import Kept

FIRST_PID = 1000


class ServiceDied(BaseException):
    """The service was killed; the process that asks keeps running."""


class Requesting:
    """The directories /a and /b, a service that holds them, and who asks in /a.

    ``here`` counts how often the command was carried out by the process that asks, ``begun`` how
    often a service began to, ``left`` how often an interrupted process reported that a service
    carries its request out. ``is_contended``: the lock is never free for the process that asks.
    """

    def __init__(self, *, program: str = "") -> None:
        self.home = ManagerHome("/a", "/b", retention_ms=-1)
        self.here = self.begun = self.left = 0
        self.waiting: list[int] = []
        """The holders that it was said to wait for."""
        self.is_contended = self.has_died = False
        self.kept: Kept | None = None
        """What survives a power cut of the service; None: it is not to be survived."""
        self._program = program
        self._pid: int | None = FIRST_PID
        self.manager = self._started()

    # The service

    def _started(self) -> LogManager:
        manager = self.home.open()
        create, alter = manager.create_topic, manager.alter_topic

        def create_topic(*args: Any, **how: Any) -> Any:  # noqa: ANN401 - passed on
            self.begun += 1
            return create(*args, **how)

        def alter_topic(*args: Any, **how: Any) -> Any:  # noqa: ANN401 - passed on
            self.begun += 1
            return alter(*args, **how)

        manager.create_topic = create_topic  # type: ignore[method-assign]  # to count the calls
        manager.alter_topic = alter_topic  # type: ignore[method-assign]  # to count the calls
        return manager

    def stop(self) -> None:
        """Stop the service in order."""
        self.manager.shutdown()
        self.home.scheduler.forget()
        self._pid = None

    def kill(self) -> None:
        """End the service; the disk keeps everything."""
        self.home.restart()
        self._pid = None

    def die(self) -> NoReturn:
        """Kill the service in the middle of what it does."""
        self.kill()
        raise ServiceDied

    def recover(self) -> None:
        """Start a service after a power cut, which keeps what ``kept`` names."""
        self.has_died = True
        self.home.fs.power_cut(self.kept)
        self.home.scheduler.forget()
        self.restart()

    def restart(self) -> None:
        """Start a service after ``stop`` or ``kill``."""
        self.next_holder()
        self.manager = self._started()

    def deafen(self) -> None:
        """Let the holder take no requests, as a short-lived writer."""
        self.home.scheduler.forget()

    def next_holder(self) -> None:
        """Let another process have the lock."""
        self._pid = (self._pid or FIRST_PID) + 1

    @property
    def _holder(self) -> int | None:
        """The process that holds /a: a service releases a directory that has failed."""
        return self._pid if "/a" in self.manager.live_dirs else None

    # The process that asks

    def after(self, ms: int, act: Callable[[], object]) -> None:
        """Let something happen while the process waits."""
        self.home.scheduler.schedule("act", act, delay_ms=ms)

    def interrupt(self, error: type[BaseException]) -> NoReturn:
        """Interrupt what runs."""
        raise error

    def create(self, topic: str) -> Any:  # noqa: ANN401 - JSON
        """Create a topic, here or there."""
        return self.ask("create", {"topic": topic, "partitions": 1, "settings": {}})

    def ask(
        self,
        command: str,
        arguments: Mapping[str, Any],
        here: Callable[[], Any] | None = None,
        fs: FileSystem | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """Carry a command out, here or there; ``fs`` is the disk as the process sees it."""
        disk = fs or self.home.fs
        desk = Desk(disk, self.home.clock, Random(7), self._sleep, lambda _pid: self._program)
        asker = Asker(
            desk,
            holder_of=lambda _path: self._holder,
            on_left=self._on_left,
            on_waiting=self.waiting.append,
        )

        def carry_out_here() -> Any:  # noqa: ANN401 - JSON
            if self._holder is not None or self.is_contended:
                raise DirectoryLocked("/a/.lock", self._holder or 0)
            self.here += 1
            config = replace(self.home.config(), log_dirs=("/a",))
            with LogManager(config, self.home.machine()) as manager:
                return carry_out(Home(manager, self.home.machine(), "/a"), command, arguments)

        return here_or_there(asker, "/a", here or carry_out_here, command, arguments)

    def _sleep(self, ms: int) -> None:
        try:
            self.home.clock.advance(ms)
        except ServiceDied:
            return
        except PowerCut:
            if self.kept is None:
                raise
            self.recover()

    def _on_left(self) -> None:
        self.left += 1

    def pass_time(self, ms: int) -> None:
        """Let time pass at once, and then two seconds as usual."""
        self.home.clock.set_time_of_day(self.home.clock.now_ms() + ms)
        self.home.clock.advance(2_000)

    def requests(self) -> list[str]:
        """Return the files of requests in /a."""
        return [name for name in self.home.files("/a") if ".request" in name]
