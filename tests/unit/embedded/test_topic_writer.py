"""Records to the partitions of a topic, gathered into batches."""

from __future__ import annotations

import errno
import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome
from tests.machinery.topic_home import all_values, batch_counts, home_with_topic, write

from tidelog.codec.compression import Codec
from tidelog.embedded.topic_writer import BATCH_BYTES, TopicWriter
from tidelog.errors import (
    InvalidArgument,
    InvalidRecord,
    InvalidTimestamp,
    InvariantError,
    KafkaStorageError,
    MessageTooLarge,
    UnknownTopicOrPartition,
)
from tidelog.manager.partition import Partition
from tidelog.records.new_record import NewRecord
from tidelog.records.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_MS = 3_600_000


def test_keys_go_where_kafkas_producers_send_them() -> None:
    """By murmur2 of the key; the same key always to the same partition, in order."""
    home = home_with_topic(5)
    keys = [b"a", b"b", b"c", b"a", b""]
    write(home, *(NewRecord(key, bytes([n])) for n, key in enumerate(keys)))
    expected: dict[str, list[bytes]] = {}
    for number, key in enumerate(keys):
        expected.setdefault(f"t-{partition_for_key(key, 5)}", []).append(bytes([number]))

    assert expected == all_values(home)


def test_records_without_a_key_share_a_batch() -> None:
    """They stay in one partition until its batch is full."""
    home = home_with_topic()
    write(home, *(NewRecord(None, bytes([n])) for n in range(10)))

    assert {"t-0": [bytes([n]) for n in range(10)]} == all_values(home)
    assert batch_counts(home, "t-0") == [10]


