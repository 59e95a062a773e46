"""A service that is stopped at any moment: it ends soon, in order, and keeps its work."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.machinery.object_server import BUCKET, ENVIRONMENT, Fault, object_server
from tests.machinery.scale import scaled

import tidelog
from tidelog.archive import open_archives
from tidelog.segment.filenames import log_delete_directory_name
from tidelog.service.log_service import STORE_PATIENCE_MS
from tidelog.service.requests.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

COMMAND = [sys.executable, "-c", "import sys; from tidelog.cli.main import main; sys.exit(main())"]
MARK = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
STOPS = scaled(6)
"""How often the slow test stops each kind of service."""
STOP_S = 2.0
REFERENCE_S = 0.15
"""How long Python takes to start and import the command on an idle machine."""
REFERENCE_FSYNC_S = 0.001
"""How long an fsync takes on an idle disk."""
FSYNCS = 20
FACTORS = (4.0, 20.0)
"""How much longer than on an idle machine everything may take, at least and at most."""
SMALL = {"segment.index.bytes": "4096", "internal.segment.bytes": "20000"}


Topic = tuple[int, int, int, dict[str, str]]
"""Partitions, batches of each, bytes of a batch, settings."""


class Work(NamedTuple):
    """What a service is doing when it is stopped.

    Args:
        prepare: writes the two data directories.
        settings: of the service.
        from_line: the log line from which on it is at it.
        window_s: for how long, on an idle machine; it is stopped at a random moment of that.
        is_deleting: whether records are deleted by right.
    """

    prepare: Callable[[Path, Path], None]
    settings: Mapping[str, str]
    from_line: str
    window_s: float
    is_deleting: bool = False


def write(
    first: Path, second: Path, topics: Mapping[str, tuple[int, int, int, dict[str, str]]]
) -> None:
    """Write topics to the first directory: partitions, batches of each, bytes, settings."""
    second.mkdir(parents=True, exist_ok=True)
    with tidelog.open(first, log_cleaner_enable=False, retention_ms=-1) as logs:
        for name, (partitions, batches, size_bytes, settings) in topics.items():
            logs.create_topic(name, partitions, {**SMALL, **settings})
            for number in range(partitions):
                for batch in range(batches):
                    value = b"%d:" % batch + bytes(size_bytes)
                    logs.append(name, value, key=b"%d" % (batch % 7), partition=number)


def to_load(first: Path, second: Path) -> None:
    """Write many logs that were closed in order."""
    write(first, second, {"t": (120, 4, 100, {})})


def to_recover(first: Path, second: Path) -> None:
    """Write many logs, of which nothing says that they are whole."""
    write(first, second, {"t": (100, 20, 2_000, {})})
    for name in (MARK, RECOVERY_POINTS):
        (first / name).unlink()


def to_clean(first: Path, second: Path) -> None:
    """Write logs that are all dirty."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    large = {"segment.bytes": "1048576", "internal.segment.bytes": "1000000"}
    write(first, second, {"t": (6, 150, 30_000, {**settings, **large})})


def to_move(first: Path, second: Path) -> None:
    """Write logs that are requested to be moved to the second directory."""
    write(first, second, {"t": (6, 40, 500_000, {"internal.segment.bytes": "3000000"})})
    with tidelog.open(first, second):
        pass
    for number in range(6):
        arguments = {"partitions": {"t": [number]}, "target": str(second)}
        request = Request("move", arguments, deadline_ms=1 << 60)
        (first / f"tidelog.{number:032x}.request").write_bytes(request.encoded())


def to_retain(first: Path, second: Path) -> None:
    """Write logs all of whose closed segments have expired."""
    write(first, second, {"t": (30, 20, 4_000, {"retention.ms": "1"})})


def to_delete(first: Path, second: Path) -> None:
    """Write a log that stays, and many that were renamed to be deleted."""
    write(first, second, {"t": (80, 8, 4_000, {}), "kept": (1, 10, 100, {})})
    for number in range(80):
        waiting = log_delete_directory_name("gone", number, f"{number:032x}")
        shutil.copytree(first / f"t-{number}", first / waiting)


