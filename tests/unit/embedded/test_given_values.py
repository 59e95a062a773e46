"""What a program may give where a time, a setting or an existing topic is meant."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from tests.machinery.directory_home import DataHome

import tidelog
from tidelog.codec.compression import Codec
from tidelog.embedded.async_logs import AsyncLogs
from tidelog.embedded.read_only_logs import ReadOnlyLogs
from tidelog.errors import (
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    NotJson,
    TopicAlreadyExists,
)
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.new_record import NewRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidelog.embedded.logs import Logs

HOUR_MS = 3_600_000


def date_of(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


@pytest.fixture
def home() -> DataHome:
    return DataHome()


@pytest.fixture
def logs(home: DataHome) -> Iterator[Logs]:
    with home.open() as opened:
        yield opened


def appended(logs: Logs) -> list[Callable[[Any], Any]]:
    """Return every way to append a record with a timestamp to topic t."""

    def in_transaction(given: Any) -> None:
        with logs.transaction() as txn:
            txn.append("t", b"v", timestamp=given)

    def by_writer(given: Any) -> None:
        with logs.writer("t") as writer:
            writer.append(b"v", timestamp=given)

    return [
        lambda given: logs.append("t", b"v", timestamp=given),
        lambda given: logs.append_all("t", [(None, b"v", (), given)]),
        lambda given: logs.append_all("t", [{"value": b"v", "timestamp": given}]),
        lambda given: logs.append_all("t", [NewRecord(None, b"v", timestamp=given)]),
        lambda given: asyncio.run(AsyncLogs(logs).append("t", b"v", timestamp=given)),
        in_transaction,
        by_writer,
    ]


@pytest.mark.parametrize(
    "given_of", [int, date_of, lambda ms: date_of(ms).isoformat()], ids=["ms", "date", "text"]
)
def test_a_record_takes_its_time_in_every_form(
    home: DataHome, logs: Logs, given_of: Callable[[int], Any]
) -> None:
    """Milliseconds, a datetime, or its text, by every way to append."""
    logs.create_topic("t")
    time_ms = home.clock.now_ms() - HOUR_MS
    ways = appended(logs)

    for append in ways:
        append(given_of(time_ms))

    assert [record.timestamp for record in logs.read("t")] == [time_ms] * len(ways)


@pytest.mark.parametrize("given", [1.5, True, "noon", "1h", b"5", timedelta(hours=1)], ids=str)
def test_a_time_that_is_none_is_refused_by_every_way_to_append(logs: Logs, given: Any) -> None:
    """With a typed error, and nothing is appended; a distance from now dates no record."""
    logs.create_topic("t")

    for append in appended(logs):
        with pytest.raises(InvalidArgument):
            append(given)

    assert list(logs.read("t")) == []


def test_a_lookup_takes_a_time_in_every_form(home: DataHome, logs: Logs) -> None:
    """By the owner and beside it; a distance counts from now."""
    logs.create_topic("t")
    now_ms = home.clock.now_ms()
    for hours in (3, 2, 1):
        logs.append("t", b"v", timestamp=now_ms - hours * HOUR_MS)
    logs.flush()
    beside = ReadOnlyLogs(home.path, fs=home.fs, clock=home.clock, wait_ms=home.clock.advance)
    two_hours_ago = now_ms - 2 * HOUR_MS

    for door in (logs, beside):
        for given in (two_hours_ago, date_of(two_hours_ago), "2h", "120m"):
            found = door.offset_at("t", 0, given)
            assert found is not None
            assert (found.offset, found.timestamp) == (1, two_hours_ago)
        assert door.offset_at("t", 0, "30m") is None
        wrong: Any
        for wrong in (-1, 1.5, None, "noon", "1969-12-31"):
            with pytest.raises(InvalidArgument):
                door.offset_at("t", 0, wrong)


def test_a_log_that_is_only_read_takes_dates(home: DataHome, logs: Logs) -> None:
    """To look a time up, and to leave out earlier records; anything else is a typed error."""
    logs.create_topic("t")
    now_ms = home.clock.now_ms()
    for hours in (2, 1):
        logs.append("t", b"v", timestamp=now_ms - hours * HOUR_MS)
    logs.flush()

    with open_read_only(f"{home.path}/t-0", fs=home.fs) as log:
        found = log.offset_at(date_of(now_ms - HOUR_MS))
        later = [one.offset for one in log.records(since_ms=date_of(now_ms - HOUR_MS))]
        wrong: Any = 1.5
        for ask in (log.offset_at, lambda given: list(log.records(since_ms=given))):
            with pytest.raises(InvalidArgument):
                ask(wrong)

    assert (found and found.offset, later) == (1, [1])


def test_settings_are_numbers_booleans_lists_or_text(home: DataHome) -> None:
    """By every way to give them; they are stored as text, as Kafka has them."""
    config: dict[str, Any] = {
        "retention.ms": 5,
        "preallocate": True,
        "min.cleanable.dirty.ratio": 0.25,
    }
    more: dict[str, Any] = {
        "cleanup.policy": ["compact", "delete"],
        "segment.ms": 7 * 86.4e6,
        "flush.ms": "9",
    }
    text = {
        "retention.ms": "5",
        "preallocate": "true",
        "min.cleanable.dirty.ratio": "0.25",
        "cleanup.policy": "compact,delete",
        "segment.ms": "604800000",
        "flush.ms": "9",
    }
    with home.open() as logs:
        assert logs.create_topic("t", config={**config, **more}).config == text
        logs.create_topic("u")
        assert logs.alter_topic("u", {**config, **more}).config == text
        with logs.transaction() as txn:
            txn.create_topic("v", config={**config, **more})
        assert logs.topic("v").config == text
        asyncio.run(AsyncLogs(logs).create_topic("w", config={**config, **more}))
        assert logs.topic("w").config == text


def test_settings_of_a_process_are_numbers_too(tmp_path: Path) -> None:
    """Of the process, and those that hold for its run only."""
    with tidelog.open(
        tmp_path, config={"log.retention.ms": 5, "preallocate": True}, overrides={"flush.ms": 7}
    ) as logs:
        logs.create_topic("t")
        config = logs.config_of("t")

    assert (config.retention_ms, config.preallocate, config.flush_ms) == (5, True, 7)


@pytest.mark.parametrize("value", [None, "3d", 1.5, b"5", {}], ids=str)
def test_a_value_that_is_no_setting_is_named(logs: Logs, value: Any) -> None:
    """As one of text is; nothing is created."""
    with pytest.raises(InvalidConfig, match=r": retention\.ms: "):
        logs.create_topic("t", config={"retention.ms": value})

    assert logs.topics() == {}


def test_an_existing_topic_is_returned_if_it_is_as_asked_for(logs: Logs) -> None:
    """What is not given may differ, and partitions may have been added since.

    A default that is in force counts as set.
    """
    topic = logs.create_topic("t", 2, {"retention.ms": 5, "cleanup.policy": "delete"})

    for partitions, config in (
        *((None, None), (2, {"retention.ms": "5"}), (None, {"cleanup.policy": ["delete"]})),
        *((2, {"segment.bytes": 1 << 30}), (1, {"retention.bytes": -1})),
    ):
        assert logs.create_topic("t", partitions, config, exist_ok=True) == topic


@pytest.mark.parametrize(
    ("partitions", "config", "named"),
    [
        (3, None, "2 partitions, not 3"),
        (None, {"retention.ms": 6}, "retention.ms=5, not 6"),
        (None, {"cleanup.policy": "compact"}, "cleanup.policy=delete, not compact"),
        (3, {"segment.ms": 9, "retention.ms": 5}, "3; segment.ms=604800000, not 9"),
    ],
)
def test_a_difference_that_was_given_is_an_error_that_names_it(
    logs: Logs, partitions: int | None, config: Any, named: str
) -> None:
    """A program must not continue with a topic that, say, keeps less than it has asked for."""
    topic = logs.create_topic("t", 2, {"retention.ms": 5})

    with pytest.raises(TopicAlreadyExists) as caught:
        logs.create_topic("t", partitions, config, exist_ok=True)

    assert named in str(caught.value)
    assert "alter_topic" in str(caught.value)
    assert logs.topic("t") == topic


def test_what_holds_for_this_run_only_is_no_difference(home: DataHome) -> None:
    """Overrides of the opener are not the topic's; its birth values are."""
    with home.open() as logs:
        topic = logs.create_topic("t", config={"flush.messages": 1})

    with home.open(overrides={"flush.messages": "7"}) as logs:
        assert logs.create_topic("t", config={"flush.messages": 1}, exist_ok=True) == topic
        assert logs.create_topic("t", config={"retention.ms": -1}, exist_ok=True) == topic