def test_a_full_batch_lets_records_without_a_key_move_on() -> None:
    """All partitions get their turn, each a whole batch."""
    home = home_with_topic()
    value = bytes(BATCH_BYTES // 4)
    write(home, *(NewRecord(None, value) for _ in range(12)))

    assert [batch_counts(home, f"t-{number}")[0] for number in range(3)] == [3, 3, 3]


def test_a_record_may_name_its_partition() -> None:
    """It takes precedence over the key."""
    home = home_with_topic()
    write(home, NewRecord(b"a", b"x", partition=2))

    assert all_values(home) == {"t-2": [b"x"]}


@pytest.mark.parametrize("number", [3, 2**31 - 1])
def test_a_partition_that_is_not_there_is_refused(number: int) -> None:
    """The records before it are not affected."""
    home = home_with_topic()
    with home.open() as directory:
        writer = directory.writer("t")
        writer.append(NewRecord(None, b"a"))
        with pytest.raises(UnknownTopicOrPartition, match=f"t-{number}"):
            writer.append(NewRecord(None, b"b", partition=number))
        writer.flush()

    assert all_values(home) == {"t-0": [b"a"]}


def test_only_logs_that_get_records_are_loaded() -> None:
    """A writer to one partition does not touch the others."""
    home = home_with_topic()
    write(home, NewRecord(None, b"x", partition=1))

    assert [home.files("t-0"), home.files("t-2")] == [["partition.metadata"]] * 2


def test_a_record_without_a_time_gets_the_time_now() -> None:
    """One with a time keeps it, -1 included."""
    home = home_with_topic()
    now_ms = home.clock.now_ms()
    write(home, *(NewRecord(None, b"", timestamp=time) for time in (None, 5, -1)))

    with home.read_only("t-0") as log:
        assert [now_ms, 5, -1] == [record.timestamp for record in log.records()]


@pytest.mark.parametrize(
    ("config", "record", "error"),
    [
        ({"cleanup_policy": "compact"}, NewRecord(None, b"x"), InvalidRecord),
        ({}, NewRecord(None, b"x", timestamp=1_700_000_000_000 + HOUR_MS + 1), InvalidTimestamp),
        (
            {"message_timestamp_before_max_ms": "10"},
            NewRecord(None, b"x", timestamp=1_700_000_000_000 - 11),
            InvalidTimestamp,
        ),
        ({"max_message_bytes": "100"}, NewRecord(b"k", b"x" * 100), MessageTooLarge),
    ],
)
def test_a_record_the_topic_does_not_take_is_refused_alone(
    config: dict[str, str], record: NewRecord, error: type[Exception]
) -> None:
    """Those before it are appended, though they would have been in one batch with it."""
    home = home_with_topic(1, **config)
    with home.open() as directory:
        writer = directory.writer("t")
        writer.append(NewRecord(b"a", b"good"))
        with pytest.raises(error):
            writer.append(record)
        writer.flush()

        assert writer.records == 1
    assert all_values(home) == {"t-0": [b"good"]}


FULL = OSError(errno.ENOSPC, "full")


def append_and_fail(writer: TopicWriter, value: bytes) -> None:
    """Append a record; raise ZeroDivisionError."""
    writer.append(value)
    raise ZeroDivisionError


@pytest.mark.parametrize("size", [BATCH_BYTES // 4, 2 * BATCH_BYTES])
def test_a_record_is_taken_or_refused_though_the_disk_was_full(size: int) -> None:
    """One that is refused can be given again; those before it are kept. Each is there once."""
    home = home_with_topic(1)
    given = [b"%02d" % number + bytes(size) for number in range(10)]
    refused = 0
    with home.open() as directory:
        writer = directory.writer("t")
        for number, value in enumerate(given):
            if number == 4:
                home.fs.fail("pwrite", ".log", FULL)
            try:
                writer.append(value)
            except KafkaStorageError:
                refused += 1
                writer.append(value)
        writer.flush()
        appended = writer.records

    assert (refused, appended) == (1, 10)
    assert home.values("t-0") == given


def test_a_record_is_given_whole_or_in_parts() -> None:
    """Key and other parts are arguments as those of ``Logs.append``."""
    home = home_with_topic(2)
    with home.open() as directory:
        writer = directory.writer("t")
        writer.append((b"k", b"whole", [("h", b"1")], 7))
        writer.append(b"parts", key=b"k", headers=[("h", b"1")], timestamp=7)
        writer.append(b"placed", partition=1 - partition_for_key(b"k", 2))
        writer.append(None, key=b"k")
        writer.flush()
        records = list(directory.read("t", partition=partition_for_key(b"k", 2)))
        placed = list(directory.read("t", partition=1 - partition_for_key(b"k", 2)))

    assert [record.value for record in records] == [b"whole", b"parts", None]
    assert [(record.key, record.headers, record.timestamp) for record in records[:2]] == [
        (b"k", (("h", b"1"),), 7)
    ] * 2
    assert [record.value for record in placed] == [b"placed"]


@pytest.mark.parametrize("value", [(b"k", b"v"), {"value": b"v"}, "text"])
def test_a_value_beside_its_key_is_bytes(value: Any) -> None:
    """A whole record, or text, is refused there."""
    with home_with_topic(1).open() as directory:
        writer = directory.writer("t")
        with pytest.raises(InvalidArgument, match="value is bytes or None"):
            writer.append(value, key=b"key")
        writer.flush()

        assert writer.records == 0


def test_the_end_of_a_with_flushes() -> None:
    """Also that by an error, as what was appended before is kept."""
    home = home_with_topic(1)
    with home.open() as directory:
        with directory.writer("t") as writer:
            writer.append(b"a")
        with pytest.raises(ZeroDivisionError), directory.writer("t") as writer:
            append_and_fail(writer, b"b")
        values = [record.value for record in directory.read("t")]

    assert values == [b"a", b"b"]


def test_closing_appends_what_was_gathered() -> None:
    """Nobody has to remember the flush: neither at the end nor after an error."""
    home = home_with_topic(1)
    with home.open() as directory:
        writer = directory.writer("t")
        writer.append(b"a")
    with pytest.raises(ZeroDivisionError), home.open() as directory:
        append_and_fail(writer := directory.writer("t"), b"b")

    assert home.values("t-0") == [b"a", b"b"]


def test_closing_raises_what_keeps_gathered_records_from_the_log() -> None:
    """The directory is closed all the same, and an error of the body keeps its place."""
    home = home_with_topic(1)
    directory = home.open()
    writer = directory.writer("t")
    writer.append(b"a")
    home.fs.fail("pwrite", ".log", FULL)
    with pytest.raises(KafkaStorageError, match="full"):
        directory.close()
    directory.close()
    directory = home.open()
    writer = directory.writer("t")
    home.fs.fail("pwrite", ".log", FULL)
    with pytest.raises(ZeroDivisionError) as raised, directory:
        append_and_fail(writer, b"b")

    assert "full" in raised.value.__notes__[0]
    assert home.values("t-0") == []


def test_closing_appends_to_the_other_partitions_if_one_refuses() -> None:
    """What is gathered for a healthy one does not depend on the one before it."""
    home = home_with_topic(3)
    directory = home.open()
    writer = directory.writer("t")
    for number in range(3):
        writer.append(b"%d" % number, partition=number)
    home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)
    with pytest.raises(KafkaStorageError, match="full"):
        directory.close()

    assert all_values(home) == {"t-1": [b"1"], "t-2": [b"2"]}


def test_closing_appends_what_a_writer_gathered_that_nobody_holds() -> None:
    """Whether it does must not depend on when objects are collected."""
    home = home_with_topic(1)
    with home.open() as directory:
        directory.writer("t").append(b"a")
        gc.collect()

    assert home.values("t-0") == [b"a"]


def test_gathered_records_that_nothing_appends_any_more_are_warned_of() -> None:
    """As where a program drops a writer and the logs, and closes neither."""
    home = home_with_topic(1)
    with home.open() as directory:
        directory.writer("t").append(b"a")
        directory._gathering = set()  # as if it were collected

        with pytest.warns(ResourceWarning, match="records of a writer of topic 't' are dropped"):
            gc.collect()


def test_closing_leaves_out_the_rest_of_a_call_that_failed() -> None:
    """A caller that calls ``append_all`` again would have those records twice."""
    home = home_with_topic(2)
    records = [NewRecord(None, b"%d" % number, partition=number) for number in range(2)]
    with home.open() as directory:
        home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)
        with pytest.raises(KafkaStorageError, match="full") as raised:
            directory.append_all("t", records)
        directory.append_all("t", records[:1])

    assert raised.value.__traceback__ is not None
    assert all_values(home) == {"t-0": [b"0"], "t-1": [b"1"]}


def test_the_end_of_a_with_keeps_the_error_of_its_body() -> None:
    """That what was gathered could not be appended is a note on it."""
    home = home_with_topic(1)
    with home.open() as directory:
        home.fs.fail("pwrite", ".log", FULL)
        with pytest.raises(ZeroDivisionError) as raised, directory.writer("t") as writer:
            append_and_fail(writer, b"a")

    assert "were not appended" in raised.value.__notes__[0]
    assert "full" in raised.value.__notes__[0]
    assert home.values("t-0") == [b"a"]


def test_an_interrupt_while_a_directory_is_closed_leaves_it_unlocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where an error of the body is what closes it."""
    home = home_with_topic(1)
    directory = home.open()

    def interrupted(_: TopicWriter) -> None:
        raise KeyboardInterrupt

    writer = directory.writer("t")
    with monkeypatch.context() as patch:
        patch.setattr(TopicWriter, "append_gathered", interrupted)
        with pytest.raises(KeyboardInterrupt), directory:
            append_and_fail(writer, b"a")

    with home.open() as directory:
        directory.append("t", b"b")
    assert home.values("t-0") == [b"b"]
    writer._gathering.clear()  # else it warns of its record


def test_a_record_that_fills_its_batch_is_refused_alone() -> None:
    """Those before it in the batch are appended by the next one, without it."""
    home = home_with_topic(1)
    with home.open() as directory:
        writer = directory.writer("t")
        writer.append(b"a")
        filling = bytes(writer._room - writer._sizes[0] - len(b"k") - 36)
        home.fs.fail("pwrite", ".log", FULL)
        with pytest.raises(KafkaStorageError, match="full"):
            writer.append((b"k", filling))
        writer.append(b"b")
        writer.flush()
        appended = writer.records

    assert (appended, home.values("t-0")) == (2, [b"a", b"b"])


def test_a_flush_that_failed_can_be_repeated() -> None:
    """It appends what is still gathered, and only that."""
    home = home_with_topic(2)
    with home.open() as directory:
        writer = directory.writer("t")
        for number in range(2):
            writer.append(NewRecord(None, b"%d" % number, partition=number))
        home.fs.fail("pwrite", "t-1/00000000000000000000.log", FULL)
        with pytest.raises(KafkaStorageError, match="full"):
            writer.flush()
        writer.flush()
        appended = writer.records

    assert (appended, all_values(home)) == (2, {"t-0": [b"0"], "t-1": [b"1"]})


def test_a_batch_that_is_refused_is_no_gap_in_a_transaction() -> None:
    """Its records were taken before their time had passed, so the commit says that it cannot be."""
    home = home_with_topic(1, message_timestamp_before_max_ms="10")
    with home.open() as directory:
        txn = directory.transaction("x")
        txn.append("t", b"a" * 40_000, timestamp=home.clock.now_ms())
        home.clock.advance(20)
        with pytest.raises(InvalidTimestamp):
            txn.append("t", b"b" * 40_000)
        with pytest.raises(InvalidTimestamp), txn:
            txn.append("t", b"c")

    assert all_values(home) == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, ZeroDivisionError])
def test_an_interrupted_batch_is_not_appended_twice(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether it was appended, so the next flush leaves it out."""
    home = home_with_topic(1)
    append = Partition.append_records

    def interrupted(*args: Any, **how: Any) -> None:
        append(*args, **how)
        raise error

    with home.open() as directory:
        writer = directory.writer("t")
        writer.append(b"a")
        with monkeypatch.context() as patch:
            patch.setattr(Partition, "append_records", interrupted)
            with pytest.raises(error):
                writer.flush()
            writer.append(b"b")
            with pytest.raises(error):  # by the record that fills the batch, itself in it
                writer.append(bytes(writer._room - writer._sizes[0] - 36))
        writer.append(b"c")
        writer.flush()

    assert [value and value[:1] for value in home.values("t-0")] == [b"a", b"b", b"\0", b"c"]


def test_a_time_limit_is_inclusive() -> None:
    """A record at the very edge of what the topic takes is taken."""
    home = home_with_topic(1, message_timestamp_before_max_ms="10")
    now_ms = home.clock.now_ms()

    assert (
        write(
            home,
            NewRecord(None, b"", timestamp=now_ms - 10),
            NewRecord(None, b"", timestamp=now_ms + HOUR_MS),
        )
        == 2
    )


def test_append_time_topics_take_any_time() -> None:
    """The record's own time does not matter then."""
    home = home_with_topic(1, message_timestamp_type="LogAppendTime")

    assert write(home, NewRecord(None, b"", timestamp=2**62)) == 1


@pytest.mark.parametrize("limit", ["150", "1000"])
def test_batches_stay_below_what_the_topic_takes(limit: str) -> None:
    """``max.message.bytes`` bounds a batch, not only a record."""
    home = home_with_topic(1, max_message_bytes=limit)
    headers = (("ünï", b"x" * 9), ("", None))
    written = write(home, *(NewRecord(b"k", b"v" * 20, headers) for _ in range(50)))

    assert 50 == written == sum(batch_counts(home, "t-0"))


def test_batches_stay_below_the_segment_size() -> None:
    """An append larger than a segment would be refused."""
    home = home_with_topic(1, internal_segment_bytes="300")

    assert write(home, *(NewRecord(None, b"v" * 20) for _ in range(50))) == 50


def test_a_huge_record_is_a_batch_of_its_own() -> None:
    """Up to ``max.message.bytes``, far above the usual size of a batch."""
    home = home_with_topic(1)
    huge = b"x" * 900_000
    write(home, NewRecord(None, b"a"), NewRecord(None, huge), NewRecord(None, b"b"))

    assert batch_counts(home, "t-0") == [1, 1, 1]
    assert {"t-0": [b"a", huge, b"b"]} == all_values(home)


def test_batches_are_compressed_as_asked() -> None:
    """One that is too large plain may fit when compressed."""
    home = home_with_topic(1, max_message_bytes="200")

    assert write(home, NewRecord(None, b"x" * 10_000), codec=Codec.GZIP) == 1


def test_flush_makes_durable_and_visible() -> None:
    """After it, a power cut loses nothing, and readers see all."""
    home = home_with_topic(1)
    directory = home.open()
    writer = directory.writer("t")
    writer.append(NewRecord(None, b"a"))
    writer.flush()
    home.fs.power_cut()

    assert all_values(home) == {"t-0": [b"a"]}


def test_an_unknown_topic_is_not_made() -> None:
    """A writer does not create topics."""
    with home_with_topic().open() as directory, pytest.raises(UnknownTopicOrPartition):
        directory.writer("u")


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"key": "k"}, "key is bytes or None, not str"),
        ({"value": 5}, "value is bytes or None, not int"),
        ({"value": {"a": 1}}, "not dict; as JSON: json.dumps.value..encode.., or json=value of ap"),
        ({"timestamp": 1.5}, "a time is an int"),
        ({"headers": [("a", "b")]}, r"header is a name .* not \('a', 'b'\)"),
        ({"headers": [(b"a", b"b")]}, "header is a name"),
        ({"headers": {"a": b"b"}}, r"pass a list of pairs: list\(headers.items\(\)\)"),
        ({"headers": [("\ud800", b"b")]}, "not valid Unicode"),
        ({"headers": 5}, "headers are pairs of name and value, not 5"),
        ({"timestamp": -5}, "timestamp -5 is outside"),
        ({"timestamp": 2**63}, f"timestamp {2**63} is outside"),
    ],
)
def test_a_part_of_a_wrong_type_is_refused_by_name(parts: dict[str, Any], why: str) -> None:
    """Before anything is appended, and the records before it are not affected."""
    home = home_with_topic(1)
    with home.open() as directory:
        writer = directory.writer("t")
        writer.append(NewRecord(None, b"before"))
        with pytest.raises(InvalidArgument, match=why):
            writer.append(NewRecord(None, b"v")._replace(**parts))
        writer.flush()

    assert all_values(home) == {"t-0": [b"before"]}


