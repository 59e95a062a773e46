"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli import commands
from tidelog.cli.argument_parser import _OTHER_COMMANDS, CommandParser
from tidelog.cli.options import EXIT_CODES
from tidelog.cli.parser import COMMAND_MODULES, make_parser

if TYPE_CHECKING:
    Cli = Any

SLOW = {
    "ctypes",
    "difflib",
    "email",
    "hashlib",
    "importlib.metadata",
    "pathlib",
    "random",
    "shutil",
}
"""Modules of Python that take a millisecond or more."""
DECODERS = {
    "tidelog.records.legacy",
    "tidelog.records.record",
    "tidelog.records.decoding.record_columns",
    "tidelog.segment.abstract_index",
}
HEAVY = ("numpy", "numba", "llvmlite", "pyarrow", "pyspark", "hypothesis")


def modules_after(words: list[str]) -> set[str]:
    """Return the modules that are loaded once a new process has run the command line."""
    code = (
        "import sys; from tidelog.cli.main import main; main(sys.argv[1:]);"
        " print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--help"], ["cat", "--help"], ["run", "--help"], []])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    """Help is printed at once: no arrays, kernels or tables are imported for it."""
    assert modules_after(words).isdisjoint({*HEAVY, "importlib.metadata"})


def test_the_version_loads_nothing_heavy() -> None:
    """Only the package's metadata are read."""
    assert modules_after(["--version"]).isdisjoint(HEAVY)


def test_a_command_loads_its_own_module_only(topic: Cli) -> None:
    """Nor what only other commands need, as the managers of data directories."""
    loaded = modules_after(["cat", "t", "-d", str(topic.data)])

    assert {name for name in loaded if name.endswith("_command")} == {
        "tidelog.cli.commands.records.cat_command"
    }
    assert loaded.isdisjoint({"tidelog.manager", "tidelog.embedded", "tidelog.cleaner"})
    assert loaded.isdisjoint({"numba", "pyarrow", "pyspark"})


@pytest.mark.parametrize("command", ["list", "offsets", "describe"])
def test_the_ends_of_logs_are_found_in_plain_code(command: str, topic: Cli) -> None:
    """Where a service was stopped, and where it was killed: NumPy and decoders are not loaded."""
    for value in ("a", "b", "c"):
        topic.append(value)
    for snapshot in [None, *topic.data.glob("t-0/*.snapshot")]:
        if snapshot is not None:
            snapshot.unlink()
        loaded = modules_after([command, "-d", str(topic.data)])

        assert loaded.isdisjoint({*HEAVY, *SLOW})
        assert loaded.isdisjoint(DECODERS)
        assert loaded.isdisjoint({"tidelog.readonly.cluster_metadata", "tidelog.staging.journal"})


@pytest.mark.parametrize("command", ["list", "offsets"])
def test_no_settings_are_read_where_none_are_shown(command: str, topic: Cli) -> None:
    """Nor does the table of a broker's settings have to be made."""
    loaded = modules_after([command, "-d", str(topic.data)])

    assert loaded.isdisjoint({"tidelog.config.option", "tidelog.manager", "tidelog.staging"})


def test_reading_records_loads_no_settings(topic: Cli) -> None:
    """Records are decoded into arrays, which is all that ``cat`` adds to that."""
    topic.append("a")

    loaded = modules_after(["cat", "t", "-d", str(topic.data)])

    assert loaded.isdisjoint({"hashlib", "shutil", "tidelog.config.option", "tidelog.staging"})


def test_help_lists_every_module_of_commands() -> None:
    """A command that has a module but no line in the help could not be run."""
    prefix = f"{commands.__name__}."
    names = [module.name for module in walk_packages(commands.__path__, prefix)]
    found = {name.removeprefix(prefix) for name in names if name.endswith("_command")}

    assert found == set(COMMAND_MODULES.values())


def test_settings_are_repeatable() -> None:
    """Each is a name and a value, which may be empty or contain equal signs."""
    args = make_parser().parse_args(
        ["create", "t", "-d", "x", "-o", "a=1", "--option", "b=c=d", "-o", "e="]
    )

    assert args.options == [("a", "1"), ("b", "c=d"), ("e", "")]


def test_a_command_line_leaves_nothing_to_the_next() -> None:
    """A program may run several commands: their parser is one, what they are given is not."""
    words = ["create", "t", "-d", "x"]
    first = make_parser(words).parse_args([*words, "-o", "a=1", "-v"])
    second = make_parser(words).parse_args(words)

    assert make_parser(words) is make_parser(["create"])
    assert (first.options, first.verbose) == ([("a", "1")], True)
    assert (second.options, second.verbose, second.directories) == ([], False, ["x"])