def test_what_holds_for_this_run_holds_in_topics_of_a_transaction(home: DataHome) -> None:
    """In one that it creates as in all others."""
    with home.open(overrides={"max.message.bytes": "2000000"}) as logs:
        with logs.transaction() as txn:
            txn.create_topic("t")
            txn.append("t", bytes(1_500_000))
        assert logs.count_records("t").records == 1


def test_a_bad_setting_of_an_existing_topic_is_named_too(logs: Logs) -> None:
    """As it is where the topic is created."""
    logs.create_topic("t")

    with pytest.raises(InvalidConfig, match="retention_ms: unknown, did you mean"):
        logs.create_topic("t", config={"retention_ms": 5}, exist_ok=True)


def test_a_number_that_no_topic_can_have_is_refused_of_one_that_exists_too(logs: Logs) -> None:
    """As it is where the topic is created, and by joined logs."""
    logs.create_topic("t")

    with pytest.raises(InvalidPartitions):
        logs.create_topic("t", 0, exist_ok=True)


def test_a_setting_is_not_set_and_dropped_by_one_change(logs: Logs) -> None:
    """It is not known which of the two is meant."""
    topic = logs.create_topic("t", config={"retention.ms": 5})

    with pytest.raises(InvalidConfig, match=r"retention.ms: either set it or drop it"):
        logs.alter_topic("t", {"retention.ms": 6}, unset=["retention.ms"])

    assert logs.topic("t") == topic


