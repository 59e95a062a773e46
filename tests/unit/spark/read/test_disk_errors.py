"""An error of the disk at any operation of Spark's reader, or of a read-only directory.

A caller has to catch ``tidelog.errors`` only, whichever operation fails and with what.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.machinery.directory_home import DataHome, record

from tidelog.errors import TidelogError
from tidelog.readonly.log_follower import LogFollower
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.spark.options.source_options import ReadOptions
from tidelog.spark.read.live_batches import RangeReader
from tidelog.spark.read.read_plan import plan
from tidelog.spark.read.stream_plan import StreamPlan
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Enumerated

    from tidelog.testing.crash_files import CrashFileSystem

CODES: Final = (errno.EIO, errno.ENOENT, errno.EMFILE, errno.EACCES, errno.ESTALE, errno.ENOTDIR)
BY_NAME: Final = frozenset({"open", "read", "list", "stat"})
"""Operations on a name, which may be gone."""


@pytest.fixture(scope="module")
def home() -> DataHome:
    """Two topics, one of two partitions, with records in several segments."""
    home = DataHome()
    with home.open() as logs:
        for topic, count in (("t", 2), ("u", 1)):
            logs.create_topic(topic, count, {"internal.segment.bytes": "200"})
            for number in range(count):
                for at in range(4):
                    _, key, value, headers = record(b"v" * 60, b"k")
                    partition = logs.partition(topic, number)
                    partition.append_records([(1000 + at, key, value, headers)])
    return home


def options(**more: Any) -> dict[str, Any]:
    return {"path": "/data", "subscribePattern": ".", "startingOffsets": "earliest", **more}


def batch_read(fs: CrashFileSystem) -> int:
    """Plan a read of everything, and read it as the tasks do."""
    parsed = ReadOptions.parse(options())
    tasks, reader = plan(fs, parsed, 2), RangeReader(fs, parsed)
    return sum(len(piece.batches) for task in tasks for part in task for piece in reader.read(part))


def batch_read_by_time(fs: CrashFileSystem) -> int:
    """Plan a read between two times, of committed records."""
    more = {"startingTimestamp": "1001", "endingTimestamp": "1003"}
    parsed = ReadOptions.parse(
        {"path": "/data", "subscribe": "t", "kafka.isolation.level": "read_committed", **more}
    )
    tasks, reader = plan(fs, parsed, 2), RangeReader(fs, parsed)
    return sum(len(piece.batches) for task in tasks for part in task for piece in reader.read(part))


def stream(fs: CrashFileSystem) -> int:
    """Plan two batches of a stream, the second of a query that was restarted, and read one."""
    parsed = ReadOptions.parse_stream(options())
    first = StreamPlan(fs, parsed, clock=ManualClock(), cores=2)
    start = first.initial()
    end = first.latest(start)
    first.report()
    again = StreamPlan(fs, parsed, clock=ManualClock(), cores=2)
    tasks, reader = again.tasks(start, end), RangeReader(fs, parsed)
    again.latest(end)
    return sum(len(piece.batches) for task in tasks for part in task for piece in reader.read(part))


def directory(fs: CrashFileSystem) -> int:
    """Look at a whole directory: topics, settings, ids, offsets, times and records."""
    found = open_directory_read_only("/data", fs=fs)
    for topic in found.topics.values():
        assert topic.config is not None
    assert found.missing == ()
    for key in found.partitions:
        found.topic_id(*key)
    count = 0
    for log in found.logs():
        log.offset_at(1002)
        assert log.last_stable_offset() <= log.end_offset()
        assert log.find_holes() == []
        log.splits(0, log.end_offset(), 100)
        count += sum(1 for _ in log.records(since_ms=1001, committed=True))
        count += log.count_records().records
    return count


def follow(fs: CrashFileSystem) -> int:
    """Read what is there, look for more twice, and read everything again."""
    follower = LogFollower("/data/t-0", fs=fs, committed=True)
    count = sum(len(found) for _ in range(3) for found in follower.columns())
    again = LogFollower("/data/t-0", fs=fs)
    return count + sum(len(found) for found in again.columns())


LOOKS: Final[dict[str, Callable[[CrashFileSystem], int]]] = {
    look.__name__: look for look in (batch_read, batch_read_by_time, stream, directory, follow)
}


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=errno.errorcode[code], marks=[pytest.mark.slow] * (number > 1))
        for number, code in enumerate(CODES)
    ],
)
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_an_error_of_the_disk_is_one_of_tidelogs(
    home: DataHome, name: str, code: int, step: int, enumerated: Enumerated
) -> None:
    """Whichever operation fails, in a quick run one of ``step``: an answer, or a typed error."""
    look, fs = LOOKS[name], home.fs
    fs.fail_at(1 << 40, OSError())  # the one of the test before is dropped
    traced = fs.trace()
    expected = look(fs)
    can_fail = BY_NAME if code == errno.ENOENT else BY_NAME | {"pread", "size"}
    chosen = [at for at, operation in enumerate(traced) if operation.name in can_fail][::step]
    failed = 0

    for at in chosen:
        fs.fail_at(at, OSError(code, os.strerror(code), "/data/file"))
        try:
            answer = look(fs)
        except TidelogError:
            failed += 1
        else:
            assert answer == expected or code == errno.ENOENT

    enumerated("operations", len(chosen), at_least=20 // step)
    assert failed > 0
