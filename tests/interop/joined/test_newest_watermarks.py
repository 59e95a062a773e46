"""What a process has acknowledged is read from its files at once, by programs that do not join it.

It checkpoints its high watermarks every five seconds; a reader asks for them before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.arrow.read_topic import read as read_table
from tidelog.cli.main import main
from tidelog.env import unix_sockets
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.unix_sockets import POINTER, is_listened_in, ring_in
from tidelog.readonly import checkpoints
from tidelog.service.log_service import LogService
from tidelog.spark.options.source_options import ReadOptions, TopicChoice
from tidelog.spark.options.table_options import TableOptions
from tidelog.spark.read.read_plan import plan
from tidelog.spark.read.stream_plan import StreamPlan
from tidelog.spark.read.table_reader import TableReader, table_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidelog import JoinedLogs

    Look = Callable[[], int]


def python(data: Path, _capsys: object) -> Look:
    """Read with what was opened before."""
    logs = tidelog.open_directory_read_only(data)
    return lambda: len([*logs.read("t")])


def offsets(data: Path, _capsys: object) -> Look:
    """Ask for the high watermark."""
    return lambda: tidelog.open_directory_read_only(data).offsets("t", 0).high_watermark


def follower(data: Path, _capsys: object) -> Look:
    """Follow a partition."""
    found = tidelog.open_directory_read_only(data).follower("t", 0)
    seen: list[tidelog.Record] = []

    def look() -> int:
        seen.extend(record for columns in found.columns() for record in columns.records())
        return len(seen)

    return look


def topic_follower(data: Path, _capsys: object) -> Look:
    """Follow a topic."""
    found = tidelog.open_directory_read_only(data).topic_follower("t")
    seen: list[tidelog.Record] = []

    def look() -> int:
        seen.extend(record for _, columns in found.columns() for record in columns.records())
        return len(seen)

    return look


def arrow(data: Path, _capsys: object) -> Look:
    """Read a table."""
    return lambda: read_table(data, "t").read_all().num_rows


def cat(data: Path, capsys: pytest.CaptureFixture[str]) -> Look:
    """Print the records."""

    def look() -> int:
        assert main(["cat", "t", "-d", str(data)]) == 0
        return len(capsys.readouterr().out.splitlines())

    return look


def cat_follow(data: Path, _capsys: object) -> Look:
    """Print what comes."""
    from tidelog.cli.cat.follow import follow
    from tidelog.cli.partition_choice import Place

    seen: list[int] = []

    def print_from(_: Place, log: tidelog.ReadOnlyLog, start: int | None) -> int:
        seen.extend(record.offset for record in log.records(start or 0, log.high_watermark))
        return log.high_watermark

    rounds = follow([Place("t", 0, str(data / "t-0"))], print_from, wait_ms=lambda _: None)

    def look() -> int:
        next(rounds)
        return len(seen)

    return look


def groups(data: Path, capsys: pytest.CaptureFixture[str]) -> Look:
    """Print the lag of a group that has read nothing."""

    def look() -> int:
        assert main(["groups", "-d", str(data), "--json"]) == 0
        return sum(json.loads(line).get("lag", 0) for line in capsys.readouterr().out.splitlines())

    return look


def batch(data: Path, _capsys: object) -> Look:
    """Plan a read of Spark's."""
    options = ReadOptions((str(data),), TopicChoice(topics=("t",)))
    return lambda: sum(one.offsets for task in plan(SYSTEM_FILES, options, 1) for one in task)


def stream(data: Path, _capsys: object) -> Look:
    """Plan a stream of Spark's."""
    options = ReadOptions((str(data),), TopicChoice(topics=("t",)))
    planned = StreamPlan(SYSTEM_FILES, options, clock=SYSTEM_CLOCK, cores=1)
    return lambda: int(planned.latest(None)["t"]["0"])


def spark_table(data: Path, _capsys: object) -> Look:
    """Query the lag of a group that has read nothing with Spark."""
    options = TableOptions((str(data),), "groups", None, 0)
    reader = TableReader(options, table_columns("groups"))

    def look() -> int:
        found = [rows for part in reader.partitions() for rows in reader.read(part)]
        return sum(lag for rows in found for lag in rows.column("lag").to_pylist())

    return look


def mirror(data: Path, _capsys: object) -> Look:
    """Copy what has come since."""
    target = data.parent / f"{data.name}-mirror"
    total: list[int] = []

    def look() -> int:
        found = tidelog.mirror(data, target, topics=["t"])
        total.extend(one.end_offset - one.start_offset for one in found)
        return sum(total)

    return look


