"""A program that has called ``tidelog.open`` lets others of the same user in."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.embedded import door_client
from tidelog.embedded.doors import open_briefly
from tidelog.env.unix_sockets import connect_in, listen_in, ring_in
from tidelog.env.waiting import sleep_ms
from tidelog.errors import DirectoryLocked, NotServed
from tidelog.service.requests.request_service import RequestService

if TYPE_CHECKING:
    from pathlib import Path


def sockets_in(path: Path) -> list[str]:
    """Return the sockets that lie in a directory."""
    return [name for name in os.listdir(path) if name.endswith(".sock")]


def test_a_program_that_has_the_directory_open_is_joined(data: Path) -> None:
    """It appends and reads beside the others, and takes its socket away when it closes."""
    with tidelog.open(data) as logs:
        with tidelog.join(data) as joined:
            joined.create_topic("t")
            joined.append("t", b"a")
            logs.append("t", b"b")
            with joined.transaction() as txn:
                txn.append("t", b"c")
            assert [one.value for one in joined.read("t")] == [b"a", b"b", b"c"]
        assert len(sockets_in(data)) == 1

    assert sockets_in(data) == []
    with pytest.raises(NotServed):
        tidelog.join(data)


def test_another_user_is_told_which_process_has_the_directory(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has it open, and others can join: those of its user."""

    def refused(_self: socket.socket, _path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with tidelog.open(data):
        monkeypatch.setattr(socket.socket, "connect", refused)
        with pytest.raises(NotServed) as error:
            tidelog.join(data)
    assert str(error.value).startswith(
        f"process {os.getpid()} has {data} open, but its socket may be opened by its own user only"
    )


def test_a_process_that_ends_before_it_answers_is_not_joined(data: Path) -> None:
    """It was asked for nothing that it could have carried out."""
    (data / "meta.properties").touch()
    listener = listen_in(os.fspath(data), Random(1))

    def end() -> None:
        found, _ = listener.socket.accept()
        found.close()

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(NotServed, match="did not answer"):
        tidelog.join(data)
    thread.join()
    listener.remove()


def test_several_directories_can_each_be_joined(data: Path) -> None:
    """By either the same process answers."""
    with tidelog.open(data / "a", data / "b") as logs:
        logs.create_topic("t")
        for name in "ab":
            with tidelog.join(data / name) as joined:
                joined.append("t", name.encode(), partition=0)
        assert [one.value for one in logs.read("t")] == [b"a", b"b"]


def test_what_was_left_for_the_process_is_looked_at_when_it_is_rung(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a command does not wait for the next look, which comes once a second."""
    create = [sys.executable, "-m", "tidelog", "create", "-d", os.fspath(data)]
    looks: list[int] = []
    look = RequestService.look

    def counted(service: RequestService) -> None:
        looks.append(1)
        look(service)

    monkeypatch.setattr(RequestService, "look", counted)
    with tidelog.open(data) as logs:

        def is_looked() -> bool:
            before = len(looks)
            assert ring_in(os.fspath(data), 10_000)
            return len(looks) > before

        # One ring may meet the look that comes once a second, which then looks again.
        assert any(is_looked() for _ in range(5))
        subprocess.run([*create, "t"], check=True, stdout=subprocess.DEVNULL)
        assert "t" in logs.topics()
        with tidelog.join(data):  # from now on an event loop answers, which hears rings too
            assert any(is_looked() for _ in range(5))
            subprocess.run([*create, "u"], check=True, stdout=subprocess.DEVNULL)
            assert "u" in logs.topics()


def test_nobody_to_ring_is_no_error(data: Path) -> None:
    """What is left there waits for the next program that opens the directory."""
    assert not ring_in(os.fspath(data), 10)
    assert not ring_in(os.fspath(data / "missing"), 10)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems let fewer wait")
def test_hundreds_who_ring_at_once_are_let_in(data: Path) -> None:
    """Who finds no place to wait in is turned away at once, and reads what the files say."""
    listener = listen_in(os.fspath(data), Random(1))
    with ExitStack() as waiting:
        waiting.callback(listener.remove)
        for _ in range(200):
            found = connect_in(os.fspath(data), 1)
            assert found is not None
            waiting.enter_context(found)


def test_who_connects_and_says_nothing_holds_nobody_up(data: Path) -> None:
    """Neither those who ask, nor the close."""
    with tidelog.open(data) as logs:
        silent = [connect_in(os.fspath(data), 5) for _ in range(20)]
        with tidelog.join(data) as joined:
            joined.create_topic("t")
            joined.append("t", b"a")
        assert len(list(logs.read("t"))) == 1
    for one in silent:
        assert one is not None
        one.close()

    with tidelog.open(data):
        found = connect_in(os.fspath(data), 5)
    assert found is not None
    with found, suppress(ConnectionResetError):  # if it was not accepted yet
        assert found.recv(1) == b""


def test_a_program_of_this_machine_is_named_where_its_connection_is_closed(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its socket has no address."""
    with tidelog.open(data):
        found = connect_in(os.fspath(data), 5)
        assert found is not None
        with found:
            found.sendall(b"\xff" * 64)
            assert found.recv(1) == b""
    assert "connection-closed host=localhost reason=" in caplog.text


def test_one_program_too_many_is_told_so(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the limit and its setting, and nothing was asked; commits do not count."""
    with tidelog.open(data, config={"tidelog.max.joined.connections": 2}) as logs:
        logs.create_topic("t")
        with tidelog.join(data) as one, tidelog.join(data) as other:
            for act in (lambda: tidelog.join(data), lambda: one.reader("t", group="g")):
                with pytest.raises(NotServed) as refused:
                    act()
                assert str(refused.value) == (
                    f"the process that holds {data} takes no more than 2 connections of programs"
                    " that have joined (tidelog.max.joined.connections): each program has one, and"
                    " one for each of its readers of groups"
                )
            with one.transaction() as txn:
                txn.append("t", b"a")
            assert not logs.groups.has_reader("g")
            assert other.append("t", b"b").offset == 1
        with tidelog.join(data) as late, late.reader("t", group="g") as reader:
            assert [record.value for record in reader.read()] == [b"a", b"b"]
    told = [one for one in caplog.messages if one.startswith("connection-refused")]
    assert told == ["connection-refused host=localhost reason=tidelog.max.joined.connections is 2"]


def test_who_finds_no_room_waits_a_moment_for_one_to_leave(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed late that a program has left."""
    with tidelog.open(data, config={"tidelog.max.joined.connections": 1}):
        first = tidelog.join(data)

        def leave(_: int) -> None:
            first.close()
            sleep_ms(10)

        monkeypatch.setattr(door_client, "sleep_ms", leave)
        tidelog.join(data).close()


def test_where_no_socket_can_be_the_directory_opens_nevertheless(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is used as ever, and cannot be joined."""

    def refused(*_: object) -> None:
        raise PermissionError("no sockets here")

    monkeypatch.setattr(socket.socket, "listen", refused)
    with tidelog.open(data) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        with pytest.raises(NotServed):
            tidelog.join(data)
    assert f"cannot-be-joined directory={data}" in caplog.text


def test_a_door_in_a_directory_that_is_gone_closes(data: Path) -> None:
    """Here a plain file is in its place; nothing is left to remove."""
    listener = listen_in(os.fspath(data), Random(1))
    shutil.rmtree(data)
    data.write_bytes(b"")

    listener.remove()

    assert listener.socket.fileno() == -1


def test_a_forked_child_holds_no_socket_of_its_parent(data: Path) -> None:
    """After the parent's end nobody seems to listen, and the child ends as it would."""
    logs = tidelog.open(data)
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(done)
        os.read(ready, 1)
        logs.close()
        os._exit(0)
    os.close(ready)
    logs.close()
    with tidelog.open(data), tidelog.join(data) as joined:
        joined.create_topic("t")
    os.close(done)
    assert os.waitpid(child, 0)[1] == 0


def test_a_copy_of_an_open_directory_is_not_joined(data: Path) -> None:
    """Where a copy has taken the socket along, it is nobody's."""
    with tidelog.open(data / "a") as logs:
        logs.create_topic("t")
        shutil.copytree(data / "a", data / "b", ignore=shutil.ignore_patterns("*.sock"))
        with pytest.raises(NotServed):
            tidelog.join(data / "b")


def test_closing_while_others_ask_ends_in_order(data: Path) -> None:
    """Whatever they get, the directory is closed cleanly, and the next program has all of it."""
    program = (
        "import sys, tidelog\n"
        "try:\n"
        "    with tidelog.join(sys.argv[1]) as joined:\n"
        "        print('joined', flush=True)\n"
        "        while True:\n"
        "            joined.append('t', b'x')\n"
        "except (tidelog.errors.NotServed, tidelog.errors.OutcomeUnknown):\n"
        "    pass\n"
    )
    logs = tidelog.open(data)
    logs.create_topic("t")
    command = [sys.executable, "-c", program, os.fspath(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        sleep_ms(100)
        end = logs.offsets("t", 0).log_end_offset
        logs.close()
        assert process.wait(30) == 0
    with tidelog.open(data) as logs:
        assert logs.offsets("t", 0).log_end_offset >= end > 0


def test_the_socket_of_a_killed_program_misleads_nobody(data: Path) -> None:
    """A short-lived writer has the lock: the error does not say that it could be joined."""
    program = "import os, sys, tidelog\ntidelog.open(sys.argv[1])\nos._exit(0)\n"
    subprocess.run([sys.executable, "-c", program, os.fspath(data)], check=True)
    assert len(sockets_in(data)) == 1
    with open_briefly(data), pytest.raises(DirectoryLocked) as caught:
        tidelog.open(data)
    assert not caught.value.lets_join

    with tidelog.open(data), pytest.raises(DirectoryLocked, match="join writes") as caught:
        tidelog.open(data)
    assert caught.value.lets_join


MAIN = """
import sys, tidelog
with tidelog.open(sys.argv[1]) as logs:
    logs.create_topic("t", exist_ok=True)
    logs.append_all("t", (b"%d" % n for n in range(3000)))
    print("open", flush=True)
    sys.stdin.read()
"""
WORKER = """
import sys, tidelog
with tidelog.join(sys.argv[1]) as logs, logs.reader("t", group="g") as reader:
    while True:
        try:
            for record in reader.read():
                reader.commit()
                if not record.offset:
                    print("commits", flush=True)
        except tidelog.TidelogError:
            pass
"""


def test_a_killed_program_starts_again_beside_one_that_had_joined_it(data: Path) -> None:
    """What that one commits meanwhile, by itself, keeps the lock from nobody for long."""
    pipe, words = subprocess.PIPE, [sys.executable, "-c"]
    main = subprocess.Popen([*words, MAIN, os.fspath(data)], stdin=pipe, stdout=pipe, text=True)
    assert main.stdout is not None
    assert main.stdout.readline() == "open\n"
    with subprocess.Popen([*words, WORKER, os.fspath(data)], stdout=pipe, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "commits\n"
            main.kill()
            main.communicate()
            seen: list[object] = []
            while len(seen) < 3:
                with tidelog.open(data) as logs:
                    committed = logs.groups.committed("g")
                if committed not in seen:
                    seen.append(committed)
                sleep_ms(300)  # nobody has the directory: the worker commits by itself
        finally:
            worker.kill()
