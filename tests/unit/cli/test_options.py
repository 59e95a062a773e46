"""The directory of a command: ``-d``, an argument, or the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli.options import DIRECTORY_VARIABLE
from tidelog.cli.parser import make_parser
from tidelog.cli.service_settings import given_settings, service_config

if TYPE_CHECKING:
    Cli = Any


@pytest.fixture(autouse=True)
def _no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)


def parsed(*words: str) -> Any:
    """Return the arguments of a command line."""
    return make_parser(words).parse_args(words)


@pytest.mark.parametrize("words", [["cat", "t"], ["create", "t"], ["describe"], ["metrics"]])
def test_the_environment_names_the_directory(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """``-d`` overrides it."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, "env")

    assert parsed(*words).directory == "env"
    assert parsed(*words, "-d", "x").directory == "x"


@pytest.mark.parametrize("words", [["cat", "t"], ["describe"], ["metrics"]])
def test_an_empty_variable_names_no_directory(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """It must not mean the current directory."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, "")

    with pytest.raises(SystemExit):
        parsed(*words)


@pytest.mark.parametrize(
    ("words", "directory", "topics"),
    [
        (["data"], "data", []),
        (["data", "t", "u"], "data", ["t", "u"]),
        (["t", "-d", "data"], "data", ["t"]),
        (["./t", "-d", "data"], "data", ["./t"]),
    ],
)
def test_the_first_topic_may_be_the_directory(
    words: list[str], directory: str, topics: list[str]
) -> None:
    """Without ``-d``, commands that need no topic take it from there."""
    for command in (["describe"], ["verify"], ["plan", "retention"]):
        args = parsed(*command, *words)

        assert (args.directory, args.topics) == (directory, topics)


@pytest.mark.parametrize(
    ("words", "directory", "topics"),
    [
        (["t"], "env", ["t"]),
        (["./t"], "./t", []),
        ([".", "t"], ".", ["t"]),
        (["/data/t-0"], "/data/t-0", []),
    ],
)
def test_with_the_variable_set_only_a_path_is_a_directory(
    monkeypatch: pytest.MonkeyPatch, words: list[str], directory: str, topics: list[str]
) -> None:
    """No topic is named like a path."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, "env")

    args = parsed("describe", *words)

    assert (args.directory, args.topics) == (directory, topics)


def test_a_command_runs_on_a_directory_given_as_an_argument(topic: Cli) -> None:
    """The output is that of ``-d``."""
    topic.append("a")

    for command in ("describe", "picture", "verify", "metrics"):
        assert topic(command, topic.data) == topic.on(command)


@pytest.mark.parametrize(
    ("words", "directories"),
    [
        ([], ["/env"]),
        (["/a", "/b"], ["/a", "/b"]),
        (["-d", "/a", "/b"], ["/a", "/b"]),
        (["-o", "log.dirs=/a"], ["/a"]),
        (["-o", "log.dir=/a"], ["/a"]),
    ],
)
def test_the_service_takes_directories_in_the_same_ways(
    monkeypatch: pytest.MonkeyPatch, words: list[str], directories: list[str]
) -> None:
    """The variable counts only if nothing else names a directory, and is not a setting itself."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, "/env")

    args = parsed("run", *words)
    settings = given_settings(args)

    assert list(service_config(args, settings).data_directories) == directories
    assert "dir" not in settings