QUICK = {
    "log.initial.task.delay.ms": "1",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "20",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.dedupe.buffer.size": "4000000",
    "log.retention.ms": "-1",
}
WORK = {
    "load": Work(to_load, QUICK, "Loading logs", 0.8),
    "recovery": Work(to_recover, QUICK, "Loading logs", 1.5),
    "recovery on one thread": Work(
        to_recover, {**QUICK, "num.recovery.threads.per.data.dir": "1"}, "Loading logs", 1.5
    ),
    "cleaning": Work(to_clean, QUICK, "ready ", 1.0),
    "throttled cleaning": Work(
        to_clean,
        {**QUICK, "log.cleaner.io.max.bytes.per.second": "20000", "background.threads": "1"},
        "ready ",
        1.5,
    ),
    "move": Work(to_move, QUICK, "ready ", 1.0),
    "retention": Work(to_retain, QUICK, "ready ", 0.7, is_deleting=True),
    "deletion": Work(to_delete, QUICK, "ready ", 0.5),
}


class Stopped(NamedTuple):
    """How a service ended, and how long after the signal."""

    code: int
    seconds: float
    lines: list[str]


def stop(work: Work, directories: list[Path], delay_s: float) -> Stopped:
    """Run a service, send SIGTERM ``delay_s`` after it has begun its work, and wait for its end."""
    words = [word for path in directories for word in ("-d", str(path))]
    words += [word for key, value in work.settings.items() for word in ("-o", f"{key}={value}")]
    lines: list[str] = []
    sent_ns = [0]

    with subprocess.Popen([*COMMAND, "run", *words], stderr=subprocess.PIPE, text=True) as process:

        def send() -> None:
            sent_ns[0] = time.monotonic_ns()
            process.send_signal(signal.SIGTERM)

        timer = threading.Timer(delay_s, send)
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line.rstrip())
            if work.from_line in line and not timer.is_alive():
                timer.start()
        code = process.wait(120)
        seconds = (time.monotonic_ns() - sent_ns[0]) / 1e9
        timer.join()
    return Stopped(code, seconds, lines)


def factor_now() -> float:
    """Return how much longer than on an idle machine things may take now: measured, bounded."""
    began_ns = time.monotonic_ns()
    subprocess.run([sys.executable, "-c", "import tidelog.cli.main"], check=True)
    return bounded((time.monotonic_ns() - began_ns) / 1e9 / REFERENCE_S)


def disk_factor_now(path: Path) -> float:
    """Return the same of the disk: a service that ends may have to sync hundreds of files."""
    return bounded(fsync_s(path) / REFERENCE_FSYNC_S)


def bounded(measured: float) -> float:
    """Return a factor with a margin."""
    least, most = FACTORS
    return min(max(least, 3 * measured), most)


def fsync_s(path: Path) -> float:
    """Return how long an fsync takes here, the mean of some."""
    spent_ns = 0
    with (path / "probe").open("wb") as file:
        for _ in range(FSYNCS):
            file.write(bytes(1 << 16))
            file.flush()
            began_ns = time.monotonic_ns()
            os.fsync(file.fileno())
            spent_ns += time.monotonic_ns() - began_ns
    return spent_ns / 1e9 / FSYNCS


def check_end(work: Work, stopped: Stopped, directories: list[Path], limit_s: float) -> str:
    """Check how it ended and what it left; return at what it was stopped."""
    text = "\n".join(stopped.lines)
    assert stopped.code == 0, text
    assert stopped.seconds <= limit_s, f"{stopped.seconds:.1f} s > {limit_s:.1f} s\n{text}"
    assert "Traceback" not in text, text
    assert [line for line in stopped.lines if " level=ERROR" in line] == []
    assert "offline" not in text
    assert not any((path / ".lock").exists() for path in directories)
    is_loaded = any("Loaded " in line for line in stopped.lines)
    if is_loaded or "Skipping recovery" in text:
        assert all((path / MARK).exists() for path in directories), text
    recovered = set(re.findall(r"Completed load of Log\(dir=(\S+?),", text))
    if work.from_line == "Loading logs" and recovered:
        assert {Path(path).name for path in recovered} <= recovery_points(directories), text
    return "loading" if not is_loaded else "running"


