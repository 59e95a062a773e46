"""Requests and responses as bytes, by their API and version. Kafka: ``ApiKeys``, ``ApiMessage``."""

from __future__ import annotations

import re
import struct
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.messages.message_reader import read_bounded, read_values
from tidelog.codec.messages.message_table import NEVER, Message, fields_of
from tidelog.codec.messages.message_writer import write_values
from tidelog.codec.protocol.api_table import TABLE
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sized

    from tidelog.codec.varint import Bytes

_ENTRY: Final = re.compile(r"(\w+) (\d+) (\d+)-(\d+)(?: flexible (\d+)\+)?\n *>(.*)\n *<(.*)")
_REQUEST_HEAD: Final = struct.Struct(">hhih")
_RESPONSE_HEAD: Final = struct.Struct(">i")
_SIZE: Final = struct.Struct(">i")
SIZE_BYTES: Final = _SIZE.size
"""Bytes of the size before each request and response."""
API_VERSIONS: Final = 18
"""The number of the request that a client begins with."""
PRODUCE: Final = 0


class Api:
    """One kind of request: its name, its number, and the versions that are offered.

    ``first_version`` and ``last_version`` are inclusive.
    """

    def __init__(self, entry: re.Match[str]) -> None:
        name, number, first, last, flexible_from, request, response = entry.groups()
        self.name: Final = name
        self.number: Final = int(number)
        self.first_version: Final = int(first)
        self.last_version: Final = int(last)
        flexible = NEVER if flexible_from is None else int(flexible_from)
        offered = range(self.first_version, self.last_version + 1)
        self.is_flexible: Final = {version: version >= flexible for version in offered}
        """Of each version that is offered: whether it has compact sizes and tagged fields."""
        self._request_fields: Final = request
        self._response_fields: Final = response

    def __repr__(self) -> str:
        return self.name

    # Parsed when first asked for: a broker starts before its clients send most of them.

    @cached_property
    def _requests(self) -> dict[int, Message]:
        return self._messages("Request", self._request_fields)

    @cached_property
    def _responses(self) -> dict[int, Message]:
        return self._messages("Response", self._response_fields)

    def _messages(self, kind: str, text: str) -> dict[int, Message]:
        fields = fields_of(text)
        return {
            version: Message(self.name + kind, is_flexible, fields, version)
            for version, is_flexible in self.is_flexible.items()
        }

    def has_response_field(self, name: str, version: int | None = None) -> bool:
        """Whether responses have a field of this name, not inside of another.

        Those of a version; None: those of any that is known.
        """
        fields = self._responses[self.last_version].fields
        return any(
            field.name == name and (version is None or field.is_in(version)) for field in fields
        )

    def read_request(self, version: int, data: Bytes, at: int) -> dict[str, Any]:
        """Return the fields of a request; raise InvalidRecord.

        Bytes after them are left alone, as by Kafka: librdkafka sends three with a Metadata request
        for all topics.
        """
        return read_values(self._requests[version], data, at)[0]

    def read_bounded_request(
        self, version: int, data: Bytes, at: int, most_bytes: int
    ) -> tuple[dict[str, Any], int]:
        """Return the fields of a request, and about what memory they take; see ``read_bounded``."""
        return read_bounded(self._requests[version], data, at, most_bytes)

    def read_response(self, version: int, data: Bytes, at: int) -> dict[str, Any]:
        """Return the fields of a response that ends with ``data``; raise InvalidRecord."""
        message = self._responses[version]
        found, end = read_values(message, data, at)
        if end < len(data):
            raise InvalidRecord(f"{message.name} is followed by {len(data) - end} other bytes")
        return found

    def write_request(self, version: int, values: Mapping[str, Any]) -> list[Any]:
        """Return the parts of a request; see ``write_values``."""
        return write_values(self._requests[version], values)

    def write_response(self, version: int, values: Mapping[str, Any]) -> list[Any]:
        """Return the parts of a response; see ``write_values``."""
        return write_values(self._responses[version], values)

    # Headers

    def request_header(self, version: int, correlation_id: int, client_id: str) -> bytes:
        """Return what a request begins with."""
        name = client_id.encode()
        head = _REQUEST_HEAD.pack(self.number, version, correlation_id, len(name)) + name
        return head + b"\0" if self.is_flexible[version] else head

    def response_header(self, version: int, correlation_id: int) -> bytes:
        """Return what a response begins with.

        That of ApiVersions never has tagged fields: its reader does not know the version yet.
        """
        head = _RESPONSE_HEAD.pack(correlation_id)
        is_long = self.is_flexible[version] and self.number != API_VERSIONS
        return head + b"\0" if is_long else head


class RequestHeader(NamedTuple):
    """What a request begins with; ``body`` is where its fields begin. ``api`` None: not offered."""

    number: int
    version: int
    correlation_id: int
    client_id: str | None
    api: Api | None
    body: int


@cache
def apis() -> dict[int, Api]:
    """Return the requests that are offered, by their numbers."""
    entries = _ENTRY.finditer(re.sub(r"\n {4,}", " ", TABLE))
    return {int(entry[2]): Api(entry) for entry in entries}


@cache
def api_named(name: str) -> Api:
    """Return an API by its name; KeyError if there is none."""
    return {api.name: api for api in apis().values()}[name]


def frame_size(data: Bytes, at: int) -> int:
    """Return the size that a request or response begins with; it does not count itself."""
    size: int = _SIZE.unpack_from(data, at)[0]
    return size


def frame_number(data: Bytes) -> int:
    """Return the number of a request's API; -1 where that is cut short."""
    return data[0] << 8 | data[1] if len(data) > 1 else -1


def size_of_frame(parts: Iterable[Sized]) -> bytes:
    """Return the size that belongs before the parts of a request or response."""
    return _SIZE.pack(sum(map(len, parts)))


def read_request_header(data: Bytes) -> RequestHeader:
    """Return the header of a request; raise InvalidRecord if it is malformed.

    Of an API or version that is not offered only the numbers and the correlation id are certain.
    """
    try:
        number, version, correlation_id, size = _REQUEST_HEAD.unpack_from(data)
        at = _REQUEST_HEAD.size
        client_id = None
        if size >= 0:
            if size > len(data) - at:
                raise InvalidRecord("the client id of a request is cut short")
            client_id = str(data[at : at + size], "utf-8", "replace")
            at += size
        api = apis().get(number)
        if api is not None and api.is_flexible.get(version):
            at = _after_tags(data, at)
    except (struct.error, IndexError):
        raise InvalidRecord("the header of a request is cut short") from None
    return RequestHeader(number, version, correlation_id, client_id, api, at)


def read_response_header(api: Api, version: int, data: Bytes) -> tuple[int, int]:
    """Return the correlation id of a response, and where its fields begin; raise InvalidRecord."""
    size = len(api.response_header(version, 0))
    if len(data) < size:
        raise InvalidRecord("the header of a response is cut short")
    (correlation_id,) = _RESPONSE_HEAD.unpack_from(data)
    return correlation_id, _after_tags(data, _RESPONSE_HEAD.size) if size > 4 else size


_TAGS: Final = Message("header", is_flexible=True, fields=())


def _after_tags(data: Bytes, at: int) -> int:
    if not data[at]:  # as ever
        return at + 1
    return read_values(_TAGS, data, at)[1]
