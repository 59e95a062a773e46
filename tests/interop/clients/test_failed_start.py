"""A broker that fails after it has begun to listen leaves no client waiting."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import tidelog
from tidelog.broker.groups.group_coordinator import GroupCoordinator
from tidelog.broker.server import BrokerServer
from tidelog.config.serve_config import ServeConfig
from tidelog.config.sources import broker_config
from tidelog.embedded.doors import start_logs
from tidelog.errors import InvariantError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_its_listeners_are_closed_and_its_owner_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By a fault of its own; the logs stay open."""

    def stored(*_: object) -> None:
        entered.set()
        assert proceed.wait(30)
        raise InvariantError("this cannot be")

    entered, proceed, failed = (threading.Event() for _ in range(3))
    monkeypatch.setattr(GroupCoordinator, "_stored", stored)
    server = BrokerServer(ServeConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"}))
    server.on_failed = failed.set
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("__consumer_offsets")
    with start_logs(broker_config({}, [str(tmp_path)]), make_door=server.start) as logs:
        assert entered.wait(30)
        with socket.create_connection(server.addresses[0], timeout=30) as client:
            proceed.set()
            assert client.recv(1) == b""
        assert failed.wait(30)
        with socket.socket() as refused:
            assert refused.connect_ex(server.addresses[0]) != 0
        logs.create_topic("t")
    assert "The broker has failed." in caplog.text
