"""What a crash leaves here opens in Kafka 4.3.1, and what a crash leaves there opens here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome

import tidelog
from tidelog.codec.checkpoint_file import read_checkpoint, write_checkpoint
from tidelog.codec.compression import Codec
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from tests.compat.conftest import Consumed, Java, Kafka
    from tests.machinery.fields import ProducerFields

    from tidelog.log.log import Log
    from tidelog.records.builder import RecordFields

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(400)]

ISOLATIONS = ("read_uncommitted", "read_committed")
CODECS = [codec.kafka_name for codec in Codec]
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
FIRST_MS = 1_700_000_000_000
APPENDS = 1500
"""Appends that a writer makes known before it is killed."""

ENOUGH_BYTES = 150_000
"""Bytes of transactions after which a broker is killed."""

DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = re.compile("isvalid: false|Found |Mismatch|Exception|ended with", re.IGNORECASE)

WRITER = """
import itertools, os, sys, tidelog
from tidelog import Codec
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
logs = tidelog.open(sys.argv[1])
def append(topic, number, guard=0, **fields):
    value = bytes([number & 255]) * (number % 700)
    records = [(1_700_000_000_000 + at, b"%d" % at, value, ()) for at in range(1 + number % 20)]
    log = logs.partition(topic, 0).log
    info = log.append_as_leader(build_batch(records, **fields), verification_guard=guard)
    os.write(1, b"%s %d\\n" % (topic.encode(), info.last_offset))
for number in itertools.count():
    for codec in Codec:
        append(codec.kafka_name, number, codec=codec)
    log = logs.partition("txn", 0).log
    epoch = number % 30_000
    guard = log.start_verification(5, 0, epoch, supports_epoch_bump=False)
    append("txn", number, guard, producer_id=5, producer_epoch=epoch, base_sequence=0,
           transactional=True, codec=Codec(number % 5))
    known = log.producers.last_entry(77)
    sequence = 0 if known is None else known.last_sequence + 1
    append("txn", number, producer_id=77, producer_epoch=0, base_sequence=sequence)
    log.append_as_leader(build_marker(producer_id=5, producer_epoch=epoch, coordinator_epoch=1,
                                      is_commit=number % 3 > 0, timestamp=1_700_000_000_000),
                         origin=AppendOrigin.COORDINATOR, transaction_version=1)
    if number % 37 == 0:
        for topic in ("txn", "zstd", "none"):
            logs.partition(topic, 0).log.roll()
    if number % 50 == 0:
        logs.partition("gzip", 0).log.flush()
"""


def read_here(directory: Path, isolation: str = "read_uncommitted") -> list[Consumed]:
    """Return the records of a partition as ``Kafka.consume`` does."""
    is_committed = isolation == "read_committed"
    with tidelog.open_read_only(directory) as log:
        end = None if is_committed else log.log_end_offset
        return [
            (each.offset, each.timestamp, each.key, each.value, each.headers)
            for each in log.records(None, end, committed=is_committed)
        ]


def read_all_here(data: Path, topics: Iterable[str]) -> dict[tuple[str, str], list[Consumed]]:
    """Return the records of partition 0 of each topic, at both isolations."""
    return {(t, kind): read_here(data / f"{t}-0", kind) for t in topics for kind in ISOLATIONS}


def read_all_there(kafka: Kafka, topics: Iterable[str]) -> dict[tuple[str, str], list[Consumed]]:
    """Return what Kafka's consumer gets of the same."""
    what = [(topic, kind) for topic in topics for kind in ISOLATIONS]
    return dict(zip(what, kafka.consume_each(*what), strict=True))


def recovered(data: Path, folder: Path) -> Path:
    """Open a copy of a data directory, and close it; return the copy."""
    copy = folder / "recovered"
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.sock"))
    with tidelog.open(copy):
        pass
    return copy


def served_as_recovered(
    kafka: Kafka, folder: Path, topics: Collection[str]
) -> tuple[Path, dict[tuple[str, str], list[Consumed]]]:
    """Recover a copy of the broker's directory here, and let the broker recover the directory.

    Returns the copy and what the broker serves: it is what is read here, before and afterwards.
    """
    ours = recovered(kafka.directory, folder)
    expected = read_all_here(ours, topics)
    with kafka.running():
        served = read_all_there(kafka, topics)
    assert served == expected
    assert served == read_all_here(kafka.directory, topics)
    return ours, served


def note_crash(kafka: Kafka, points: Mapping[tuple[str, int], int]) -> None:
    """Leave the directory as after a crash: with these recovery points, not marked as clean."""
    write_checkpoint(SYSTEM_FILES, str(kafka.directory / RECOVERY_POINTS), points)
    (kafka.directory / ".kafka_cleanshutdown").unlink()


def check_dump(java: Java, data: Path, topics: Iterable[str]) -> None:
    """Let Kafka's dump tool look at all logs and indexes; it complains of none."""
    for words, suffixes in (
        (["--deep-iteration"], {".log"}),
        (["--index-sanity-check"], {".index", ".timeindex"}),
        ([], {".snapshot", ".txnindex"}),
    ):
        paths = [
            str(path)
            for topic in topics
            for path in sorted((data / f"{topic}-0").iterdir())
            if path.suffix in suffixes
        ]
        printed = java.run(DUMP_TOOL, "--files", ",".join(paths), *words)
        assert not COMPLAINTS.search(printed), printed[-2000:]
        assert printed.count("Dumping ") == len(paths) > 0


