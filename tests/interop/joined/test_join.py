"""A second Python process, or a second program in one, beside the one that holds the directory."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from tests.machinery.brokers import served

import tidelog
from tidelog.embedded.doors import open_briefly
from tidelog.embedded.joined_logs import JoinedLogs
from tidelog.env.machine import brief_machine
from tidelog.env.system_files import SystemFiles
from tidelog.env.unix_sockets import POINTER
from tidelog.errors import (
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotServed,
    OffsetOutOfRange,
    OutcomeUnknown,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tidelog.log.log import Log
from tidelog.testing import KafkaBroker, ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.machinery.brokers import Served


def values(logs: Any, topic: str = "t", **how: Any) -> list[bytes]:
    """Return what a program reads."""
    return [record.value for record in logs.read(topic, **how)]


def test_what_is_appended_is_read_at_once_by_both(broker: Served, joined: JoinedLogs) -> None:
    """By the program that has joined, and by the one that holds the directory."""
    joined.create_topic("t", partitions=2)

    first = joined.append("t", b"a", key=b"k", headers=[("h", b"v")], timestamp=1_700_000_000_000)
    second = joined.append("t", b"b", key=b"k")
    broker.logs.append("t", b"c", partition=first.partition)

    assert (first.partition, first.offset, second.offset) == (second.partition, 0, 1)
    assert values(joined) == values(broker.logs) == [b"a", b"b", b"c"]
    (record, *_) = joined.read("t")
    assert (record.key, record.headers) == (b"k", (("h", b"v"),))
    assert record.timestamp == 1_700_000_000_000


def test_settings_as_keywords_are_refused(joined: JoinedLogs) -> None:
    """As where the directory is open; the error says where they go."""
    with pytest.raises(InvalidArgument, match=r"go into config=\{'retention.ms': '1'\}"):
        joined.create_topic("t", retention_ms=1)
    with pytest.raises(InvalidArgument, match=r"go into config=\{'retention.ms': '1'\}"):
        joined.alter_topic("t", retention_ms=1)


def test_a_topic_has_as_many_partitions_as_by_the_holder(joined: JoinedLogs) -> None:
    """Kafka's -1, for as many as a broker's default, would be taken for a number otherwise."""
    for count in (-1, 0):
        with pytest.raises(InvalidPartitions, match=f"at least 1 partition, not {count}"):
            joined.create_topic("t", count)


def test_numbers_of_numpy_are_numbers_here_too(joined: JoinedLogs) -> None:
    """Requests to the other process name partitions in JSON."""
    one = cast("int", np.int64(1))
    joined.create_topic("t", cast("int", np.int64(2)))

    appended = joined.append("t", b"v", partition=one)
    with joined.reader("t", group="g", partitions=[one]) as reader:
        values_read = [record.value for record in reader.read()]
    with joined.transaction() as txn:
        txn.append("t", b"w", partition=one)

    assert (values_read, type(appended.partition)) == ([b"v"], int)
    assert joined.offsets("t", one).log_end_offset == 2


def test_a_repr_says_the_directory_and_the_state(joined: JoinedLogs) -> None:
    """Also once it is closed."""
    opened = repr(joined)
    joined.close()

    assert opened == f"<JoinedLogs '{joined.path}': open>"
    assert repr(joined) == f"<JoinedLogs '{joined.path}': closed>"


def test_many_records_are_appended_in_batches(broker: Served, joined: JoinedLogs) -> None:
    """In order in each partition, as by the holder itself."""
    joined.create_topic("t", partitions=3)
    records = [(b"%d" % (number % 7), b"%d" % number) for number in range(5000)]

    assert joined.append_all("t", records, codec=tidelog.Codec.ZSTD) == 5000
    with joined.writer("t") as writer:
        writer.append(b"last", key=b"0")

    assert sorted(values(joined)) == sorted([*(value for _, value in records), b"last"])
    assert values(joined) == values(broker.logs)
    broker.logs.create_topic("own", partitions=3)
    broker.logs.append_all("own", records)
    for number in range(3):
        ours = values(joined, partition=number)
        assert [v for v in ours if v != b"last"] == values(broker.logs, "own", partition=number)


def test_what_writers_have_gathered_is_appended_at_the_end(broker: Served, data: Path) -> None:
    """As where the directory is open, also after an error."""
    broker.logs.create_topic("t")
    with tidelog.join(data) as joined:
        joined.writer("t").append(b"a")
    with pytest.raises(LookupError), tidelog.join(data) as joined:
        gather_and_fail(joined, b"b")

    assert values(broker.logs) == [b"a", b"b"]


def test_an_error_at_the_end_is_a_note_of_the_first_one(broker: Served, data: Path) -> None:
    """An error of the body says why a program ends; without one, the writer's is raised."""
    broker.logs.create_topic("t")
    with pytest.raises(LookupError) as raised, tidelog.join(data) as joined:
        gather_and_fail(joined, b"a", before=lambda: broker.logs.delete_topic("t"))
    broker.logs.create_topic("t")
    second = tidelog.join(data)
    second.writer("t").append(b"a")
    broker.logs.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartition):
        second.close()

    note = "Records of a writer were not appended: there is no topic t"
    assert raised.value.__notes__ == [note]
    assert repr(second) == f"<JoinedLogs '{data}': closed>"


