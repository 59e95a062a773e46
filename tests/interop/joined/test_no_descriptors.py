"""Where a process has no descriptors for connections, those wait until it has, and are not lost."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.broker import acceptor, node, open_door
from tidelog.codec.protocol.apis import SIZE_BYTES, api_named, frame_size, size_of_frame
from tidelog.env import unix_sockets
from tidelog.env.unix_sockets import connect_in
from tidelog.env.waiting import sleep_ms
from tidelog.errors import KafkaStorageError, NotServed
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidelog.broker.node import Node
    from tidelog.manager.log_manager import LogManager

PAUSE_S = 0.1


class NoDescriptors:
    """Lets each accept fail, until it is ``over``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_over = False
        self.tries = 0
        plain = socket.socket.accept

        def accept(listener: socket.socket) -> Any:
            if self.is_over:
                return plain(listener)
            self.tries += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        monkeypatch.setattr(socket.socket, "accept", accept)


@pytest.fixture
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose path is short enough for a socket in it."""
    return tmp_path_factory.mktemp("d")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again sooner than after a second."""
    monkeypatch.setattr(open_door, "_PAUSE_S", PAUSE_S)
    monkeypatch.setattr(acceptor, "_PAUSE_S", PAUSE_S)


@pytest.fixture
def none_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[NoDescriptors]:
    """Return what lets each accept fail."""
    found = NoDescriptors(monkeypatch)
    yield found
    found.is_over = True


def answered(client: socket.socket) -> int:
    """Ask what a broker offers; return the number of the answer."""
    api = api_named("ApiVersions")
    parts = [api.request_header(0, 5, "me"), *api.write_request(0, {})]
    client.sendall(size_of_frame(parts) + b"".join(parts))
    client.settimeout(30)
    found = b""
    while len(found) < SIZE_BYTES or len(found) < SIZE_BYTES + frame_size(found, 0):
        found += client.recv(65536)
    return frame_size(found, SIZE_BYTES)


def put_off(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged of connections that wait, and of unexpected errors."""
    unwanted = ("connections-put-off", "socket.accept")
    return [one for one in caplog.messages if one.startswith(unwanted)]


def wait_and_mend(none_left: NoDescriptors, caplog: pytest.LogCaptureFixture) -> str:
    """Let connections wait for some pauses, then let them in; return the one line of that."""
    sleep_ms(round(3.5 * PAUSE_S * 1000))
    assert 0 < none_left.tries <= 5
    (line,) = put_off(caplog)
    none_left.is_over = True
    return line


def test_clients_wait_for_a_broker(
    data: Path, none_left: NoDescriptors, caplog: pytest.LogCaptureFixture
) -> None:
    """It tries again after a pause, which is logged once; all of them are answered then."""
    with KafkaBroker(data) as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        clients = [socket.create_connection((host, int(port)), 30) for _ in range(3)]
        line = wait_and_mend(none_left, caplog)
        assert line.startswith(f"connections-put-off to={broker.bootstrap_servers} reason=")
        for client in clients:
            with client:
                assert answered(client) == 5
        assert put_off(caplog) == [line]


def test_programs_wait_for_one_that_has_the_directory_open(
    data: Path, none_left: NoDescriptors, caplog: pytest.LogCaptureFixture
) -> None:
    """As clients do."""
    with tidelog.open(data):
        programs = [connect_in(os.fspath(data), 30) for _ in range(3)]
        line = wait_and_mend(none_left, caplog)
        assert line.startswith(f"connections-put-off to={data}")
        for program in programs:
            assert program is not None
            with closing(program):
                assert answered(program) == 5
        assert put_off(caplog) == [line]


def test_a_close_does_not_wait_for_descriptors(data: Path, none_left: NoDescriptors) -> None:
    """Nor for the pause."""
    with tidelog.open(data):
        program = connect_in(os.fspath(data), 30)
        sleep_ms(round(PAUSE_S * 1000))
    assert program is not None
    program.close()
    assert none_left.tries


def test_who_joins_when_nobody_can_be_answered_finds_others_can_later(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lack that has passed keeps nobody out of a process that lasts."""
    plain, failures = node.node_of, [KafkaStorageError("too many open files")] * 2

    def node_of(manager: LogManager) -> Node:
        if failures:
            raise failures.pop()
        return plain(manager)

    monkeypatch.setattr("tidelog.broker.broker.node_of", node_of)
    with tidelog.open(data) as logs:
        logs.create_topic("t")
        refused = 0
        while True:
            try:
                joined = tidelog.join(data)
                break
            except NotServed:  # for a moment there is no socket
                refused += 1
                sleep_ms(10)
        with joined:
            assert joined.append("t", b"a").offset == 0
        assert refused >= 2
        assert failures == []


def test_who_joins_where_there_was_no_descriptor_to_listen_with_finds_a_socket_later(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a lack in the moment after an answer has failed, or while it waits for the next."""
    plain_node, plain_selector = node.node_of, selectors.DefaultSelector
    lacks = {"answer": 1, "listen": 2, "wait": 2}

    def lacking(what: str, *, has_begun: bool = True) -> None:
        if has_begun and lacks[what]:
            lacks[what] -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def node_of(manager: LogManager) -> Node:
        lacking("answer")
        return plain_node(manager)

    def listen_in(*given: Any) -> Any:
        lacking("listen", has_begun=not lacks["answer"])
        return unix_sockets.listen_in(*given)

    def selector() -> Any:
        is_of_door = "door" in threading.current_thread().name
        lacking("wait", has_begun=is_of_door and not lacks["answer"])
        return plain_selector()

    monkeypatch.setattr("tidelog.broker.broker.node_of", node_of)
    monkeypatch.setattr(open_door, "listen_in", listen_in)
    monkeypatch.setattr(selectors, "DefaultSelector", selector)
    with tidelog.open(data) as logs:
        logs.create_topic("t")
        with pytest.raises(NotServed):
            tidelog.join(data)
        with tidelog.join(data, wait_ms=30_000) as joined:
            assert joined.append("t", b"a").offset == 0
    assert set(lacks.values()) == {0}
