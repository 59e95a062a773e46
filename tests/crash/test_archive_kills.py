"""What archives, killed at any request to a store that fails, or answers late or not at all."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.object_server import BUCKET, ENVIRONMENT, Fault, object_server
from tests.machinery.scale import scaled

import tidelog
from tidelog.archive import open_archives
from tidelog.archive.chain import Chain
from tidelog.archive.chain_state import claim_of
from tidelog.archive.deltas import is_segment_name
from tidelog.errors import InvalidArgument
from tidelog.store.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.conftest import Enumerated
    from tests.machinery.object_server import ObjectServer

    from tidelog.archive.chain_state import ChainState

KILLS = scaled(30)
LAKE = f"s3://{BUCKET}/lake"
FAULTS = ("503", "409", "500 after", "drop before", "drop after", "truncate", "late")


@pytest.fixture(autouse=True)
def without_known_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the servers of other tests, which had the same URI."""
    monkeypatch.setattr(open_archives, "_archives", {})


class Killer:
    """Kills a process at one of its requests, and lets some of the others fail."""

    def __init__(self, rng: Random, at: int) -> None:
        self.rng = rng
        self.left = at
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, method: str, _path: str) -> Fault | None:
        """Return the fault of a request."""
        self.left -= 1
        if self.left == 0 and self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            return Fault(self.rng.choice(("drop before", "drop after", "late")), seconds=0.3)
        if self.rng.random() < 0.1:
            kind = self.rng.choice(FAULTS)
            if method == "GET" or kind != "truncate":
                return Fault(kind, seconds=0.1)
        return None


def append(data: Path, rng: Random, count: int, **more: str) -> list[tuple[int, bytes]]:
    """Append records to two partitions, no batch like another; return partitions and values.

    ``more`` are further settings of the topic, with ``_`` for ``.``.
    """
    settings = {"internal.segment.bytes": "3000", "retention.ms": "-1"}
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    made = []
    with tidelog.open(data, log_cleaner_enable=False) as logs:
        logs.create_topic("t", 2, config=settings, exist_ok=True)
        for _ in range(count):
            made.append((rng.randrange(2), rng.randbytes(rng.randint(1, 300))))
            logs.append("t", made[-1][1], partition=made[-1][0])
    return made


