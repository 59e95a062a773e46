"""Which commands show how far they are, and what they show."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from tidelog.kernels.runtime import gate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class HastyClock:
    """A clock by which a second passes between any two looks."""

    def __init__(self) -> None:
        self._looks = 0

    def now_ms(self) -> int:
        """Return some time of day."""
        return 0

    def monotonic_ns(self) -> int:
        """Return another second each time."""
        self._looks += 1
        return self._looks * 1_000_000_000


class Watched:
    """Runs commands on topic t, which has records, on a terminal where everything takes long."""

    def __init__(self, topic: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topic = topic
        self._monkeypatch = monkeypatch
        self.drawn = ""

    def run(self, *words: object, stdin: str = "") -> str:
        """Run a command that succeeds; return the last line that was drawn, whole if one was."""
        terminal = Terminal()
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", terminal)
            patched.setattr("tidelog.cli.progress.SYSTEM_CLOCK", HastyClock())
            run = self.topic if words == ("warm",) else self.topic.on
            assert run(*words, stdin=stdin).code == 0
        self.drawn = terminal.getvalue().replace("\x1b[K", "")
        parts = [part for part in self.drawn.split("\r") if part]
        whole = [part for part in parts if "100%" in part]
        return ["", " ", *parts, *whole][-1].strip()


@pytest.fixture
def watched(topic: Cli, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """A watched topic of 50 records."""
    topic.append(*(f"value {number}" for number in range(50)))
    return Watched(topic, monkeypatch)


def test_verify_shows_the_bytes_of_all_partitions(watched: Watched) -> None:
    """Else nobody knows how long a directory of 2,000 takes."""
    line = watched.run("verify")

    size = watched.topic.log_file().stat().st_size
    assert line.startswith("verifying t-0 ████")
    assert "  100%  " in line
    assert f"{size:,} bytes of {size:,} bytes" in line or " kB of " in line


def test_an_opening_shows_its_recovery(watched: Watched) -> None:
    """Also that of a command which only wants to append."""
    (watched.topic.data / ".kafka_cleanshutdown").unlink()
    line = watched.run("append", "t", stdin="x\n")

    assert "recovering t-0" in line


def test_recover_shows_each_log(watched: Watched) -> None:
    """With the share that is checked."""
    (watched.topic.data / ".kafka_cleanshutdown").unlink()
    line = watched.run("recover", "--full")

    assert line.startswith("recovering t-0 ████")
    assert "  100%  " in line


def test_an_append_shows_how_much_of_its_file_is_read(watched: Watched, tmp_path: Path) -> None:
    """Of a pipe nobody knows how much there is."""
    file = tmp_path / "lines.txt"
    file.write_text("a line\n" * 100)
    line = watched.run("append", "t", file)

    assert line.startswith("appending lines.txt ")
    assert "700 bytes of 700 bytes" in line


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("compact", "t"), "cleaning t-0"),
        (("plan", "compaction", "t"), "planning to clean t-0"),
    ],
)
def test_a_compaction_shows_what_it_reads(
    watched: Watched, words: tuple[str, ...], text: str
) -> None:
    """What is dirty is read twice: for the offset map, and to be copied."""
    settings = ("-o", "cleanup.policy=compact", "-o", "internal.segment.bytes=90")
    line = json.dumps({"key": "k", "value": "1"}) + "\n"
    for _ in range(2):
        watched.topic.on("append", "t", "--format", "json", *settings[2:], stdin=line)
    watched.run(*words, *settings)

    assert text in watched.drawn


def test_commands_that_read_count_partitions(watched: Watched) -> None:
    """As ``txns`` of a directory with thousands of them."""
    line = watched.run("txns")

    assert "reading t-0" in line
    assert "0 of 1 partition" in line


def test_a_command_names_the_kernels_that_it_compiles(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first use may compile for a minute, and must not look as if it hung."""

    def warm(*_: object) -> list[gate.Warmed]:
        gate.notify_compiling("scan.find_batches")
        gate.notify_compiling(None)
        return []

    monkeypatch.setattr(gate, "warm", warm)
    line = watched.run("warm")

    assert "compiling kernels, once on this machine: scan.find_batches" in line


def test_warm_names_each_module(watched: Watched) -> None:
    """With how many of them are loaded."""
    watched.run("warm")

    if gate.would_use(gate.LOADING_PAYS_BYTES):
        assert "loading kernels: scan" in watched.drawn


def test_quiet_shows_nothing(watched: Watched) -> None:
    """For those who do not want it."""
    watched.run("verify", "--quiet")

    assert watched.drawn == ""


def test_a_staged_commit_shows_how_much_is_applied(watched: Watched) -> None:
    """A transaction may be as large as a log."""
    watched.run("append", "t", "--txn", "once", stdin="a\nb\n")

    assert "applying transaction once" in watched.drawn


def test_a_move_shows_how_many_logs_are_loaded(watched: Watched, tmp_path: Path) -> None:
    """It opens all logs of both directories first."""
    watched.run("move", "t", "--to", tmp_path / "other")

    assert "loading logs" in watched.drawn
