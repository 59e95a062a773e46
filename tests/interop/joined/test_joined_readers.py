"""Groups that are read by a program which has joined the one that holds the directory."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import tidelog
from tidelog.embedded.door_client import DoorClient
from tidelog.embedded.joined_source import JoinedSource
from tidelog.env.waiting import sleep_ms
from tidelog.errors import (
    GroupInUse,
    IllegalGeneration,
    InvalidArgument,
    NotServed,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tidelog.readonly.read_only_log import ReadOnlyLog
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.machinery.brokers import Served
    from tests.machinery.fields import ProducerFields

    from tidelog import GroupReader, JoinedLogs


@pytest.fixture
def broker(broker: Served) -> Served:
    """With two records."""
    broker.logs.create_topic("t", 2)
    broker.logs.append("t", b"a", partition=0)
    broker.logs.append("t", b"b", partition=1)
    return broker


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics of the logs that this program has opened to read them."""
    found: list[str] = []
    enter = ReadOnlyLog.__enter__

    def entered(log: ReadOnlyLog) -> ReadOnlyLog:
        found.append(log.topic)
        return enter(log)

    monkeypatch.setattr(ReadOnlyLog, "__enter__", entered)
    return found


def values(reader: GroupReader, **how: int) -> list[bytes | None]:
    """Return what a reader finds."""
    return [record.value for record in reader.read(**how)]


def reads(joined: JoinedLogs) -> dict[str, Callable[[], list[bytes | None]]]:
    """Return the ways to read committed records."""

    def by_reader() -> list[bytes | None]:
        with joined.reader("t", group="g", isolation="read_committed") as reader:
            return values(reader)

    return {
        "read": lambda: [one.value for one in joined.read("t", isolation="read_committed")],
        "follow": lambda: [
            one.value for one in joined.follow("t", isolation="read_committed", idle_ms=0)
        ],
        "reader": by_reader,
    }