def run(data: Path, server: ObjectServer, killer: Killer | None) -> int:
    """Archive, perhaps killed; return how the process ended."""
    server.choose = killer
    words = [sys.executable, "-m", "tidelog", "archive", "-d", str(data), "--to", LAKE, "--sweep"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        if killer is not None:
            killer.process = process
        _, err = process.communicate(timeout=120)
    assert b"Traceback" not in err, err.decode()
    assert process.returncode in {0, 3, -signal.SIGKILL}, err.decode()
    return process.returncode


@pytest.mark.slow
def test_killed_archives_lose_nothing_and_copy_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """Whatever is committed is whole after each kill; orphans of earlier claims are swept."""
    rng, data = Random(5), tmp_path / "data"
    killed = 0
    with object_server() as server:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, value)
        for _ in range(KILLS):
            append(data, rng, rng.randint(5, 60))
            killed += run(data, server, Killer(rng, rng.randint(1, 40))) == -signal.SIGKILL
            server.choose = None
            check_beginning(data)
        assert run(data, server, None) == 0
        check_beginning(data)
        check_objects(data, server)
    enumerated("processes killed", killed, at_least=KILLS // 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["moto_server", pytest.param("s3proxy_server", marks=pytest.mark.compat), "azurite_server"],
)
def test_servers_of_others_lose_nothing_either(
    name: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    enumerated: Enumerated,
) -> None:
    """The command is killed at any moment, and then runs to its end."""
    rng, data, killed = Random(7), tmp_path / "data", 0
    server = request.getfixturevalue(name)
    lake = f"{server.uri}/{name}"
    for key, value in server.environ.items():
        monkeypatch.setenv(key, value)
    words = [sys.executable, "-m", "tidelog", "archive", "-d", str(data), "--to", lake]
    for _ in range(KILLS // 2):
        append(data, rng, rng.randint(5, 60))
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                process.communicate(timeout=rng.uniform(0.15, 0.45))
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
        check_beginning(data, lake)
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0
    check_beginning(data, lake)
    check_copied_once(data, lake)
    enumerated("processes killed", killed, at_least=KILLS // 15)


def check_beginning(data: Path, lake: str = LAKE) -> None:
    """Compare what the archive holds with the beginning of the log."""
    try:
        archive = tidelog.open_directory_read_only(lake)
    except InvalidArgument:
        return  # nothing was committed yet
    log = tidelog.open_directory_read_only(data)
    for partition in archive.topic("t").partitions if "t" in archive.topics() else ():
        found = [(one.offset, one.value) for one in archive.read("t", partition)]
        assert found == [(one.offset, one.value) for one in log.read("t", partition)][: len(found)]


def check_copied_once(data: Path, lake: str = LAKE) -> dict[str, ChainState]:
    """Compare the archived segments with the closed ones; return the states by chains' prefixes."""
    topic = tidelog.open_directory_read_only(data).topic("t")
    assert topic.topic_id is not None
    states = {}
    for partition in topic.partitions:
        chain = Chain(ObjectStore(lake), topic.topic_id, partition, Random(0))
        state = states[chain.prefix] = chain.read()
        bases = sorted(int(path.stem) for path in (data / f"t-{partition}").glob("*.log"))
        assert [entry.base_offset for entry in state.entries] == bases[:-1]
        assert state.end == bases[-1]
    assert states
    return states


def check_objects(data: Path, server: ObjectServer) -> None:
    """Each closed segment is there once; no other object of an earlier claim."""
    for chain, state in check_copied_once(data).items():
        prefix = f"lake/{chain}/"
        there = {name.removeprefix(prefix) for name in server.objects if name.startswith(prefix)}
        named = {entry.name for entry in state.entries}
        assert named <= there
        others = {name for name in there - named if is_segment_name(name)}
        assert all(claim_of(name) == state.claim_epoch for name in others)


SERVICE = {
    "tidelog.archive.uri": LAKE,
    "remote.log.manager.task.interval.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "0",
}
"""Looks often at what it may copy and delete."""
ARCHIVED = {"remote_storage_enable": "true", "local_retention_ms": "0"}


def service_of(data: Path) -> list[str]:
    """Return the words that run a service which archives and gives up what is archived."""
    options = [word for name, value in SERVICE.items() for word in ("-o", f"{name}={value}")]
    return [sys.executable, "-m", "tidelog", "run", "-d", str(data), *options]


@pytest.mark.slow
def test_killed_services_lose_nothing_that_they_delete_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """The disk and the archive together have all records, in order, once, after each kill."""
    rng, data = Random(6), tmp_path / "data"
    words = service_of(data)
    values: dict[int, list[bytes]] = {0: [], 1: []}
    given_up = 0
    with object_server() as server:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, value)
        for _ in range(KILLS):
            for partition, made in append(data, rng, rng.randint(5, 60), **ARCHIVED):
                values[partition].append(made)
            killer = Killer(rng, rng.randint(1, 60))
            server.choose = killer
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
                killer.process = run
                _, err = run.communicate(timeout=120)
            assert run.returncode == -signal.SIGKILL, err.decode()
            assert b"Traceback" not in err, err.decode()
            server.choose = None
            logs = tidelog.open_directory_read_only(data)
            for partition, wanted in values.items():
                assert [one.value for one in logs.read("t", partition)] == wanted
                given_up += not (data / f"t-{partition}" / f"{0:020}.log").exists()
    enumerated("logs that began in the archive", given_up, at_least=KILLS)


class Directory:
    """A data directory and what was appended to it, by partition."""

    def __init__(self, path: Path, values: Mapping[int, Sequence[bytes]]) -> None:
        self.path = path
        self.values = {partition: [*some] for partition, some in values.items()}

    def append(self, rng: Random) -> None:
        """Append records that no other directory has."""
        for partition, value in append(self.path, rng, rng.randint(5, 60), **ARCHIVED):
            self.values[partition].append(value)

    def check(self) -> None:
        """Compare what a reader finds, in the directory and its archive, with what there is."""
        logs = tidelog.open_directory_read_only(self.path)
        for partition, wanted in self.values.items():
            assert [one.value for one in logs.read("t", partition)] == wanted

    def take_over(self, *options: str) -> subprocess.CompletedProcess[bytes]:
        """Let this directory continue an archive that another one may have written."""
        words = [sys.executable, "-m", "tidelog", "archive", "-d", str(self.path), "--to", LAKE]
        return subprocess.run([*words, "--continue", *options], check=False, capture_output=True)

    def copy_to(self, path: Path) -> Directory:
        """Return a copy, as a back-up would make it."""
        shutil.copytree(self.path, path, ignore=shutil.ignore_patterns("*.sock"))
        return Directory(path, self.values)


def run_beside(rng: Random, *directories: Directory) -> None:
    """Run a service for each directory at once, and kill them."""
    running = [
        subprocess.Popen(service_of(one.path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for one in directories
    ]
    with suppress(subprocess.TimeoutExpired):
        running[0].wait(rng.uniform(0.5, 3))
    for process in running:
        process.kill()
    for process in running:
        _, err = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, err.decode()
        assert b"Traceback" not in err, err.decode()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_services_on_copies_of_one_directory_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """One writes the archive, until the other takes it over; each keeps what is its own."""
    rng, taken_over, refused = Random(8), 0, 0
    ours = Directory(tmp_path / "0", {0: [], 1: []})
    with object_server() as server:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, value)
        ours.append(rng)
        for number in range(1, KILLS // 3 + 1):
            theirs = ours.copy_to(tmp_path / str(number))
            # What is archived of records that the copy lacks keeps it from taking over: in each
            # third round there are none.
            for one in (theirs, ours) if number % 3 else (theirs,):
                if rng.random() < 0.7:
                    one.append(rng)
            server.choose = Killer(rng, -1)
            run_beside(rng, ours, theirs)
            server.choose = None
            ours.check()
            theirs.check()
            done = theirs.take_over()
            assert done.returncode in {0, 3}, done.stderr.decode()
            theirs.check()
            if done.returncode == 3:
                assert b"the archive of t-" in done.stderr, done.stderr.decode()
                refused += 1
                # One partition may be the copy's by now, and the other not.
                done = ours.take_over("--truncate")
                assert done.returncode == 0, done.stderr.decode()
                ours.check()
                continue
            taken_over += 1
            ours.append(rng)
            run_beside(rng, ours, theirs)
            ours.check()
            theirs.check()
            ours = theirs
    # How many more are taken over depends on how far the services come in their time.
    enumerated("archives taken over", taken_over, at_least=KILLS // 9)
    enumerated("copies, refused or not", taken_over + refused, at_least=KILLS // 3)
