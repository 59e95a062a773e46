"""Where ``tidelog serve`` may listen without ``--insecure``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from tidelog.broker import server
from tidelog.cli.commands.upkeep import run_command
from tidelog.embedded import doors
from tidelog.errors import StartAborted

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

    from tests.unit.cli.conftest import Cli

    from tidelog.config.serve_config import ServeConfig

ELSEWHERE = ("0.0.0.0:9092", ":9092", "[::]:9092", "192.168.1.7:9092", "example.org:9092")


class Listening:
    """Stands for the server: it takes note of where it would listen."""

    on_failed: object = None
    start = None
    seen: ClassVar[list[str]] = []

    def __init__(self, config: ServeConfig) -> None:
        self.seen[:] = config.listeners

    def close(self) -> None:
        """Nothing was opened."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let a service end where it would start; return where it would listen then."""

    def start(*_: object, **__: object) -> NoReturn:
        raise StartAborted("it ends here")

    monkeypatch.setattr(run_command, "_configure_logging", lambda *_: None)
    monkeypatch.setattr(doors, "start_logs", start)
    monkeypatch.setattr(server, "BrokerServer", Listening)
    Listening.seen.clear()
    return Listening.seen


@pytest.mark.parametrize("address", ELSEWHERE)
@pytest.mark.parametrize("way", ["--listen", "-o", "--config"])
def test_an_address_of_other_machines_is_refused_before_anything_is_opened(
    cli: Cli, seen: list[str], tmp_path: Path, way: str, address: str
) -> None:
    """However it is given, also beside one of this machine's; meant, it is taken."""
    listeners = f"listeners=PLAINTEXT://127.0.0.1:0,PLAINTEXT://{address}"
    properties = tmp_path / "server.properties"
    properties.write_text(listeners)
    words = {
        "--listen": ("--listen", "127.0.0.1:0", "--listen", address),
        "-o": ("-o", listeners),
        "--config": ("--config", str(properties)),
    }[way]

    refused = cli.on("serve", *words)
    assert (refused.code, seen) == (2, [])
    assert f"{address} can be reached".replace("[::]", "::") in refused.err

    assert cli.on("serve", *words, "--insecure").code == 0
    assert seen[1].endswith(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_alone_needs_no_permission(cli: Cli, seen: list[str], host: str) -> None:
    """By each of its names."""
    assert cli.on("serve", "--listen", f"{host}:0").code == 0
    assert len(seen) == 1