READERS = (
    *(python, offsets, follower, topic_follower, arrow, cat, cat_follow, groups),
    *(batch, stream, spark_table, mirror),
)


@pytest.fixture(params=["opened", "served"])
def appends(request: pytest.FixtureRequest, data: Path) -> Iterator[Callable[[bytes], object]]:
    """What appends to a topic, by a program that has it open, or through a broker."""
    if request.param == "opened":
        with tidelog.open(data) as logs:
            logs.create_topic("t")
            commit_position(logs)
            yield lambda value: logs.append("t", value)
    else:
        request.getfixturevalue("broker")
        with tidelog.join(data) as joined:
            joined.create_topic("t")
            commit_position(joined)
            yield lambda value: joined.append("t", value)


def commit_position(logs: tidelog.Logs | JoinedLogs) -> None:
    """Commit that a group has read nothing."""
    with logs.reader("t", group="g") as reader:
        reader.seek("t", 0, 0)
        reader.commit()


def one_record(data: Path) -> None:
    """Leave a directory with one record, which nobody holds."""
    with tidelog.open(data) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")


@pytest.mark.parametrize("reader", READERS)
def test_a_record_is_seen_once_its_append_has_returned(
    reader: Callable[[Path, pytest.CaptureFixture[str]], Look],
    appends: Callable[[bytes], object],
    data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each time, not only when a checkpoint happens to be due."""
    look = reader(data, capsys)
    seen = [look()]
    for number in range(3):
        appends(b"%d" % number)
        seen.append(look())
    assert seen == [0, 1, 2, 3]


def test_a_process_that_hangs_does_not_stop_its_readers(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go by what its files say."""
    one_record(data)
    monkeypatch.setattr(checkpoints, "_PATIENCE_MS", 50)
    command = [sys.executable, "-m", "tidelog", "run", "-d", str(data)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            while not is_listened_in(os.fspath(data)):
                assert process.stderr.readline()
            process.send_signal(signal.SIGSTOP)
            assert len([*tidelog.open_directory_read_only(data).read("t")]) == 1
        finally:
            process.kill()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"/tmp/tidelog.\0.sock", b"/" * 9000])
def test_a_damaged_file_that_names_a_socket_stops_no_reader(data: Path, content: bytes) -> None:
    """Another program may have written it."""
    one_record(data)
    (data / POINTER).write_bytes(content)
    assert len([*tidelog.open_directory_read_only(data).read("t")]) == 1


def test_a_pipe_in_place_of_the_file_that_names_a_socket_stops_no_reader(data: Path) -> None:
    """To open one waits for who writes to it."""
    one_record(data)
    os.mkfifo(data / POINTER)
    # If it is opened after all, that must end, or the test would wait for ever.
    writer = os.open(data / POINTER, os.O_RDWR)
    try:
        os.write(writer, b"/" * 4096)
        assert len([*tidelog.open_directory_read_only(data).read("t")]) == 1
        os.set_blocking(writer, False)
        assert os.read(writer, 9000) == b"/" * 4096
    finally:
        os.close(writer)


def test_without_unix_sockets_files_are_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, of a directory whose holder was killed elsewhere."""
    one_record(data)
    (data / POINTER).write_bytes(b"/tmp/tidelog.0.sock")
    monkeypatch.setattr(unix_sockets, "_HAS_SOCKETS", False)
    monkeypatch.delattr(os, "getuid")
    assert len([*tidelog.open_directory_read_only(data).read("t")]) == 1


@pytest.mark.parametrize("opened", [True, False], ids=["opened", "served"])
def test_who_has_left_a_commit_does_not_wait_for_high_watermarks(
    data: Path, monkeypatch: pytest.MonkeyPatch, *, opened: bool
) -> None:
    """Beside readers that ask for them all the time, a commit would take several times as long."""
    waiting: list[Callable[[], None]] = []
    with tidelog.open(data) as logs:
        assert isinstance(logs.manager, LogService)
        monkeypatch.setattr(logs.manager.tasks._watermarks, "ask", waiting.append)
        if not opened:
            tidelog.join(data).close()
        assert ring_in(os.fspath(data), 10_000)
        assert not ring_in(os.fspath(data), 50, for_watermarks=True)
        for done in waiting:
            done()
