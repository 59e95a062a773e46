"""How often a commit syncs: by its logs, rolls, adopted files and new partitions, not its records.

The numbers are those that docs/architecture.md states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.manager_home import ManagerHome

from tidelog.config.log_config import LogConfig
from tidelog.embedded.logs import Logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.embedded.transaction import Transaction
    from tidelog.testing.crash_files import CrashFileSystem

SEGMENT_BYTES: Final = 1_024
KEEP: Final = LogConfig(
    segment_index_bytes=1200, internal_segment_bytes=SEGMENT_BYTES, retention_ms=-1
)

A_TASK: Final = 1
A_COMMIT: Final = 7
"""Journal, finished table and checkpoint of high watermarks; the directory before and after."""
A_LOG: Final = 1
A_ROLL: Final = 1
"""The name of the new segment."""
INDEXES: Final = 2
"""Of a segment that a roll ends, where all records before it are flushed already."""
AN_ADOPTED_FILE: Final = 4
"""The file, both directories, and the producer snapshot after it."""
FIRST_SNAPSHOT: Final = 1
"""At the base of the first file that a log adopts."""
NEW_TOPICS: Final = 4
"""The catalogue and the new lines of high watermarks, each with the directory, for all of them."""
A_TOPIC: Final = 1
"""The names of its partitions."""
A_PARTITION: Final = 2
"""Its topic id and its directory."""
A_FIRST_RECORD: Final = 3
"""The leader epoch and the name of the first segment."""
A_FLUSH: Final = 4
"""After a roll, in background in a service: snapshot, indexes and directory."""


def one_each(count: int) -> Callable[[Transaction], None]:
    """Write a small record to each of as many partitions."""

    def write(txn: Transaction) -> None:
        for number in range(count):
            txn.append("t", b"small", partition=number)

    return write


def large(count: int) -> Callable[[Transaction], None]:
    """Write as many files that t-0 adopts."""

    def write(txn: Transaction) -> None:
        for _ in range(count):
            txn.append("t", b"v" * 600, partition=0)

    return write


def into_full_log(txn: Transaction) -> None:
    """Write a small record to a partition whose segment has no room."""
    txn.append("t", b"small" * 4, partition=3)


def new_topic(txn: Transaction) -> None:
    """Write to one of two new partitions."""
    txn.create_topic("new", 2)
    txn.append("new", b"a", partition=0)


def three_topics(txn: Transaction) -> None:
    """Write to each of three new topics."""
    for name in ("new1", "new2", "new3"):
        txn.create_topic(name)
        txn.append(name, b"a")


A_NEW_LOG: Final = A_PARTITION + A_FIRST_RECORD + A_LOG
CASES = [
    (one_each(1), A_TASK + A_LOG, 0),
    (one_each(3), A_TASK + 3 * A_LOG, 0),
    (large(1), A_TASK + AN_ADOPTED_FILE + FIRST_SNAPSHOT, 1),
    (large(4), 4 * A_TASK + 4 * AN_ADOPTED_FILE + FIRST_SNAPSHOT, 4),
    (into_full_log, A_TASK + A_LOG + A_ROLL, 1),
    (new_topic, A_TASK + NEW_TOPICS + A_TOPIC + A_NEW_LOG + A_PARTITION, 0),
    (three_topics, A_TASK + NEW_TOPICS + 3 * (A_TOPIC + A_NEW_LOG), 0),
]


def prepare(logs: Logs) -> None:
    """Make partitions with durable records, the last of them full."""
    logs.create_topic("t", 4)
    for number in range(4):
        logs.partition("t", number).append_records([record(b"x" * (880 if number == 3 else 1))])
    with logs.transaction("before") as txn:
        one_each(3)(txn)
    logs.flush()


def count(fs: CrashFileSystem, act: Callable[[], object]) -> int:
    """Return how often a call makes bytes or names durable."""
    traced = fs.trace()
    act()
    return len([one for one in traced if one.name in {"sync", "sync_directory"}])


def write(logs: Logs, fill: Callable[[Transaction], None]) -> None:
    """Commit a transaction."""
    with logs.transaction("x") as txn:
        fill(txn)


@pytest.mark.parametrize(("fill", "more", "rolls"), CASES)
def test_the_syncs_of_a_commit_of_a_service_are_counted(
    fill: Callable[[Transaction], None], more: int, rolls: int
) -> None:
    """What a roll left behind is flushed in background."""
    home = ManagerHome("/data")
    with home.open(log_defaults=KEEP) as manager:
        logs = Logs(manager)
        prepare(logs)
        home.clock.advance(0)

        sealed = INDEXES if rolls else 0
        assert count(home.fs, lambda: write(logs, fill)) == A_COMMIT + more + sealed
        assert count(home.fs, lambda: home.clock.advance(0)) <= rolls * A_FLUSH


@pytest.mark.parametrize(("fill", "more", "rolls"), CASES)
def test_the_syncs_of_a_commit_of_a_short_lived_writer_are_counted(
    fill: Callable[[Transaction], None], more: int, rolls: int
) -> None:
    """The first change of the process also removes the mark of a clean shutdown; see ``close``."""
    home = DataHome()
    with home.open(defaults=KEEP) as logs:
        prepare(logs)
    logs = home.open(defaults=KEEP)
    found = count(home.fs, lambda: write(logs, fill))

    assert A_COMMIT + more + 1 <= found <= A_COMMIT + more + 1 + rolls * A_FLUSH


def test_the_syncs_of_a_close_are_counted() -> None:
    """Records are durable already: recovery points, the mark, and five for each log in use."""
    for logs_in_use in (1, 3):
        home = DataHome()
        with home.open(defaults=KEEP) as logs:
            prepare(logs)
        logs = home.open(defaults=KEEP)
        write(logs, one_each(logs_in_use))

        assert count(home.fs, logs.close) <= 4 + 5 * logs_in_use


def test_the_syncs_of_a_commit_do_not_grow_with_its_records() -> None:
    """Nor does a file that needs no sync get one."""
    home = DataHome()
    with home.open(defaults=KEEP) as logs:
        prepare(logs)

        def many(txn: Transaction) -> None:
            for _ in range(30):
                txn.append("t", b"", partition=0)
                txn.append("t", b"", partition=1)

        few = count(home.fs, lambda: write(logs, one_each(2)))
        with logs.transaction("y") as txn:
            many(txn)
            assert count(home.fs, txn.commit) <= few + 2 * (A_ROLL + A_FLUSH) + 2 * AN_ADOPTED_FILE
