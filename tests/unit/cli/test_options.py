"""Options that commands share, the directory first: each is the same wherever it is taken."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tidelog.cli.options import DIRECTORY_VARIABLE
from tidelog.cli.parser import make_parser
from tidelog.cli.serving.service_settings import given_settings, service_config

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog.cli.argument_parser import CommandParser

    Cli = Any

WITHOUT_DIRECTORY = {"dump", "restore", "warm", "schema", "completion"}
SEVERAL_DIRECTORIES = {"join", "run", "serve"}
WHOLE_TOPICS = {
    *("create", "delete", "alter"),
    *("mirror", "spark mirror", "rescue"),  # a mirror has the partitions of its source
    *("spark compact", "spark verify", "spark repartition"),  # jobs over whole topics
}
DIFFERENT = {
    "--to": "where a range of offsets ends; a directory or topic that is written to",
    "--from": "cat also takes the word end",
    "--follow": "cat continues reading; alter lets a setting follow the process that opens a topic",
    "--format": "cat has more forms to write than append has to read",
}
"""Options of one name that differ from command to command, and how."""


class Command(NamedTuple):
    """A command, or a job of one, and its parser."""

    name: str
    parser: CommandParser

    @property
    def options(self) -> list[Action]:
        return [one for one in self.parser.actions if one.option_strings and one.dest != "help"]

    @property
    def arguments(self) -> list[Action]:
        """What it takes without an option: choices, DIR, then others."""
        return [one for one in self.parser.actions if not one.option_strings]

    def takes(self, option: str) -> bool:
        return any(option in one.option_strings for one in self.options)


def commands_of(parser: CommandParser, name: str = "") -> Iterator[Command]:
    """Yield the commands below a parser that have none below them."""
    nested = next((one for one in parser.actions if one.nargs == "A..."), None)
    if nested is None:
        yield Command(name, parser)
        return
    choices: dict[str, CommandParser] = dict(nested.choices or {})
    for word, one in choices.items():
        yield from commands_of(one, f"{name} {word}".strip())


COMMANDS = list(commands_of(make_parser()))


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
    """``-d`` overrides it; what one command line names is not kept for the next."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, "env")

    assert parsed(*words).directories == ["env"]
    assert parsed(*words, "-d", "x").directories == ["x"]


