"""Every command, in every case that has an exit code of its own."""

from __future__ import annotations

import gc
import io
import shutil
import signal
import sys
import warnings
from errno import EACCES, ENOSPC
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.machinery.metadata_log import add_cluster_metadata

import tidelog
from tidelog.__main__ import _INTERRUPTED
from tidelog.cli.main import main
from tidelog.cli.options import EXIT_CODES
from tidelog.cli.parser import COMMAND_MODULES
from tidelog.env.system_files import SystemFile, SystemFiles
from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Enumerated
    from tests.machinery.outcome import Outcome

    Cli = Any

INPUT: Final = b"a line\n"
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "create": ("create", "new"),
    "list": ("list",),
    "delete": ("delete", "u"),
    "alter": ("alter", "t", "-o", "retention.ms=5"),
    "move": ("move", "u", "--to", "OTHER"),
    "join": ("join", "SECOND"),
    "append": ("append", "t"),
    "staged list": ("staged", "list"),
    "staged commit": ("staged", "commit"),
    "cat": ("cat", "t"),
    "sql": ("sql", "SELECT count(*) FROM t"),
    "offsets": ("offsets",),
    "txns": ("txns",),
    "groups": ("groups",),
    "dump": ("dump", "LOG", "--records"),
    "describe": ("describe", "--segments"),
    "describe log-dirs": ("describe", "--log-dirs"),
    "picture": ("picture",),
    "table": ("table", "segments"),
    "table keys": ("table", "keys"),
    "verify": ("verify",),
    "recover": ("recover", "--full"),
    "salvage": ("salvage",),
    "rescue": ("rescue", "--to", "OTHER"),
    "retain": ("retain", "-o", "retention.bytes=1"),
    "compact": ("compact", "-o", "cleanup.policy=compact"),
    "roll": ("roll",),
    "archive": ("archive", "-o", "cleanup.policy=delete", "--to", "ARCHIVE"),
    "restore": ("restore", "LAKE", "--to", "OTHER"),
    "cleaner": ("cleaner", "status"),
    "delete-records": ("delete-records", "t", "-p", "0", "--before", "1"),
    "mirror": ("mirror", "--to", "OTHER"),
    "to-kafka": ("to-kafka",),
    "from-kafka": ("from-kafka",),
    "plan recovery": ("plan", "recovery", "--full"),
    "plan retention": ("plan", "retention"),
    "plan compaction": ("plan", "compaction", "-o", "cleanup.policy=compact"),
    "plan compaction --records": (
        *("plan", "compaction", "--records", "-o", "cleanup.policy=compact"),
    ),
    "metrics": ("metrics",),
    "warm": ("warm",),
    "schema": ("schema", "list"),
    "completion": ("completion", "bash"),
    "completion words": ("completion", "words"),
}
"""A command line of each command that succeeds on the template, without its ``-d``."""
READS_NOTHING: Final = {"warm", "schema", "completion", "completion words"}
WITHOUT_DIRECTORY: Final = {"dump", "restore", *READS_NOTHING}
ACTS: Final = {
    *("create", "delete", "alter", "move", "append", "staged commit", "recover", "retain"),
    *("compact", "roll", "archive", "delete-records", "to-kafka", "from-kafka", "join"),
}
"""Commands that change the directory."""
SEES_DAMAGE: Final = {
    *("list", "cat", "sql", "offsets", "txns", "dump", "describe", "picture", "table", "verify"),
    *("recover", "plan recovery", "metrics", "mirror", "rescue"),
}
"""Commands that read what the test damages, and so end with 1."""
STEPS: Final = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
"""At which operations of a command a fault comes, counted from 1."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two topics, closed in order."""
    path = tmp_path_factory.mktemp("template") / "data"
    settings = {"retention.ms": "-1", "internal.segment.bytes": "80", "file.delete.delay.ms": "0"}
    with tidelog.open(path, log_cleaner_enable=False) as logs:
        for topic in ("t", "u"):
            logs.create_topic(topic, config=settings)
            for number in range(3):
                logs.append(topic, b"value", key=b"k", timestamp=10**12 + number)
    copy = shutil.copytree(path, path.parent / "copy")
    assert main(["archive", str(copy), "--to", (path.parent / "lake").as_uri()]) == 0
    return path