def write_and_kill(data: Path) -> dict[str, int]:
    """Append to all topics in a process of its own; kill it; return the offsets it made known."""
    known: dict[str, int] = {}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(data)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            if number == APPENDS:
                os.kill(process.pid, signal.SIGKILL)
            if line.endswith(b"\n"):
                topic, offset = line.split()
                known[topic.decode()] = int(offset)
    assert process.returncode == -signal.SIGKILL
    return known


def test_a_broker_serves_what_a_killed_writer_left(
    java: Java, kafka: Kafka, tmp_path: Path
) -> None:
    """Every append that was acknowledged, of all codecs and transactions; its tool complains not.

    Before the broker comes, after we recovered a copy, and after the broker did, we read the same.
    """
    topics = [*CODECS, "txn"]
    with kafka.running():
        kafka.ask(*(f"create {topic} retention.ms=-1" for topic in topics))
    known = write_and_kill(kafka.directory)
    assert not (kafka.directory / ".kafka_cleanshutdown").exists()

    ours, served = served_as_recovered(kafka, tmp_path, topics)

    assert all(known[topic] <= served[topic, ISOLATIONS[0]][-1][0] for topic in topics)
    assert len(served["txn", ISOLATIONS[1]]) < len(served["txn", ISOLATIONS[0]])
    check_dump(java, ours, topics)


class TornHome(LogHome):
    """A log on a disk that loses, by seed, what was not synced."""

    def __init__(self, seed: int) -> None:
        self.directory = f"/data/torn{seed}-0"
        super().__init__(seed, internal_segment_bytes=3000, index_interval_bytes=400)


def append_some(log: Log, numbers: Iterable[int], home: LogHome) -> None:
    """Append batches of all codecs, and transactions that end one way or the other."""
    for number in numbers:
        records: list[RecordFields] = [
            (FIRST_MS + number, b"%d" % at, bytes(at * 9), ()) for at in range(number % 9)
        ]
        records.append((FIRST_MS, None, b"last", ()))
        log.append_as_leader(build_batch(records, codec=Codec(number % 5)))
        owner: ProducerFields = {"producer_id": 5, "producer_epoch": number}
        guard = log.start_verification(5, 0, number, supports_epoch_bump=False)
        data = build_batch(records, base_sequence=0, transactional=True, **owner)
        log.append_as_leader(data, verification_guard=guard)
        marker = build_marker(
            coordinator_epoch=1, is_commit=number % 2 == 0, timestamp=FIRST_MS, **owner
        )
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)
        home.clock.advance(0)


def leave_torn(home: LogHome, target: Path) -> int:
    """Cut the power under a log, put what is left in a folder; return the recovery point."""
    log = home.open()
    append_some(log, range(8), home)
    log.flush()
    append_some(log, range(8, 14), home)
    recovery_point = log.recovery_point
    home.power_cut()
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for name in home.files():
        if name != "partition.metadata":
            (target / name).write_bytes(home.read(name))
    return recovery_point


def test_a_broker_recovers_what_a_power_cut_left(java: Java, kafka: Kafka, tmp_path: Path) -> None:
    """Torn in twelve ways, each log has in Kafka the records that it has here, and all flushed."""
    topics = [f"torn{seed}" for seed in range(12)]
    settings = "internal.segment.bytes=3000,index.interval.bytes=400,retention.ms=-1"
    with kafka.running():
        kafka.ask(*(f"create {topic} {settings}" for topic in topics))
    points = read_checkpoint(SYSTEM_FILES, str(kafka.directory / RECOVERY_POINTS))
    for seed, topic in enumerate(topics):
        points[topic, 0] = leave_torn(TornHome(seed), kafka.directory / f"{topic}-0")
    note_crash(kafka, points)

    ours, served = served_as_recovered(kafka, tmp_path, topics)

    for topic in topics:
        assert served[topic, ISOLATIONS[0]][-1][0] >= points[topic, 0] - 2
    assert len({len(served[topic, ISOLATIONS[0]]) for topic in topics}) > 1
    check_dump(java, ours, topics)


def test_a_killed_brokers_directory_opens_here(kafka: Kafka, tmp_path: Path) -> None:
    """Killed in the middle of producing, every codec and transactions; the same records in both.

    A transaction whose end was decided before the kill gets its marker when the broker is back:
    here it is still open.
    """
    topics = ["first", "second", "txn"]
    target = kafka.directory / "txn-0"
    settings = "internal.segment.bytes=100000,retention.ms=-1,segment.ms=9000000000000"
    with ExitStack() as clients, kafka.running(is_killed=True):
        kafka.ask(*(f"create {topic} {settings}" for topic in topics))
        printed = clients.enter_context(kafka.asked("produce-for 200 first,second txn"))
        while sum(path.stat().st_size for path in target.glob("*.log")) < ENOUGH_BYTES:
            assert printed.reader.is_alive()
    assert not (kafka.directory / ".kafka_cleanshutdown").exists()
    ours = recovered(kafka.directory, tmp_path)
    expected = read_all_here(ours, topics)

    with kafka.running():
        served = read_all_there(kafka, topics)

    committed = expected.pop(("txn", ISOLATIONS[1]))
    committed_there = served.pop(("txn", ISOLATIONS[1]))
    assert served == expected
    assert committed_there[: len(committed)] == committed
    with tidelog.open_read_only(ours / "txn-0") as log:
        stable = log.last_stable_offset()
    everything = served["txn", ISOLATIONS[0]]
    decided_later = committed_there[len(committed) :]
    assert all(each[0] >= stable and each in everything for each in decided_later)
    assert 0 < len(committed) <= len(everything)
    assert len(list(target.glob("*.log"))) > 1
