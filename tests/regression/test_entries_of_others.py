"""Every command on directories with entries that are not tidelog's, or not of the kind expected.

Files, links, FIFOs, sockets and odd names beside the logs and in place of their files. Whatever the
command: nothing outside is touched, nothing inside is changed that was not asked for, it ends in
time with an exit code and without a traceback, and what it prints cannot steer a terminal.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

import tidelog
from tidelog.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Enumerated

    Make = Callable[[Path, Path], None]
    """Makes an entry of the name; the second path is what links lead to."""
    State = dict[bytes, tuple[object, ...]]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links and FIFOs")

TIME_LIMIT_S: Final = 60
HEX: Final = "0123456789abcdef" * 2
FIRST: Final = f"{0:020}"


def plain(path: Path, _: Path) -> None:
    """A file with a few bytes."""
    path.write_bytes(b"not a log\n")


def empty(path: Path, _: Path) -> None:
    """A file without bytes."""
    path.touch()


def sparse(path: Path, _: Path) -> None:
    """A file of a terabyte that takes no room."""
    path.touch()
    os.truncate(path, 1 << 40)


def unreadable(path: Path, _: Path) -> None:
    """A file that nobody may read; root does nevertheless."""
    path.write_bytes(b"secret\n")
    path.chmod(0)


def directory(path: Path, _: Path) -> None:
    """A directory with a file."""
    path.mkdir()
    (path / "inner").write_bytes(b"x")


def copy_of_log(path: Path, _: Path) -> None:
    """A directory that looks like a partition."""
    shutil.copytree(path.parent / "t-1", path)


def link_to_file(path: Path, outside: Path) -> None:
    """A link to a file elsewhere."""
    path.symlink_to(outside / "file")


def link_to_directory(path: Path, outside: Path) -> None:
    """A link to a directory elsewhere."""
    path.symlink_to(outside / "dir")


def dangling(path: Path, outside: Path) -> None:
    """A link to nothing."""
    path.symlink_to(outside / "nothing")


def link_to_itself(path: Path, _: Path) -> None:
    """A link that never ends."""
    path.symlink_to(path)


def fifo(path: Path, _: Path) -> None:
    """A FIFO: opening it to read waits for a writer."""
    os.mkfifo(path)


def bound_socket(path: Path, _: Path) -> None:
    """A socket; its path may be longer than ``bind`` takes."""
    above = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{above}/{path.name}")
    except OSError:  # no /proc
        os.mkfifo(path)
    finally:
        os.close(above)


class Entry(NamedTuple):
    """An entry at a path below the data directory; what stood there is removed."""

    make: Make
    path: str

    def __str__(self) -> str:
        return f"{self.make.__name__} {self.path!a}"


NON_UTF8: Final = os.fsdecode(b"\xff\xfe-0")
HARMLESS: Final = (
    *(Entry(make, f"{make.__name__}.x") for make in (plain, sparse, unreadable, directory)),
    *(Entry(make, f"{make.__name__}.y") for make in (link_to_file, link_to_directory, dangling)),
    *(Entry(make, f"{make.__name__}.z") for make in (fifo, bound_socket, link_to_itself)),
    Entry(fifo, "fifo-0"),
    Entry(bound_socket, "socket-0"),
    Entry(plain, "file-0"),
    Entry(dangling, "dangling-0"),
    Entry(link_to_file, "linked-0"),
    Entry(directory, "my copy-0"),
    Entry(copy_of_log, "old t-0"),
    Entry(copy_of_log, "x\nt-9: sound"),
    Entry(copy_of_log, "\x1b[2Jred-0"),
    Entry(copy_of_log, NON_UTF8),
    Entry(directory, "l" * 255),
    Entry(plain, "n\nl"),
    Entry(link_to_directory, f"linked-0.{HEX}-delete"),
    Entry(fifo, f"fifo-0.{HEX}-stray"),
    Entry(plain, f"file-0.{HEX}-future"),
    Entry(plain, "tidelog.notes"),
    Entry(directory, "tidelog.own"),
    Entry(fifo, f"tidelog.{HEX}.request"),
    Entry(dangling, "tidelog.gone.staged"),
    Entry(plain, "t-0/notes.txt"),
    Entry(plain, "t-0/foo.log"),
    Entry(plain, "t-0/5.log"),
    Entry(fifo, "t-0/fifo"),
    Entry(sparse, "t-0/sparse.bin"),
    Entry(link_to_file, "t-0/link"),
    Entry(link_to_directory, "t-0/dir"),
    Entry(dangling, "t-0/dangling"),
    Entry(bound_socket, "t-0/socket"),
    Entry(directory, "t-0/x.deleted"),
    Entry(plain, "t-0/\x1b[2J\n"),
    Entry(plain, os.fsdecode(b"t-0/\xff")),
    Entry(unreadable, "t-0/unreadable"),
)
"""What is beside the logs, and no command has any business with."""

SHARED: Final = (
    *("meta.properties", ".kafka_cleanshutdown", ".lock", "tidelog.topics.json"),
    *("replication-offset-checkpoint", "recovery-point-offset-checkpoint"),
    *("log-start-offset-checkpoint", "cleaner-offset-checkpoint", "tidelog.metrics.prom"),
    *("replication-offset-checkpoint.tmp", "tidelog.topics.json.tmp", "tidelog.metrics.prom.tmp"),
)
OF_LOGS: Final = (
    *(f"t-0/{FIRST}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")),
    *("t-0/leader-epoch-checkpoint", "t-0/partition.metadata", f"t-0/{FIRST}.log.swap"),
    *(f"t-0/{2:020}.snapshot", f"t-0/{FIRST}.index.deleted", f"t-0/{FIRST}.log.cleaned"),
    *("t-0/leader-epoch-checkpoint.tmp", "t-0", f"u-0.{HEX}-delete"),
)
MAKERS: Final = (link_to_file, link_to_directory, dangling, link_to_itself, fifo, bound_socket)
REPLACED: Final = tuple(
    Entry(make, path) for path in (*SHARED, *OF_LOGS) for make in (*MAKERS, directory, empty)
)
"""What stands where tidelog or Kafka has a file, or leaves one."""

LOOKS: Final = (
    ("describe",),
    ("describe", "--json"),
    ("offsets",),
    ("offsets", "--at", "2026-01-01"),
    ("verify",),
    ("verify", "--json"),
    ("cat", "t"),
    ("cat", "t", "--skip-damage"),
    ("txns",),
    ("picture",),
    ("plan", "retention"),
    ("plan", "compaction"),
    ("plan", "recovery", "--full"),
    ("recover", "--dry-run"),
    ("cleaner", "status"),
    ("metrics",),
    ("salvage",),
    ("dump", f"t-0/{FIRST}.log"),
)
ACTS: Final = (
    ("append", "t"),
    ("create", "new"),
    ("alter", "u", "-o", "retention.bytes=12345"),
    ("delete-records", "u", "-p", "all", "--before", "1"),
    ("retain",),
    ("compact",),
    ("delete", "u"),
    ("recover", "--full"),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with topics t and u, left in order, and what lies outside of it."""
    root = tmp_path_factory.mktemp("template")
    settings = {"retention.ms": "-1"}
    with tidelog.open(root / "data") as logs:
        for topic, count in (("t", 2), ("u", 1)):
            logs.create_topic(topic, partitions=count, config=settings)
            for number in range(count):
                for value in (b"one", b"two"):
                    logs.partition(topic, number).append_records([(5, b"k", value, [])])
    (root / "outside" / "dir").mkdir(parents=True)
    (root / "outside" / "dir" / "inner").write_bytes(b"keep me")
    (root / "outside" / "file").write_bytes(b"keep me too")
    return root


