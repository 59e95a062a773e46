"""Requests that come together have the same answers, and the same effect, as one at a time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.machinery.broker_home import BrokerHome
from tests.machinery.broker_line import Line, frame, numbers
from tests.machinery.scale import scaled

from tidelog.broker.dispatch import is_awaited
from tidelog.codec.compression import Codec
from tidelog.codec.protocol.apis import SIZE_BYTES, frame_size
from tidelog.kernels.runtime import gate
from tidelog.records.batch import BATCH_HEADER, BatchFlags
from tidelog.records.builder import build_batch, pack_batch
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from tests.conftest import Enumerated

NOW_MS = 1_700_000_000_000
SETTINGS = {
    "t": {"max.message.bytes": "2000", "segment.index.bytes": "64"},
    "keyed": {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": "1000000000",
        "segment.index.bytes": "24",
        "index.interval.bytes": "0",
    },
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "packed": {"compression.type": "gzip", "flush.messages": "3"},
}
"""Topics, some of which take no batch as it is."""

pytestmark = pytest.mark.usefixtures("kernels")


class Sent(NamedTuple):
    """The requests of a client, and what became of them."""

    answers: list[bytes]
    is_closed: bool
    logs: dict[str, bytes]
    writes: int


class Client:
    """Makes requests; ``trouble`` is how likely each choice is one that is refused or unusual."""

    def __init__(self, rng: random.Random, trouble: float) -> None:
        self._rng = rng
        self._trouble = trouble
        self._sequences: Counter[tuple[int, str, int]] = Counter()

    def _is_odd(self) -> bool:
        return self._rng.random() < self._trouble

    def _batch(self, topic: str, number: int) -> bytes:
        rng = self._rng
        count = rng.choice((1, 1, 2, 5))
        times = [NOW_MS + rng.choice((0, 0, 5, -7)) for _ in range(count)]
        key = None if self._is_odd() else b"k"
        size = 2_000 if self._is_odd() else rng.randrange(300)
        records = [(time, key, bytes(size), ()) for time in times]
        fields: dict[str, Any] = {}
        if rng.random() < 0.5:
            producer = rng.randrange(3)
            sequence = self._sequences[producer, topic, number]
            if self._is_odd():
                sequence = max(sequence + rng.choice((-1, -2, 1)), 0)
            else:
                self._sequences[producer, topic, number] += count
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        if rng.random() < 0.3:
            fields["codec"] = rng.choice([*Codec])
        data = build_batch(records, **fields)
        return self._damaged(data) if self._is_odd() else data

    def _damaged(self, data: bytes) -> bytes:
        rng, header = self._rng, BATCH_HEADER.unpack(data)
        wrong: list[dict[str, int]] = [
            {"base_offset": 3},
            {"attributes": BatchFlags.CONTROL},
            {"attributes": BatchFlags.TRANSACTIONAL},
            {"last_offset_delta": header.last_offset_delta + 1},
            {"magic": 1},
            {"max_timestamp": header.max_timestamp + 1},
        ]
        packed = [pack_batch(header._replace(**one), data[BATCH_HEADER.size :]) for one in wrong]
        at = rng.randrange(BATCH_HEADER.size, len(data))
        inner = data[BATCH_HEADER.size : at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        packed.append(pack_batch(header, inner))
        return rng.choice([*packed, data[:-1] + b"?", data * 2, data[: rng.randrange(len(data))]])

    def request(self, number: int) -> bytes:
        """Return a request with its size, mostly one to append to one partition or two."""
        rng = self._rng
        if self._is_odd():
            return frame("ApiVersions", 0, number)
        topics = rng.choices([*SETTINGS, "unknown", "__consumer_offsets"], [60, 9, 3, 3, 1, 1])
        data: list[dict[str, Any]] = [
            {
                "name": topic,
                "partitionData": [
                    {"index": number, "records": self._batch(topic, number)}
                    for number in rng.choices((0, 1), k=rng.choice((1, 1, 1, 2)))
                ],
            }
            for topic in (topics if rng.random() < 0.8 else topics * 2)
        ]
        if self._is_odd():
            data[0]["partitionData"][0]["index"] = 9
        acks = rng.choice((0, 0, 7)) if self._is_odd() else rng.choice((-1, 1))
        name = "x" if self._is_odd() else None
        how = {"acks": acks, "timeoutMs": 1, "topicData": data, "transactionalId": name}
        return frame("Produce", rng.choice((3, 9, 9, 11)), number, **how)


async def sent(pieces: list[tuple[bytes, int | None]]) -> Sent:
    """Send pieces to a new broker; with the number of a request, wait for its answer."""
    files = CrashFileSystem()
    async with BrokerHome(files, ManualClock(NOW_MS), tidelog_flush_policy="none") as home:
        for topic, settings in SETTINGS.items():
            home.logs.create_topic(topic, partitions=2, config=settings)
            for number in range(2):
                home.logs.partition(topic, number).log.maybe_assign_epoch(0, 0)
        line, before = Line(home), len(files.operations)
        for piece, awaited in pieces:
            await fed(line, piece, awaited)
        writes = [
            path
            for name, path in files.operations[before:]
            if name == "pwrite" and path.endswith(".log")
        ]
        logs = {
            f"{topic}-{number}": log_bytes(home, topic, number)
            for topic in SETTINGS
            for number in range(2)
        }
        return Sent(line.answers(), line.wire.is_closed, logs, len(writes))


async def fed(line: Line, data: bytes, awaited: int | None) -> None:
    """Let bytes arrive as the connection takes them, and wait for an answer."""
    async with asyncio.timeout(60):
        at = 0
        while at < len(data) and not line.wire.is_closed:
            if line.wire.is_reading:
                buffer = memoryview(line.connection.get_buffer(-1))
                count = min(len(buffer), len(data) - at)
                buffer[:count] = data[at : at + count]
                line.connection.buffer_updated(count)
                at += count
            else:
                await asyncio.sleep(0)
        while awaited is not None and awaited not in numbers(line) and not line.wire.is_closed:  # noqa: ASYNC110 - nothing rings
            await asyncio.sleep(0)


def log_bytes(home: BrokerHome, topic: str, number: int) -> bytes:
    """Return the batches of a log, whatever its segments are."""
    log = home.logs.partition(topic, number).log
    return b"".join(home.files.read(one.path)[: one.size_bytes] for one in log.segments)


def pieces_of(rng: random.Random, requests: list[bytes]) -> list[tuple[bytes, int | None]]:
    """Return the bytes of requests in pieces as a socket gives them."""
    data, found = b"".join(requests), list[tuple[bytes, int | None]]()
    while data:
        size = rng.choice((700, 5_000, 60_000))
        found.append((data[:size], None))
        data = data[size:]
    return found


def test_requests_that_come_together_do_what_each_does_by_itself(enumerated: Enumerated) -> None:
    """The same answers in the same order, and the same bytes in the logs, with fewer writes.

    Whatever is wrong with one of them: it is refused by itself, and hides none of the others.
    """
    saved = answers = 0
    for seed in range(scaled(40)):
        rng = random.Random(seed)
        client = Client(rng, rng.choice((0.0, 0.003, 0.05)))
        requests = [client.request(number) for number in range(rng.choice((5, 80, 150)))]
        last = frame("ApiVersions", 0, -1)
        by_itself = [(piece, awaited(piece)) for piece in (*requests, last)]

        each = asyncio.run(sent(by_itself))
        together = asyncio.run(sent([*pieces_of(rng, requests), (last, -1)]))

        assert together.answers == each.answers, seed
        assert together.logs == each.logs, seed
        assert together.is_closed == each.is_closed, seed
        if seed % 8 == 0:  # without kernels each batch is looked at in full
            gate.force(False)
            assert asyncio.run(sent(by_itself)).logs == each.logs, seed
            gate.force(True)
        answers += len(each.answers)
        saved += each.writes - together.writes
    enumerated("answers", answers, at_least=scaled(1_000))
    enumerated("writes saved", saved, at_least=scaled(500))


def awaited(piece: bytes) -> int | None:
    """Return the number of a request that is answered, or None."""
    return frame_size(piece, 8) if is_awaited(piece[SIZE_BYTES:]) else None
