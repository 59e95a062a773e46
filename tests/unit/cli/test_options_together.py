"""Every option of every command, alone and with each other one: it works, or it is refused.

An option that a command does not even look at has no effect. So the options of each command line
that succeeds must all have been looked at.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.machinery.metadata_log import add_cluster_metadata
from tests.unit.cli.test_exit_codes import (
    ACTS,
    COMMANDS,
    INPUT,
    READS_NOTHING,
    WITHOUT_DIRECTORY,
)

import tidelog
from tidelog.cli import main as cli_main
from tidelog.cli.completion import parser_of
from tidelog.cli.main import main
from tidelog.cli.parser import COMMAND_MODULES
from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.conftest import Enumerated

    Option = argparse.Action

LINES: Final[dict[str, tuple[str, ...]]] = {
    **COMMANDS,
    "dump without records": ("dump", "LOG"),
    "groups reset": ("groups", "reset", "g", "--to", "latest"),
    "groups delete": ("groups", "delete", "g"),
    "txns abort": ("txns", "abort", "t-0"),
    "staged drop": ("staged", "drop", "ID"),
    "staged forget": ("staged", "forget", "ID"),
}
VALUES: Final = {
    "--at": "0",
    "--before": "1",
    "--compression": "gzip",
    "--decode": "none",
    "--disk-percent": "50",
    "--encoding": "hex",
    "--every": "10s",
    "--format": "json",
    "--from": "0",
    "--grep": "v",
    "--isolation": "read_committed",
    "--key": "k",
    "--last": "1",
    "--like": "t",
    "--limit": "1",
    "--more": "HOME/second",
    "--now": "+1d",
    "--option": "retention.ms=5",
    "--output": "HOME/out",
    "--partition": "0",
    "--partitions": "2",
    "--producer-id": "7",
    "--server-properties": "HOME/server.properties",
    "--since": "0",
    "--snapshot": "s",
    "--sort": "size",
    "--svg": "HOME/picture.svg",
    "--throttle": "1000",
    "--to": "3",
    "--to-offset": "0",
    "--txn": "x",
    "--unset": "retention.ms",
    "--until": "9999999999999",
    "--up-to": "logEnd",
    "--width": "80",
}
"""What is given with an option that takes a value."""
OF_EVERY_COMMAND: Final = {"help", "verbose", "progress", "directory", "directories"}
HARMLESS: Final = {("offsets", "--json"), ("salvage", "--json")}
"""Their output, or with --records, is JSON in any case."""
ENDLESS: Final = {("cat", "--follow"), ("mirror", "--every")}
NEVER_HERE: Final = {("alter", "--follow"): "needs a birth value of the topic"}
NOT_RUN: Final = {"console", "run", "serve", "spark", "warm"}
"""Commands that do not end by themselves, start Java or fill a cache."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two topics and a group, an archive of it, and files to name."""
    home = tmp_path_factory.mktemp("together")
    settings = {"retention.ms": "-1", "internal.segment.bytes": "80", "file.delete.delay.ms": "0"}
    with tidelog.open(home / "data", log_cleaner_enable=False) as logs:
        for topic in ("t", "u"):
            logs.create_topic(topic, config=settings)
            for number in range(3):
                logs.append(topic, b"value", key=b"k", timestamp=10**12 + number)
        with logs.reader("t", group="g") as reader:
            next(reader.read())
            reader.commit()
    (home / "second").mkdir()
    (home / "server.properties").write_text("log.retention.ms=5\n")
    copy = shutil.copytree(home / "data", home / "copy")
    assert main(["archive", str(copy), "t", "u", "--to", (home / "lake").as_uri()]) == ExitCode.OK
    return home


class Looked(argparse.Namespace):
    """Arguments that remember which of them a command has looked at."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            object.__getattribute__(self, "__dict__").setdefault("_names", set()).add(name)
        return object.__getattribute__(self, name)

    @property
    def _seen(self) -> set[str]:
        names: set[str] = self.__dict__.get("_names", set())
        return names


class Runner:
    """Runs command lines on copies of the template; ``args`` are those of the last one."""

    def __init__(self, template: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._template = template
        self._home = home
        self._monkeypatch = monkeypatch
        self._args: Looked | None = None
        real = cli_main._run_command

        def looked(args: argparse.Namespace) -> int:
            self._args = Looked(**vars(args))
            return real(self._args)

        monkeypatch.setattr(cli_main, "_run_command", looked)

    def unused(self, name: str, options: Iterable[Option]) -> list[str]:
        """Return which options a command line that succeeds does not look at."""
        line = LINES[name]
        if not self._home.exists() or name in ACTS or "groups" in line:
            shutil.rmtree(self._home, ignore_errors=True)
            shutil.copytree(self._template, self._home)
        if line[0] == "from-kafka":
            add_cluster_metadata(self._home / "data")
        given = {
            "OTHER": str(self._home / "other"),
            "SECOND": str(self._home / "second"),
            "ARCHIVE": (self._home / "archive").as_uri(),
            "LAKE": (self._home / "lake").as_uri(),
            "LOG": str(self._home / "data" / "t-0" / f"{0:020d}.log"),
        }
        words = [given.get(word, word) for word in line]
        words += [] if line[0] in WITHOUT_DIRECTORY else ["-d", str(self._home / "data")]
        for option in options:
            words += words_of(option, self._home)
        self._args = None
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(INPUT)))
        code = main(words)
        for made in ("other", "out", "picture.svg", "archive"):
            path = self._home / made
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if code not in {ExitCode.OK, ExitCode.DAMAGED} or self._args is None:
            return []
        seen = self._args._seen
        return [name_of(option) for option in options if option.dest not in seen]


@pytest.fixture
def runner(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """A runner of command lines."""
    return Runner(template, tmp_path / "home", monkeypatch)


def name_of(option: Option) -> str:
    """Return the long name of an option."""
    return next(name for name in option.option_strings if name.startswith("--"))


def words_of(option: Option, home: Path) -> list[str]:
    """Return the words with which it is given."""
    if option.nargs == 0:
        return [name_of(option)]
    return [name_of(option), VALUES[name_of(option)].replace("HOME", str(home))]


def options_of(name: str) -> Iterator[Option]:
    """Yield the options of a command that its line does not have."""
    line = LINES[name]
    for option in parser_of(line[0]).actions:
        if not option.option_strings or option.dest in OF_EVERY_COMMAND:
            continue
        if (line[0], name_of(option)) in HARMLESS | ENDLESS | NEVER_HERE.keys():
            continue
        if not set(option.option_strings) & set(line):
            yield option


def test_every_command_is_looked_at() -> None:
    """Those that are not have a reason."""
    assert {line[0] for line in LINES.values()} | NOT_RUN == set(COMMAND_MODULES)


@pytest.mark.parametrize("name", sorted(LINES.keys() - READS_NOTHING))
def test_no_option_is_ignored(name: str, runner: Runner) -> None:
    """A command uses each of its options, or refuses it."""
    ignored = [one for option in options_of(name) for one in runner.unused(name, [option])]

    assert ignored == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in LINES if len([*options_of(name)]) > 1))
def test_no_option_is_ignored_beside_another_one(
    name: str, runner: Runner, enumerated: Enumerated
) -> None:
    """Two options that say different things are refused together."""
    pairs = list(combinations(options_of(name), 2))
    found = {
        " ".join(map(name_of, pair)): ignored
        for pair in pairs
        if (ignored := runner.unused(name, pair))
    }

    assert found == {}
    enumerated("pairs of options", len(pairs), at_least=1)