def gather_and_fail(
    joined: JoinedLogs, value: bytes, *, before: Callable[[], object] = lambda: None
) -> None:
    """Leave a record with a writer, and fail."""
    joined.writer("t").append(value)
    before()
    raise LookupError


def test_what_a_call_could_not_append_is_not_appended_at_the_end(
    broker: Served, joined: JoinedLogs
) -> None:
    """Its caller has an error, and may have called it again."""
    broker.logs.create_topic("t")

    def failing() -> Iterator[bytes]:
        yield b"a"
        raise LookupError

    with pytest.raises(LookupError):
        joined.append_all("t", failing())
    joined.close()

    assert values(broker.logs) == []


def test_topics_are_changed_as_by_the_holder(broker: Served, joined: JoinedLogs) -> None:
    """Created, altered, grown, emptied and deleted."""
    joined.create_topic("t", config={"retention.ms": 5000})
    joined.alter_topic("t", {"segment.ms": 7000}, unset=["retention.ms"])
    joined.create_partitions("t", 3)
    assert broker.logs.topic("t").config == {"segment.ms": "7000"}
    assert len(broker.logs.topic("t").partitions) == 3

    joined.append_all("t", [b"a", b"b"])
    total = sum(joined.delete_records("t", number, "highWatermark") for number in range(3))
    assert total == 2
    assert values(joined) == []
    joined.create_topic("t", exist_ok=True)
    joined.delete_topic("t")
    assert broker.logs.topics() == {}


def test_what_was_acknowledged_is_seen_by_every_look(broker: Served, joined: JoinedLogs) -> None:
    """Though the file of high watermarks is seconds older."""
    joined.create_topic("t")
    joined.append("t", b"a", timestamp=1000)
    broker.logs.flush()
    joined.append("t", b"b", timestamp=2000)

    assert values(joined) == [b"a", b"b"]
    assert joined.offsets("t", 0) == broker.logs.offsets("t", 0)
    assert joined.count_records("t") == broker.logs.count_records("t")
    assert joined.offset_at("t", 0, 1500) == broker.logs.offset_at("t", 0, 1500)


def test_a_birth_value_is_dropped_as_by_the_holder(data: Path) -> None:
    """From then on what the holder is given counts; a client on the network cannot ask for it."""
    with served(data, config={"log.retention.ms": "7000"}) as broker, tidelog.join(data) as joined:
        joined.create_topic("t", config={"segment.ms": 5000})
        assert "retention.ms" in (broker.logs.topic("t").birth or {})

        joined.alter_topic("t", {"segment.bytes": 1 << 20}, ["segment.ms"], ["retention.ms"])
        assert "retention.ms" not in (broker.logs.topic("t").birth or {})
        assert broker.logs.topic("t").config == {"segment.bytes": str(1 << 20)}
        with pytest.raises(InvalidConfig, match=r"retention\.ms: topic t has no birth value of it"):
            joined.alter_topic("t", {}, follow=["retention.ms"])


def test_topics_are_born_with_the_settings_of_the_holder(data: Path) -> None:
    """A joined program has none of its own, whichever way it creates a topic."""
    settings = {"log.retention.ms": "7000", "log.roll.ms": "60000"}
    with served(data, config=settings) as broker, tidelog.join(data) as joined:
        broker.logs.create_topic("own")
        joined.create_topic("asked")
        with joined.transaction() as txn:
            txn.create_topic("joined", config={"retention.ms": 5})
            txn.append("joined", b"a")
            txn.create_topic("empty")

        births = {
            name: broker.logs.topic(name).birth for name in ("own", "asked", "joined", "empty")
        }
        assert births["own"] is not None
        assert (births["own"]["retention.ms"], births["own"]["segment.ms"]) == ("7000", "60000")
        assert births == dict.fromkeys(births, births["own"])
        assert broker.logs.topic("joined").config == {"retention.ms": "5"}