def recovery_points(directories: list[Path]) -> set[str]:
    """Return the partitions that have a recovery point."""
    files = [path / RECOVERY_POINTS for path in directories]
    lines = [line for f in files if f.exists() for line in f.read_text("utf-8").splitlines()[2:]]
    return {"-".join(line.split()[:2]) for line in lines}


def last_values(directories: list[Path]) -> dict[str, object]:
    """Return of each partition its end, and its last value of each key."""
    first, *more = directories
    found: dict[str, object] = {}
    for request in first.glob("tidelog.*.request*"):
        request.unlink()
    with tidelog.open(first, *more, log_cleaner_enable=False, retention_ms=-1) as logs:
        while any(log.directory.endswith("-future") for log in logs.manager.all_logs()):
            logs.manager.bell.wait(logs.manager.bell.rings, 50)
        for name in sorted(logs.topics()):
            for partition in logs.partitions(name):
                values = {r.key: r.value for r in partition.log.records()}
                key = f"{name}-{partition.partition}"
                found[key] = (partition.log.log_end_offset, values)
    return found


def expected_of(work: Work, root: Path) -> tuple[list[Path], dict[str, object]]:
    """Prepare directories; return them, and what they hold."""
    directories = [root / "a", root / "b"]
    work.prepare(*directories)
    copies = copy(directories, root / "look")
    return directories, last_values(copies)


def copy(directories: list[Path], root: Path) -> list[Path]:
    """Copy directories to below ``root``; requests to move name the new ones."""
    copies = []
    for path in directories:
        copies.append(root / path.name)
        shutil.copytree(path, copies[-1])
    for request in copies[0].glob("tidelog.*.request"):
        text = request.read_text("utf-8")
        request.write_text(text.replace(str(directories[1]), str(copies[1])), "utf-8")
    return copies


def check_stop(
    work: Work, prepared: tuple[list[Path], dict[str, object]], root: Path, rng: Random
) -> tuple[str, float]:
    """Stop one service at a random moment; return at what, and how long it took."""
    directories = copy(prepared[0], root)
    factor = factor_now()
    stopped = stop(work, directories, rng.uniform(0, work.window_s) * factor / FACTORS[0])
    slowest = max(factor, factor_now(), disk_factor_now(root))
    limit_s = slowest * (STOP_S + fsync_s(root))
    at = check_end(work, stopped, directories, limit_s)
    left = last_values(directories)
    shutil.rmtree(root)
    if work.is_deleting:
        ends = {key: found[0] for key, found in prepared[1].items()}  # type: ignore[index]  # a pair
        assert {key: found[0] for key, found in left.items()} == ends  # type: ignore[index]  # a pair
    else:
        assert left.keys() == prepared[1].keys()
        assert left == prepared[1]
    return at, stopped.seconds


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", WORK)
def test_a_service_stops_at_any_moment(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends in 2 s and one fsync, with code 0, and the next start has all that was done.

    The bound is scaled by how slow the machine and its disk are at that moment.
    """
    seed = Random().getrandbits(32)
    rng = Random(seed)
    work = WORK[name]
    prepared = expected_of(work, tmp_path)
    at: Counter[str] = Counter()
    longest_s = 0.0
    for number in range(STOPS):
        where, seconds = check_stop(work, prepared, tmp_path / f"run-{number}", rng)
        at[where] += 1
        longest_s = max(longest_s, seconds)
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {dict(at)}, longest {longest_s:.2f} s, seed {seed}\n")

    assert at.total() == STOPS


@pytest.mark.parametrize("name", ["recovery", "throttled cleaning"])
def test_a_service_that_recovers_or_is_throttled_stops_at_once(tmp_path: Path, name: str) -> None:
    """A small version of the test above: once, at a moment that a fixed seed chooses."""
    work = SMALL_WORK[name]
    prepared = expected_of(work, tmp_path)

    where, _ = check_stop(work, prepared, tmp_path / "run", Random(7))

    assert where in {"loading", "running"}


@pytest.mark.parametrize("part", ["/s/", "/m/"])
def test_a_stop_does_not_wait_for_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A segment or a version may be given up, and done late: the next run continues.

    Without that a stop lasts until the request times out: a minute.
    """
    data, values = tmp_path / "data", [b"%d" % number * 5_000 for number in range(12)]
    with tidelog.open(data) as logs:
        logs.create_topic("t", config={**SMALL, "remote.storage.enable": "true"})
        for value in values:
            logs.append("t", value)
    archive = f"s3://{BUCKET}/logs"
    settings = {"tidelog.archive.uri": archive, "remote.log.manager.task.interval.ms": "50"}
    with object_server() as server:
        for name, setting in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, setting)
        # The second version: the first one is the claim, without which no segment is put.
        server.faults = [Fault("stall", "PUT", "0" * 19 + "2" if part == "/m/" else part, 15)]
        work = Work(lambda *_: None, settings, "ready pid=", 0)

        stopped = stop(work, [data], 1.0)

        assert not server.faults
        assert (stopped.code, stopped.lines[-1][-18:]) == (0, "Shutdown complete."), stopped
        assert stopped.seconds < STORE_PATIENCE_MS / 1000 + STOP_S * factor_now()
        again = stop(Work(lambda *_: None, settings, "base_offset=9 ", 0), [data], 0)
        assert again.code == 0
        # This process may know an archive of another test by that URI.
        monkeypatch.setattr(open_archives, "_archives", {})
        found = tidelog.open_directory_read_only(archive).read("t")
        assert [one.value for one in found] == values[:11]


