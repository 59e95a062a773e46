"""Completion of the words of a command line, as shells ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli.commands.completion_command import SCRIPTS
from tidelog.cli.completion import DIRECTORIES, FILES, complete
from tidelog.cli.options import DIRECTORY_VARIABLE
from tidelog.cli.parser import COMMAND_MODULES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Enumerated

    Cli = Any


@pytest.fixture(autouse=True)
def _no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with partitions of two topics, and other entries."""
    for name in ("flights-0", "flights-1", "tides-0", "old flights-0", "lost+found"):
        (tmp_path / "data" / name).mkdir(parents=True)
    return tmp_path / "data"


def words_after(*words: object) -> list[str]:
    """Return the candidates for the last of these words."""
    return [one.word for one in complete([str(word) for word in words]).candidates]


def test_commands_come_first() -> None:
    """All of them, with a few words about each; and after help."""
    answer = complete([""])

    names = [one.word for one in answer.candidates]
    assert set(COMMAND_MODULES) | {"help", "--version"} <= set(names)
    assert dict(answer.candidates)["cat"].startswith("print a topic's records")
    assert words_after("de") == ["delete", "delete-records", "describe"]
    assert words_after("help", "des") == ["describe"]
    assert words_after("nonsense", "") == []


@pytest.mark.parametrize("command", COMMAND_MODULES)
def test_options_are_those_of_the_parser(command: str, enumerated: Enumerated) -> None:
    """Each with its help; one that was given is offered again only if it is repeatable."""
    found = words_after(command, "-")

    assert {"-h", "--help"} <= set(found)
    assert "--help" not in words_after(command, "--help", "-")
    enumerated("options", len(found), at_least=2)
    if "--option" in found:
        assert "--option" in words_after(command, "-o", "a=b", "-")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("cat", "--encoding", ""), ["utf8", "base64", "hex", "json"]),
        (("cat", "--encoding=b"), ["--encoding=base64"]),
        (("cat", "--encoding", "=", "b"), ["base64"]),
        (("cat", "--encoding", "="), ["utf8", "base64", "hex", "json"]),
        (("cat", "--format", "r"), ["raw"]),
        (("cat", "--from", ""), ["end"]),
        (("offsets", "--at", "e"), ["earliest"]),
        (("plan", "re"), ["recovery", "retention"]),
        (("cleaner", ""), ["status"]),
        (("staged", "c"), ["commit"]),
        (("create", "t", "-o", "segment.m"), ["segment.ms="]),
        (("alter", "t", "--unset", "segment.m"), ["segment.ms"]),
        (("spark", "v"), ["verify"]),
        (("schema", "plan", "ret"), ["retention"]),
        (("completion", "z"), ["zsh"]),
    ],
)
def test_values_are_those_that_an_argument_takes(words: tuple[str, ...], found: list[str]) -> None:
    """Choices, names of settings, and words with a meaning of their own."""
    assert words_after(*words) == found


def test_topics_are_those_of_the_directory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ``-d`` wherever it stands, of an argument, or of the environment."""
    both = ["flights", "tides"]

    assert words_after("cat", "-d", data, "") == both
    assert words_after("describe", f"--dir={data}", "t") == ["tides"]
    assert words_after("describe", data, "") == both
    assert words_after("plan", "retention", data, "") == both
    assert words_after("append", data, "") == both
    assert words_after("describe", "flights", "-d", data, "") == both
    assert words_after("cat", "flights", "-d", data, "-p", "") == ["0", "1"]
    assert words_after("cat", "tides", "-d", data, "--partition", "") == ["0"]
    assert words_after("cat", "-d", data / "none", "") == []
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(data))
    assert words_after("offsets", "") == both
    monkeypatch.setenv("HOME", str(data.parent))
    assert words_after("cat", "-d", "~/data", "") == both


def test_words_after_several_directories_are_of_all_of_them(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command itself would read them: the first word, and paths after it."""
    (data.parent / "more" / "rain-0").mkdir(parents=True)
    (data.parent / "more" / "flights-2").mkdir()
    monkeypatch.chdir(data.parent)

    for first in ("data", "./data"):
        assert words_after("cat", first, "./more", "") == ["flights", "rain", "tides"]
        assert words_after("offsets", first, "./more", "r") == ["rain"]
        assert words_after("describe", first, "./more", "tides", "r") == ["rain"]
        assert words_after("cat", first, "./more", "flights", "-p", "") == ["0", "1", "2"]
        assert complete(["metrics", first, "./more", ""]).paths == DIRECTORIES
        assert words_after("offsets", first, "./more", "flights", "") == []
    assert words_after("cat", "./more", "-d", "data", "") == ["flights", "rain", "tides"]
    monkeypatch.setenv(DIRECTORY_VARIABLE, "data")
    assert words_after("cat", "./more", "") == ["flights", "rain"]
    assert words_after("offsets", "flights", "") == []