def test_a_setting_that_is_not_set_cannot_be_unset_as_by_the_holder(
    broker: Served, joined: JoinedLogs
) -> None:
    """A name may be mistyped; nothing is changed."""
    joined.create_topic("t", config={"retention.ms": 5000})

    for program in (broker.logs, joined):
        with pytest.raises(InvalidConfig, match="nope: topic t does not set it"):
            program.alter_topic("t", {"segment.ms": 7000}, unset=["retention.ms", "nope"])

    assert broker.logs.topic("t").config == {"retention.ms": "5000"}


def test_a_topic_that_may_exist_is_checked_as_by_the_holder(data: Path) -> None:
    """It has what is asked for, by settings that only the holder knows, or the error names it."""
    with tidelog.open(data, log_segment_bytes=7 << 20) as logs, tidelog.join(data) as joined:
        logs.create_topic("t", 4, config={"retention.ms": 5000})
        for same in (
            {},
            {"partitions": 4},
            {"partitions": 2, "config": {"retention.ms": 5000, "segment.bytes": 7 << 20}},
        ):
            for program in (logs, joined):
                program.create_topic("t", exist_ok=True, **same)
        for other, text in (
            ({"partitions": 8}, "topic t exists with 4 partitions, not 8"),
            ({"config": {"retention.ms": 6000}}, "retention.ms=5000, not 6000"),
            ({"config": {"segment.bytes": 1 << 20}}, "segment.bytes=7340032, not 1048576"),
        ):
            for program in (logs, joined):
                with pytest.raises(TopicAlreadyExists, match=text):
                    program.create_topic("t", exist_ok=True, **other)
        with pytest.raises(InvalidConfig):
            joined.create_topic("t", config={"retention.ms": "x"}, exist_ok=True)


@pytest.mark.parametrize("by", ["a broker", "tidelog.open"])
def test_a_deletion_of_records_is_seen_by_every_look(data: Path, by: str) -> None:
    """As soon as it has returned, whichever of the programs has deleted them."""
    with (
        KafkaBroker(data) if by == "a broker" else tidelog.open(data) as owner,
        tidelog.join(data) as joined,
    ):
        logs = owner.logs if isinstance(owner, KafkaBroker) else owner
        joined.create_topic("t")
        joined.append_all("t", [(None, b"%d" % number, (), number) for number in range(6)])
        for deleting, start in ((joined, 2), (logs, 4), (joined, 6)):
            before = "highWatermark" if start == 6 else start
            assert deleting.delete_records("t", 0, before) == start

            assert joined.offsets("t", 0).log_start_offset == start
            assert joined.count_records("t").records == 6 - start
            found = joined.offset_at("t", 0, 0)
            assert (found and found.offset) == (start if start < 6 else None)
            assert [record.offset for record in joined.read("t")] == list(range(start, 6))