@pytest.mark.parametrize("way", ["read", "follow", "reader"])
def test_a_transaction_that_is_aborted_after_the_files_were_looked_at_is_not_shown(
    broker: Served, joined: JoinedLogs, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its marker is not in what was looked at, and the holder says that it is decided."""
    partition = broker.logs.partition("t", 0)
    producer: ProducerFields = {"producer_id": 7, "producer_epoch": 0}
    guard = partition.log.start_verification(7, 0, 0, supports_epoch_bump=False)
    batch = build_batch([(1, None, b"x", ())], **producer, base_sequence=0, transactional=True)
    partition.append(batch, verification_guard=guard)
    marker = build_marker(**producer, coordinator_epoch=0, is_commit=False, timestamp=1)
    enter, markers = ReadOnlyLog.__enter__, [marker]

    def opened(log: ReadOnlyLog) -> ReadOnlyLog:
        while markers and (log.topic, log.partition) == ("t", 0):
            partition.append(markers.pop(), AppendOrigin.COORDINATOR, transaction_version=0)
        return enter(log)

    monkeypatch.setattr(ReadOnlyLog, "__enter__", opened)
    assert reads(joined)[way]() == [b"a", b"b"]
    assert not markers


@pytest.mark.usefixtures("broker")
def test_a_reader_asks_once_where_its_group_is(
    joined: JoinedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer says what is committed, and what a transaction is to set."""
    asked: list[str] = []
    ask = DoorClient.ask

    def counted(door: DoorClient, name: str, version: int, **values: Any) -> dict[str, Any]:
        asked.append(name)
        return ask(door, name, version, **values)

    monkeypatch.setattr(DoorClient, "ask", counted)
    joined.reader("t", group="g").close()
    assert asked.count("OffsetFetch") == 1


def test_a_topic_that_is_deleted_before_a_commit_is_a_typed_error(
    broker: Served, joined: JoinedLogs
) -> None:
    """Its reader knows the topic as it was up to a second ago."""
    with joined.reader("t", group="g") as reader:
        assert values(reader) == [b"a", b"b"]
        broker.logs.delete_topic("t")
        with pytest.raises(UnknownTopicOrPartition):
            reader.commit()


def test_a_group_moves_between_programs_and_clients(broker: Served, joined: JoinedLogs) -> None:
    """No record comes twice, and none is missed."""
    with joined.reader("t", group="g") as reader:
        assert values(reader) == [b"a", b"b"]
        reader.commit()
        assert reader.committed == {("t", 0): 1, ("t", 1): 1}
        assert set(reader.lag().values()) == {0}
    broker.logs.append("t", b"c", partition=0)

    with broker.logs.reader("t", group="g") as reader:
        assert values(reader) == [b"c"]
        reader.commit()
    broker.logs.append("t", b"d", partition=1)

    where = {"bootstrap.servers": broker.bootstrap, "group.id": "g"}
    consumer = Consumer({**where, "auto.offset.reset": "error", "enable.auto.commit": False})
    consumer.subscribe(["t"])
    (message,) = consumer.consume(1, timeout=30)
    assert message.value() == b"d"
    consumer.commit(asynchronous=False)
    consumer.close()
    broker.logs.append("t", b"e", partition=0)

    with joined.reader("t", group="g") as reader:
        assert values(reader) == [b"e"]


def test_records_are_seen_as_soon_as_they_are_acknowledged(
    broker: Served, joined: JoinedLogs
) -> None:
    """By a reader and a follower, though the file of high watermarks is seconds older."""
    with joined.reader("t", group="g") as reader:
        followed = joined.follow("t", 0)
        assert values(reader) == [b"a", b"b"]
        assert next(followed).value == b"a"

        for number in range(3):
            broker.logs.append("t", b"%d" % number, partition=0)

            assert values(reader) == [b"%d" % number]
            assert next(followed).value == b"%d" % number


def test_records_of_open_transactions_wait_for_readers_of_committed_ones(
    broker: Served, joined: JoinedLogs
) -> None:
    """Those who read uncommitted records have them at once."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"open", partition=0)
    producer.flush()

    with (
        joined.reader("t", group="g", isolation="read_committed") as committed,
        joined.reader("t", group="h") as uncommitted,
    ):
        assert values(committed) == [b"a", b"b"]
        assert values(uncommitted) == [b"a", b"open", b"b"]
        producer.commit_transaction()
        assert values(committed, idle_ms=5000)[:1] == [b"open"]


@pytest.mark.usefixtures("broker")
def test_positions_are_asked_for_not_read(joined: JoinedLogs, opened: list[str]) -> None:
    """The process has them in memory; its log has each commit that is not compacted yet."""
    with joined.reader("t", group="g") as reader:
        assert values(reader) == [b"a", b"b"]
        reader.commit()
        reader.rewind()
        assert (values(reader), reader.committed) == ([], reader.positions)

    assert set(opened) == {"t"}


@pytest.mark.usefixtures("broker")
def test_an_answer_without_positions_is_an_error(
    joined: JoinedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an earlier release: the group must not begin again from nothing."""
    monkeypatch.setattr("tidelog.broker.groups.committed_offsets.write_positions", lambda _: None)
    with pytest.raises(NotServed, match="without positions"):
        joined.reader("t", group="g")


def test_positions_are_committed_with_a_transaction(broker: Served, joined: JoinedLogs) -> None:
    """Exactly once: what the transaction has written, and how far it has read."""
    broker.logs.create_topic("out")

    with joined.reader("t", group="g") as reader, joined.transaction() as txn:
        for record in reader.read():
            assert record.value is not None
            txn.append("out", record.value * 2)
        reader.commit(txn)

    assert [record.value for record in joined.read("out")] == [b"aa", b"bb"]
    with joined.reader("t", group="g") as reader:
        assert values(reader) == []


def test_first_commits_of_many_programs_meet_without_harm(data: Path, broker: Served) -> None:
    """The topic of the positions is there for none of them when they begin."""
    barrier, faults = threading.Barrier(8), list[str]()

    def commit(number: int) -> None:
        try:
            with (
                tidelog.join(data) as logs,
                logs.reader("t", group=f"g{number}") as reader,
                logs.transaction() as txn,
            ):
                for record in reader.read():
                    txn.append("t", record.value, partition=0)
                barrier.wait(30)
                if number % 2:
                    reader.commit(txn)
                else:
                    reader.commit()
        except Exception as error:  # noqa: BLE001 - the test fails with it
            faults.append(repr(error))

    threads = [threading.Thread(target=commit, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert faults == []
    groups = broker.logs.group_positions()
    assert {group: {one.offset for one in found.values()} for group, found in groups.items()} == {
        f"g{number}": {1} for number in range(8)
    }


def test_a_group_has_one_reader_of_a_partition(broker: Served, joined: JoinedLogs) -> None:
    """Whichever program it is in; others may read other partitions, and the next one the same."""
    with joined.reader("t", group="g", partitions=[0]):
        for logs in (joined, broker.logs):
            with pytest.raises(GroupInUse, match="reader of the same partitions") as refused:
                logs.reader("t", group="g")
            assert isinstance(refused.value, InvalidArgument)  # as programs caught it before
            logs.reader("t", group="g", partitions=[1]).close()

    with broker.logs.reader("t", group="g"), pytest.raises(GroupInUse, match="the same part"):
        joined.reader("t", group="g")
    joined.reader("t", group="g").close()


def test_clients_wait_for_a_reader_and_readers_for_clients(
    broker: Served, joined: JoinedLogs
) -> None:
    """A group is read by one kind at a time."""
    where = {"bootstrap.servers": broker.bootstrap, "group.id": "g"}
    consumer = Consumer({**where, "auto.offset.reset": "earliest"})
    with joined.reader("t", group="g"):
        consumer.subscribe(["t"])
        assert consumer.consume(1, timeout=0.5) == []
    assert len(consumer.consume(1, timeout=30)) == 1

    for logs in (joined, broker.logs):
        with pytest.raises(GroupInUse, match="members among"):
            logs.reader("t", group="g")

    consumer.close()
    joined.reader("t", group="g").close()


def test_a_reader_waits_for_an_open_transaction_of_the_client_before(
    broker: Served, joined: JoinedLogs
) -> None:
    """It has processed the same records, and commits after the reader would have."""
    joined.create_topic("out")
    where = {"bootstrap.servers": broker.bootstrap}
    consumer = Consumer({**where, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    seen = consumer.consume(2, timeout=30)
    producer = Producer({**where, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    for record in seen:
        producer.produce("out", record.value())
    at = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata())
    consumer.close()

    with joined.reader("t", group="g") as reader:
        assert (len(seen), values(reader), reader.positions) == (2, [], {})
        producer.commit_transaction()
        joined.append("t", b"c", partition=0)
        assert values(reader) == [b"c"]
    assert joined.count_records("out").records == 2


def test_a_topic_that_was_created_again_a_moment_ago_is_another_one(
    broker: Served, joined: JoinedLogs
) -> None:
    """Its offsets are not the group's, though the reader has looked the old one up just now."""
    with joined.reader("t", group="g", partitions=[0]) as reader:
        assert values(reader) == [b"a"]
        reader.commit()
        broker.logs.delete_topic("t")
        broker.logs.create_topic("t", 2)
        for value in (b"c", b"d"):
            broker.logs.append("t", value, partition=0)

        with pytest.raises(UnknownTopicOrPartition, match="is another one now"):
            values(reader)
        reader.rewind()
        assert values(reader) == [b"c", b"d"]
        reader.commit()
    with joined.reader("t", group="g", partitions=[0]) as reader:
        assert values(reader) == []


def test_a_program_that_is_killed_leaves_the_group(data: Path, broker: Served) -> None:
    """At once, by the end of its connection."""
    program = (
        "import sys, tidelog\n"
        "reader = tidelog.join(sys.argv[1]).reader('t', group='g')\n"
        "print('reads', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reads\n"
        with pytest.raises(GroupInUse, match="reader of the same partitions"):
            broker.logs.reader("t", group="g")
        process.kill()

    for _ in range(3000):
        try:
            broker.logs.reader("t", group="g").close()
        except GroupInUse:
            sleep_ms(10)
        else:
            return
    raise AssertionError("the group was not left")


def test_another_commit_fences_the_reader(broker: Served, joined: JoinedLogs) -> None:
    """Who has moved the group meanwhile is not undone; after a rewind it continues there."""
    with joined.reader("t", group="g", partitions=[0]) as reader:
        assert values(reader) == [b"a"]
        where = {"bootstrap.servers": broker.bootstrap, "group.id": "g"}
        assert isinstance(reader._source, JoinedSource)
        reader._source._door._drop()  # as if its connection had been lost
        for _ in range(3000):
            if not broker.logs.groups.has_reader("g"):
                break
            sleep_ms(10)
        consumer = Consumer(where)
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        consumer.close()

        with pytest.raises(IllegalGeneration):
            reader.commit()
        reader.rewind()
        assert values(reader) == [b"a"]
        reader.commit()
        assert reader.committed == {("t", 0): 1}


def test_a_reader_continues_after_a_restart_of_the_process(data: Path) -> None:
    """It has the group again, unless another one has taken it."""
    broker = KafkaBroker(data)
    broker.start()
    broker.logs.create_topic("t")
    broker.logs.append("t", b"a")
    with tidelog.join(data) as joined, joined.reader("t", group="g") as reader:
        assert values(reader) == [b"a"]
        broker.stop()
        with pytest.raises(NotServed):
            values(reader)

        broker.start()
        broker.logs.append("t", b"b")
        assert values(reader) == [b"b"]
        reader.commit()
        assert reader.committed == {("t", 0): 2}

        broker.stop()
        broker.start()
        with (
            broker.logs.reader("t", group="g"),
            pytest.raises(GroupInUse, match="another reader") as refused,
        ):
            values(reader)
        # What the process answered is not shown above it: it says no more.
        assert refused.value.__suppress_context__
        assert refused.value.__cause__ is None
    broker.stop()


def test_what_is_not_a_reader_is_refused(broker: Served, joined: JoinedLogs) -> None:
    """A program may send anything as what its reader reads."""
    from tidelog.broker.groups.joined_readers import READER_PROTOCOL

    sound = b'{"topics": ["t"], "partitions": null}'
    wrong = (b"", b"[]", b'{"topics": 7, "partitions": null}', b"\xff", b"[" * 100_000)
    for metadata, count in (*((one, 1) for one in wrong), (sound, 0), (sound, 2)):
        with pytest.raises(tidelog.KafkaError):
            joined._door.ask(
                *("JoinGroup", 5),
                groupId="g",
                sessionTimeoutMs=45_000,
                rebalanceTimeoutMs=45_000,
                memberId="",
                protocolType=READER_PROTOCOL,
                protocols=[{"name": "tidelog", "metadata": metadata}] * count,
            )
    assert not broker.logs.groups.has_reader("g")


def test_a_position_in_another_topic_of_the_name_is_passed_over_with_a_warning(
    broker: Served, joined: JoinedLogs, caplog: pytest.LogCaptureFixture
) -> None:
    """Or that is an error, as for the program that holds the directory."""
    with joined.reader("t", group="g") as reader:
        assert values(reader) == [b"a", b"b"]
        reader.commit()
    broker.logs.delete_topic("t")
    broker.logs.create_topic("t")
    broker.logs.append("t", b"c")

    with (
        tidelog.join(joined.path) as fresh,
        fresh.reader("t", group="g", start="none") as sure,
        pytest.raises(OffsetOutOfRange, match=r"t-0: offset 1 .* another topic"),
    ):
        values(sure)
    with tidelog.join(joined.path) as fresh, fresh.reader("t", group="g") as reader:
        assert values(reader) == [b"c"]
    lines = [one.getMessage() for one in caplog.records]
    assert sum(line.startswith("position-of-another-topic log=t-0 group=g") for line in lines) == 1
