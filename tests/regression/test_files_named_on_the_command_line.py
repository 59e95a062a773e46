"""``--config`` and ``--server-properties`` take pipes, as of ``<(...)`` of a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.cli.server_properties import broker_properties
from tidelog.cli.serving.service_settings import given_settings
from tidelog.datadir.broker_properties import MAX_PROPERTIES_BYTES
from tidelog.env.named_files import NamedFiles
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")


class Pipes:
    """Pipes that a shell has opened for a command; closed at the end of a test."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def holding(self, data: bytes) -> str:
        """Return the path of a pipe whose writer has written these bytes and ended."""
        readable, writable = os.pipe()
        self.descriptors.append(readable)
        os.write(writable, data)
        os.close(writable)
        return f"/dev/fd/{readable}"


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    """Pipes that are closed at the end."""
    made = Pipes()
    yield made
    for descriptor in made.descriptors:
        os.close(descriptor)


def arguments(**named: object) -> Namespace:
    """Return the arguments of a command."""
    names: dict[str, object] = {"config": None, "server_properties": None, "options": []}
    return Namespace(**{**names, "directories": [], "words": [], **named})


def test_settings_are_read_from_a_pipe_once(pipes: Pipes) -> None:
    """A reload has those of the start: the pipe is empty, which does not mean default settings."""
    args = arguments(config=pipes.holding(b"log.retention.ms=-1\n"))

    first, reloaded = given_settings(args), given_settings(args)

    assert first["log.retention.ms"] == "-1"
    assert first == reloaded


def test_the_settings_of_a_broker_are_read_from_a_pipe(pipes: Pipes) -> None:
    """They may be what a program prints."""
    args = arguments(server_properties=pipes.holding(b"log.retention.hours=7\n"))

    assert broker_properties(args) == {"log.retention.hours": "7"}


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    """Neither a hang nor default settings."""
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    files = NamedFiles()

    for _ in range(2):
        with pytest.raises(InvalidArgument, match="is a pipe, and nothing was written to it"):
            files.read_stream(path, 100)


def test_a_pipe_whose_writer_has_failed_is_refused(pipes: Pipes) -> None:
    """It gives no bytes, and default settings could delete records."""
    with pytest.raises(InvalidArgument, match="nothing was written to it"):
        given_settings(arguments(config=pipes.holding(b"")))


def test_what_a_pipe_gives_is_bounded() -> None:
    """A device that never ends is refused, with its name."""
    with pytest.raises(InvalidArgument, match="/dev/zero gives more than the 1,048,576 bytes"):
        NamedFiles().read_stream("/dev/zero", MAX_PROPERTIES_BYTES)


def test_an_empty_device_has_no_settings() -> None:
    """As ``--config /dev/null`` asks for."""
    assert NamedFiles().read_stream("/dev/null", 100) == b""


def test_a_regular_file_is_left_to_the_file_system(tmp_path: Path) -> None:
    """Files found in directories are opened by it alone, and stay regular ones."""
    (tmp_path / "f").write_bytes(b"x")

    assert NamedFiles().read_stream(str(tmp_path / "f"), 100) is None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("source", ["<(sleep 0.3; {0})", "/dev/stdin < <(sleep 0.3; {0})"])
def test_a_command_waits_for_the_process_that_a_shell_starts(tmp_path: Path, source: str) -> None:
    """It reads until that process ends."""
    with tidelog.open(tmp_path / "data") as logs:
        logs.create_topic("t")
    printed = source.format("echo log.retention.hours=7")
    line = f"{sys.executable} -m tidelog describe -d {tmp_path}/data --server-properties {printed}"

    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