def as_json(logs: Logs) -> list[Callable[[Any], Any]]:
    """Return every way to append a value as JSON to topic t."""

    def in_transaction(given: Any) -> None:
        with logs.transaction() as txn:
            txn.append("t", json=given, key=b"k")

    def by_writer(given: Any) -> None:
        with logs.writer("t") as writer:
            writer.append(json=given)

    return [
        lambda given: logs.append("t", json=given),
        lambda given: logs.append_all("t", [{"json": given}]),
        lambda given: asyncio.run(AsyncLogs(logs).append("t", json=given)),
        in_transaction,
        by_writer,
    ]


@pytest.mark.parametrize("bad", [{1, 2}, float("nan"), b"bytes", ["\ud800"]])
def test_what_json_cannot_express_is_refused_by_every_way(logs: Logs, bad: object) -> None:
    """By one error, and nothing is appended."""
    logs.create_topic("t")

    for append in as_json(logs):
        with pytest.raises(InvalidArgument, match="the value cannot be written as JSON"):
            append(bad)

    assert list(logs.read("t")) == []


def test_a_record_has_one_value(logs: Logs) -> None:
    """Either ``value`` or ``json``, and None is a value."""
    logs.create_topic("t")

    for given in ({}, {"value": None, "json": None}, {"value": b"v", "json": 1}):
        with pytest.raises(InvalidArgument, match="a record has"):
            logs.append("t", **given)
        with pytest.raises(InvalidArgument, match="a dict has value or json"):
            logs.append_all("t", [given])
        with logs.writer("t") as writer, pytest.raises(InvalidArgument, match="a record has"):
            writer.append(**given)
        with logs.transaction() as txn, pytest.raises(InvalidArgument, match="a record has"):
            txn.append("t", **given)

    assert list(logs.read("t")) == []


@pytest.mark.parametrize(
    ("given", "written"),
    [
        *(({"a": [1, None]}, b'{"a":[1,null]}'), ("ü", '"ü"'.encode()), (0, b"0")),
        *((False, b"false"), ([], b"[]"), (None, None)),
    ],
)
def test_a_value_is_written_and_read_as_json(
    logs: Logs, given: object, written: bytes | None
) -> None:
    """By every way; None is a tombstone, which reads as None."""
    logs.create_topic("t")
    ways = as_json(logs)

    for append in ways:
        append(given)

    found = list(logs.read("t"))
    assert [record.value for record in found] == [written] * len(ways)
    assert [record.json() for record in found] == [given] * len(ways)


def test_a_value_that_is_not_json_is_an_error_with_its_place(logs: Logs) -> None:
    """The records after it can be read, and the bytes ``null`` are None."""
    logs.create_topic("t", partitions=2)
    for value in (b"null", b"oops", b"[1]"):
        logs.append("t", value, partition=1)

    first, bad, last = logs.read("t")

    with pytest.raises(NotJson, match="the value at offset 1 of t-1 is not JSON: Exp") as caught:
        bad.json()
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 1, 1)
    assert (first.json(), last.json()) == (None, [1])


