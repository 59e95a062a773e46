"""``tidelog run`` as a process: signals, a second writer, a directory that goes away."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from tests.machinery.store_servers import free_port

import tidelog
from tidelog.errors import DirectoryLocked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-c", "import sys; from tidelog.cli.main import main; sys.exit(main())"]
LOADED = "Loaded "
"""Said before the cleaner starts, which may be done with a log before the service is ready."""

pytestmark = pytest.mark.slow


@contextmanager
def service(*words: object, until: str = "ready ") -> Iterator[subprocess.Popen[str]]:
    """Run the service until its log says that it is ready, or another word; end it afterwards."""
    given = [*COMMAND, "run", *map(str, words)]
    with subprocess.Popen(given, stderr=subprocess.PIPE, text=True) as process:
        read_until(process, until)
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return the log line that holds ``text``."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"the service ended before it said {text!r}")


def tidelog_command(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    given = [*COMMAND, *map(str, words)]
    return subprocess.run(given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """Logs are closed and directories marked, with exit code 0."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
    with service("-d", tmp_path) as process:
        during = (tmp_path / ".kafka_cleanshutdown").exists()
        process.send_signal(number)
        code = process.wait(120)

    assert (during, code) == (False, 0)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_directory_that_did_not_exist_is_named(tmp_path: Path) -> None:
    """Whatever the level of the log: its path may be mistyped. One that exists is not."""
    new = tmp_path / "new"
    with service("-d", new, "--log-level", "ERROR", until="tidelog run: created") as process:
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    with service("-d", new) as process:
        process.send_signal(signal.SIGTERM)
        _, again = process.communicate()

    assert new.exists()
    assert "created data directory" not in again


def test_a_second_writer_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    """Readers and tools work meanwhile."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
    with service("-d", tmp_path) as process:
        refused = tidelog_command("to-kafka", "-d", tmp_path)
        second = tidelog_command("run", "-d", tmp_path)
        read = tidelog_command("cat", "t", "-d", tmp_path)
        with pytest.raises(DirectoryLocked, match=str(process.pid)):
            tidelog.open(tmp_path)

    assert (refused.returncode, second.returncode, read.returncode) == (3, 3, 0)
    assert f"process {process.pid}" in refused.stderr
    assert '"value": "a"' in read.stdout


def test_a_killed_service_opens_again_by_itself(tmp_path: Path) -> None:
    """SIGKILL leaves a lock file that nobody holds."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
    with service("-d", tmp_path) as process:
        process.kill()
        process.wait(120)
    with service("-d", tmp_path):
        pass
    with tidelog.open(tmp_path) as logs:
        assert [record.value for record in logs.read("t")] == [b"a"]


def test_a_directory_that_is_removed_leaves_the_others(tmp_path: Path) -> None:
    """The log and the metrics say so, and the service continues."""
    first, second = tmp_path / "a", tmp_path / "b"
    with tidelog.open(first, second) as logs:
        logs.create_topic("t", 2, is_spread=True)
    fast = ("-o", "replica.high.watermark.checkpoint.interval.ms=100")
    metrics = ("-o", "tidelog.metrics.interval.ms=100")
    with service("-d", first, "-d", second, *fast, *metrics) as process:
        second.rename(tmp_path / "gone")
        line = read_until(process, "log-dir-failed")
        shown = ""
        while f'log_directory="{second}"}} 1' not in shown:
            shown = tidelog_command("metrics", "-d", first).stdout
        process.terminate()
        code = process.wait(120)

    assert str(second) in line
    assert "kafka_log_log_manager_offline_log_directory_count 1" in shown
    assert code == 0


def test_a_directory_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    """As when a disk is mounted over it; here a plain file is in its place."""
    first, second = tmp_path / "a", tmp_path / "b"
    with tidelog.open(first, second) as logs:
        logs.create_topic("t", 2, is_spread=True)
    fast = ("-o", "replica.high.watermark.checkpoint.interval.ms=100")
    with service("-d", first, "-d", second, *fast) as process:
        second.rename(tmp_path / "gone")
        second.write_bytes(b"")
        line = read_until(process, "log-dir-failed")
        read = tidelog_command("describe", "-d", first, "--allow-partial")
        process.terminate()
        code = process.wait(120)

    assert str(second) in line
    assert (read.returncode, code) == (0, 0)


