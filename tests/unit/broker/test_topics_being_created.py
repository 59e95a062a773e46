"""Answers about partitions while they are created, at a broker without sockets."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.machinery.broker_home import BrokerHome, code, read, with_broker

from tidelog.error_codes import ErrorCode
from tidelog.records.builder import build_batch
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class WatchedFiles(CrashFileSystem):
    """Calls ``on_change`` before each change of a file or directory."""

    on_change: Callable[[], None] | None = None

    @contextmanager
    def changing(self, operation: str, *paths: str) -> Iterator[None]:
        """Call ``on_change``, then let the change happen."""
        on_change, self.on_change = self.on_change, None  # what it asks for may change files
        if on_change is not None:
            on_change()
        self.on_change = on_change
        with super().changing(operation, *paths):
            yield


class HeldElsewhere:
    """A stand-in for the lock of changes that another thread has; nobody may wait for it."""

    def acquire(self, *, blocking: bool) -> bool:
        """Return that it is held."""
        assert not blocking, "this waits for the lock"
        return False


def while_changing(
    home: BrokerHome, look: Callable[[], Any], act: Callable[[], object]
) -> list[Any]:
    """Return what ``look`` returns before each change of a file that ``act`` makes.

    It looks as if ``act`` ran on another thread.
    """
    registry, found = home.logs.manager.shared.registry, list[Any]()
    held: Any = HeldElsewhere()

    def look_as_another() -> None:
        plain, registry.change_lock = registry.change_lock, held
        found.append(look())
        registry.change_lock = plain

    assert isinstance(home.files, WatchedFiles)
    home.files.on_change = look_as_another
    act()
    home.files.on_change = None
    return found


def asked(home: BrokerHome, name: str, version: int, **values: Any) -> Any:
    """Return an answer that is given at once."""
    return read(name, version, home.send(name, version, **values))


def shown(home: BrokerHome, topic: str) -> list[tuple[int, ErrorCode]] | None:
    """Return the partitions of a topic in Metadata, with their codes; None: it is not listed."""
    (found,) = asked(home, "Metadata", 12, topics=[{"name": topic}], allowAutoTopicCreation=False)[
        "topics"
    ]
    listed = [one["name"] for one in asked(home, "Metadata", 12, topics=None)["topics"]]
    assert (topic in listed) == (code(found) is ErrorCode.NONE)
    if code(found) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    return [(one["partitionIndex"], code(one)) for one in found["partitions"]]


def test_a_topic_appears_with_all_of_its_partitions() -> None:
    """Before that the answer is that it is not there, after which clients ask again."""

    async def test(home: BrokerHome) -> None:
        logs = home.logs
        seen = while_changing(home, lambda: shown(home, "new"), lambda: logs.create_topic("new", 3))

        assert len(seen) > 5
        assert all(one is None for one in seen)
        assert shown(home, "new") == [(number, ErrorCode.NONE) for number in range(3)]

    with_broker(test, files=WatchedFiles())


def test_further_partitions_appear_together() -> None:
    """Those that were there stay in service meanwhile."""

    async def test(home: BrokerHome) -> None:
        logs = home.logs
        seen = while_changing(
            home, lambda: shown(home, "t"), lambda: logs.create_partitions("t", 3)
        )

        assert len(seen) > 5
        assert all(one == [(0, ErrorCode.NONE)] for one in seen)
        assert shown(home, "t") == [(number, ErrorCode.NONE) for number in range(3)]

    with_broker(test, files=WatchedFiles())


def test_requests_about_a_partition_that_is_being_created_are_sent_again() -> None:
    """What they are answered is retriable, and says nothing about a disk."""

    async def test(home: BrokerHome) -> None:
        registry = home.logs.manager.shared.registry

        def codes() -> set[ErrorCode]:
            if registry.partition(TopicPartition("new", 2)) is not None:
                return set()
            records = build_batch([(1, None, b"x", ())])
            wanted = [{"partition": 2, "fetchOffset": 0, "partitionMaxBytes": 1}]
            data = [{"name": "new", "partitionData": [{"index": 2, "records": records}]}]
            place = [{"partitionIndex": 2, "timestamp": -1}]
            produced = asked(home, "Produce", 9, acks=-1, timeoutMs=1, topicData=data)
            fetched = asked(home, "Fetch", 12, topics=[{"topic": "new", "partitions": wanted}])
            listed = asked(home, "ListOffsets", 7, topics=[{"name": "new", "partitions": place}])
            return {
                code(produced["responses"][0]["partitionResponses"][0]),
                code(fetched["responses"][0]["partitions"][0]),
                code(listed["topics"][0]["partitions"][0]),
            }

        seen = while_changing(home, codes, lambda: home.logs.create_topic("new", 3))

        assert len(seen) > 5
        assert set().union(*seen) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert code(await home.produce("new", b"x", partition=2)) is ErrorCode.NONE

    with_broker(test, files=WatchedFiles())