@pytest.mark.parametrize("codec", [Codec.ZSTD, "zstd"])
def test_a_codec_may_be_a_word(home: DataHome, codec: Codec | str) -> None:
    """Whatever takes a codec takes Kafka's name for it."""
    with home.open() as directory:
        directory.create_topic("t")
        partition = directory.partition("t", 0)
        partition.log.append_records([(1, None, b"a", ())], codec=codec)
        partition.append_records([(1, None, b"b", ())], codec=codec)
        assert directory.append_all("t", [b"c"], codec=codec) == 1

    with home.read_only("t-0") as log:
        codecs = [n & 7 for piece in log.pieces() for n in piece.batches.attributes.tolist()]
    assert codecs == [Codec.ZSTD] * 3


def test_an_unknown_codec_is_refused_before_anything_is_appended(home: DataHome) -> None:
    """The error lists the choices; not a record is gathered, not a transaction begun."""
    with home.open() as directory:
        directory.create_topic("t")
        for refused in (directory.writer, directory.transaction):
            with pytest.raises(InvalidArgument, match="no codec 'rar': use one of none, gzip"):
                refused("t", codec="rar")
        with pytest.raises(InvalidArgument, match="no codec 'rar'"):
            directory.partition("t", 0).log.append_records([], codec="rar")

    assert home.values("t-0") == []


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda logs: logs.create_topic("z", partitions="2"), "'2' is not a number of partitions"),
        (
            lambda logs: logs.create_topic("t", "2", exist_ok=True),
            "'2' is not a number of partitions",
        ),
        (lambda logs: logs.create_partitions("t", True), "True is not a number of partitions"),
        (lambda logs: logs.create_topic("z", config="retention.ms=1"), "settings are a mapping"),
        (lambda logs: logs.create_topic(b"z"), "a topic's name is str, not bytes"),
        (lambda logs: logs.append(b"t", b"x"), "a topic's name is str, not bytes"),
        (lambda logs: list(logs.read(["t"])), "a topic's name is str, not list"),
        (lambda logs: logs.append("t", b"x", headers={"a": b"b"}), r"list\(headers.items\(\)\)"),
        (lambda logs: logs.append("t", "hello"), r"not str; encode it: text.encode\(\)"),
        (lambda logs: logs.append("t", b"x", key="k"), r"key is .* encode it: text.encode\(\)"),
        (lambda logs: logs.writer("t").append("x", key=b"k"), r"value is .*: text.encode\(\)"),
        (lambda logs: logs.append_all("t", b"hello"), "give an iterable of records.*, not bytes"),
        (lambda logs: logs.append_all("t", {"value": b"x"}), "give an iterable of .*, not dict"),
        (lambda logs: logs.append_all("t", 5), "give an iterable of records.*, not int"),
        (
            lambda logs: asyncio.run(AsyncLogs(logs).append_all("t", NewRecord(b"k", b"v"))),  # type: ignore[arg-type]  # refused
            "give an iterable of records.*, not NewRecord",
        ),
    ],
)
def test_an_argument_of_a_wrong_type_is_a_typed_error(
    logs: Logs, call: Callable[[Any], Any], reason: str
) -> None:
    """It says what is wanted, before anything is changed."""
    logs.create_topic("t")

    with pytest.raises(InvalidArgument, match=reason):
        call(logs)

    assert list(logs.topics()) == ["t"]
    assert list(logs.read("t")) == []


@pytest.mark.parametrize("given", [True, 1.0, "1"])
def test_a_partition_of_a_record_is_a_whole_number(logs: Logs, given: Any) -> None:
    """Python takes 1.0 and True for 1, and a text would be said to be a missing partition."""
    logs.create_topic("two", partitions=2)
    record = NewRecord(None, b"v", partition=given)

    for act in (
        lambda: logs.append_all("two", [record]),
        lambda: logs.writer("two").append(record),
    ):
        with pytest.raises(InvalidArgument, match="is not the number of a partition"):
            act()
    with pytest.raises(InvalidArgument, match="is not the number of a partition"):
        logs.reader("two", group="g", partitions=[given])


@pytest.mark.parametrize("given", [True, 1.5, "1"])
def test_an_offset_to_read_from_is_a_whole_number(logs: Logs, given: Any) -> None:
    """A fraction would be read from as if it were the next offset, and no group can commit it."""
    logs.create_topic("one")
    logs.append_all("one", [b"0", b"1", b"2"])

    with logs.reader("one", group="g") as reader:
        for act in (
            lambda: reader.seek("one", 0, given),
            lambda: list(logs.read("one", 0, given)),
            lambda: list(logs.follow("one", 0, given, idle_ms=0)),
            lambda: logs.count_records("one", 0, given),
        ):
            with pytest.raises(InvalidArgument, match="is not an offset"):
                act()
        assert list(reader.positions.values()) == [0]


