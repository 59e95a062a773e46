"""The command line, run in this process on a directory of its own."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tidelog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


class Outcome(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """The lines of the output, read as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs commands; ``data`` is the data directory that ``on`` passes with ``-d``."""

    def __init__(
        self,
        data: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.data = data
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *words: object, stdin: bytes | str = b"") -> Outcome:
        """Run ``tidelog`` with these words and this standard input."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = main([str(word) for word in words])
        return Outcome(code, *self._capsys.readouterr())

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


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A command line without a data directory."""
    return Cli(tmp_path / "data", capsys, monkeypatch)


@pytest.fixture
def topic(cli: Cli) -> Cli:
    """A command line with topic t of one partition."""
    assert cli.on("create", "t").code == 0
    return cli