def test_a_deletion_that_is_not_durable_says_so(
    broker: Served, joined: JoinedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's answer has a code only; the start may have moved, as where no byte is free."""
    joined.create_topic("t")
    joined.append_all("t", [b"a", b"b", b"c"])

    def full(*_: object) -> None:
        raise KafkaStorageError("No space left on device")

    monkeypatch.setattr(broker.logs.manager.on_demand, "keep_deleted", full)
    for before, start in ((1, 1), ("highWatermark", 3)):
        with pytest.raises(KafkaStorageError, match=rf"t-0 below {start}, .* repeat"):
            joined.delete_records("t", 0, before)
        assert [one.offset for one in joined.read("t")] == list(range(start, 3))

    def failed(*_: object) -> None:
        raise KafkaStorageError("Input/output error")

    monkeypatch.setattr(broker.logs.manager.on_demand, "delete_records", failed)
    joined.append("t", b"d")
    with pytest.raises(KafkaStorageError, match=r"of t-0: see its log"):
        joined.delete_records("t", 0, 4)


def test_errors_are_those_of_the_holder(joined: JoinedLogs) -> None:
    """Of the same classes, so that a program need not know where it runs."""
    joined.create_topic("t")
    joined.create_topic("compacted", config={"cleanup.policy": "compact"})
    joined.create_topic("small", config={"max.message.bytes": 2000})
    for wrong, error in (
        (lambda: joined.create_topic("t"), TopicAlreadyExists),
        (lambda: joined.create_topic("u", config={"retention.ms": "x"}), InvalidConfig),
        (lambda: joined.delete_topic("u"), UnknownTopicOrPartition),
        (lambda: joined.append("u", b"a"), UnknownTopicOrPartition),
        (lambda: joined.append("t", b"a", partition=7), UnknownTopicOrPartition),
        (lambda: joined.append("compacted", b"a"), KafkaError),
        (lambda: joined.append("small", bytes(3000)), MessageTooLarge),
        (lambda: joined.append("t", bytes(2_000_000)), MessageTooLarge),
        (lambda: joined.append("t", bytes(110_000_000)), MessageTooLarge),  # no request may be
        (lambda: joined.append("t", "text"), InvalidArgument),  # type: ignore[arg-type]  # the fault
        (lambda: joined.delete_records("compacted", 0, 0), PolicyViolation),
        (lambda: joined.delete_records("t", 0, -1), InvalidArgument),
        (lambda: joined.delete_records("t", 0, 10**9), OffsetOutOfRange),
        (lambda: joined.offsets(7, 0), InvalidArgument),  # type: ignore[call-overload]  # the fault
        (lambda: joined.offset_at("t", "0", 0), InvalidArgument),  # type: ignore[arg-type]  # the fault
    ):
        with pytest.raises(error):
            wrong()
    assert joined.append("t", b"a").offset == 0


class ListedFiles(SystemFiles):
    """Takes note of the directories that are listed."""

    def __init__(self) -> None:
        super().__init__(has_posix=True)
        self.listed: list[str] = []

    def list(self, directory: str) -> list[str]:
        """Take note, and list."""
        self.listed.append(directory)
        return super().list(directory)


def test_many_topics_are_looked_up_at_once(data: Path, broker: Served) -> None:
    """A look for each reads all of them. A topic that is new since is found all the same."""
    files, clock = ListedFiles(), ManualClock()
    names = [f"t{number}" for number in range(20)]
    for name in names:
        broker.logs.create_topic(name)
    with JoinedLogs(str(data), machine=brief_machine(files, clock), wait_ms=clock.advance) as logs:
        before = len(files.listed)
        for name in names:
            assert logs.append(name, b"v").offset == 0
        assert len(files.listed) - before <= 5
        broker.logs.create_topic("new")
        broker.logs.create_partitions("t1", 2)

        assert logs.append("new", b"v").offset == 0
        clock.advance(10_000)
        assert {logs.append("t1", b"v").partition for _ in range(2)} == {0, 1}


def test_one_partition_is_looked_up_once_for_many_calls(data: Path, broker: Served) -> None:
    """Its topic may have thousands. One that is gone since, or new, is noticed all the same."""
    files, clock = ListedFiles(), ManualClock()
    holder = broker.logs
    holder.create_topic("t", 2)
    holder.append("t", b"a", partition=0, timestamp=1000)
    with JoinedLogs(str(data), machine=brief_machine(files, clock), wait_ms=clock.advance) as logs:
        before = len(files.listed)
        for _ in range(20):
            assert logs.offsets("t", 0) == holder.offsets("t", 0)
            assert logs.offset_at("t", 0, 1000) == holder.offset_at("t", 0, 1000)
            assert logs.count_records("t", 0) == holder.count_records("t", 0)
            assert values(logs, partition=0) == [b"a"]
        assert files.listed[before:].count(str(data)) <= 2
        holder.create_partitions("t", 3)
        assert logs.offsets("t", 2) == holder.offsets("t", 2)
        assert list(logs.offsets("t")) == [0, 1, 2]
        holder.delete_topic("t")
        with pytest.raises(UnknownTopicOrPartition):
            logs.offsets("t", 0)
        holder.create_topic("t")
        assert logs.offsets("t", 0) == holder.offsets("t", 0)


def test_a_transaction_is_committed_by_the_holder(broker: Served, joined: JoinedLogs) -> None:
    """All of it, or nothing."""
    for topic in ("orders", "stock"):
        joined.create_topic(topic)
    with joined.transaction("order-7") as txn:
        txn.append("orders", b"7 eggs")
        txn.append("stock", b"-7", key=b"eggs")
    aborted = joined.transaction("order-8")
    aborted.append("orders", b"8 eggs")
    aborted.abort()

    assert values(broker.logs, "orders") == [b"7 eggs"]
    assert values(joined, "stock") == [b"-7"]


def test_nobody_to_join_is_a_typed_error(tmp_path: Path) -> None:
    """Without a process, and beside one that has it open for a moment."""
    with open_briefly(tmp_path), pytest.raises(NotServed, match="tidelog run"):
        tidelog.join(tmp_path)
    with pytest.raises(NotServed):
        tidelog.join(tmp_path)
    with pytest.raises(InvalidArgument):
        tidelog.join(tmp_path / "nothing").topics()
    with pytest.raises(NotServed, match="nothing does not exist"):
        tidelog.join(tmp_path / "nothing", wait_ms=1)


@pytest.mark.usefixtures("broker")
def test_the_directory_of_a_partition_is_not_joined(data: Path, joined: JoinedLogs) -> None:
    """The error names the one above it, which is: `tidelog run` of this one would help nobody."""
    joined.create_topic("t")
    with pytest.raises(InvalidArgument, match=f"t-0 is the directory of one part.* it, {data}$"):
        tidelog.join(data / "t-0")


def test_a_transaction_that_has_ended_is_not_entered_again(joined: JoinedLogs) -> None:
    """Else a program would work in the block for nothing, if it appends only at its end."""
    joined.create_topic("t")
    with joined.transaction() as txn:
        txn.append("t", b"a")
    with pytest.raises(InvalidArgument, match="has ended"), txn:
        raise AssertionError("it was entered")


def test_a_directory_that_its_process_has_yet_to_create_is_waited_for(tmp_path: Path) -> None:
    """Of two programs that are started together, the one that joins may be the first."""
    path = tmp_path / "data"
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(tidelog.join, path, wait_ms=30_000)
        with KafkaBroker(path), joining.result() as joined:
            joined.create_topic("t")
            assert joined.append("t", b"a").offset == 0


def test_the_process_is_found_again_after_a_restart(tmp_path: Path) -> None:
    """A call in between says that nobody is there."""
    with KafkaBroker(tmp_path) as broker, tidelog.join(tmp_path) as joined:
        joined.create_topic("t")
        joined.append("t", b"a")
        broker.stop()
        with pytest.raises((NotServed, OutcomeUnknown)):
            joined.append("t", b"lost?")
        broker.start()
        joined.append("t", b"b")
        assert [v for v in values(joined) if v != b"lost?"] == [b"a", b"b"]


def test_an_answer_that_does_not_come_is_an_unknown_outcome(tmp_path: Path) -> None:
    """The record is there, once; the error says that it may be."""
    with KafkaBroker(tmp_path) as broker, tidelog.join(tmp_path) as joined:
        joined.create_topic("t")
        broker.drop("Produce", carried_out=True)
        with pytest.raises(OutcomeUnknown, match="did not answer Produce"):
            joined.append("t", b"a")
        assert joined.append("t", b"b").offset == 1
        assert values(joined) == [b"a", b"b"]


@pytest.mark.parametrize("request_name", ["ListOffsets", "JoinGroup"])
def test_a_read_that_is_not_answered_has_changed_nothing(data: Path, request_name: str) -> None:
    """So its error does not warn of a change: it can be tried again as it is."""
    with KafkaBroker(data) as broker, tidelog.join(data) as joined:
        joined.create_topic("t")
        joined.append("t", b"a")
        with joined.reader("t", group="g") as reader:
            broker.drop(request_name)
            with pytest.raises(NotServed) as raised:
                list(reader.read())
            assert f"did not answer {request_name}" in str(raised.value)
            assert "carried out" not in str(raised.value)
            assert [record.value for record in reader.read()] == [b"a"]


class Interrupted:
    """A socket that sends the first bytes of a request; then comes an interrupt."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def send(self, data: bytes) -> int:
        """Send some bytes."""
        self._real.send(data[:10])
        raise KeyboardInterrupt

    def close(self) -> None:
        """Close the socket."""
        self._real.close()


def test_a_request_that_an_interrupt_has_cut_is_not_continued_by_the_next(
    joined: JoinedLogs,
) -> None:
    """The process would take the bytes of the next one for the rest of it, and wait for more."""
    joined.create_topic("t")
    door = joined._door
    door._socket = Interrupted(door._socket)  # type: ignore[assignment]  # as much of one as is used
    with pytest.raises(KeyboardInterrupt):
        joined.append("t", bytes(100_000))

    joined.append("t", b"a")
    assert values(joined) == [b"a"]


def test_a_batch_of_an_unknown_outcome_is_not_appended_twice(tmp_path: Path) -> None:
    """A writer that cannot know leaves it out: neither the next flush nor its end sends it."""
    with KafkaBroker(tmp_path) as broker, tidelog.join(tmp_path) as joined:
        joined.create_topic("t")
        broker.drop("Produce", carried_out=True)
        with joined.writer("t") as writer:
            writer.append(b"a")
            with pytest.raises(OutcomeUnknown):
                writer.flush()
        assert values(joined) == [b"a"]


def test_a_batch_that_is_there_and_maybe_not_durable_is_not_appended_twice(
    broker: Served, joined: JoinedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sync has failed, not its append; after the next start it may be there."""
    broker.logs.create_topic("t")
    flush, failures = Log.flush_records, [KafkaStorageError("the sync has failed")]

    def flush_records(log: Log) -> None:
        if failures:
            raise failures.pop()
        flush(log)

    monkeypatch.setattr(Log, "flush_records", flush_records)
    with joined.writer("t") as writer:
        writer.append(b"a")
        with pytest.raises(OutcomeUnknown, match="the sync has failed"):
            writer.flush()
    assert values(joined) == [b"a"]


@pytest.mark.usefixtures("broker")
def test_the_socket_is_the_users_alone(data: Path) -> None:
    """Nobody else may connect."""
    (path,) = data.glob("tidelog.*.sock")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_ISSOCK(path.stat().st_mode)


def test_the_socket_gets_its_name_when_it_is_the_users_alone(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And answers: who finds it by that name is not refused, and it was never open to others."""
    rename, seen = os.rename, []

    def watched(old: str, new: str) -> None:
        if new.endswith(".sock"):
            seen.append((stat.S_IMODE(os.stat(old).st_mode), os.path.exists(new)))
            with socket.socket(socket.AF_UNIX) as found:
                found.connect(old)
        rename(old, new)

    monkeypatch.setattr(os, "rename", watched)
    before = os.umask(0)
    try:
        with KafkaBroker(data):
            assert seen == [(0o600, False)]
    finally:
        os.umask(before)


def test_a_killed_process_leaves_a_socket_that_the_next_one_removes(data: Path) -> None:
    """To join meanwhile is refused: nobody is there."""
    code = (
        "import os, sys; from tidelog.testing import KafkaBroker;"
        "KafkaBroker(sys.argv[1]).start(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(data)], check=False, timeout=60)
    assert len(list(data.glob("tidelog.*.sock"))) == 1
    with pytest.raises(NotServed):
        tidelog.join(data)
    with KafkaBroker(data):
        assert len(list(data.glob("tidelog.*.sock"))) == 1
        tidelog.join(data).close()
    assert list(data.glob("tidelog.*.sock")) == []


def test_a_path_that_is_too_long_has_its_socket_elsewhere(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain file in the directory names it; both are removed at the end."""
    runtime = data
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    deep = tmp_path / ("long-" * 25)
    with KafkaBroker(deep), tidelog.join(deep) as joined:
        joined.create_topic("t")
        assert joined.append("t", b"a").offset == 0
        assert (deep / POINTER).is_file()
        assert len(list(runtime.iterdir())) == 1
    assert not (deep / POINTER).exists()
    assert list(runtime.iterdir()) == []


def test_threads_share_one_connection(joined: JoinedLogs) -> None:
    """Each gets its own answers."""
    joined.create_topic("t")
    offsets: list[int] = []

    def append() -> None:
        offsets.extend(joined.append("t", b"a").offset for _ in range(50))

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(offsets) == list(range(400))


def test_what_is_ours_is_of_one_process(joined: JoinedLogs) -> None:
    """A forked child uses nothing of it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            joined.create_topic("t")
        except tidelog.errors.ForkedProcess as error:
            code = "this JoinedLogs belongs" not in str(error)
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_is_closed_is_used_no_more(broker: Served, joined: JoinedLogs) -> None:
    """A typed error, and nothing is written; a second close does nothing."""
    joined.create_topic("t")
    reader = joined.reader("t", group="g")
    joined.close()
    joined.close()
    for use, what in (
        (lambda: joined.append("t", b"x"), f"^the joined logs of {joined.path} are closed"),
        (lambda: list(reader.read()), "^the reader of group 'g' is closed"),
    ):
        with pytest.raises(InvalidArgument, match=what):
            use()
    assert not broker.logs.groups.has_reader("g")
    assert values(broker.logs) == []
