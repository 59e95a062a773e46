"""Single records of the cluster's metadata: what is read, passed over, refused."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers
from tests.machinery import metadata_log as made

from tidelog.datadir.cluster_metadata.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RecordType,
    RemoveTopicRecord,
    TopicRecord,
    TransactionRecord,
    unpack_metadata_record,
)
from tidelog.errors import InvalidRecord

ID = UUID(int=7)


def test_what_controllers_write_is_read() -> None:
    """Each message that is read gives the values that it was made of."""
    values = {
        made.topic("flights", ID): TopicRecord("flights", ID),
        made.partition(ID, 3): PartitionRecord(ID, 3),
        made.setting("retention.ms", "5", "flights"): ConfigRecord(
            2, "flights", "retention.ms", "5"
        ),
        made.setting("log.retention.ms", None, "", 4): ConfigRecord(
            4, "", "log.retention.ms", None
        ),
        made.removal(ID): RemoveTopicRecord(ID),
        made.feature("metadata.version", 30): FeatureLevelRecord("metadata.version", 30),
        made.message(23): TransactionRecord(RecordType.BEGIN_TRANSACTION),
        made.message(24): TransactionRecord(RecordType.END_TRANSACTION),
        made.message(25): TransactionRecord(RecordType.ABORT_TRANSACTION),
    }

    assert [unpack_metadata_record(value) for value in values] == list(values.values())


def test_messages_of_other_types_are_passed_over() -> None:
    """A type that is not read here, even one that no Kafka has yet, is not an error."""
    others = [made.message(number, b"anything") for number in (0, 5, 20, 27, 28, 500)]

    assert [unpack_metadata_record(value) for value in others] == [None] * len(others)


def test_unknown_tagged_fields_are_passed_over() -> None:
    """A later release may add tagged fields to a message without a new version."""
    value = made.message(RecordType.TOPIC, made.text("t") + ID.bytes, tags=b"\x01\x09\x03abc")

    assert unpack_metadata_record(value) == TopicRecord("t", ID)


def test_an_unknown_version_of_a_message_that_counts_is_an_error() -> None:
    """What such a record changes is not known, so nothing is known any more."""
    value = made.message(RecordType.CONFIG, b"\x02\x02t\x02k\x02v", version=1)

    with pytest.raises(InvalidRecord, match="CONFIG has version 1"):
        unpack_metadata_record(value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "ends inside a varint"),
        (b"\x02\x02\x00", "frame version 2"),
        (made.topic("t", ID)[:-5], "cut short"),
        (made.topic("t", ID) + b"\0", "followed by other bytes"),
        (made.topic("t", UUID(int=0)), "the zero id"),
        (made.message(RecordType.TOPIC, b"\x03\xff\xfe" + ID.bytes), "not UTF-8"),
        (made.message(RecordType.TOPIC, b"\x00" + ID.bytes), "a null where a value is needed"),
        (made.message(RecordType.CONFIG, b"\x02\xff\xff\xff\xff\x0f"), "cut short"),
        (made.message(RecordType.TOPIC, made.text("t") + ID.bytes, tags=b"\xff\x7f"), "cut short"),
    ],
)
def test_a_malformed_record_is_an_error(value: bytes | None, reason: str) -> None:
    """Bytes that are not whole, or say what cannot be, raise InvalidRecord with the reason."""
    with pytest.raises(InvalidRecord, match=reason):
        unpack_metadata_record(value)


@given(start=integers(0, 30), body=binary(max_size=80))
def test_any_bytes_are_read_or_refused(start: int, body: bytes) -> None:
    """Hostile bytes give a record, nothing, or InvalidRecord: never another error."""
    try:
        unpack_metadata_record(bytes([1, start, 0]) + body)
    except InvalidRecord:
        return
