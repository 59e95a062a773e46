"""Requests and responses, against another reading of Kafka's definitions (the package ``kio``)."""

from __future__ import annotations

import io
import random
import re
from dataclasses import fields as fields_of_entity
from dataclasses import replace
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from tests.machinery.random_messages import values_of

from tidelog.codec.messages.message_table import fields_of
from tidelog.codec.protocol.apis import (
    api_named,
    apis,
    read_request_header,
    read_response_header,
    size_of_frame,
)
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from tests.conftest import Enumerated

    from tidelog.codec.messages.message_table import Field, Type
    from tidelog.codec.protocol.apis import Api

REMOVED = {"Produce": 3, "ListOffsets": 1}
"""The first versions that Kafka 4 defines, where ours begin before."""
OUR_TAG = 9000
"""From which one on tagged fields are not Kafka's."""


def present(fields: tuple[Field, ...], version: int, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are in the bytes of a version."""
    return {
        field.name: part_of(field.type, version, values[field.name])
        for field in fields
        if field.is_in(version)
    }


def part_of(kind: Type, version: int, value: Any) -> Any:
    """Return the part of a value that is in the bytes of a version."""
    if value is None:
        return None
    if kind.element is not None:
        return [part_of(kind.element, version, one) for one in value]
    return present(kind.fields, version, value) if kind.name == "struct" else value


def messages() -> list[tuple[Api, int, str]]:
    """Return each message that Kafka 4 and this table know."""
    return [
        (api, version, kind)
        for api in apis().values()
        for version in range(REMOVED.get(api.name, api.first_version), api.last_version + 1)
        for kind in ("request", "response")
    ]


def entity_of(api: Api, version: int, kind: str) -> Any:
    """Return kio's class of a message."""
    if kind == "request":
        module = load_payload_module(api.number, version, EntityType.request)
    else:
        module = load_payload_module(api.number, version, EntityType.response)
    name = f"{api.name}{kind.title()}"
    return getattr(module, name)


def plain(value: Any) -> Any:
    """Return a value of kio's as ours would be, with the names of its fields in order."""
    if hasattr(value, "__dataclass_fields__"):
        return {one.name: plain(getattr(value, one.name)) for one in fields_of_entity(value)}
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, IntEnum):
        return int(value)
    if hasattr(value, "timestamp"):  # a moment
        return round(value.timestamp() * 1000)
    return value


