"""What a read of a topic covers: all of its partitions, unless one is named."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome

import tidelog
from tidelog.embedded.async_logs import AsyncLogs, AsyncReadOnlyLogs
from tidelog.embedded.read_only_logs import ReadOnlyLogs
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.machinery.fields import ProducerFields

VALUES = [b"a", b"b", b"c", b"d"]
"""By partition: one to each of the first two, two to the last."""


@pytest.fixture
def home() -> DataHome:
    """A data directory of a topic with three partitions, and one with a single partition."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 3)
        logs.create_topic("single")
        for value, partition in zip(VALUES, (0, 1, 2, 2), strict=True):
            logs.append("t", value, partition=partition)
            logs.append("single", value)
    return home


@pytest.fixture(params=["owner", "beside"])
def logs(home: DataHome, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The doors of a program that owns the directory, and of one that only reads."""
    if request.param == "owner":
        with home.open() as opened:
            yield opened
    else:
        yield beside(home)


def beside(home: DataHome) -> ReadOnlyLogs:
    """Return a door that only reads."""
    return ReadOnlyLogs(home.path, fs=home.fs, clock=home.clock, wait_ms=home.clock.advance)


def test_a_read_covers_all_partitions_unless_one_is_named(logs: Any) -> None:
    """In order of their numbers, and of offsets within each; a record says where it lies."""
    found = [(one.topic, one.partition, one.offset, one.value) for one in logs.read("t")]

    assert found == [
        *(("t", 0, 0, b"a"), ("t", 1, 0, b"b")),
        *(("t", 2, 0, b"c"), ("t", 2, 1, b"d")),
    ]
    assert [one.value for one in logs.follow("t", idle_ms=0)] == VALUES
    assert [one.value for one in logs.read("t", 2)] == VALUES[2:]
    assert [one.value for one in logs.follow("t", 2, idle_ms=0)] == VALUES[2:]


def test_offsets_and_counts_cover_all_partitions_unless_one_is_named(logs: Any) -> None:
    """Offsets by partition, counts in sum."""
    ends = {number: one.log_end_offset for number, one in logs.offsets("t").items()}

    assert ends == {0: 1, 1: 1, 2: 2}
    assert logs.offsets("t", 2) == (0, 2, 2, 2)
    assert (logs.count_records("t").records, logs.count_records("t", 2).records) == (4, 2)


def test_an_offset_without_its_partition_is_refused_where_there_are_several(logs: Any) -> None:
    """It belongs to one of them; a topic of one partition leaves no doubt."""
    for ask in (
        lambda: list(logs.read("t", start_offset=1)),
        lambda: list(logs.follow("t", start_offset=1, idle_ms=0)),
        lambda: logs.count_records("t", end_offset=1),
    ):
        with pytest.raises(InvalidArgument, match="3 partitions, and offset 1 belongs to one"):
            ask()
    assert [one.value for one in logs.read("single", start_offset=2)] == VALUES[2:]
    assert [one.value for one in logs.follow("single", start_offset=2, idle_ms=0)] == VALUES[2:]
    assert logs.count_records("single", start_offset=1).records == 3
    with pytest.raises(OffsetOutOfRange):
        list(logs.read("single", start_offset=5))


@pytest.mark.parametrize("word", ["0", 1.0, True, (0,)])
def test_what_is_no_partition_never_becomes_a_name(logs: Any, word: Any) -> None:
    """Nor does None where a partition has to be named: the error says what was given."""
    for ask in (
        lambda: list(logs.read("t", word)),
        lambda: list(logs.follow("t", word, idle_ms=0)),
        lambda: logs.offsets("t", word),
        lambda: logs.count_records("t", word),
        lambda: logs.offset_at("t", word, 0),
        lambda: logs.offset_at("t", None, 0),
    ):
        with pytest.raises(InvalidArgument, match="is not the number of a partition"):
            ask()


def test_an_unknown_topic_is_a_typed_error(logs: Any) -> None:
    """Without a partition too."""
    for ask in (
        lambda: list(logs.read("u")),
        lambda: list(logs.follow("u", idle_ms=0)),
        lambda: logs.offsets("u"),
        lambda: logs.count_records("u"),
    ):
        with pytest.raises(UnknownTopicOrPartition):
            ask()


def test_a_partition_that_is_missing_is_not_left_out() -> None:
    """A read of what the catalogue lists fails, instead of yielding a part of the topic."""
    home = DataHome()
    with home.open() as owner:
        owner.create_topic("t", 2)
        owner.append("t", b"a", partition=0)
        owner.append("t", b"b", partition=1)
    home.fs.rename(f"{home.path}/t-1", "/t-1")

    for ask in (
        lambda: list(beside(home).read("t")),
        lambda: list(beside(home).follow("t", idle_ms=0)),
        lambda: beside(home).offsets("t"),
        lambda: beside(home).count_records("t"),
    ):
        with pytest.raises(UnknownTopicOrPartition, match="t-1"):
            ask()


def test_a_follower_takes_up_partitions_that_are_added(
    home: DataHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From their first record on, whether it owns the directory or not."""

    def add(logs: tidelog.Logs, count: int, value: bytes) -> None:
        if len(logs.topic("t").partitions) < count:
            logs.create_partitions("t", count)
            logs.append("t", value, partition=count - 1)

    with home.open() as owner:
        monkeypatch.setattr(owner.manager.bell, "wait", lambda *_: add(owner, 4, b"e"))
        followed = owner.follow("t")
        assert [next(followed).value for _ in range(5)] == [*VALUES, b"e"]

    def wait_ms(ms: int) -> None:
        home.clock.advance(ms)
        with home.open() as owner:
            add(owner, 5, b"f")

    view = ReadOnlyLogs(home.path, fs=home.fs, clock=home.clock, wait_ms=wait_ms)
    assert [one.value for one in view.follow("t", idle_ms=3_000)] == [*VALUES, b"e", b"f"]


def test_tasks_of_an_event_loop_read_all_partitions(home: DataHome) -> None:
    """As threads do."""

    async def values(records: AsyncIterator[tidelog.ConsumedRecord]) -> list[bytes | None]:
        return [record.value async for record in records]

    async def main() -> None:
        view = tidelog.AsyncReadOnlyLogs(beside(home))
        assert await values(view.read("t")) == await values(view.follow("t", idle_ms=0)) == VALUES
        with home.open() as owner:
            logs = tidelog.AsyncLogs(owner)
            assert await values(logs.read("t")) == VALUES
            assert await values(logs.read("t", until=0)) == []
            assert await values(logs.follow("t", idle_ms=0)) == VALUES
            assert await values(logs.follow("t", 2, idle_ms=0)) == VALUES[2:]

    asyncio.run(main())


def test_the_last_records_of_each_partition_can_be_read(logs: Any) -> None:
    """Of all partitions or of one, from an offset on; what is no number of records is refused."""
    assert [one.value for one in logs.read("t", last=1)] == [b"a", b"b", b"d"]
    assert [one.value for one in logs.read("t", 2, last=9)] == VALUES[2:]
    assert [one.value for one in logs.read("single", 0, 1, last=2)] == VALUES[2:]
    assert [one.value for one in logs.read("single", 0, 3, last=2)] == VALUES[3:]
    assert list(logs.read("t", last=0)) == []
    for wrong in (-1, 1.5, True):
        with pytest.raises(InvalidArgument, match="is not a number of records"):
            list(logs.read("t", last=wrong))
    with pytest.raises(OffsetOutOfRange):
        list(logs.read("single", 0, 5, last=1))


@pytest.mark.parametrize("is_owner", [True, False])
def test_a_read_can_be_limited_in_time(home: DataHome, *, is_owner: bool) -> None:
    """From ``since`` to before ``until``, also where times are out of order; then the last ones."""
    with home.open() as owner:
        owner.create_topic("timed", 2)
        for partition, times in enumerate(([1_000, 3_000, 2_000, 4_000], [500])):
            for time_ms in times:
                value = b"%d" % time_ms
                owner.append("timed", value, timestamp=time_ms, partition=partition)
        owner.flush()
        logs: Any = owner if is_owner else beside(home)

        def read(*place: int, **limits: Any) -> list[int]:
            return [one.timestamp for one in logs.read("timed", *place, **limits)]

        assert read(since=2_000) == [3_000, 2_000, 4_000]
        assert read(until=2_000) == [1_000, 500]
        assert read(since=2_000, until="1970-01-01T00:00:04") == [3_000, 2_000]
        assert read(since=2_000, until=4_000, last=1) == [2_000]
        assert read(0, 2, since=1_000) == [2_000, 4_000]
        assert read(since=5_000) == []
        with pytest.raises(OffsetOutOfRange):
            read(0, 9, since=1_000)
        with pytest.raises(InvalidArgument, match="is before 1970"):
            read(since=-1)


def test_a_read_from_a_time_looks_behind_records_that_are_gone() -> None:
    """Compaction, or the log start, may have taken those of the first segment of that time."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", config={"retention.ms": "-1"})
        logs.append("t", b"deleted", timestamp=90)
        logs.delete_records("t", 0, 1)
        logs.roll("t")
        logs.append("t", b"left", timestamp=50)
        logs.create_topic("c", config={"cleanup.policy": "compact", "segment.bytes": "1048576"})
        # The last batch of its producer, which stays without a record.
        producer: ProducerFields = {"producer_id": 1, "producer_epoch": 0}
        first = build_batch([(90, b"k", b"old", ())], **producer, base_sequence=0)
        logs.partition("c", 0).append(first)
        logs.roll("c")
        logs.append("c", bytes(1_048_450), key=b"of a full segment", timestamp=60)
        logs.append("c", b"new", key=b"k", timestamp=70)
        logs.roll("c")
        logs.compact("c")
        assert [one.offset for one in logs.read("t", since=40)] == [1]
        assert [one.offset for one in logs.read("c", since=40)] == [1, 2]


def test_the_last_records_are_those_that_a_reader_sees(home: DataHome) -> None:
    """Committed ones, without markers; deleted ones do not count, and are out of range."""
    with home.open() as logs:
        with logs.transaction("aborted") as txn:
            txn.append("single", b"never")
            txn.abort()
        logs.append("single", b"e")
        logs.delete_records("single", 0, 2)
        assert [one.value for one in logs.read("single", last=2, isolation="read_committed")] == [
            b"d",
            b"e",
        ]
        assert next(one.value for one in logs.read("single", last=9)) == b"c"
        with pytest.raises(OffsetOutOfRange):
            list(logs.read("single", 0, 1, last=1))


def test_the_records_before_the_last_ones_are_not_read(home: DataHome) -> None:
    """However long the log is: damage at its start is not met."""
    path = f"{home.path}/single-0/{0:020d}.log"
    with home.open() as logs:
        for _ in range(30):
            logs.append_all("single", [b"x" * 100] * 100)
    home.fs.write(path, bytes(100) + home.fs.read(path)[100:])

    assert len(list(beside(home).read("single", last=3))) == 3
    with pytest.raises(CorruptMessage):
        list(beside(home).read("single"))


def test_the_last_records_can_be_awaited(home: DataHome) -> None:
    """By both doors of asyncio."""

    async def read() -> list[bytes | None]:
        doors = AsyncLogs(home.open()), AsyncReadOnlyLogs(beside(home))
        found = [one.value for door in doors async for one in door.read("single", last=1)]
        await doors[0].close()
        return found

    assert asyncio.run(read()) == [b"d", b"d"]