@pytest.mark.parametrize("wrong", ["", [], (), False, 0], ids=repr)
def test_settings_in_another_form_than_a_mapping_are_refused(logs: Logs, wrong: Any) -> None:
    """Also those that count as false: nothing is taken for no settings."""
    logs.create_topic("t")
    with logs.transaction() as txn:
        for change in (
            lambda: logs.create_topic("u", config=wrong),
            lambda: logs.alter_topic("t", config=wrong),
            lambda: txn.create_topic("u", config=wrong),
        ):
            with pytest.raises(InvalidArgument, match="settings are a mapping"):
                change()


def test_a_topic_is_altered_as_it_is_created(logs: Logs) -> None:
    """By ``config``; keywords are refused."""
    logs.create_topic("t", config={"retention.ms": 5})

    logs.alter_topic("t", config={"flush.ms": 1})
    logs.alter_topic("t", {"flush.messages": 2})
    logs.alter_topic("t", unset=["retention.ms"])

    assert logs.topic("t").config == {"flush.ms": "1", "flush.messages": "2"}
    with pytest.raises(InvalidArgument, match=r"go into config=\{'retention.ms': '5'\}"):
        logs.alter_topic("t", retention_ms=5)
    with pytest.raises(InvalidArgument, match="go into config="):
        logs.alter_topic("t", {}, settings={"segment.ms": 3})


def test_numbers_of_numpy_are_numbers(logs: Logs) -> None:
    """What is written of them, and what comes back, are those of Python, which JSON takes, too."""
    zero, one, two, three, five = (cast("int", np.int64(n)) for n in (0, 1, 2, 3, 5))
    logs.create_topic("t", two)
    with logs.transaction() as txn:
        txn.create_topic("u", two)
        txn.append("t", b"v", partition=one, timestamp=five)
    with logs.reader("t", group="g", partitions=[one]) as reader:
        reader.seek("t", one, zero)
        found = [record.partition for record in reader.read()]
        reader.commit()
        positions = {(*key, offset) for key, offset in reader.committed.items()}
    appended = logs.append("t", b"v", partition=one)

    assert json.dumps([found, *positions, appended]) == '[[1], ["t", 1, 1], [1, 1]]'
    assert len(logs.create_partitions("t", three).partitions) == 3


def test_more_last_records_than_any_log_has_are_all(logs: Logs) -> None:
    """Also where a loop could not count to the number."""
    logs.create_topic("t")
    logs.append("t", b"v")

    assert len(list(logs.read("t", last=1 << 70))) == 1


@pytest.mark.parametrize("offset", [-1, 1 << 63])
def test_a_reader_goes_to_no_offset_that_a_log_cannot_have(logs: Logs, offset: int) -> None:
    """Committed, it would be a position that no file can hold."""
    logs.create_topic("t")
    reader = logs.reader("t", group="g")
    with reader, pytest.raises(InvalidArgument, match="is not an offset"):
        reader.seek("t", 0, offset)


def test_a_wait_of_less_than_nothing_is_refused(home: DataHome, logs: Logs) -> None:
    """It would end at once where one without an end may be meant."""
    logs.create_topic("t")
    beside = ReadOnlyLogs(home.path, fs=home.fs, clock=home.clock, wait_ms=home.clock.advance)
    with logs.reader("t", group="g") as reader:
        for records in (
            logs.follow("t", idle_ms=-1),
            beside.follow("t", idle_ms=-1),
            reader.read(idle_ms=-1),
        ):
            with pytest.raises(InvalidArgument, match="idle_ms is a number of milliseconds, 0 or"):
                next(records)


def test_a_record_that_was_read_is_not_one_to_append(logs: Logs) -> None:
    """The error says what of it to pass; it has a place of its own, too."""
    logs.create_topic("t")
    logs.append("t", b"v", key=b"k")

    for wrong, parts in ((next(logs.read("t")), "ConsumedRecord of 10"), ((b"k",), "tuple of 1")):
        with pytest.raises(InvalidArgument, match=rf"{parts} parts; pass \(key, value, headers"):
            logs.append_all("t", [wrong])
