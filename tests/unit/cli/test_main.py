"""Exit codes, and what the user sees of an error."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli.main import main

if TYPE_CHECKING:
    Cli = Any


def test_help_is_printed_on_demand(cli: Cli) -> None:
    """Of the whole, and of each command; that is fine."""
    outcome = cli("--help")

    assert outcome.code == 0
    for command in ("create", "append", "cat", "dump", "describe", "picture", "warm"):
        assert command in outcome.out
        assert cli(command, "--help").code == 0
    assert "exit codes: 0 fine, 1 the data is bad, 2 the usage is wrong" in outcome.out


def test_the_version_is_the_packages(cli: Cli) -> None:
    """As installed."""
    from importlib import metadata

    for option in ("-V", "--version"):
        assert cli(option)[:2] == (0, f"tidelog {metadata.version('tidelog')}\n")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["cat"],
        ["cat", "t"],
        ["cat", "t", "-d", "x", "--backwards"],
        ["cat", "t", "-d", "x", "--isolation", "dirty"],
        ["cat", "t", "-d", "x", "--enc", "hex"],
        ["cat", "t", "-d", "x", "--encoding", "latin1"],
        ["cat", "t", "-d", "x", "--from", "-1"],
        ["cat", "t", "-d", "x", "--from", "a"],
        ["cat", "t", "-d", "x", "--up-to", "end"],
        ["cat", "t", "-d", "x", "-n", "-1"],
        ["append", "t", "-d", "x", "--format", "xml"],
        ["append", "t", "-d", "x", "--compression", "rar"],
        ["append", "t", "-d", "x", "-o", "retention.ms"],
        ["append", "t", "-d", "x", "-o", "=1"],
        ["create", "t", "-d", "x", "-p", "0"],
        ["create", "-d", "x"],
        ["dump"],
        ["picture", "-d", "x", "--width", "0"],
        ["describe"],
    ],
)
def test_wrong_words_are_wrong_usage(cli: Cli, words: list[str]) -> None:
    """Exit code 2, and on stderr the reason and where to look, or all commands."""
    outcome = cli(*words)

    assert outcome[:2] == (2, "")
    assert ("see: tidelog" if words else "usage: tidelog") in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ["cat", "t", "-d", "nowhere"],
        ["describe", "-d", "nowhere"],
        ["picture", "-d", "nowhere"],
        ["dump", "nowhere/00000000000000000000.log"],
        ["dump", "nowhere/replication-offset-checkpoint"],
        ["append", "t", "-d", "nowhere"],
    ],
)
def test_what_is_not_there_is_wrong_usage(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """The path is named, without a number of the operating system, and nothing is made."""
    cli.data.mkdir()
    monkeypatch.chdir(cli.data)

    outcome = cli(*words)

    assert outcome[:2] == (2, "")
    assert outcome.err.startswith(f"tidelog {words[0]}: ")
    assert "nowhere" in outcome.err
    assert "Errno" not in outcome.err
    assert list(cli.data.iterdir()) == []


def test_a_locked_directory_is_wrong_usage(topic: Cli) -> None:
    """Another writer is named; read-only commands go on."""
    import tidelog

    topic.append("a")
    with tidelog.open(topic.data):
        refused = topic.on("append", "t", stdin="b\n")

        assert refused.code == 2
        assert "is in use by process" in refused.err
        assert topic.values() == ["a"]
        assert [topic.on(name).code for name in ("describe", "picture")] == [0, 0]


class Closed(io.BytesIO):
    """An output whose reader has left."""

    def write(self, _data: object) -> int:
        """Fail as a closed pipe does."""
        raise BrokenPipeError


@pytest.mark.parametrize("words", [["cat", "t"], ["describe"], ["picture"]])
def test_a_reader_that_leaves_early_is_fine(
    topic: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """As ``| head`` does; nothing more is written, also not when the interpreter ends."""
    topic.append("a", "b")
    out = io.TextIOWrapper(Closed(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", out)

    assert main([*words, "-d", str(topic.data)]) == 0
    assert sys.stdout is None


def test_output_is_utf8_whatever_the_locale_says(
    topic: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON is UTF-8; a C locale does not make a command fail."""
    topic.append("☃")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))

    code = main(["cat", "t", "-d", str(topic.data)])

    assert code == 0
    assert '"value": "☃"'.encode() in raw.getvalue()


def test_an_interrupt_has_the_code_of_shells(topic: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """130, without a traceback; what was appended stays."""

    class Interrupted(io.BytesIO):
        """Standard input at which the user loses patience."""

        def read(self, _size: int | None = -1) -> bytes:
            line = self.readline()
            if line == b"stop\n":
                raise KeyboardInterrupt
            return line

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Interrupted(b"a\nstop\nb\n")))
    code = main(["append", "t", "-d", str(topic.data)])
    monkeypatch.undo()

    assert code == 130
