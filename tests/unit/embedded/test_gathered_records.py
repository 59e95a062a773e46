"""Many records at once: those of one form are appended without a look at each."""

from __future__ import annotations

from collections import UserDict
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.topic_home import all_values, batch_counts, home_with_topic, write

from tidelog.codec.compression import Codec
from tidelog.embedded.topic_writer import BATCH_BYTES, TopicWriter
from tidelog.errors import InvalidArgument, InvalidRecord, InvalidTimestamp, MessageTooLarge
from tidelog.kernels.runtime import gate
from tidelog.records.new_record import NewRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machinery.directory_home import DataHome

HOUR_MS = 3_600_000


def all_records(home: DataHome) -> dict[str, list[tuple[Any, ...]]]:
    """Return key, value, headers and timestamp of the records of each partition."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name in home.files():
        if name.startswith("t-"):
            with home.read_only(name) as log:
                found[name] = [(r.key, r.value, r.headers, r.timestamp) for r in log.records()]
    return found


def write_all(home: DataHome, records: list[Any], codec: Codec = Codec.NONE) -> int:
    """Append all records at once and flush; return how many were appended."""
    with home.open() as directory:
        return directory.append_all("t", iter(records), codec=codec)


def append_and_flush(writer: TopicWriter, records: list[Any]) -> None:
    """Append all records at once, and what is gathered then."""
    writer.append_all(records)
    writer.flush()


def keyed(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return those that have a key."""
    return [record for record in records if record[0] is not None]


VALUES = [b"%d" % number * (number % 50) for number in range(1_300)]
FORMS: dict[str, list[Any]] = {
    "values": VALUES,
    "pairs": [(value[:5], value) for value in VALUES],
    "pairs with nulls": [
        (None if len(value) % 3 else value[:2], None if len(value) % 7 else value)
        for value in VALUES
    ],
    "with headers": [(None, value, [("h", value[:1])]) for value in VALUES],
    "dicts": [{"value": value, "partition": 0} for value in VALUES],
    "dicts with times": [{"value": value, "timestamp": len(value)} for value in VALUES],
    "dicts with keys": [{"key": value[:1], "value": value, "headers": ()} for value in VALUES],
    "tuples with times": [(value[:1], value, (), 7 + len(value)) for value in VALUES],
    "tuples with some times": [(None, value, None, len(value) or None) for value in VALUES],
    "tuples with dates": [(None, value, (), datetime(2021, 1, 2, tzinfo=UTC)) for value in VALUES],
    "tuples of two lengths": [
        (value, value) if len(value) % 3 else (value, value, (), 7) for value in VALUES
    ],
    "records": [NewRecord(value[:3], value, (), 5) for value in VALUES],
    "records with partitions": [NewRecord(value, value, (), 5, 0) for value in VALUES],
    "records without times": [NewRecord(None, value, (), -1) for value in VALUES],
    "json": [{"json": {"n": len(value)}, "timestamp": 3} for value in VALUES],
    "mixed": [value if len(value) % 2 else (value, value) for value in VALUES],
}