def words_of(name: str, data: Path) -> list[str]:
    """Return a command line of ``COMMANDS`` for a directory, without its ``-d``."""
    given = {
        "OTHER": str(data.parent / "other"),
        "SECOND": str(data.parent / "second"),
        "ARCHIVE": (data.parent / "archive").as_uri(),
        "LAKE": (data.parent / "lake").as_uri(),
        "LOG": str(data / "t-0" / f"{0:020d}.log"),
    }
    return [given.get(word, word) for word in COMMANDS[name]]


class Runner:
    """Runs command lines of ``COMMANDS``, each on a copy of the template of its own."""

    def __init__(self, cli: Cli, template: Path, tmp_path: Path) -> None:
        self.cli = cli
        self._template = template
        self._root = tmp_path
        self._count = 0

    def copy(self) -> Path:
        """Return a new copy of the template."""
        self._count += 1
        home = self._root / f"copy-{self._count}"
        (home / "second").mkdir(parents=True)
        shutil.copytree(self._template.parent / "lake", home / "lake")
        return shutil.copytree(self._template, home / "data")

    def __call__(self, name: str, data: Path | None = None, *more: str) -> Outcome:
        """Run a command on ``data``, None: on a new copy."""
        data = data or self.copy()
        if name == "from-kafka" and data.exists():
            add_cluster_metadata(data)
        words = words_of(name, data)
        where = [] if name in WITHOUT_DIRECTORY else ["-d", str(data)]
        outcome: Outcome = self.cli(*words, *where, *more, stdin=INPUT)
        assert "Traceback" not in outcome.err, outcome.err
        return outcome


@pytest.fixture
def run(cli: Cli, template: Path, tmp_path: Path) -> Runner:
    """A runner of commands."""
    return Runner(cli, template, tmp_path)


class Fault:
    """Comes at the n-th file operation of those it applies to; ``count`` counts them."""

    def __init__(self, act: Callable[[str], None], names: set[str]) -> None:
        self.act = act
        self.names = names
        self.at = 0
        self.count = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let all file operations pass through here."""
        for owner in (SystemFiles, SystemFile):
            for name in self.names & set(vars(owner)):
                monkeypatch.setattr(owner, name, self._wrapped(name, getattr(owner, name)))

    def _wrapped(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: Any, **options: Any) -> object:
            reads = name == "open" and (*args[2:3], "r")[0] == "r"
            if not (reads and "pwrite" in self.names):
                self.count += 1
                if self.count == self.at:
                    self.act(str(getattr(args[0], "path", args[1] if len(args) > 1 else "")))
            return real(*args, **options)

        return call


WRITES: Final = {"open", "pwrite", "rename", "make_directory", "truncate", "link"}
READS: Final = {"open", "list", "stat", "pread"}


def refuse(number: int) -> Callable[[str], None]:
    """Return a fault that raises an OSError."""

    def act(path: str) -> None:
        raise OSError(number, "Permission denied" if number == EACCES else "disk full", path)

    return act


def send(number: signal.Signals) -> Callable[[str], None]:
    """Return a fault that sends a signal to this process."""
    return lambda _path: signal.raise_signal(number)


def codes_at(run: Runner, name: str, fault: Fault) -> list[tuple[int, Outcome]]:
    """Return how a command ends with the fault at each of ``STEPS``, up to its last operation."""
    found = []
    for step in STEPS:
        data = run.copy()
        fault.at, fault.count = step, 0
        outcome = run(name, data)
        fault.at = 0
        if fault.count < step:
            break
        found.append((step, outcome))
    return found


def test_help_lists_each_code() -> None:
    """With its summary; what is needed before tidelog is imported is the same."""
    assert all(f"{code:d} {code.summary}" in EXIT_CODES for code in ExitCode)
    assert ExitCode.INTERRUPTED == _INTERRUPTED


def test_every_command_is_swept() -> None:
    """Except the service and jobs on Spark, whose tests start and stop processes."""
    assert {words[0] for words in COMMANDS.values()} == COMMAND_MODULES.keys() - {
        *("console", "run", "serve", "spark"),
    }
    assert COMMANDS.keys() >= ACTS | SEES_DAMAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_fine_ends_with_0_and_a_wrong_option_with_2(run: Runner, name: str) -> None:
    """As does a directory that is not there, unless it is created."""
    data = run.copy()

    assert run(name, data, "--nonsense").code == ExitCode.BAD_USAGE
    assert run(name, data).code == ExitCode.OK
    if name not in READS_NOTHING | {"create"}:
        assert run(name, data / "none").code == ExitCode.BAD_USAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_damage_ends_looks_with_1(run: Runner, name: str) -> None:
    """A wrong checksum in one partition, and another one that is missing."""
    data = run.copy()
    log = data / "t-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    shutil.rmtree(data / "u-0")
    (data / ".kafka_cleanshutdown").unlink()

    outcome = run(name, data)

    if name in SEES_DAMAGE:
        assert outcome.code == ExitCode.DAMAGED
    else:
        assert outcome.code in {ExitCode.OK, ExitCode.DAMAGED, ExitCode.BAD_USAGE}


@pytest.mark.parametrize("name", sorted(ACTS))
def test_a_directory_in_use_ends_acts_with_3(
    run: Runner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Kafka holds it, at once; nothing is changed."""
    monkeypatch.setattr("tidelog.env.signals.program_of", lambda _pid: "java")
    monkeypatch.setattr("tidelog.cli.serving.service_requests.program_of", lambda _pid: "java")
    data = run.copy()
    with tidelog.open(data, log_cleaner_enable=False):
        outcome = run(name, data)

    assert (outcome.code, "in use by" in outcome.err) == (ExitCode.FAILED, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ACTS - {"staged commit"}))
