"""A program that serves clients forks, as multiprocessing and PySpark do."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.env.waiting import sleep_ms
from tidelog.errors import ForkedProcess
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidelog.embedded.logs import Logs


@contextmanager
def child(read: int, write: int) -> Iterator[None]:
    """Fork a child that lives as long as the body of the ``with``."""
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)  # until the parent closes its end
        os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_child_keeps_neither_port_nor_connections(tmp_path: Path) -> None:
    """A client sees the end of the parent's broker, which starts again on the same port."""
    read, write = os.pipe()
    with KafkaBroker(tmp_path) as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        with socket.create_connection((host, int(port))) as client:
            client.settimeout(30)
            client.sendall(b"\0\0\0")
            while broker.logs.metrics() and not connected(broker.logs):
                pass
            with child(read, write):
                broker.stop()
                assert client.recv(1) == b""
                broker.start()
                assert broker.bootstrap_servers == f"{host}:{port}"
    os.close(read)
    os.close(write)


def test_a_child_does_not_keep_the_group_of_a_joined_reader(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The reader's connection ends when the parent closes it, and another reader has the group."""
    data = tmp_path_factory.mktemp("d")  # short enough for a socket in it
    read, write = os.pipe()
    with tidelog.open(data) as logs, tidelog.join(data) as joined:
        logs.create_topic("t")
        reader = joined.reader("t", group="g")
        assert list(reader.read()) == []
        with child(read, write):
            reader.close()
            joined.close()
            for _ in range(3000):
                if not connected(logs):
                    break
                sleep_ms(10)
            assert not connected(logs)
            logs.reader("t", group="g").close()
    os.close(read)
    os.close(write)


def connected(logs: Logs) -> bool:
    """Whether the broker has a connection."""
    found = [one.value for one in logs.metrics() if one.name == "connection-count"]
    return bool(found and found[0])


def test_a_child_cannot_use_the_broker(tmp_path: Path) -> None:
    """Each use is a typed error; to stop it does nothing."""
    with KafkaBroker(tmp_path) as broker:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                broker.stop()
                broker.start()
            except ForkedProcess:
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert broker.logs.topics() == {}


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