@cache
def appended_one_by_one(form: str, partitions: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return what is read of a topic to which each record was appended by itself."""
    home = home_with_topic(partitions)
    write(home, *map(NewRecord.of, FORMS[form]))
    return all_records(home)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("codec", [Codec.NONE, pytest.param(Codec.ZSTD, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS)
def test_records_appended_at_once_are_those_appended_one_by_one(form: str, codec: Codec) -> None:
    """In one partition in their order; in several where their keys say, each once."""
    records = FORMS[form]
    for partitions in (1, 3):
        home = home_with_topic(partitions)
        count = write_all(home, records, codec)
        singly, at_once = appended_one_by_one(form, partitions), all_records(home)

        assert count == len(records)
        if partitions == 1:
            assert at_once == singly
        for name, found in singly.items():
            assert keyed(at_once[name]) == keyed(found)
        assert sorted(map(repr, chain(*at_once.values()))) == sorted(
            map(repr, chain(*singly.values()))
        )


@pytest.mark.usefixtures("engine")
def test_batches_built_at_once_are_as_large_as_others() -> None:
    """None is larger than those that a writer fills, so that reads begin near their offset."""
    home = home_with_topic(1)
    write_all(home, [bytes(100)] * 3_000)

    assert sum(batch_counts(home, "t-0")) == 3_000
    assert 3 <= len(batch_counts(home, "t-0")) <= 10
    with home.read_only("t-0") as log:
        assert max(int(piece.batches.size.max()) for piece in log.pieces()) <= BATCH_BYTES


@pytest.mark.usefixtures("engine")
def test_a_record_that_is_refused_does_not_affect_those_before_it() -> None:
    """The same errors as for one record, and what came before is taken."""
    for settings, bad, error in (
        ({"cleanup_policy": "compact"}, (None, b"v"), InvalidRecord),
        ({"max_message_bytes": "200"}, (b"k", bytes(300)), MessageTooLarge),
        ({}, (b"k", "text"), InvalidArgument),
    ):
        home = home_with_topic(1, **settings)
        with home.open() as directory:
            writer = directory.writer("t")
            with pytest.raises(error):
                append_and_flush(writer, [(b"a", b"1"), (b"b", b"2"), bad, (b"c", b"3")])
            writer.flush()

        assert [record[0] for record in all_records(home)["t-0"]] == [b"a", b"b"]


@pytest.mark.parametrize("form", ["tuples with times", "dicts with times", "records", "pairs"])
def test_records_of_one_form_are_appended_without_a_look_at_each(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the kernels pay for being loaded, also in a program that only writes."""
    looked_at: list[NewRecord] = []
    plain = TopicWriter._take

    def take(self: TopicWriter, record: NewRecord) -> None:
        looked_at.append(record)
        plain(self, record)

    monkeypatch.setattr(TopicWriter, "_take", take)
    monkeypatch.setattr(gate, "_GATE", gate.Gate(lambda: True))
    count = write_all(home_with_topic(2), FORMS[form] * 100)

    assert count == 130_000
    assert 10_000 < len(looked_at) < 100_000


@pytest.mark.usefixtures("engine")
def test_a_time_that_is_refused_does_not_affect_the_records_before_it() -> None:
    """Neither one that the topic does not take nor one that no record can hold."""
    later, far = HOUR_MS * 10**6, 2**63
    for time, error in ((later, InvalidTimestamp), (far, InvalidArgument), (-2, InvalidArgument)):
        home = home_with_topic(1)
        with home.open() as directory:
            writer = directory.writer("t")
            with pytest.raises(error):
                append_and_flush(writer, [(None, b"1", (), 5), (None, b"2", (), time)])
            writer.flush()

        assert [record[1] for record in all_records(home)["t-0"]] == [b"1"]


@pytest.mark.usefixtures("engine")
def test_append_all_and_append_keep_the_order_of_a_partition() -> None:
    """Also where what one has gathered is not appended yet."""
    home = home_with_topic(1, message_timestamp_type="LogAppendTime")
    with home.open() as directory:
        writer = directory.writer("t")
        writer.append(b"a")
        writer.append_all([b"b", b"c"])
        writer.append(b"d")
        writer.flush()
        appended = writer.records

    assert (appended, all_values(home)) == (4, {"t-0": [b"a", b"b", b"c", b"d"]})


def test_what_is_read_ahead_of_an_iterable_is_bounded() -> None:
    """By bytes: large records are taken in small numbers."""
    gate.force(True)
    try:
        home = home_with_topic(1)
        taken = most = 0
        with home.open() as directory:
            writer = directory.writer("t")

            def records() -> Iterator[bytes]:
                nonlocal taken, most
                for _ in range(2_000):
                    most = max(most, taken - writer.records)
                    taken += 1
                    yield bytes(20_000)

            writer.append_all(records())
    finally:
        gate.force(None)

    assert (taken, most <= 500) == (2_000, True)


def one_dict(count: int) -> Iterator[Any]:
    """Yield a dict that is changed for the next record."""
    record: dict[str, object] = {}
    for number in range(count):
        record["value"] = b"%03d" % number
        yield record


def one_mapping(count: int) -> Iterator[Any]:
    """Yield a mapping that is changed for the next record."""
    record = UserDict[str, object]()
    for number in range(count):
        record["value"] = b"%03d" % number
        yield record


def one_buffer(count: int) -> Iterator[Any]:
    """Yield a buffer that is filled again; now and then the value is bytes."""
    buffer = bytearray(3)
    for number in range(count):
        buffer[:] = b"%03d" % number
        yield (b"k", bytes(buffer) if number % 50 == 0 else buffer)


def one_view(count: int) -> Iterator[Any]:
    """Yield a view of a buffer that is filled again, in a dict; now and then a plain value."""
    buffer = bytearray(3)
    for number in range(count):
        buffer[:] = b"%03d" % number
        yield bytes(buffer) if number % 50 == 0 else {"value": memoryview(buffer)}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("records", [one_dict, one_mapping, one_buffer, one_view])
def test_what_is_used_again_for_the_next_record_is_read_before(records: Any) -> None:
    """Wherever among others the first one comes; no record has the value of a later one."""
    home = home_with_topic(1)
    with home.open() as directory:
        directory.append_all("t", records(900))

    assert all_values(home) == {"t-0": [b"%03d" % number for number in range(900)]}