class Place(NamedTuple):
    """A copy of the template with odd entries."""

    root: Path

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.root / "data"

    @property
    def outside(self) -> Path:
        """What no command may touch."""
        return self.root / "outside"

    def add(self, entry: Entry) -> None:
        """Make an entry in place of whatever has its name."""
        path = self.data / entry.path
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        entry.make(path, self.outside)


def placed(template: Path, target: Path, *entries: Entry) -> Place:
    """Copy the template and add the entries."""
    shutil.copytree(template, target)
    place = Place(target)
    for entry in entries:
        place.add(entry)
    return place


def state(root: Path) -> State:
    """Return what is at and below a path: kind, size, target and bytes, without following links."""
    found: State = {}
    for above, directories, files in os.walk(os.fsencode(root)):
        for name in (*directories, *files):
            path = os.path.join(above, name)
            about = os.lstat(path)
            is_small = stat.S_ISREG(about.st_mode) and about.st_size < 1 << 20
            content: object = None
            if stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            elif is_small:
                content = Path(os.fsdecode(path)).read_bytes()
            size = about.st_size if stat.S_ISREG(about.st_mode) else 0
            found[os.path.relpath(path, os.fsencode(root))] = about.st_mode, size, content
    return found


class Overdue(BaseException):
    """A command took too long; not an Exception, so that no command can catch it."""


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise Overdue when the body takes too long, even where it waits for a FIFO."""

    def stop(_number: int, _frame: object) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(TIME_LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Runner:
    """Runs commands in this process and checks how they end."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, place: Place, words: tuple[str, ...]) -> int:
        """Run a command; assert that it ends as every command has to; return its exit code."""
        line = list(words)
        if words[0] == "dump":
            line[1] = str(place.data / words[1])
        else:
            line += ["-d", str(place.data)]
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a line\n")))
        try:
            with time_limit():
                code = main(line)
        except Overdue:
            pytest.fail(f"{words} did not end within {TIME_LIMIT_S} s")
        out, err = self._capsys.readouterr()
        assert code in {0, 1, 2, 3}, (words, code, err)
        for text in (out, err):
            assert all(sign == "\n" or sign.isprintable() for sign in text), (words, text)
            assert "Traceback" not in text, (words, text)
        assert "\nt-9: sound" not in out, "a name has written a line of its own"
        return code


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Run commands in this process."""
    return Runner(capsys, monkeypatch)


def changed(before: State, after: State) -> set[str]:
    """Return the paths of what is other than before, or gone; new entries do not count."""
    return {os.fsdecode(path) for path, was in before.items() if after.get(path) != was}


def test_a_crowded_directory_is_read_without_a_change(
    template: Path, tmp_path: Path, run: Runner, enumerated: Enumerated
) -> None:
    """Every command that looks prints what is there, and leaves all as it was."""
    place = placed(template, tmp_path / "root", *HARMLESS)
    before = state(place.root)

    codes = {words: run(place, words) for words in LOOKS}

    assert changed(before, state(place.root)) == set()
    assert state(place.root).keys() == before.keys()
    failed = {words: code for words, code in codes.items() if code}
    assert failed.keys() <= {("metrics",)}
    enumerated("entries of others", len(HARMLESS), at_least=30)


def test_a_crowded_directory_is_written_without_a_loss(
    template: Path, tmp_path: Path, run: Runner
) -> None:
    """Every command that acts does its work, and on nothing else."""
    place = placed(template, tmp_path / "root", *HARMLESS)
    before = state(place.root)

    codes = {words: run(place, words) for words in ACTS}

    assert set(codes.values()) == {0}, codes
    ours = {b"t-0/%020d.log" % 0, b"t-1/%020d.log" % 0}
    after = state(place.root)
    foreign = {os.fsencode(f"data/{entry.path}") for entry in HARMLESS}
    kept = {
        path: was
        for path, was in before.items()
        if path.startswith(b"outside") or any(path.startswith(name) for name in foreign)
    }
    assert changed(kept, after) == set()
    for name in ours:
        content, was = after[b"data/" + name][2], before[b"data/" + name][2]
        assert isinstance(content, bytes)
        assert isinstance(was, bytes)
        assert content.startswith(was)


def check_replaced(template: Path, root: Path, entry: Entry, run: Runner) -> None:
    """Run every command on a directory with one entry in place of a file."""
    place = placed(template, root / "look", entry)
    before = state(place.root)
    for look in LOOKS:
        run(place, look)
        assert changed(before, state(place.root)) == set(), (entry, look)
    for number, words in enumerate(ACTS):
        place = placed(template, root / str(number), entry)
        before = state(place.root)
        run(place, words)
        gone = changed(before, state(place.root))
        assert not {path for path in gone if path.startswith("outside")}, (entry, words)
        logs = {path for path in gone if path.endswith(".log")}
        asked = (
            {f"data/t-{number}/{FIRST}.log" for number in range(2)} if "append" in words else set()
        )
        asked |= {f"data/u-0/{FIRST}.log"} if words[0] in {"delete", "delete-records"} else set()
        if entry.path.endswith(".swap"):
            asked.add(f"data/{entry.path.removesuffix('.swap')}")  # a swap is completed
        assert logs <= asked | {f"data/{entry.path}"}, (entry, words)
        shutil.rmtree(place.root)


SAMPLE: Final = REPLACED[::17]


@pytest.mark.parametrize("entry", SAMPLE, ids=str)
def test_what_is_in_place_of_a_file_is_refused_or_replaced(
    template: Path, tmp_path: Path, run: Runner, entry: Entry
) -> None:
    """No command follows it out of the directory, waits for it, or loses a record for it."""
    check_replaced(template, tmp_path, entry, run)


@pytest.mark.slow
@pytest.mark.parametrize("entry", [each for each in REPLACED if each not in SAMPLE], ids=str)
def test_all_of_them_are_refused_or_replaced(
    template: Path, tmp_path: Path, run: Runner, entry: Entry
) -> None:
    """As above."""
    check_replaced(template, tmp_path, entry, run)


@pytest.mark.slow
@pytest.mark.parametrize("entry", [None, *REPLACED[::7]], ids=str)
def test_the_service_runs_beside_them_or_refuses(
    template: Path, tmp_path: Path, entry: Entry | None
) -> None:
    """It is ready or it ends by itself; SIGTERM ends it; nothing of others is changed."""
    place = placed(template, tmp_path / "root", *([entry] if entry else HARMLESS))
    before = state(place.root)
    command = [sys.executable, "-m", "tidelog", "run", "-d", str(place.data)]

    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        line, end = b"", time.monotonic() + TIME_LIMIT_S
        while b"ready " not in line and (line := process.stderr.readline()):
            assert b"Traceback" not in line
            assert time.monotonic() < end
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        code = process.wait(TIME_LIMIT_S)

    assert b"Traceback" not in rest, rest
    assert code in {0, 1, 2, 3, 143}
    after = state(place.root)
    gone = changed(before, after)
    assert not {path for path in gone if path.startswith("outside")}
    if entry is None:
        assert code == 0
        foreign = {f"data/{each.path}" for each in HARMLESS}
        assert not {path for path in gone if any(path.startswith(name) for name in foreign)}
    else:
        assert not {path for path in gone if path.endswith(".log")} - {f"data/{entry.path}"}
