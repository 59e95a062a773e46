"""How ``tidelog run`` comes to its directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.embedded.test_lock_wait import Held

from tidelog.cli.commands.upkeep import run_command
from tidelog.embedded import doors, lock_wait
from tidelog.errors import StartAborted

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from tests.unit.cli.conftest import Cli

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.embedded.lock_wait import LockWait


def test_the_service_opens_its_directories_by_that_wait(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a command that holds one for a moment does not end it."""
    held = Held(3_000)
    starts: list[str] = []

    def waiting(*, should_stop: Callable[[], bool]) -> LockWait:
        held.should_stop = should_stop
        return held.wait()

    def start(config: BrokerConfig, **_: object) -> NoReturn:
        starts.append(held.start())
        raise StartAborted(f"{config.log_dirs} were free")

    # The loggers of this process stay as they are.
    monkeypatch.setattr(run_command, "_configure_logging", lambda *_: None)
    monkeypatch.setattr(lock_wait, "wait_here", waiting)
    monkeypatch.setattr(doors, "start_logs", start)

    assert cli.on("run").code == 0
    assert (starts, held.starts) == (["started"], 2)


@pytest.mark.parametrize("command", ["run", "serve"])
def test_an_argument_that_is_a_file_is_wrong_usage(cli: Cli, command: str) -> None:
    """A service would be started again and again otherwise; log.dirs of a file is as Kafka's."""
    file = cli.home / "file"
    file.touch()

    outcome = cli(command, "-d", file)

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"tidelog {command}: {file} is a file, not a directory\n"