def snake(name: str) -> str:
    """Return a name of Kafka's as kio writes it."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def ours(value: Any) -> Any:
    """Return values of ours for a comparison: kio has None for an id of zeros."""
    if isinstance(value, dict):
        return {snake(name): ours(one) for name, one in value.items()}
    if isinstance(value, list):
        return [ours(one) for one in value]
    return None if value == ZERO_ID else value


@pytest.mark.parametrize("seed", range(5))
def test_each_message_is_kafkas_byte_for_byte(seed: int, enumerated: Enumerated) -> None:
    """What we write, kio reads and writes again: the same bytes, and the same values in order."""
    rng = random.Random(seed)
    for api, version, kind in messages():
        message = (api._requests if kind == "request" else api._responses)[version]
        fields = tuple(one for one in message.fields if (one.tag or 0) < OUR_TAG)
        values = values_of(replace(message, fields=fields), rng)
        write = api.write_request if kind == "request" else api.write_response
        data = b"".join(write(version, values))

        entity_type = entity_of(api, version, kind)
        read, size = entity_reader(entity_type)(data, 0)
        out = io.BytesIO()
        entity_writer(entity_type)(out, read)

        assert size == len(data)
        assert out.getvalue() == data, (message.name, version)
        given_values = ours(present(fields, version, values))
        assert flat(plain(read)) == flat(given_values), (message.name, version)
    enumerated("messages and versions", len(messages()), at_least=350)


def flat(value: Any) -> list[Any]:
    """Return the values of nested fields: names differ in places, their order does not."""
    if isinstance(value, dict):
        return [one for part in sorted(value.items()) for one in flat(part[1])]
    if isinstance(value, list):
        return [one for part in value for one in flat(part)]
    return [value]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_is_read_again(seed: int, enumerated: Enumerated) -> None:
    """Also the versions that Kafka 4 has removed."""
    rng = random.Random(seed)
    count = 0
    for api in apis().values():
        for version in range(api.first_version, api.last_version + 1):
            request = values_of(api._requests[version], rng)
            data = b"".join(api.write_request(version, request))
            assert api.read_request(version, memoryview(data), 0) == request
            response = values_of(api._responses[version], rng)
            data = b"".join(api.write_response(version, response))
            assert api.read_response(version, data, 0) == response
            count += 1
    enumerated("APIs and versions", count, at_least=190)


def test_a_message_that_is_cut_short_is_invalid(enumerated: Enumerated) -> None:
    """At each byte: an error, never a message with fewer fields."""
    rng = random.Random(7)
    cuts = 0
    for api, version, kind in messages():
        message = (api._requests if kind == "request" else api._responses)[version]
        write = api.write_request if kind == "request" else api.write_response
        data = b"".join(write(version, values_of(message, rng)))
        for end in range(min(len(data), 40)):
            with pytest.raises(InvalidRecord):
                (api.read_request if kind == "request" else api.read_response)(
                    version, data[:end], 0
                )
            cuts += 1
    enumerated("cuts", cuts, at_least=5000)


@given(data=st.binary(max_size=60), number=st.integers(0, 70), version=st.integers(0, 17))
def test_no_bytes_are_read_as_more_than_they_hold(data: bytes, number: int, version: int) -> None:
    """Any bytes are a request or InvalidRecord, however large the sizes that they state."""
    api = apis().get(number)
    if api is None or version not in api.is_flexible:
        return
    try:
        values = api.read_request(version, data, 0)
    except InvalidRecord:
        return

    assert len(flat(values)) < 40 * (len(data) + 10)


def test_fields_with_unknown_tags_are_left_out() -> None:
    """A newer client adds them without another version."""
    api = api_named("Heartbeat")
    values = {"groupId": "g", "generationId": 1, "memberId": "m"}
    data = b"".join(api.write_request(4, values))

    found = api.read_request(4, data[:-1] + b"\x02\x05\x03abc\x09\x00", 0)

    assert found.items() >= values.items()


def test_a_field_that_is_not_there_has_its_default() -> None:
    """Handlers need not know what an old version lacks."""
    api = api_named("Metadata")

    found = api.read_request(0, b"\0\0\0\0", 0)

    assert found["topics"] == []
    assert found["allowAutoTopicCreation"] is True


def test_headers_are_read_back() -> None:
    """Of requests and responses, with tagged fields and without."""
    for name, version in (("Heartbeat", 1), ("Heartbeat", 4), ("ApiVersions", 3)):
        api = api_named(name)
        header = read_request_header(api.request_header(version, 77, "me"))
        found = read_response_header(api, version, api.response_header(version, 77))

        assert header.api is api
        assert (header.version, header.correlation_id, header.client_id) == (version, 77, "me")
        assert header.body == len(api.request_header(version, 77, "me"))
        assert found == (77, len(api.response_header(version, 77)))


OFFERED = """
ApiVersions 0-4, Metadata 0-12, Produce 0-11, Fetch 4-17, ListOffsets 1-11, FindCoordinator 0-6,
JoinGroup 0-9, SyncGroup 0-5, Heartbeat 0-4, LeaveGroup 0-5, OffsetCommit 2-9, OffsetFetch 1-9,
DescribeGroups 0-6, ListGroups 0-5, DeleteGroups 0-2, OffsetDelete 0-0, InitProducerId 0-5,
AddPartitionsToTxn 0-3, AddOffsetsToTxn 0-4, EndTxn 0-4, TxnOffsetCommit 0-4,
OffsetForLeaderEpoch 2-4, CreateTopics 2-7, DeleteTopics 1-6, CreatePartitions 0-3,
DeleteRecords 0-2, DescribeConfigs 1-4, AlterConfigs 0-2, IncrementalAlterConfigs 0-1,
DescribeCluster 0-1, DescribeLogDirs 1-5, AlterReplicaLogDirs 1-2, DescribeProducers 0-0,
DescribeTransactions 0-0, ListTransactions 0-1, ElectLeaders 0-2, ListPartitionReassignments 0-0,
AlterPartitionReassignments 0-1, DescribeTopicPartitions 0-0, ListConfigResources 0-1,
SaslHandshake 0-1, DescribeAcls 1-3"""


def test_the_versions_that_are_offered_are_these() -> None:
    """Clients choose by them how they work, and guess the broker's release: no more, no fewer."""
    offered = {f"{api.name} {api.first_version}-{api.last_version}" for api in apis().values()}

    assert offered == set(re.split(r",\s+", OFFERED.strip()))


def test_an_offer_of_versions_can_be_read_before_they_are_known() -> None:
    """The header of that answer has no tagged fields in any version. Source: KIP-511."""
    api = api_named("ApiVersions")

    assert {len(api.response_header(version, 1)) for version in range(5)} == {4}


@pytest.mark.parametrize(
    "data", [b"", b"\0\x03\0\0", b"\0\x03\0\0\0\0\0\1\0\5ab", b"\0\x0c\0\4\0\0\0\1\xff\xff"]
)
def test_a_header_that_is_cut_short_is_invalid(data: bytes) -> None:
    """In its numbers, in the client's id, and before the tagged fields."""
    with pytest.raises(InvalidRecord):
        read_request_header(data)


def test_a_frame_begins_with_the_size_of_its_parts() -> None:
    """Four bytes that do not count themselves."""
    assert size_of_frame([b"ab", b"c"]) == b"\0\0\0\3"


def test_a_table_is_parsed() -> None:
    """Versions, nulls from a version on, tags and defaults."""
    tagged, nullable = fields_of("#2 epoch 3+ int32 =-1, names 1-4 [string]?2+")

    assert (tagged.tag, tagged.first, tagged.default) == (2, 3, "-1")
    assert (nullable.first, nullable.last, nullable.type.null_from) == (1, 4, 2)