def test_paths_are_left_to_the_shell(data: Path) -> None:
    """Files for dump and append, directories for ``-d``, and for what may be one."""
    assert complete(["dump", ""]).paths == FILES
    assert complete(["append", "t", "-d", "x", ""]).paths == FILES
    assert complete(["append", "x", "t", ""]).paths == FILES
    assert complete(["append", ""]).paths == DIRECTORIES
    assert complete(["cat", "-d", ""]).paths == DIRECTORIES
    assert complete(["metrics", ""]).paths == DIRECTORIES
    assert complete(["describe", ""]).paths == DIRECTORIES
    assert complete(["describe", "-d", str(data), ""]).paths == ""


def test_what_cannot_be_printed_is_not_offered(cli: Cli, data: Path) -> None:
    """A line of the answer is a word; and nothing in a directory ends a completion."""
    (data / "bad\nname-0").mkdir()

    outcome = cli("completion", "words", stdin=f"cat\n-d\n{data}\n\n")

    assert outcome == (0, "\nflights\ntides\n", "")
    assert cli("completion", "words").code == 0


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A program ``tidelog`` on a path with a blank."""
    program = tmp_path / "some bin" / "tidelog"
    program.parent.mkdir()
    paths = os.environ.get("PYTHONPATH", "")
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -m tidelog "$@"\n', "utf-8"
    )
    program.chmod(0o755)
    return program


def script_of(shell: str, tmp_path: Path) -> Path:
    """Return a file with the script of a shell; skip if the machine lacks the shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / f"completion.{shell}"
    path.write_text(SCRIPTS[shell], "utf-8")
    return path


def in_bash(script: Path, command: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    code = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tidelog;'
        r" printf '%s\n' "
        '"${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", code, "bash", str(script), str(command), *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=script.parent,
    )
    return [line for line in done.stdout.splitlines() if line]


def test_bash_completes(tmp_path: Path, command: Path, data: Path) -> None:
    """Commands, topics, values after an equal sign, directories and files."""
    script = script_of("bash", tmp_path)
    (tmp_path / "a file.log").write_bytes(b"")

    assert in_bash(script, command, "desc") == ["describe"]
    assert in_bash(script, command, "cat", "-d", str(data), "") == ["flights", "tides"]
    assert in_bash(script, command, "cat", "--encoding", "=", "he") == ["hex"]
    assert in_bash(script, command, "cat", "-d", "da") == ["data"]
    assert in_bash(script, command, "dump", "a ") == ["a file.log"]


def test_zsh_completes(tmp_path: Path, command: Path, data: Path) -> None:
    """The script is valid, and offers what the command answers."""
    script = script_of("zsh", tmp_path)
    code = (
        "compdef() { : }; compadd() { print -l -- $words_only }; _files() { print -- FILES $1 };"
        ' source "$1"; shift; words=("$@"); CURRENT=$#; _tidelog'
    )

    def offered(*words: str) -> list[str]:
        done = subprocess.run(
            ["zsh", "-f", "-c", code, "zsh", str(script), str(command), *words],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    assert offered("desc") == ["describe"]
    assert offered("cat", "-d", str(data), "") == ["flights", "tides"]
    assert offered("cat", "-d", "da") == ["FILES -/"]
    assert offered("dump", "a") == ["FILES"]


def test_fish_completes(tmp_path: Path, command: Path, data: Path) -> None:
    """As it does while one types."""
    script = script_of("fish", tmp_path)

    def offered(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source '{script}'; complete -C '{line}'"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"},
        )
        return [text.split("\t")[0] for text in done.stdout.splitlines()]

    assert offered("tidelog desc") == ["describe"]
    assert offered(f"tidelog cat -d {data} ") == ["flights", "tides"]
