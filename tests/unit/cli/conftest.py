"""The command line, run in this process on a directory of its own."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING

import pytest
from tests.machinery.outcome import Outcome

from tidelog.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Cli:
    """Runs commands; ``data`` is the data directory that ``on`` passes with ``-d``."""

    def __init__(
        self,
        home: Path,
        templates: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.home = home
        self.data = home / "data"
        self._templates = templates
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *words: object, stdin: bytes | str = b"") -> Outcome:
        """Run ``tidelog`` with these words and this standard input."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = main([str(word) for word in words])
        return Outcome(code, *self._capsys.readouterr())

    def made(self, make: Callable[[Cli], object]) -> Cli:
        """Leave what ``make`` leaves at home: it runs once, and other tests get copies."""
        template = self._templates / f"{make.__module__}.{make.__qualname__}"
        if template.exists():
            shutil.copytree(template, self.home, dirs_exist_ok=True, copy_function=shutil.copyfile)
        else:
            make(self)
            shutil.copytree(self.home, template)
        return self

    def on(self, *words: object, stdin: bytes | str = b"") -> Outcome:
        """Run a command with ``-d`` naming the data directory."""
        return self(*words, "-d", self.data, stdin=stdin)

    def append(self, *values: str, topic: str = "t") -> None:
        """Append values; the command must succeed."""
        lines = "".join(f"{value}\n" for value in values)
        assert self.on("append", topic, "--format", "text", stdin=lines).code == 0

    def values(self, *words: object, topic: str = "t") -> list[str | None]:
        """Return the values that ``cat`` prints."""
        return [row["value"] for row in self.on("cat", topic, *words).rows]

    def log_file(self, name: str = "t-0") -> Path:
        """Return the path of the first segment of a partition."""
        return self.data / name / f"{0:020d}.log"


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where what several tests begin with is kept, to be copied."""
    return tmp_path_factory.mktemp("templates")


@pytest.fixture
def cli(
    tmp_path: Path,
    templates: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """A command line without a data directory."""
    return Cli(tmp_path, templates, capsys, monkeypatch)


@pytest.fixture
def topic(cli: Cli) -> Cli:
    """A command line with topic t of one partition."""
    return cli.made(make_topic)


def make_topic(cli: Cli) -> None:
    assert cli.on("create", "t").code == 0


@pytest.fixture
def torn(cli: Cli) -> Cli:
    """A log of three batches, each of one record, the second damaged, that was killed."""
    return cli.made(make_torn)


def make_torn(cli: Cli) -> None:
    make_topic(cli)
    for value in ("a", "b", "c"):
        cli.append(value)
    log = cli.log_file()
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    (cli.data / ".kafka_cleanshutdown").unlink()
