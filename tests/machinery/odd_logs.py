"""Logs with unusual but valid content, generated from a seed and kept in memory.

They contain whatever a healthy log may contain: codecs, producers, transactions, old formats, gaps,
leader epochs, rolls. For damaged logs see ``damage``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from tests.machinery.log_home import LogHome
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.errors import KafkaError
from tidelog.records.batch import BATCH_HEADER, TimestampType
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log
    from tidelog.records.builder import RecordFields

FIRST_MS: Final = 1_700_000_000_000


@dataclass(frozen=True)
class StoredLog:
    """The files of a partition directory by name, and what is needed to open it.

    ``settings`` are the topic's, by Kafka's names; ``now_ms`` is the time at which it is opened.
    """

    origin: str
    name: str
    files: dict[str, bytes]
    now_ms: int
    settings: dict[str, str] = field(default_factory=dict)


class _Writer:
    """Appends random batches of all kinds."""

    def __init__(self, log: Log, rng: Random) -> None:
        self.log = log
        self.rng = rng
        self.epoch = 0
        self.time_ms = FIRST_MS
        self._sequences: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._open: dict[int, int] = {}

    def records(self, count: int | None = None) -> list[RecordFields]:
        """Return records of all kinds."""
        rng = self.rng
        return [self._record(rng) for _ in range(count or rng.choice((1, 1, 2, 5, 20)))]

    def _record(self, rng: Random) -> RecordFields:
        self.time_ms += rng.choice((0, 1, 1000, -500))
        key = b"k%d" % rng.randrange(20)
        value = None if rng.random() < 0.1 else rng.randbytes(rng.choice((0, 1, 10, 100, 300)))
        headers = [("h\u00e9", b"\x00"), ("", None)] if rng.random() < 0.2 else []
        return self.time_ms, key, value, headers

    def plain(self) -> None:
        """Append a batch without a producer; some without timestamps, some far in the future."""
        codec = self.rng.choice(list(Codec))
        records = self.records()
        if self.rng.random() < 0.1:
            records = [(-1, *record[1:]) for record in records]
        if self.rng.random() < 0.05:
            records = [(4_000_000_000_000, *record[1:]) for record in records]
        self._append(build_batch(records, codec=codec))

    def idempotent(self) -> None:
        """Append an idempotent producer's batch, sometimes with a new epoch."""
        producer_id = self.rng.choice((1000, 1001, 1002))
        if self.rng.random() < 0.1:
            self._epochs[producer_id] = self._epochs.get(producer_id, 0) + 1
            self._sequences[producer_id] = 0
        records = self.records()
        sequence = self._sequences.get(producer_id, 0)
        batch = build_batch(
            records,
            codec=self.rng.choice(list(Codec)),
            producer_id=producer_id,
            producer_epoch=self._epochs.get(producer_id, 0),
            base_sequence=sequence,
        )
        self._sequences[producer_id] = sequence + len(records)
        self._append(batch)

    def transactional(self) -> None:
        """Append a batch of an open or new transaction, or end one."""
        producer_id = self.rng.choice((7, 8))
        epoch = self._epochs.setdefault(producer_id, 0)
        if producer_id in self._open and self.rng.random() < 0.5:
            marker = build_marker(
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=self.rng.choice((1, 1, 2)),
                is_commit=self.rng.random() < 0.5,
                timestamp=self.time_ms,
            )
            self._append(marker, AppendOrigin.COORDINATOR)
            del self._open[producer_id]
            self._epochs[producer_id] = epoch + self.rng.choice((0, 1))
            if self._epochs[producer_id] != epoch:
                self._sequences[producer_id] = 0
            return
        records, sequence = self.records(), self._sequences.get(producer_id, 0)
        batch = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        self._sequences[producer_id] = sequence + len(records)
        self._open[producer_id] = sequence
        self._append(batch, AppendOrigin.REPLICATION)

    def old(self) -> None:
        """Append batches of magic 0 or 1, as a follower of an old leader receives them."""
        magic = self.rng.choice((0, 1))
        first = self.log.log_end_offset
        records = [(time, key, value) for time, key, value, _ in self.records()]
        codec = self.rng.choice((Codec.NONE, Codec.GZIP, Codec.LZ4))
        batch = build_old(magic, records, base_offset=first, codec=codec)
        self.log.append_as_follower(batch, self.epoch)

    def replicated(self) -> None:
        """Append a leader's batch after a gap of offsets, as in a compacted log."""
        first = self.log.log_end_offset + self.rng.choice((0, 1, 7, 1000))
        records = self.records()
        extra = self.rng.choice((0, 0, 3))
        batch = build_batch(
            records,
            base_offset=first,
            leader_epoch=self.epoch,
            last_offset=first + len(records) - 1 + extra,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            max_timestamp=self.time_ms,
        )
        self.log.append_as_follower(batch, self.epoch)

    def new_epoch(self) -> None:
        """Start a new leader epoch."""
        self.epoch += self.rng.choice((1, 1, 2, 10))
        self.log.maybe_assign_epoch(self.epoch, self.log.log_end_offset)

    def roll(self) -> None:
        """Roll a segment, which may leave an empty one at the end."""
        if self.log.segments.active.size_bytes:
            self.log.roll()

    def _append(self, batch: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        if origin is AppendOrigin.REPLICATION:
            header = BATCH_HEADER.unpack(batch)._replace(
                base_offset=self.log.log_end_offset, leader_epoch=self.epoch
            )
            batch = BATCH_HEADER.pack(header) + batch[BATCH_HEADER.size :]
            self.log.append_as_follower(batch, self.epoch)
        else:
            self.log.append_as_leader(batch, self.epoch, origin=origin, transaction_version=1)


_KINDS: Final[dict[str, tuple[int, ...]]] = {
    # plain, idempotent, transactional, old, replicated, new epoch, roll
    "plain": (10, 0, 0, 0, 0, 1, 1),
    "idempotent": (3, 10, 0, 0, 0, 1, 1),
    "transactions": (3, 3, 10, 0, 0, 1, 1),
    "old": (1, 0, 0, 10, 0, 0, 1),
    "mixed-magic": (4, 2, 2, 4, 2, 1, 1),
    "gaps": (1, 1, 0, 0, 10, 1, 1),
    "everything": (4, 4, 6, 0, 2, 1, 1),
}


def write_log(seed: int) -> StoredLog:
    """Return a log generated from a seed, closed cleanly or left as by a killed process."""
    rng = Random(seed)
    kind = rng.choice(list(_KINDS))
    segment_bytes = rng.choice((1024, 3000, 8192, 1 << 20))
    index_bytes = rng.choice((400, 4096, 4096))
    interval = rng.choice((0, 100, 512, 4096))
    preallocates = rng.random() < 0.2
    settings = {
        "internal.segment.bytes": str(segment_bytes),
        "segment.index.bytes": str(index_bytes),
        "index.interval.bytes": str(interval),
        "preallocate": str(preallocates).lower(),
        "retention.ms": "-1",
        "message.timestamp.after.max.ms": str(2**63 - 1),
    }
    home = LogHome(
        seed,
        internal_segment_bytes=segment_bytes,
        segment_index_bytes=index_bytes,
        index_interval_bytes=interval,
        preallocate=preallocates,
        retention_ms=-1,
        message_timestamp_after_max_ms=2**63 - 1,
    )
    log = home.open()
    writer = _Writer(log, rng)
    steps: list[Callable[[], None]] = [
        writer.plain,
        writer.idempotent,
        writer.transactional,
        writer.old,
        writer.replicated,
        writer.new_epoch,
        writer.roll,
    ]
    log.maybe_assign_epoch(0, 0)
    for _ in range(rng.choice((0, 1, 5, 30, 60))):
        with suppress(KafkaError):  # rejected batches leave the log unchanged
            rng.choices(steps, _KINDS[kind])[0]()
    log.update_high_watermark(log.log_end_offset)
    if rng.random() < 0.2 and log.log_end_offset:
        log.delete_records(rng.randrange(log.log_end_offset))
        log.delete_old_segments()
    if rng.random() < 0.7:
        log.close()
    files = {name: home.read(name) for name in home.files()}
    how = f"{kind} of seed {seed}"
    return StoredLog(how, "flights-0", files, FIRST_MS + 60_000, settings)
