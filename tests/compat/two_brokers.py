"""The same requests to a broker of Kafka and to ours, and their answers compared by field."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tidelog.codec.protocol.apis import api_named, read_response_header, size_of_frame
from tidelog.env.waiting import sleep_ms
from tidelog.error_codes import ErrorCode
from tidelog.records.batch import BATCH_HEADER

if TYPE_CHECKING:
    from random import Random

_IDS: Final = {"memberId": "m", "leader": "m", "topicId": "t", "producerId": "p"}
_OWN: Final = {
    *("throttleTimeMs", "host", "port", "clusterId", "configs", "abortedTransactions"),
    *("logDir", "totalBytes", "usableBytes"),
}
"""What differs between any two brokers, or says the same: null and an empty list."""
_PLACES: Final = (
    "producerId",
    "name",
    "topic",
    "topicId",
    "partitionIndex",
    "partition",
    "index",
    "memberId",
)
_SINCE_MS: Final = 600_000
_LATER: Final = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""What Kafka answers while it is still at work, and we wait."""
_ALLOWED: Final = {
    ("JoinGroup", "protocolName", "None", ""),
    ("JoinGroup", "errorCode", "23", "25"),  # of a stranger, who is two kinds of wrong
}


class Id(str):
    """The name that an id has at both brokers, such as ``p0``."""

    __slots__ = ()


class Side:
    """A connection to a broker, and the ids that it gave out."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._names: dict[Any, Id] = {}
        self.ids: dict[str, Any] = {Id("p-none"): -1, Id("t-none"): UUID(int=0)}

    def beside(self) -> Side:
        """Return a connection to the same broker, which knows the same ids."""
        other = Side(self._port)
        other._names, other.ids = self._names, self.ids
        return other

    def ask(self, name: str, version: int, values: dict[str, Any]) -> dict[str, Any] | None:
        """Return the fields of the answer; None: the connection was closed."""
        api = api_named(name)
        head = api.request_header(version, 1, "two")
        parts = [head, *api.write_request(version, self._given(values))]
        self._socket.sendall(b"".join([size_of_frame(parts), *parts]))
        size = self._read(4)
        frame = None if size is None else self._read(*struct.unpack(">i", size))
        if frame is None:
            self.close()
            self._socket = socket.create_connection(("127.0.0.1", self._port))
            return None
        return api.read_response(version, frame, read_response_header(api, version, frame)[1])

    def _read(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                return None
            data += part
        return bytes(data)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _given(self, value: Any) -> Any:
        """Return what is sent: with the ids of this broker, and batches made with them."""
        if isinstance(value, dict):
            return {key: self._given(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._given(one) for one in value]
        return (
            self.ids[value] if isinstance(value, Id) else value(self) if callable(value) else value
        )

    def seen(self, value: Any, key: str = "") -> Any:
        """Return what was answered, with names for ids and without what is this broker's own."""
        if isinstance(value, dict):
            # With an error, the id of a producer is none; a first producer may have that number.
            own = _OWN | {"producerId"} if value.get("errorCode") else _OWN
            return {name: self.seen(one, name) for name, one in value.items() if name not in own}
        if isinstance(value, list):
            found = [self.seen(one, key) for one in value]
            return sorted(found, key=_place)
        if key == "records":
            return None if value is None else self._batches(bytes(value))
        if key.endswith("rrorMessage"):
            return value and "text"
        is_id = key in _IDS and value not in {"", -1, None, UUID(int=0)}
        if is_id and (value in self._names or isinstance(value, int | UUID) or len(value) > 36):
            return self._named(_IDS[key], value)
        is_now = isinstance(value, int) and abs(value - time.time() * 1000) < _SINCE_MS
        return "now" if is_now else str(value) if isinstance(value, UUID) else value

    def _named(self, kind: str, value: Any) -> Id:
        if value not in self._names:
            name = Id(f"{kind}{sum(one.startswith(kind) for one in self._names.values())}")
            self._names[value], self.ids[name] = name, value
        return self._names[value]

    @staticmethod
    def _batches(data: bytes) -> bytes:
        """Return the batches of a fetch without ids of producers, and checksums over them."""
        found, at = bytearray(data), 0
        while at < len(found):
            found[at + 17 : at + 21], found[at + 43 : at + 51] = bytes(4), bytes(8)
            at += 12 + BATCH_HEADER.unpack_field("length", found, at)
        return bytes(found)


class Pair:
    """Kafka's broker and ours; ``random`` chooses requests, ``prefix`` keeps sequences apart."""

    def __init__(self, ports: tuple[int, int], random: Random, prefix: str) -> None:
        self.kafka, self.ours = map(Side, ports)
        self.random, self.prefix = random, prefix
        self.asked: list[Any] = []

    def ask(self, name: str, version: int, **values: Any) -> dict[str, Any]:
        """Return the answer of both; fail where they differ."""
        self.asked.append((name, version, values))
        mine = self.ours.ask(name, version, values)
        theirs = self.kafka.ask(name, version, values)
        for _ in range(500):
            if not codes(theirs) & _LATER - codes(mine):
                break
            sleep_ms(20)
            theirs = self.kafka.ask(name, version, values)
        if name == "EndTxn":
            self._wait_for_end(values["transactionalId"])
        seen = self.kafka.seen(theirs), self.ours.seen(mine)
        different = list(differences(name, *seen))
        history = "\n".join(map(str, self.asked[-12:]))
        assert not different, f"Kafka, ours: {different} after\n{history}"
        return seen[0] or {}

    def _wait_for_end(self, transactional_id: str) -> None:
        """Wait until Kafka has written the markers, as we have."""
        for _ in range(500):
            asked = {"transactionalIds": [transactional_id]}
            answer = self.kafka.ask("DescribeTransactions", 0, asked)
            assert answer is not None
            if not answer["transactionStates"][0]["transactionState"].startswith("Prepare"):
                break
            sleep_ms(20)

    def close(self) -> None:
        """Close both connections."""
        self.kafka.close()
        self.ours.close()


def _place(part: Any) -> list[Any]:
    """Return where a part of an answer belongs: brokers have orders of their own."""
    if not isinstance(part, dict):
        return [0 if isinstance(part, list) else part]
    return [
        part[key] if isinstance(part[key], int) else str(part[key])
        for key in _PLACES
        if key in part
    ]


def codes(answer: Any) -> set[int]:
    """Return the error codes in an answer."""
    if isinstance(answer, list):
        return set().union(*map(codes, answer))
    if not isinstance(answer, dict):
        return set()
    own = {one for key, one in answer.items() if key.endswith("rrorCode")}
    return own.union(*map(codes, answer.values()))


def differences(name: str, kafkas: Any, ours: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """Return the fields of two answers that differ, each with both values."""
    if isinstance(kafkas, dict) and isinstance(ours, dict):
        parts = [(kafkas[one], ours[one], one) for one in kafkas]
    elif isinstance(kafkas, list) and isinstance(ours, list) and len(kafkas) == len(ours):
        parts = [(*both, key) for both in zip(kafkas, ours, strict=True)]
    else:
        is_text = key.endswith("rrorMessage") and not kafkas  # Kafka leaves many out
        is_same = kafkas == ours or is_text or (name, key, str(kafkas), str(ours)) in _ALLOWED
        return [] if is_same else [(key, kafkas, ours)]
    return [one for part in parts for one in differences(name, *part)]