@pytest.mark.parametrize("words", [["cat", "t"], ["describe"], ["metrics"]])
def test_an_empty_variable_names_no_directory(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """It must not mean the current directory."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, "")

    with pytest.raises(SystemExit):
        parsed(*words)


def sample(command: Command, topic: str = "t") -> tuple[list[str], list[str]]:
    """Return words for a command: those before DIR, and those after it."""
    first = [str(next(iter(one.choices))) for one in command.arguments if one.choices]
    later = [topic for one in command.arguments if not one.choices][1:]
    required = [one for one in command.options if one.required]
    values = {"OFFSET": "5", "N": "1", "DIR": "there", "TOPIC": "u", "URI": "file:///there"}
    named = [
        word for one in required for word in (one.option_strings[-1], values[str(one.metavar)])
    ]
    return first, [*later, *named]


def test_every_command_with_a_directory_takes_it_as_its_first_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """``groups DIR`` is ``groups -d DIR``; so for all commands, whatever else they take."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    found = {one.name for one in COMMANDS if one.takes("--dir")}
    single = [one for one in COMMANDS if one.name in found - SEVERAL_DIRECTORIES]

    for command in single:
        name = command.name.split()
        first, later = sample(command)
        assert vars(parsed(*name, *first, "data", *later)) == vars(
            parsed(*name, *first, *later, "-d", "data")
        ), command.name

    enumerated("commands", len(single), at_least=28)
    assert {one.name for one in COMMANDS} - found == WITHOUT_DIRECTORY


def test_the_same_option_is_the_same_everywhere(enumerated: Enumerated) -> None:
    """Name, short name, meaning in the code, type of its value, and whether it repeats."""
    kinds = defaultdict(set)
    for command in COMMANDS:
        for one in command.options:
            kind = type(one).__name__, one.type, one.dest, one.metavar
            kinds[one.option_strings[-1]].add((*one.option_strings, *kind, str(one.choices)))

    enumerated("options", len(kinds), at_least=60)
    assert {name for name, found in kinds.items() if len(found) > 1} == set(DIFFERENT)


def test_a_partition_is_taken_wherever_topics_are_chosen() -> None:
    """With ``-p all`` for all; ``-p`` is a number of partitions where some are made."""
    chosen = {
        one.name for one in COMMANDS if {"TOPIC"} & {argument.metavar for argument in one.arguments}
    }
    by_number = {one.name for one in COMMANDS if one.takes("--partition")}
    making = {one.name for one in COMMANDS if one.takes("--partitions")}

    assert by_number == chosen - WHOLE_TOPICS | {"groups"}  # its topics follow a word
    assert making == {"create", "alter", "spark repartition"}
    assert all(one.takes("-p") for one in COMMANDS if one.name in by_number | making)
    for command in COMMANDS:
        if command.name in by_number:
            first, later = sample(command)
            place = () if command.name in WITHOUT_DIRECTORY else ("-d", "x")
            words = (*command.name.split(), *first, *place, *later)
            assert parsed(*words, "-p", "all").partition is None
            assert parsed(*words, "-p", "1").partition == 1


def test_a_time_is_taken_in_every_form(enumerated: Enumerated) -> None:
    """A number, a date, and a distance from now, by every option for a point in time."""
    count = 0
    for command in COMMANDS:
        for one in command.options:
            if one.metavar not in {"TIME", "WHEN"}:
                continue
            first, later = sample(command)
            words = (*command.name.split(), *first, "-d", "x", *later, one.option_strings[-1])
            hour = getattr(parsed(*words, "1h"), one.dest)
            assert getattr(parsed(*words, "1000"), one.dest) == 1000
            assert getattr(parsed(*words, "1970-01-02"), one.dest) == 86_400_000
            assert 0 <= getattr(parsed(*words, "0s"), one.dest) - hour - 3_600_000 < 60_000
            assert "1h, 2d" in command.parser.format_help()
            count += 1
    enumerated("options", count, at_least=12)


@pytest.mark.parametrize(
    ("words", "directories", "topics"),
    [
        (["data"], ["data"], []),
        (["data", "t", "u"], ["data"], ["t", "u"]),
        (["t", "-d", "data"], ["data"], ["t"]),
        (["t", "-d", "data", "-d", "more"], ["data", "more"], ["t"]),
        (["./t", "-d", "data"], ["./t", "data"], []),
        (["data", "more/", "t"], ["data", "more/"], ["t"]),
        (["./new", "t"], ["./new"], ["t"]),
        (["/disk1", "/disk2"], ["/disk1", "/disk2"], []),
    ],
)
def test_the_first_words_may_be_directories(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    directories: list[str],
    topics: list[str],
) -> None:
    """The first without ``-d``, others if they are paths; and after the operation of a plan."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "more").mkdir()
    for command in (["describe"], ["verify"], ["plan", "retention"]):
        args = parsed(*command, *words)

        assert (args.directories, args.topics) == (directories, topics)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create", "t"], "t is not a directory: name one with -d DIR or TIDELOG_DIR"),
        (["create", "new", "t"], "new is not a directory"),
        (["append", "t", "lines.txt"], "t is not a directory"),
        (["delete", "t", "u"], "t is not a directory"),
        (["create", "./new"], "the following arguments are required: TOPIC"),
        (["create", "t", "u", "-d", "x"], "unrecognized arguments: u"),
        (["offsets", "./a", "t", "u"], "unrecognized arguments: u"),
        (["staged", "drop", "a/b"], "a/b is not a directory"),
        (["cat", "t", "a"], "t is not a directory: name one with -d DIR or TIDELOG_DIR; the"),
        (["cat", "t", "a"], "; the directory comes first: a t\n"),
    ],
)
def test_a_word_is_taken_as_a_directory_only_if_it_is_one(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    """Or if it is written as a path; a mistyped line creates and deletes nothing elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()

    with pytest.raises(SystemExit):
        parsed(*words)

    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "directories", "topics"),
    [
        (["t"], ["env"], ["t"]),
        (["./t"], ["./t"], []),
        ([".", "t"], ["."], ["t"]),
        (["/data/t-0", "/data/t-1"], ["/data/t-0", "/data/t-1"], []),
    ],
)
def test_with_the_variable_set_only_a_path_is_a_directory(
    monkeypatch: pytest.MonkeyPatch, words: list[str], directories: list[str], topics: list[str]
) -> None:
    """No topic is named like a path; a group or a transaction may have a slash in its name."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, "env")

    args = parsed("describe", *words)

    assert (args.directories, args.topics) == (directories, topics)
    assert parsed("groups", "team/app").groups == ["team/app"]
    assert parsed("staged", "drop", "imports/5").txn == "imports/5"


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
