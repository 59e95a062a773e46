"""Many small batches of a stream: few segments, a small table, and as many syncs as documented.

The number of syncs is that of docs/architecture.md.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from tests.machinery.directory_home import DataHome
from tests.machinery.manager_home import ManagerHome

from tidelog.config.log_config import LogConfig
from tidelog.embedded.logs import Logs
from tidelog.records.builder import build_batch
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction
from tidelog.staging.finished import FINISHED_FILE
from tidelog.staging.journal_names import list_journals
from tidelog.staging.staged_file import list_staged
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from tests.conftest import Enumerated

    from tidelog.testing.crash_files import CrashFileSystem

ROWS: Final = 50
SEGMENT_BYTES: Final = 1 << 20
DEFAULTS: Final = LogConfig(segment_index_bytes=65536, internal_segment_bytes=SEGMENT_BYTES)

A_TASK: Final = 1
A_COMMIT: Final = 7
A_PROCESS: Final = 5
"""Of a process that commits and ends: one before its first change, four of the directory."""
A_LOG: Final = 1
A_LOG_CLOSED: Final = 5
A_ROLL: Final = 5
"""The name of the new segment, and the flush of the one before."""


class Written(NamedTuple):
    """What the batches of a stream have left, and how often the disk was made to sync."""

    most_syncs: int
    segments: int
    bytes: int
    table_bytes: int


def write_batch(logs: Logs, fs: CrashFileSystem, number: int, partitions: int) -> None:
    """Stage and commit a batch of a stream, as a task and a driver do."""
    batch, rng = StreamBatch("q", number), Random(number)
    bundle = BundleWriter(LocalFolder(fs, "/data"), batch.txn, rng=rng)
    for partition in range(min(partitions, ROWS)):
        rows = range(partition, ROWS, partitions)
        records = [(number, None, b"row %8d of batch %8d" % (row, number), ()) for row in rows]
        target = (partition + number) % partitions
        bundle.append("t", target, build_batch(records), segment_bytes=SEGMENT_BYTES)
    topic = logs.topic("t")
    runs, ids = tuple(bundle.finish()), {"t": topic.topic_id}
    logs.commit_transaction(Transaction(batch.txn, True, runs, (), ids, batch), "/data")


def syncs(fs: CrashFileSystem, begun: int) -> int:
    """Return how often the disk was made to sync since its operation ``begun``."""
    return sum(one.name in {"sync", "sync_directory"} for one in fs.operations[begun:])


def left(fs: CrashFileSystem, most_syncs: int, partitions: int) -> Written:
    """Return what there is now."""
    logs = [
        fs.stat(f"/data/t-{partition}/{name}").size_bytes
        for partition in range(partitions)
        for name in fs.list(f"/data/t-{partition}")
        if name.endswith(".log")
    ]
    assert list_journals(fs, "/data") == list_staged(fs, "/data") == []
    table_bytes = fs.stat(f"/data/{FINISHED_FILE}").size_bytes
    return Written(most_syncs, len(logs), sum(logs), table_bytes)


def by_service(batches: int, partitions: int) -> Written:
    """Let a service commit all batches."""
    home = ManagerHome("/data")
    with home.open(log_defaults=DEFAULTS) as manager:
        logs, most = Logs(manager), 0
        logs.create_topic("t", partitions)
        for number in range(batches):
            begun = len(home.fs.operations)
            write_batch(logs, home.fs, number, partitions)
            # The first batch of a log also writes its leader epoch and names its segment.
            most = max(most, syncs(home.fs, begun)) if number >= partitions else most
    return left(home.fs, most, partitions)


def by_short_lived_writers(batches: int, partitions: int) -> Written:
    """Commit each batch in a process of its own."""
    home, most = DataHome(), 0
    with home.open(defaults=DEFAULTS) as logs:
        logs.create_topic("t", partitions)
    for number in range(batches):
        begun = len(home.fs.operations)
        with home.open(defaults=DEFAULTS) as logs:
            write_batch(logs, home.fs, number, partitions)
        most = max(most, syncs(home.fs, begun)) if number >= partitions else most
    return left(home.fs, most, partitions)


def check(found: Written, partitions: int, a_process: int, enumerated: Enumerated) -> None:
    """Compare what was counted with what is documented; print it."""
    touched = min(partitions, ROWS)
    a_log = A_LOG + (A_LOG_CLOSED if a_process else 0)
    needed = found.bytes // SEGMENT_BYTES + partitions
    who = f"{'short-lived writers' if a_process else 'a service'}, {partitions} partitions"
    enumerated(f"segments: {who}", found.segments, at_least=partitions)
    enumerated(f"syncs of a batch at most: {who}", found.most_syncs, at_least=touched)
    enumerated(f"bytes of the finished table: {who}", found.table_bytes, at_least=1)
    assert found.segments <= needed
    assert found.most_syncs <= A_TASK + A_COMMIT + a_process + touched * (a_log + A_ROLL)
    if found.segments == partitions:  # no log has rolled
        assert found.most_syncs <= A_TASK + A_COMMIT + a_process + touched * a_log
    assert found.table_bytes <= 1_000


@pytest.mark.parametrize(("partitions", "batches"), [(4, 20), (10, 20)])
def test_small_batches_of_a_stream_leave_few_segments(
    partitions: int, batches: int, enumerated: Enumerated
) -> None:
    """One of each partition, not one of each batch; a line of the stream in the table."""
    check(by_service(batches, partitions), partitions, 0, enumerated)
    check(by_short_lived_writers(batches, partitions), partitions, A_PROCESS, enumerated)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("partitions", "batches"), [(4, 2000), (100, 1000)])
def test_thousands_of_batches_that_a_service_commits_leave_few_segments(
    partitions: int, batches: int, enumerated: Enumerated
) -> None:
    """The same for a stream that runs for long."""
    check(by_service(batches, partitions), partitions, 0, enumerated)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("partitions", "batches"), [(4, 1000), (100, 200)])
def test_hundreds_of_batches_of_short_lived_writers_leave_few_segments(
    partitions: int, batches: int, enumerated: Enumerated
) -> None:
    """The same where each batch has a process of its own."""
    found = by_short_lived_writers(batches, partitions)
    check(found, partitions, A_PROCESS, enumerated)
