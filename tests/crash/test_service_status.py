"""What a service shows of itself, by HTTP and to its service manager, as a process."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest
from tests.crash.test_service import COMMAND, read_until

import tidelog
from tidelog.config.serve_config import LOOPBACK
from tidelog.env.local_http import MAX_CONNECTIONS, Answer, LocalHttpServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
ROUTES = {"/": lambda: Answer(200, "text/plain", b"ok")}


def get(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Return status, content type and body of an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path)
    answer = connection.getresponse()
    found = answer.status, answer.headers["Content-Type"], answer.read().decode()
    connection.close()
    return found


def status_for(port: int, host: str | None) -> int:
    """Return the status of an answer to a request of this host."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("GET", "/", skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_metrics_and_health_are_served_until_the_service_ends(tmp_path: Path) -> None:
    """On the loopback alone; the service manager hears of the start and of the end."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as short,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        manager.bind(f"{short}/notify")
        manager.settimeout(120)
        environment = {**os.environ, "NOTIFY_SOCKET": f"{short}/notify"}
        words = [*COMMAND, "run", "-d", str(tmp_path), "--http", "0"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
            line = read_until(process, "http-listening")
            port = int(line.rpartition(":")[2])
            read_until(process, "ready ")
            heard = [manager.recv(100)]
            health, metrics = get(port, "/health?verbose=1"), get(port, "/metrics")
            others = [get(port, "/")[0], get(port, "/metrics", "POST")[0]]
            head = get(port, "/health", "HEAD")
            process.send_signal(signal.SIGTERM)
            heard.append(manager.recv(100))
            code = process.wait(120)

    assert (health[0], json.loads(health[2])) == (200, {"status": "ready", "reasons": []})
    assert re.search(r"kafka_log_log_log_end_offset\{.*\} 1\n", metrics[2])
    assert metrics[1].startswith("text/plain; version=0.0.4")
    assert (others, head[2]) == ([404, 501], "")
    assert (heard, code) == ([b"READY=1", b"STOPPING=1"], 0)
    with pytest.raises(ConnectionRefusedError):
        get(port, "/health")


@pytest.mark.parametrize("command", ["run", "serve"])
def test_a_port_in_use_ends_the_start_before_anything_is_opened(
    command: str, tmp_path: Path
) -> None:
    """As an operation that failed, with the address: the directories are not even created."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = [*COMMAND, command, "-d", str(tmp_path / "data"), "--http", port]
        words += ["--listen", "127.0.0.1:0"] * (command == "serve")
        done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (done.returncode, (tmp_path / "data").exists()) == (3, False)
    assert done.stderr == f"tidelog {command}: 127.0.0.1:{port}: Address already in use\n"


def test_slow_clients_cannot_hold_all_connections() -> None:
    """Each connection has a deadline, however often its client sends another byte."""
    server = LocalHttpServer(0, ROUTES, LOOPBACK, deadline_s=0.5)
    server.start()
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MAX_CONNECTIONS)]
    try:
        closed = [is_closed_while_sending(client) for client in slow]
        join_threads_of_connections()
        status = get(server.port, "/")[0]
    finally:
        for client in slow:
            client.close()
        server.close()

    assert (closed, status) == ([True] * MAX_CONNECTIONS, 200)


def test_a_name_of_another_site_gets_no_answer() -> None:
    """Browsers send one that leads here; a scrape by address, or of no host, is answered."""
    server = LocalHttpServer(0, ROUTES, LOOPBACK)
    server.start()
    hosts = "127.0.0.1:9644", "localhost:1", "192.168.0.7:9644", None, "evil.example:9644", ""
    try:
        found = [status_for(server.port, host) for host in hosts]
    finally:
        server.close()

    assert found == [200, 200, 200, 200, 400, 400]


def test_a_connection_waits_for_a_descriptor_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may be short of them for long, and has other work to do."""
    server = LocalHttpServer(0, ROUTES, LOOPBACK)
    tries, is_tried = list[int](), threading.Event()

    def none_left(_: object) -> None:
        tries.append(1)
        if len(tries) > 20:
            is_tried.set()
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(socketserver.TCPServer, "get_request", none_left)
        server.start()
        with socket.create_connection(("127.0.0.1", server.port)):
            assert not is_tried.wait(0.5)
    answer = get(server.port, "/")
    server.close()

    assert tries
    assert answer[0] == 200


def join_threads_of_connections() -> None:
    """Wait for the ends of threads whose connections are closed: until then they count."""
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(60)


def is_closed_while_sending(client: socket.socket) -> bool:
    """Send a byte of a request every tenth of a second; return whether the server closes it."""
    client.settimeout(0.1)
    for _ in range(50):
        try:
            client.send(b"G")
            return client.recv(1) == b""
        except TimeoutError:
            continue
        except OSError:
            return True
    return False