FULL_DISK = """
import errno, pathlib, sys, time, tidelog
from tidelog.errors import KafkaStorageError

def shown(logs, name):
    return [int(one.value) for one in logs.metrics() if one.name == name]

small, roomy = sys.argv[1:]
with tidelog.open(small, roomy, segment_index_bytes=4096) as logs:
    logs.create_topic("t", 2, is_spread=True)
    homes = {logs.partition("t", n).log.directory.rpartition("/")[0]: n for n in (0, 1)}
    full, other = homes[small], homes[roomy]
    taken = 0
    try:
        while True:
            logs.append("t", b"v" * 50_000, partition=full)
            taken += 1
    except KafkaStorageError as error:
        assert error.__cause__.errno == errno.ENOSPC, error
    logs.append("t", b"other", partition=other)
    print(shown(logs, "LogDirectoryFull"), shown(logs, "OfflineLogDirectoryCount"))
    assert sum(1 for _ in logs.read("t", full)) == taken > 10
    (pathlib.Path(small) / "ballast").unlink()
    while shown(logs, "LogDirectoryFull") != [0, 0]:
        time.sleep(0.1)
    logs.append("t", b"again", partition=full)
    print("appended again")
"""


def test_a_full_disk_takes_no_appends_and_says_so_until_it_has_space(tmp_path: Path) -> None:
    """The directory stays online, its records are read, and the other directory continues."""
    small, roomy = tmp_path / "small", tmp_path / "roomy"
    small.mkdir()
    ballast = f"head -c 5000000 /dev/zero > {small}/ballast"
    mounted = f"mount -t tmpfs -o size=8m none {small} && {ballast}"
    shell = ["unshare", "-rm", "sh", "-c"]
    if sys.platform != "linux" or subprocess.run([*shell, mounted], check=False).returncode:
        pytest.skip("a small disk of its own needs Linux with user namespaces")
    (tmp_path / "full.py").write_text(FULL_DISK, "utf-8")
    script = f"{mounted} && exec {sys.executable} {tmp_path}/full.py {small} {roomy}"

    done = subprocess.run([*shell, script], capture_output=True, text=True, check=False)

    assert done.stdout.splitlines() == ["[1, 0] [0]", "appended again"], done.stderr
    assert f"disk-full directory={small}" in done.stderr


def test_without_any_directory_the_service_ends(tmp_path: Path) -> None:
    """With exit code 1: what was here is not here any more."""
    data = tmp_path / "a"
    with tidelog.open(data) as logs:
        logs.create_topic("t")
    fast = ("-o", "replica.high.watermark.checkpoint.interval.ms=100")
    with service("-d", data, *fast) as process:
        data.rename(tmp_path / "gone")
        code = process.wait(120)

    assert code == 1


def test_new_settings_are_taken_while_it_runs(tmp_path: Path) -> None:
    """SIGHUP reads the file again; what needs a restart is refused as a whole."""
    file, broker = tmp_path / "server.properties", tmp_path / "broker.properties"
    file.write_text(f"log.dirs={tmp_path / 'a'}\nlog.retention.ms=5\n", "utf-8")
    broker.write_text("ssl.key.password=secret\n", "utf-8")
    with service("--config", file, "--server-properties", broker) as process:
        file.write_text(f"log.dirs={tmp_path / 'a'}\nlog.retention.ms=6\n", "utf-8")
        broker.write_text("ssl.key.password=other\nlog.retention.hours=7\n", "utf-8")
        process.send_signal(signal.SIGHUP)
        taken = read_until(process, "settings-taken")
        process.send_signal(signal.SIGHUP)
        again = read_until(process, "settings-taken")
        file.write_text(f"log.dirs={tmp_path / 'b'}\n", "utf-8")
        process.send_signal(signal.SIGHUP)
        line = read_until(process, "settings-not-taken")

    assert taken.endswith(" changed=log.retention.ms=6; log.retention.hours=7\n")
    assert again.endswith(" changed=nothing\n")
    assert "log.dirs" in line


def health(port: int) -> Any:
    """Return what the service answers about its health."""
    with urlopen(f"http://127.0.0.1:{port}/health") as answer:
        return json.load(answer)


@pytest.mark.parametrize("bad", ["log.cleaner.threads=1000", "x=\\u12", "log.retention.ms=0"])
def test_settings_that_cannot_be_taken_leave_the_service_running(tmp_path: Path, bad: str) -> None:
    """A line says why; the service continues with those before, and takes better ones later."""
    file = tmp_path / "server.properties"
    good = f"log.dirs={tmp_path / 'a'}\n"
    file.write_text(good, "utf-8")
    port = free_port()
    with service("--config", file, "--http", port) as process:
        file.write_text(good + bad, "utf-8")
        process.send_signal(signal.SIGHUP)
        read_until(process, "settings-not-taken")
        [reason] = health(port)["reasons"]
        file.write_text(good + "log.retention.ms=6\n", "utf-8")
        process.send_signal(signal.SIGHUP)
        read_until(process, "settings-taken")
        status = health(port)["status"]
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)

    assert reason.startswith("the last reload of settings was refused")
    assert (status, code) == ("ready", 0)


