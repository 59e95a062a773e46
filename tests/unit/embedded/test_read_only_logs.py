"""The door for programs that only read: ``tidelog.open_directory_read_only``."""

from __future__ import annotations

import asyncio
import pickle
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.machinery.counted_lines import Lines
from tests.machinery.directory_home import DataHome, record

import tidelog
from tidelog.embedded.read_only_logs import ReadOnlyLogs, RecentLook
from tidelog.errors import (
    InvalidArgument,
    KafkaStorageError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tidelog.readonly.held_files import MAX_HELD_FILES
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tidelog.readonly.read_only_log import ReadOnlyLog


def test_topics_and_records_are_seen_beside_their_writer(tmp_path: Path) -> None:
    """What is flushed, and each call again; nothing is locked or changed."""
    with tidelog.open(tmp_path) as logs:
        view = tidelog.open_directory_read_only(tmp_path)
        assert dict(view.topics()) == {}
        logs.create_topic("t", 2)
        logs.append_all("t", [{"value": b"a", "timestamp": 10}, {"value": b"b", "timestamp": 20}])

        assert view.topic("t").partitions == (0, 1)
        assert [found.value for found in view.read("t")] == [b"a", b"b"]
        assert view.offsets("t", 0) == (0, 2, 2, 2)
        at = view.offset_at("t", 0, 15)
        assert at is not None
        assert at.offset == 1
        assert view.count_records("t").records == 2
        with view.open("t", 0) as log:
            assert log.log_end_offset == 2


def test_a_with_around_what_only_reads_leaves_it_as_it_was(tmp_path: Path) -> None:
    """A program closes it as whatever else it opens; there is nothing that stays open."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append_all("t", [b"a"])

    async def read() -> list[bytes | None]:
        async with tidelog.AsyncReadOnlyLogs(view) as tasks:
            return [record.value async for record in tasks.read("t")]

    with tidelog.open_directory_read_only(tmp_path) as view:
        first = [found.value for found in view.read("t")]
    view.close()

    assert first == asyncio.run(read()) == [found.value for found in view.read("t")] == [b"a"]


def test_a_topic_goes_to_another_process_and_what_is_open_does_not(tmp_path: Path) -> None:
    """As what a writer returns; the error names what to pass instead."""
    with tidelog.open(tmp_path / "d") as logs:
        logs.create_topic("t", config={"retention.ms": 5})
    properties = tmp_path / "server.properties"
    properties.write_text("log.retention.bytes=7\n")
    (tmp_path / "k" / "kafka-0").mkdir(parents=True)
    (tmp_path / "k" / "kafka-0" / f"{0:020}.log").touch()
    view = tidelog.open_directory_read_only(tmp_path / "d")
    of_kafka = tidelog.open_directory_read_only(tmp_path / "k", server_properties=properties)

    for topic in (view.topic("t"), of_kafka.topic("kafka")):
        there = pickle.loads(pickle.dumps(topic))
        assert (there, there.given, there._drawing) == (topic, topic.given, None)
    assert there.given["retention.bytes"].value == "7"
    with view.open("t", 0) as log:
        for one in (view, log):
            with pytest.raises(InvalidArgument, match="pass the path of the data directory"):
                pickle.dumps(one)


@pytest.mark.parametrize("name", ["nowhere", "../d/t", "a\0b", "\ud800"], ids=repr)
def test_a_topic_that_no_directory_can_be_named_for_is_unknown(tmp_path: Path, name: str) -> None:
    """As any other that is not there."""
    with tidelog.open(tmp_path / "d") as logs:
        logs.create_topic("t")
    view = tidelog.open_directory_read_only(tmp_path / "d")

    for ask in (view.open, view.offsets, partial(view.offset_at, timestamp=0)):
        with pytest.raises(UnknownTopicOrPartition):
            ask(name, 0)


def test_what_is_asked_all_the_time_is_looked_up_again() -> None:
    """Only a look extends the time in which it counts as recent, and by ten times its own."""
    clock, opened = ManualClock(), []

    class Directory:
        """A directory whose look takes 100 ms, and a question about what is known 1 ms."""

        is_known = False

        def look(self, _topic: str) -> bool:
            """Look, the first time."""
            clock.advance(1 if self.is_known else 100)
            was_known, self.is_known = self.is_known, True
            return not was_known

    def open_now() -> Directory:
        opened.append(clock.monotonic_ns())
        return Directory()

    recent = RecentLook(open_now, clock, 200_000_000)
    for _ in range(2100):
        recent("t")

    assert [at // 1_000_000 - opened[0] // 1_000_000 for at in opened] == [0, 1101, 2202]


class ListedFiles(CrashFileSystem):
    """Counts how often the data directory is listed; ``slowly`` is called each time."""

    listings = 0
    slowly: Callable[[], None] | None = None

    def list(self, directory: str) -> list[str]:
        """Count, and list."""
        self.listings += directory == "/data"
        if self.slowly is not None and directory == "/data":
            self.slowly()
        return super().list(directory)


def test_all_partitions_of_a_topic_take_one_look_at_the_directory() -> None:
    """Listing all of them for each takes time with the square of their number.

    A read that lasts looks again, as partitions may be moved or deleted meanwhile.
    """
    files, clock, count = ListedFiles(), ManualClock(), 30
    with tidelog.open("/data", files=files, clock=clock) as logs:
        logs.create_topic("t", count)
        logs.append_all("t", [{"value": b"v", "partition": number} for number in range(count)])
    view = ReadOnlyLogs("/data", fs=files, clock=clock, wait_ms=clock.advance)

    def listed(read: Callable[[], Iterable[object]]) -> int:
        before = files.listings
        assert len(list(read())) == count
        return files.listings - before

    def slowly() -> Iterator[object]:
        for each in view.read("t"):
            clock.advance(1000)
            yield each

    assert listed(lambda: view.offsets("t")) < 5
    assert listed(lambda: view.read("t")) < 5
    assert view.count_records("t").records == count
    assert listed(slowly) >= count


def test_a_look_that_takes_long_is_not_taken_for_each_partition() -> None:
    """As one at thousands of partitions does; a look for each would square their number."""
    files, clock, count = ListedFiles(), ManualClock(), 30
    with tidelog.open("/data", files=files, clock=clock) as logs:
        logs.create_topic("t", count)
        logs.append_all("t", [{"value": b"v", "partition": number} for number in range(count)])
    view = ReadOnlyLogs("/data", fs=files, clock=clock, wait_ms=clock.advance)
    files.slowly = partial(clock.advance, 500)

    for read in (lambda: view.offsets("t"), lambda: list(view.read("t"))):
        before = files.listings
        assert len(read()) == count
        assert files.listings - before < 5


def test_each_partition_of_a_topic_costs_the_same() -> None:
    """The thirtieth no more than the tenth, counted in lines of code that run."""

    def lines(partitions: int) -> int:
        files, clock, counted = CrashFileSystem(), ManualClock(), Lines()
        with tidelog.open("/data", files=files, clock=clock) as logs:
            logs.create_topic("t", partitions)
        view = ReadOnlyLogs("/data", fs=files, clock=clock, wait_ms=clock.advance)
        with counted.counted():
            assert len(view.offsets("t")) == partitions
        return counted.count

    lines(1)  # some code runs once in a process
    few, more, most = map(lines, (10, 20, 30))
    assert most - more == pytest.approx(more - few, rel=0.1)


def test_what_was_moved_since_a_look_is_found_by_another() -> None:
    """Within one call, which looks at all partitions of a topic at once."""
    files, clock = ListedFiles(), ManualClock()
    with tidelog.open("/data", "/more", files=files, clock=clock) as logs:
        logs.create_topic("t", 2)
        logs.append_all("t", [{"value": b"%d" % number, "partition": number} for number in (0, 1)])
        other = {"/data": "/more", "/more": "/data"}[logs.partition("t", 1).log.data_dir]
        logs.flush()
        view = ReadOnlyLogs("/data", "/more", fs=files, clock=clock, wait_ms=clock.advance)
        records = view.read("t")
        assert next(records).value == b"0"
        logs.move_partition("t", 1, other)

        assert [each.value for each in records] == [b"1"]


def test_what_is_not_there_is_a_typed_error(tmp_path: Path) -> None:
    """Topics, partitions, offsets, words, and directories of a partition."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append_all("t", [b"a"])
    view = tidelog.open_directory_read_only(tmp_path)

    with pytest.raises(UnknownTopicOrPartition):
        view.topic("u")
    for topic, partition in (("u", 0), ("t", 1)):
        with pytest.raises(UnknownTopicOrPartition):
            list(view.read(topic, partition))
    with pytest.raises(OffsetOutOfRange):
        list(view.read("t", 0, 5))
    with pytest.raises(InvalidArgument, match="isolation 'all'"):
        list(view.read("t", isolation="all"))
    with pytest.raises(InvalidArgument, match="one partition: use open_read_only"):
        tidelog.open_directory_read_only(tmp_path / "t-0")
    with pytest.raises(InvalidArgument):
        tidelog.open_directory_read_only(tmp_path / "missing").topics()


def test_a_follower_does_not_go_on_in_a_topic_that_was_created_again() -> None:
    """The offset it has come to is one of other records."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        logs.append_all("t", [b"a"])
    follower = ReadOnlyLogs(
        home.path, fs=home.fs, clock=home.clock, wait_ms=home.clock.advance
    ).follower("t", 0)
    assert [one.value for found in follower.columns() for one in found.records()] == [b"a"]
    with home.open() as logs:
        logs.delete_topic("t")
        logs.create_topic("t")
        logs.append_all("t", [b"new0", b"new1"])

    with pytest.raises(KafkaStorageError, match="t-0 was deleted and created again"):
        list(follower.columns())


def test_a_read_does_not_go_on_in_a_topic_that_was_created_again() -> None:
    """The files that it has still to open have the names of the old ones, and the same offsets."""
    home, count = DataHome(), MAX_HELD_FILES + 6

    def fill(tag: bytes) -> None:
        with home.open() as logs:
            if tag == b"new":
                logs.delete_topic("t")
            logs.create_topic("t", config={"internal.segment.bytes": 140})
            for _ in range(count):
                logs.append("t", tag + bytes(60))

    fill(b"old")
    view = ReadOnlyLogs(home.path, fs=home.fs, clock=home.clock, wait_ms=home.clock.advance)
    log = view.open("t", 0)
    log.close()  # its files are opened again when they are read
    begun = [view.read("t"), view.read("t", isolation="read_committed")]
    assert [(next(read).value or b"")[:3] for read in begun] == [b"old"] * 2
    assert len(log.segments) == count
    fill(b"new")

    for values in (*((one.value for one in read) for read in begun), values_of(log)):
        found: list[bytes | None] = []
        with pytest.raises(KafkaStorageError, match="t-0 was deleted and created again"):
            found.extend(values)
        assert {(value or b"")[:3] for value in found} <= {b"old"}


def values_of(log: ReadOnlyLog) -> Iterator[bytes | None]:
    """Yield the values of all records."""
    return (one.value for one in log.records())


def test_a_reader_can_follow_what_another_process_writes() -> None:
    """It looks several times a second, and ends when nothing has come for as long as it said."""
    home = DataHome()
    later = [b"c", b"d"]
    waits: list[int] = []

    def append(value: bytes) -> None:
        with home.open() as logs:
            logs.partition("t", 0).append_records([record(value)])

    def wait_ms(ms: int) -> None:
        home.clock.advance(ms)
        waits.append(ms)
        if later and len(waits) % 2:
            append(later.pop(0))

    with home.open() as logs:
        logs.create_topic("t")
    append(b"a")
    append(b"b")
    view = ReadOnlyLogs(home.path, fs=home.fs, clock=home.clock, wait_ms=wait_ms)

    found = [one.value for one in view.follow("t", start_offset=1, idle_ms=1_000)]

    assert found == [b"b", b"c", b"d"]
    assert sum(waits[-5:]) == 1_000