@pytest.mark.parametrize(
    ("command", "snapshot", "stalled"),
    [("archive", None, "PUT"), ("archive", "monday", "PUT"), ("retain", None, "GET")],
)
def test_a_stop_does_not_wait_for_the_store_of_a_request(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    snapshot: str | None,
    stalled: str,
) -> None:
    """What another process has asked the service to do is given up, too, and answered."""
    data, archive = tmp_path / "data", f"s3://{BUCKET}/logs"
    with tidelog.open(data) as logs:
        logs.create_topic("t", config={**SMALL, "remote.storage.enable": "true"})
        for number in range(12):
            logs.append("t", b"%d" % number * 5_000)
    arguments = {
        "partitions": {"t": [0]},
        "are_named": True,
        "settings": {},
        **dict.fromkeys(("now_ms", "server_properties")),
    }
    if command == "archive":
        flags = "takes_over", "follows_start", "sweeps", "truncates"
        arguments |= {"to": archive, "snapshot": snapshot, **dict.fromkeys(flags, False)}
    with object_server() as server:
        for name, setting in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, setting)
        archived = Work(lambda *_: None, {"tidelog.archive.uri": archive}, "base_offset=9 ", 0)
        assert stop(archived, [data], 0).code == 0
        with tidelog.open(data) as logs:
            for number in range(12):
                logs.append("t", b"%d" % number * 5_000)
        request = Request(command, arguments, deadline_ms=1 << 60)
        (data / f"tidelog.{1:032x}.request").write_bytes(request.encoded())
        server.faults = [Fault("stall", stalled, "", 15)]

        stopped = stop(Work(lambda *_: None, {}, "request-claimed ", 0), [data], 1.0)

        assert not server.faults
    assert (stopped.code, stopped.lines[-1][-18:]) == (0, "Shutdown complete."), stopped
    assert stopped.seconds < STORE_PATIENCE_MS / 1000 + STOP_S * factor_now()
    (answer,) = data.glob("tidelog.*.request-answered")
    assert "given up" in answer.read_text()


def few_to_recover(first: Path, second: Path) -> None:
    """Write logs of which nothing says that they are whole."""
    write(first, second, {"t": (20, 20, 2_000, {})})
    for name in (MARK, RECOVERY_POINTS):
        (first / name).unlink()


def few_to_clean(first: Path, second: Path) -> None:
    """Write a log that is dirty."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    write(first, second, {"t": (1, 30, 10_000, settings)})


SMALL_WORK = {
    "recovery": WORK["recovery"]._replace(prepare=few_to_recover, window_s=0.1),
    "throttled cleaning": WORK["throttled cleaning"]._replace(prepare=few_to_clean, window_s=0.5),
}
