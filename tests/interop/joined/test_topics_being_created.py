"""Topics that the process which holds the directory is about to create, or to put into service."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from errno import EIO
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.embedded import door_client
from tidelog.env.waiting import sleep_ms
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.log.reading.record_count import RecordCount
from tidelog.manager.lifecycle.creator import LogCreator
from tidelog.manager.topics.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.machinery.brokers import Served

    from tidelog import JoinedLogs


class Creation:
    """A creation of a topic that waits in the middle until it is released."""

    def __init__(self, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._is_there, self._may_go = threading.Event(), threading.Event()
        write, make = Topics._write_one, LogCreator.create_new

        def write_and_wait(topics: Topics, *written: Any) -> None:
            write(topics, *written)
            self._wait()

        def wait_and_make(creator: LogCreator, *wanted: Any, **how: Any) -> Any:
            self._wait()
            return make(creator, *wanted, **how)

        if where == "catalogue":
            monkeypatch.setattr(Topics, "_write_one", write_and_wait)
        else:
            monkeypatch.setattr(LogCreator, "create_new", wait_and_make)

    def _wait(self) -> None:
        self._is_there.set()
        assert self._may_go.wait(20)

    def begun(self) -> None:
        """Wait until it waits."""
        assert self._is_there.wait(20)

    def release(self) -> None:
        """Let it continue."""
        self._may_go.set()


@pytest.fixture(params=["catalogue", "directories"])
def creation(
    request: pytest.FixtureRequest, broker: Served, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Creation]:
    """The topic t is being created: its catalogue is written, and its directories are not made."""
    creation = Creation(request.param, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(broker.logs.create_topic, "t", 2)
        try:
            creation.begun()
            yield creation
        finally:
            creation.release()
        made.result()


def pausing(joined: JoinedLogs, pause: Callable[[int], None]) -> None:
    """Let joined logs call ``pause`` where they wait before they ask again."""
    joined._machine = joined._machine._replace(sleep_ms=pause)


@pytest.mark.parametrize("way", ["reader", "read", "follow"])
def test_a_reader_waits_for_a_topic_that_is_being_created(
    joined: JoinedLogs, creation: Creation, way: str
) -> None:
    """A program that has just heard of the topic reads it, as a client of Kafka's does."""
    pauses: list[int] = []

    def pause(ms: int) -> None:
        pauses.append(ms)
        creation.release()
        sleep_ms(ms)

    pausing(joined, pause)
    if way == "reader":
        with joined.reader("t", group="g") as reader:
            found = list(reader.read())
    elif way == "read":
        found = list(joined.read("t", partition=0))
    else:
        found = list(joined.follow("t", partition=0, idle_ms=0))

    assert found == []
    assert pauses


@pytest.mark.usefixtures("creation")
def test_a_topic_that_is_being_created_has_no_records(joined: JoinedLogs) -> None:
    """Though none of its partitions is there that could be asked."""
    assert joined.count_records("t") == RecordCount(0, 0, 0, 0)
    assert joined.offsets("t") == {}


def test_a_partition_that_does_not_come_into_service_is_named(
    joined: JoinedLogs, creation: Creation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has an end, and the error says what was waited for."""
    assert creation
    monkeypatch.setattr(door_client, "RETRY_FOR_MS", -1)

    with pytest.raises(KafkaStorageError, match=r"^t-1 is not in service yet"):
        joined.reader("t", group="g", partitions=[1])
    with pytest.raises(KafkaStorageError, match=r"^t-1 is not in service yet"):
        next(joined.read("t", partition=1))


def test_a_failed_disk_is_not_waited_for(broker: Served, joined: JoinedLogs) -> None:
    """Nothing would come of it; the error says why, as that of the process itself."""
    broker.logs.create_topic("t")
    pausing(joined, lambda _: pytest.fail("it waits"))
    manager = broker.logs.manager
    (path,) = manager.config.data_directories
    manager.take_dir_offline(path, OSError(EIO, "the disk failed"))
    for _ in range(3000):
        if not manager.shared.registry.partitions("t"):
            break
        sleep_ms(10)

    with pytest.raises(KafkaStorageError, match="t-0 lies in a directory that is offline"):
        next(joined.read("t"))


def test_what_is_not_there_is_named(broker: Served, joined: JoinedLogs) -> None:
    """At once, whether a topic is gone or a partition was never there."""
    broker.logs.create_topic("t", 2)
    pausing(joined, lambda _: pytest.fail("it waits"))

    with pytest.raises(UnknownTopicOrPartition, match="topic t has no partition 7"):
        next(joined.read("t", partition=7))
    with joined.reader("t", group="g") as reader:
        broker.logs.delete_topic("t")
        with pytest.raises(UnknownTopicOrPartition, match="no topic t"):
            list(reader.read())