def test_options_cannot_be_abbreviated() -> None:
    """So a new option cannot change the meaning of an existing command line."""
    with pytest.raises(SystemExit):
        make_parser().parse_args(["cat", "t", "-d", "x", "--part", "1"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["creat", "t"], "there is no command 'creat'; did you mean create?"),
        (["lag"], "there is no command 'lag'; did you mean groups?"),
        (["topics"], "there is no command 'topics'; did you mean list --topics?"),
        (["repair"], "there is no command 'repair'; did you mean rescue or recover?"),
        (["remove"], "there is no command 'remove'; did you mean delete?"),
        (["stop"], "there is no command 'stop'\n"),
        (["plan", "retain", "t"], "plan: retain: choose from recovery, retention, compaction; did"),
        (["xyzzy"], "there is no command 'xyzzy'\n"),
        (["plan", "-d", "x"], "required: {recovery,retention,compaction}\n"),
        (["describe", "-d", ""], "-d '': the name of a directory must not be empty"),
        (["describe"], "no directory given: use -d DIR or set TIDELOG_DIR"),
        (["create", "t", "-d", "a", "-d", "b"], "a and b: this command takes one directory"),
        (["append", "t", "-d", "a", "-d", "b"], "(-p N), or start a service over both and name"),
        (["cat", "t", "-d", "x", "--since", "noon"], "--since noon: not a valid time; use "),
        (["create", "t", "-d", "x", "-p", "0"], "-p 0: a topic has at least 1 partition\n"),
        (["create", "t", "-d", "x", "--partitions=a"], "--partitions a: not a whole number\n"),
        (["cat", "t", "-d", "x", "--from", "-1"], "--from -1: must be at least 0\n"),
        (["cat", "t", "-d"], "-d: expected one argument\n"),
        (["cat", "t", "-d", "x", "--encoding", "x"], "--encoding x: choose from utf8, base64, hex"),
        (["append", "t", "-d", "x", "-o", "a\x1b"], "-o a\\x1b: expected KEY=VALUE\n"),
        (["cat", "t", "-d", "x", "--back"], "tidelog cat: unrecognized arguments: --back\n"),
        (["cat", "t", "--sinse", "1h"], "; did you mean --since?\n"),
        (["cat", "t", "--part=1"], "arguments: --part=1; did you mean --partition?\n"),
        (["serve", "-d", "x", "--port", "1"], "arguments: --port; did you mean --listen?\n"),
        (["cat", "t", "--port=1"], "arguments: --port=1\n"),
        (["retain", "-d", "x", "--dry-run"], "--dry-run; see tidelog plan retention\n"),
        (["compact", "-d", "x", "--dry-run"], "--dry-run; see tidelog plan compaction\n"),
    ],
)
def test_a_usage_error_has_two_lines(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """The option with its value and the rule, and how to get help; not all options."""
    with pytest.raises(SystemExit):
        make_parser(words).parse_args(words)
    printed = capsys.readouterr().err

    assert message in printed
    assert printed.splitlines()[-1].startswith("see: tidelog ")
    assert printed.count("\n") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-v", "archive", "-d", "x"), "options follow the command: tidelog archive -v ...\n"),
        (("-d", "x", "cat", "t"), "options follow the command: tidelog cat -d ...\n"),
        (("-x",), "unrecognized arguments: -x\n"),
    ],
)
def test_options_follow_their_command(cli: Cli, words: tuple[str, ...], message: str) -> None:
    """A command line that begins with one shows where it belongs."""
    found = cli(*words)

    assert found.code == 2
    assert message in found.err


@pytest.mark.parametrize("words", [[], ["create"], ["plan"]], ids=str)
def test_help_is_a_command(words: list[str], cli: Cli) -> None:
    """It prints what ``--help`` prints, of all commands or of one."""
    assert cli("help", *words) == cli(*words, "--help")
    assert cli("help", *words).out.startswith(" ".join(["usage: tidelog", *words]))
    assert cli("help", "creat").code == 2


def test_every_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Including those of signals."""
    for words in ([], ["cat"], ["append"], ["run"]):
        with pytest.raises(SystemExit):
            make_parser(words).parse_args([*words, "--help"])
        assert EXIT_CODES in capsys.readouterr().out


def test_an_interrupt_while_the_command_line_is_parsed_is_one() -> None:
    """No error of argparse, which puts back what it has not saved yet."""

    class Interrupted(CommandParser):
        """A parser that Ctrl-C interrupts, where its argparse formats the usage at the start."""

        def format_usage(self) -> str:
            raise KeyboardInterrupt

    parser = Interrupted(prog="any")
    parser.add_argument("topic")
    with suppress(KeyboardInterrupt):
        assert parser.parse_args(["t"]).topic == "t"


def test_words_of_other_tools_lead_to_commands_that_exist() -> None:
    """And none of them is a command itself, which would never be reached."""
    known = set(COMMAND_MODULES)
    assert known.isdisjoint(_OTHER_COMMANDS)
    assert {meant.split()[0] for meant in _OTHER_COMMANDS.values()} <= known