def test_levels_of_log_lines_change_while_it_runs(tmp_path: Path) -> None:
    """SIGHUP reads them again with the other settings."""
    file = tmp_path / "server.properties"
    settings = f"log.dirs={tmp_path / 'a'}\nlog.flush.scheduler.interval.ms=50\n"
    fast = ("-o", "log.initial.task.delay.ms=0")
    file.write_text(settings, "utf-8")
    with service("--config", file, *fast, "--log-level", "tidelog.cleaner=ERROR") as process:
        file.write_text(f"{settings}tidelog.log.levels=kafka.log.LogManager=DEBUG\n", "utf-8")
        process.send_signal(signal.SIGHUP)
        line = read_until(process, "Checking for dirty logs to flush")

    assert "level=DEBUG" in line


def test_a_damaged_log_keeps_no_other_from_being_cleaned(tmp_path: Path) -> None:
    """The metrics count it, the status says with what error; once it is mended it is cleaned.

    A service that starts again knows of the failure and tries again at once.
    """
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    with tidelog.open(tmp_path) as logs:
        for topic in ("damaged", "healthy"):
            logs.create_topic(topic, 1, {**settings, "internal.segment.bytes": "300"})
            for number in range(20):
                logs.append(topic, b"value %d" % number, key=b"same")
    path = tmp_path / "damaged-0" / f"{0:020}.log"
    whole = path.read_bytes()
    torn = bytearray(whole)
    torn[70] ^= 1
    path.write_bytes(torn)
    fast = ["-o", "log.cleaner.backoff.ms=100", "-o", "tidelog.metrics.interval.ms=100"]
    fast += ["-o", "log.cleaner.dedupe.buffer.size=4000000"]

    with service("-d", tmp_path, *fast, until=LOADED) as process:
        said: list[str] = []
        while not {"cleaning-failed", "log-cleaned"} <= {
            word for line in said for word in line.split()
        }:
            said.append(read_until(process, "logger=tidelog.cleaner."))
        shown = ""
        while f'uncleanable_partitions_count{{log_directory="{tmp_path}"}} 1' not in shown:
            shown = tidelog_command("metrics", "-d", tmp_path).stdout
        process.terminate()
        process.wait(120)
    status = tidelog_command("cleaner", "status", "-d", tmp_path)
    path.write_bytes(whole)
    with service("-d", tmp_path, *fast, until=LOADED) as process:
        read_until(process, "log-cleaned")
        process.terminate()
        process.wait(120)
    mended = tidelog_command("cleaner", "status", "-d", tmp_path)

    failed = [line for line in said if "cleaning-failed" in line]
    assert "topic=damaged" in failed[0]
    assert "dead_thread_count 0" in shown
    assert (status.returncode, mended.returncode) == (1, 0)
    assert "failed 1 times, last with CorruptMessage" in status.stdout
    with tidelog.open(tmp_path) as logs:
        for topic in ("damaged", "healthy"):
            assert len(list(logs.read(topic))) < 20


def test_several_cleaners_share_the_logs(tmp_path: Path) -> None:
    """Three clean six logs at the same time, each log once, and all keep their last values."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    topics = [f"t{number}" for number in range(6)]
    with tidelog.open(tmp_path) as logs:
        for topic in topics:
            logs.create_topic(topic, 1, {**settings, "internal.segment.bytes": "2000"})
            for number in range(60):
                logs.append(topic, b"%d" % number, key=b"%d" % (number % 3))
    given = ("-o", "log.cleaner.threads=3", "-o", "log.cleaner.dedupe.buffer.size=9000000")
    with service("-d", tmp_path, *given, until=LOADED) as process:
        lines = [read_until(process, "log-cleaned") for _ in topics]
        process.terminate()
        process.wait(120)

    assert sorted(topic for topic in topics for line in lines if f"/{topic}-0 " in line) == topics
    with tidelog.open(tmp_path) as logs:
        for topic in topics:
            last = {record.key: record.value for record in logs.read(topic)}
            assert last == {b"0": b"57", b"1": b"58", b"2": b"59"}
