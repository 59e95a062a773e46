"""A fault at any file operation of any command that changes something, and an interrupt anywhere.

After it nothing is lost, and the command, repeated, ends as it would have without the fault. It is
refused only if it is done already. An error names a file and the cause.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.crash.command_acts import ACTS
from tests.crash.fault_kinds import KINDS
from tests.machinery.scale import scaled

from tidelog.cli.completion import parser_of
from tidelog.cli.parser import COMMAND_MODULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Enumerated

    Drawn = tuple[str, str, int]
    """An act, a kind of fault, and how many cases of it."""

ROOT: Final = Path(__file__).parents[2]
MEMORY: Final = Path("/dev/shm")
EVERY_KIND: Final = (*(kind.name for kind in KINDS), "interrupt")
READS: Final = frozenset(
    {
        *("list", "cat", "sql", "offsets", "dump", "describe", "table", "picture", "console"),
        *("verify", "salvage", "cleaner", "plan", "metrics", "schema", "completion"),
    }
)
"""Commands that change nothing; with ``--output`` they make a file of their own."""
ELSEWHERE: Final = {
    "run": "test_service.py, test_signals.py: it runs until it is stopped",
    "serve": "test_broker_faults.py",
    "spark": "tests/spark: Java does the work",
    "warm": "tests/unit/kernels: it fills a cache, which is made again",
}
"""Commands that change something and are not swept here, with where their tests are."""
PLAIN: Final = frozenset(
    {
        *("--help", "--verbose", "--quiet", "--progress", "--json", "--dir", "--dry-run"),
        *("--allow-partial", "--now", "--option", "--server-properties", "--up-to", "--open"),
        # What is appended, and how much of it at a time; where, and where else, to look.
        *("--partition", "--local-only"),
        *("--format", "--encoding", "--compression", "--more", "--kafka-too", "--members"),
        # Of moves that a service has begun: test_move_control.py.
        *("--list", "--cancel", "--throttle"),
        # It repeats an ordinary run of the mirror, and an error in one ends the command.
        "--every",
    }
)
"""Options after which a command changes the same files, or none."""
QUICK: Final[Sequence[Drawn]] = (
    ("retain", "full disk", 1),
    ("delete-records", "short write", 1),
    ("to-kafka", "bad disk", 1),
    ("restore, keeping ids", "failed fsync", 1),
    ("alter, partitions", "no descriptor", 1),
    ("mirror", "interrupt", 1),
)
SEED: Final = "1"
"""Of the quick sample, which is the same each time; the slow test draws its own."""


def sweep(drawn: Sequence[Drawn], seed: str) -> dict[str, Any]:
    """Run cases in a program of their own; return how many there were, and what is wrong."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as top:
        done = subprocess.run(
            [sys.executable, "-m", "tests.crash.command_faults"],
            input=json.dumps({"top": top, "seed": seed, "cases": drawn}),
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_every_command_that_changes_something_is_swept() -> None:
    """A new command is one of those that are swept, or has a reason."""
    swept = {act.words[0] for act in ACTS.values()}

    assert swept | READS | ELSEWHERE.keys() == COMMAND_MODULES.keys()
    assert not swept & (READS | ELSEWHERE.keys())


@pytest.mark.parametrize("command", sorted({act.words[0] for act in ACTS.values()}))
def test_every_option_of_such_a_command_is_swept(command: str) -> None:
    """Those with which it changes something else are among the acts."""
    words = {word for act in ACTS.values() if act.words[0] == command for word in act.words}
    names = [set(action.option_strings) for action in parser_of(command).actions]

    missing = [min(each) for each in names if each and not each & (words | PLAIN)]

    assert missing == []


@pytest.mark.timeout(600)
def test_a_command_that_a_fault_has_stopped_is_repeated(enumerated: Enumerated) -> None:
    """A sample of what the slow test does."""
    told = sweep(QUICK, SEED)

    assert told["wrong"] == {}
    enumerated("faults of commands", sum(told["tried"].values()), at_least=len(QUICK))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("act", ACTS)
def test_faults_of_every_kind_stop_every_command(act: str, enumerated: Enumerated) -> None:
    """Several of each kind; with a large ``SCALE``, at every operation and line."""
    seed = str(Random().getrandbits(32))

    told = sweep([(act, kind, scaled(4)) for kind in EVERY_KIND], seed)

    assert told["wrong"] == {}, f"seed {seed}"
    enumerated(f"faults of {act}", sum(told["tried"].values()), at_least=6)
