"""Messages of Kafka's internal topics."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.codec.messages.message_reader import read_message, split_version
from tidelog.codec.messages.message_table import KEY, messages_of
from tidelog.codec.messages.message_writer import write_message
from tidelog.errors import InvalidArgument, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Enumerated

    from tidelog.codec.messages.message_table import Message

WRITTEN_BY_KAFKA = Path(__file__).with_name("written_by_kafka.tsv")
"""Class, version, bytes and JSON of messages, written by ``tests/compat/MessageSamples.java``."""
FAMILIES = ("group", "transaction", "share", "metadata", "consumer")


def samples() -> list[tuple[str, int, bytes, Any]]:
    """Return the messages in the file beside this one."""
    return list(parsed(WRITTEN_BY_KAFKA.read_text("utf-8")))


def parsed(printed: str) -> Iterator[tuple[str, int, bytes, Any]]:
    """Yield class, version, bytes and Kafka's JSON."""
    for line in printed.splitlines():
        name, version, data, text = line.split("\t", 3)
        yield name, int(version), base64.b64decode(data), json.loads(text)


def message_of(class_name: str, version: int) -> Message:
    """Return the table's entry for a class of Kafka's."""
    package, _, name = class_name.rpartition(".")
    if ".metadata" in package:
        named = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        return by_name("metadata", named, version)
    if name.startswith("ConsumerProtocol"):
        return by_name("consumer", name.removeprefix("ConsumerProtocol"), version)
    family = package.split(".")[-2]
    if name.endswith("Key"):
        return by_name(family, name.removesuffix("Key"), KEY)
    return by_name(family, name.removesuffix("Value"), version)


def by_name(family: str, name: str, version: int) -> Message:
    """Return the entry of that name and version."""
    found = messages_of(family).items()
    return next(one for (_, v), one in found if v == version and one.name == name)


def test_messages_have_the_fields_and_values_that_kafka_prints(enumerated: Enumerated) -> None:
    """Every message and version of Kafka 4.3.1, with random contents."""
    seen = set()
    for name, version, data, wanted in samples():
        message = message_of(name, version)
        assert read_message(message, data) == wanted, (name, version)
        seen.add(message)

    known = {message for family in FAMILIES for message in messages_of(family).values()}
    assert seen == known
    enumerated("messages and versions", len(seen), at_least=100)


def test_a_message_that_is_cut_short_is_invalid() -> None:
    """At each byte: an error, never a message with fewer fields."""
    assert len(samples()) >= 200
    for name, version, data, _ in samples():
        for end in range(min(len(data), 60)):
            with pytest.raises(InvalidRecord):
                read_message(message_of(name, version), data[:end])


def test_what_follows_a_message_is_invalid() -> None:
    """Its bytes are counted."""
    name, version, data, _ = samples()[0]

    with pytest.raises(InvalidRecord, match="followed by 2 other bytes"):
        read_message(message_of(name, version), data + b"\0\0")


def test_fields_with_unknown_tags_are_left_out() -> None:
    """A newer Kafka adds them without another version."""
    message = messages_of("metadata")[20, 0]

    assert read_message(message, b"\x02\x05\x03abc\x09\x00") == {}


def size_read(message: Message, data: bytes) -> int:
    """Return the size of a message as JSON, 0 for an invalid one."""
    try:
        return len(json.dumps(read_message(message, data)))
    except InvalidRecord:
        return 0


@given(data=st.binary(max_size=80))
def test_no_bytes_are_read_as_more_than_they_hold(data: bytes) -> None:
    """Any bytes are a message or InvalidRecord, however large the sizes that they state."""
    messages = [message for family in FAMILIES for message in messages_of(family).values()]
    largest = max(size_read(message, data) for message in messages)

    assert largest < 40 * (len(data) + 40)


def test_a_version_is_split_from_what_follows() -> None:
    """Two bytes, big endian; fewer are invalid."""
    assert split_version(b"\x00\x03rest") == (3, b"rest")
    with pytest.raises(InvalidRecord):
        split_version(b"\x00")


def test_messages_are_written_as_kafka_writes_them() -> None:
    """From the values that were read of them: the same bytes."""
    assert len(samples()) >= 200
    for name, version, data, _ in samples():
        message = message_of(name, version)
        assert write_message(message, read_message(message, data)) == data, (name, version)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"group": None, "topic": "t", "partition": 0},
        {"group": "g", "topic": "t", "partition": 1 << 31},
        {"group": "g", "topic": "t", "partition": 0, "other": 1},
        {"group": "g", "topic": 5, "partition": 0},
    ],
)
def test_values_that_a_message_does_not_have_are_refused(values: dict[str, Any]) -> None:
    """A null, a number out of range, a field too many or too few, a wrong type."""
    with pytest.raises(InvalidArgument, match="not the values of a message OffsetCommit"):
        write_message(messages_of("group")[1, KEY], values)