def test_a_full_disk_ends_acts_with_3(
    run: Runner, name: str, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """Unless what could not be written is not needed."""
    fault = Fault(refuse(ENOSPC), WRITES)
    fault.install(monkeypatch)

    found = codes_at(run, name, fault)

    wrong = [each for each in found if each[1].code not in {ExitCode.OK, ExitCode.FAILED}]
    assert wrong == []
    assert any(outcome.code == ExitCode.FAILED for _, outcome in found)
    enumerated("faults", len(found), at_least=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - READS_NOTHING))
def test_what_is_not_permitted_ends_with_3(
    run: Runner, name: str, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """Or with 1 where an unreadable file is a finding; it is never wrong usage."""
    fault = Fault(refuse(EACCES), READS)
    fault.install(monkeypatch)

    found = codes_at(run, name, fault)

    assert [each for each in found if each[1].code == ExitCode.BAD_USAGE] == []
    assert [each for each in found if each[1].code and not each[1].err + each[1].out] == []
    assert any(outcome.code for _, outcome in found)
    enumerated("faults", len(found), at_least=1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - READS_NOTHING))
def test_a_signal_ends_with_its_code(
    run: Runner,
    name: str,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    enumerated: Enumerated,
) -> None:
    """Wherever it comes, without a word of Python's."""
    # A process in the background may have been started with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    fault = Fault(send(number), READS | WRITES)
    fault.install(monkeypatch)

    try:
        with warnings.catch_warnings():
            # What an interrupted command has open is closed with the process.
            warnings.simplefilter("ignore", ResourceWarning)
            found = codes_at(run, name, fault)
            gc.collect()
    finally:
        signal.signal(signal.SIGINT, before)

    assert [each for each in found if each[1].code != 128 + number] == []
    enumerated("signals", len(found), at_least=1)


class Closed(io.BytesIO):
    """An output whose reader has closed it."""

    def write(self, _data: object) -> int:
        """Fail as a closed pipe does."""
        raise BrokenPipeError


@pytest.mark.parametrize("name", COMMANDS)
def test_a_closed_pipe_is_fine(run: Runner, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of ``| head``: exit code 0, and nothing on standard error."""
    data = run.copy()
    if name == "from-kafka":
        add_cluster_metadata(data)
    words = words_of(name, data)
    where = [] if name in WITHOUT_DIRECTORY else ["-d", str(data)]
    err = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(INPUT)))
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Closed(), encoding="utf-8"))

    code = main([*words, *where])
    sys.stdout = None  # what is left in it cannot be written

    assert (code, "Traceback" in err.getvalue()) == (ExitCode.OK, False)


class Full(io.BytesIO):
    """An output on a full disk."""

    def write(self, _data: object) -> int:
        """Fail as a full disk does."""
        raise OSError(ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"append", "completion words"}))
def test_a_full_output_ends_with_3(run: Runner, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each command alike; what it does it has done."""
    data = run.copy()
    if name == "from-kafka":
        add_cluster_metadata(data)
    where = [] if name in WITHOUT_DIRECTORY else ["-d", str(data)]
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Full(), encoding="utf-8"))

    code = main([*words_of(name, data), *where])

    printed = sys.stdout is None
    sys.stdout = None  # what is left in it cannot be written
    if printed:
        assert code == ExitCode.FAILED
        assert "tidelog: standard output: No space left on device" in err.getvalue()
    else:
        assert code == ExitCode.OK