def test_a_buffer_can_be_used_again_for_the_next_record() -> None:
    """A writer and a transaction take the bytes as they are then, of whatever items and order."""
    home = home_with_topic(1)
    buffer = bytearray(b"a1")
    with home.open() as directory, directory.writer("t") as writer:
        with directory.transaction() as txn:
            for content in (b"a1", b"b2", b"c3"):
                buffer[:] = content
                headers = [("h", memoryview(buffer)[::-1])]
                writer.append((buffer, memoryview(buffer).cast("H"), headers))
                txn.append("t", buffer, key=buffer, headers=headers)  # type: ignore[arg-type]  # wrong
        writer.flush()
        found = [(one.key, one.value, one.headers) for one in directory.read("t")]
        directory.append("t", memoryview(b"abcd")[::2])
        last = [record.value for record in directory.read("t", start_offset=6)]

    taken = [(one, one, (("h", one[::-1]),)) for one in (b"a1", b"b2", b"c3")]
    assert (found, last) == (taken * 2, [b"ac"])


@pytest.mark.parametrize("error", [InvariantError("a bug"), OSError(errno.EIO, "a disk")], ids=repr)
def test_an_error_of_an_append_leaves_a_batch_gathered(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it was appended, so that the next flush tries it again."""
    home = home_with_topic(1)

    def refuse(*_: object, **_how: object) -> None:
        raise error

    with home.open() as directory, monkeypatch.context() as patch:
        writer = directory.writer("t")
        writer.append(b"a")
        patch.setattr(Partition, "append_records", refuse)
        with pytest.raises(type(error)):
            writer.flush()
        with pytest.raises(type(error)):
            writer.append(bytes(2 * BATCH_BYTES))
        patch.undo()
        writer.flush()

    assert home.values("t-0") == [b"a"]


@pytest.mark.parametrize("is_pair", [False, True])
def test_large_records_are_not_read_far_ahead(*, is_pair: bool) -> None:
    """Two or three megabytes of them are."""
    home = home_with_topic(1)
    read: list[int] = []
    ahead: list[int] = []
    with home.open() as directory:
        writer = directory.writer("t")

        def records() -> Iterator[Any]:
            for _ in range(20):
                value = bytes(900_000)
                read.append(len(value))
                taken = sum(map(len, (one.value or b"" for one in directory.read("t"))))
                ahead.append(sum(read) - taken)
                yield (b"k", value) if is_pair else value

        writer.append_all(records())

    assert max(ahead) <= 3 << 20


def test_a_buffer_that_is_given_again_is_read_before_it_changes() -> None:
    """An iterable that fills the same one for each record is not read ahead."""
    home = home_with_topic(1)
    buffer = bytearray(1)

    def filled(number: int) -> bytearray:
        buffer[0] = number
        return buffer

    def grown(first: int, end: int) -> Iterator[Any]:
        buffer.clear()  # empty when it is given at first
        yield b"k", buffer
        buffer.append(0)
        for number in range(first, end):
            yield b"k", filled(number)

    with home.open() as directory:
        given: list[Any] = [
            (filled(n) for n in range(3)),
            ((b"k", filled(n)) for n in range(3, 6)),
            ({"value": filled(n)} for n in range(6, 9)),
            ((b"k", bytes([n]), [("h", filled(n))]) for n in range(9, 12)),
            grown(12, 15),
        ]
        for records in given:
            directory.append_all("t", records)
        headers = [record.headers for record in directory.read("t")][9:12]

    numbered = [bytes([n]) for n in range(15)]
    assert home.values("t-0") == [*numbered[:12], b"", *numbered[12:]]
    assert headers == [(("h", bytes([n])),) for n in range(9, 12)]


def test_records_can_be_given_in_short_forms() -> None:
    """A value; key and value, with headers and timestamp; a mapping; each as a ``NewRecord``."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 1)
        given: list[Any] = [
            b"a",
            (b"k", b"b"),
            (None, b"c", [("h", b"x")], 7),
            {"value": b"d"},
            {"key": b"k", "value": None, "headers": (("h", None),), "timestamp": 8, "partition": 0},
            NewRecord(b"k", b"e"),
        ]
        logs.append_all("t", given)
        found = list(logs.read("t"))

    assert [(record.key, record.value) for record in found] == [
        *((None, b"a"), (b"k", b"b"), (None, b"c"), (None, b"d"), (b"k", None), (b"k", b"e"))
    ]
    assert [found[n].headers for n in (1, 2, 4)] == [(), (("h", b"x"),), (("h", None),)]
    assert [found[n].timestamp for n in (2, 4)] == [7, 8]


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (["a"], r"not str; encode it: text.encode\(\)"),
        ([None], r'not NoneType; a record without a value is \{"value": None\}'),
        (b"ab", "not bytes"),
        ([(1, 2)], "key is bytes or None, not int"),
        ([(b"k",)], "not tuple"),
        ([{"key": b"k"}], "this one has key"),
        ([{"value": b"v", "offset": 3}], "this one has value, offset"),
    ],
)
def test_what_is_not_a_record_is_a_typed_error(records: Any, why: str) -> None:
    """It names what was given, and nothing is appended."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 1)
        with pytest.raises(InvalidArgument, match=why):
            logs.append_all("t", records)

    assert home.values("t-0") == []
