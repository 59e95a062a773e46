"""The steps of random histories of a log, made from a seed and from what the log holds.

Batches that a log has to compress again differ, since no two libraries do that alike: where
clients compress, topics keep their codec, and nothing is cleaned before the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.machinery.cleaning import batch_headers
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.compat.two_logs import Answer

    from tidelog.log.log import Log
    from tidelog.records.builder import RecordFields

    Step = tuple[str, dict[str, Any]]
    """An act and its values."""

START_MS: Final = 1_700_000_000_000
TRANSACTIONAL: Final = frozenset({3, 4, 5, 6})
NEVER: Final = str(2**63 - 1)
CHOICES: Final[dict[str, list[str]]] = {
    "internal.segment.bytes": ["300", "1024", "4096", "16384"],
    "index.interval.bytes": ["0", "1", "100", "500", "4096"],
    "segment.index.bytes": ["1024", "65536"],
    "retention.ms": ["-1", "-1", "60000", "600000"],
    "retention.bytes": ["-1", "-1", "2000", "5000"],
    "segment.ms": ["604800000", "1000", "60000"],
    "segment.jitter.ms": ["0"],
    "cleanup.policy": ["delete", "compact", "compact", "compact,delete"],
    "message.timestamp.type": ["CreateTime", "CreateTime", "CreateTime", "LogAppendTime"],
    "compression.type": ["producer", "producer", "uncompressed"],
    "delete.retention.ms": ["0", "1000", "100000", "86400000"],
    "min.compaction.lag.ms": ["0", "0", "0", "5000"],
    "file.delete.delay.ms": ["0", "1000", "60000"],
    "max.message.bytes": ["1048588", "1048588", "200"],
    "flush.messages": [NEVER, NEVER, "5", "1"],
    "preallocate": ["false", "false", "false", "false", "false", "true"],
    "message.timestamp.after.max.ms": [NEVER, "3600000"],
    "message.timestamp.before.max.ms": [NEVER, NEVER, "100000"],
}
FIXED: Final = frozenset({"preallocate"})
"""Settings that stay as they were at the start."""


@dataclass
class Producer:
    """What a producer sends next."""

    id: int
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False
    coordinator_epoch: int = 0

    @property
    def is_transactional(self) -> bool:
        """Whether it usually sends transactions."""
        return self.id in TRANSACTIONAL


@dataclass
class Kind:
    """What a history has beyond the usual."""

    has_codecs: bool
    has_old_formats: bool
    is_wild: bool
    has_small_indexes: bool


class Writer:
    """Makes steps from a seed; ``config`` are the settings in force."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.kind = Kind(*(rng.random() < share for share in (0.25, 0.25, 0.3, 0.3)))
        self.config = self._settings()
        self.expiration_ms = rng.choice([86_400_000, 86_400_000, 50_000])
        self.now_ms = START_MS
        self.checkpoint: int | None = None
        self.producers = {number: Producer(number) for number in range(1, 7)}

    def note(self, act: str, how: dict[str, Any], answer: Answer) -> None:
        """Let time, and the cleaner's checkpoint, follow what an act has done."""
        if act == "advance":
            self.now_ms += how["ms"]
        elif act == "clean" and "result" in answer:
            cleaned = answer["result"][3:]
            self.checkpoint = cleaned[0] if cleaned else how["checkpoint"]
        elif act.startswith("truncate") and self.checkpoint is not None:
            self.checkpoint = min(self.checkpoint, how["offset"])

    def _settings(self) -> dict[str, str]:
        choices = {**CHOICES}
        if self.kind.has_small_indexes:
            choices["segment.index.bytes"] = ["36", "120", "1024"]
        return {name: self.rng.choice(values) for name, values in choices.items()}

    # Records

    def time(self) -> int:
        """Return the timestamp of a record."""
        rng, share = self.rng, self.rng.random()
        if share < 0.75:
            return self.now_ms + rng.randint(-500, 500)
        if share < 0.95:
            return self.now_ms - rng.randint(0, 200_000)
        if share < 0.97:
            return self.now_ms + rng.randint(0, 10_000_000)
        if share < 0.99:
            return rng.choice([-1, 0])
        return rng.choice([2**62, 1, self.now_ms * 1000]) if self.kind.is_wild else 5

    def records(self) -> list[RecordFields]:
        """Return some records; few of a compacted topic lack a key."""
        rng = self.rng
        is_keyed = "compact" in self.config["cleanup.policy"] and rng.random() < 0.98
        return [
            (
                self.time(),
                None if rng.random() < (0 if is_keyed else 0.3) else self._key(),
                None if rng.random() < 0.25 else rng.randbytes(self._value_bytes()),
                (("h", b"x"), ("", None)) if rng.random() < 0.15 else (),
            )
            for _ in range(rng.choice([1, 1, 2, 3, rng.randint(1, 15)]))
        ]

    def _key(self) -> bytes:
        rng = self.rng
        return rng.choice([b"", b"k%d" % rng.randint(0, 9), b"k%d" % rng.randint(0, 60)])

    def _value_bytes(self) -> int:
        return self.rng.choice([0, 3, 10, 40, self.rng.randint(0, 200)])

    def codec(self) -> Codec:
        """Return the codec of a batch."""
        if not self.kind.has_codecs:
            return Codec.NONE
        return self.rng.choice([Codec.NONE] * 4 + list(Codec))

    # Steps

    def next(self, log: Log) -> Step:
        """Return the next step."""
        names = list(self.STEPS)
        weights = [self.STEPS[name][0] for name in names]
        name = self.rng.choices(names, weights)[0]
        return self.STEPS[name][1](self, log)

    def lead(self, log: Log, data: bytes, **how: Any) -> Step:
        """Return an append of a leader."""
        epoch = max(log.latest_epoch or 0, 0)
        usual = {"epoch": epoch, "origin": "CLIENT", "transactionVersion": 0}
        return "lead", {**usual, "data": data, **how}

    def append(self, log: Log) -> Step:
        """Append a batch without producer, now and then in a new epoch."""
        epoch = (log.latest_epoch or 0) + (self.rng.random() < 0.1)
        return self.lead(log, build_batch(self.records(), codec=self.codec()), epoch=epoch)

    def append_as_producer(self, log: Log) -> Step:
        """Append a batch of a producer, or end its transaction."""
        rng = self.rng
        producer = self.producers[rng.randint(1, 6)]
        if producer.is_transactional and producer.is_open and rng.random() < 0.3:
            return self._end(log, producer)
        records, sequence, epoch = self.records(), producer.sequence, producer.epoch
        kind = rng.random()
        if kind < 0.05:
            sequence = max(0, sequence - rng.randint(0, 10))
        elif kind < 0.08:
            sequence = (sequence + rng.randint(1, 5)) & 0x7FFFFFFF
        elif kind < 0.12:
            producer.epoch = epoch = epoch + 1
            producer.sequence = sequence = 0
        elif kind < 0.13:
            epoch = max(0, epoch - 1)
        elif kind < 0.14:
            producer.sequence = sequence = 2**31 - 1 - rng.randint(0, 5)
        is_transactional = producer.is_transactional ^ (rng.random() < 0.03)
        producer.is_open |= is_transactional
        if sequence == producer.sequence:
            producer.sequence = (sequence + len(records)) & 0x7FFFFFFF
        data = build_batch(
            records,
            producer_id=producer.id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=is_transactional,
            codec=self.codec(),
        )
        return self.lead(log, data)

    def _end(self, log: Log, producer: Producer) -> Step:
        rng = self.rng
        version = rng.choice([0, 1, 2]) if rng.random() < 0.3 else 0
        producer.is_open = False
        if version == 2 or rng.random() < 0.1:
            producer.epoch += 1
            producer.sequence = 0
        if rng.random() < 0.05:
            producer.coordinator_epoch += rng.choice([1, 1, -1])
        marker = build_marker(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            coordinator_epoch=producer.coordinator_epoch,
            is_commit=rng.random() < 0.5,
            timestamp=self.time() if rng.random() < 0.3 else self.now_ms,
        )
        return self.lead(log, marker, origin="COORDINATOR", transactionVersion=version)

    def follow(self, log: Log) -> Step:
        """Append batches with their offsets, now and then after a gap or of a wrong epoch."""
        rng, end = self.rng, log.log_end_offset
        far = rng.choice([1000, 2**31 - 2, 2**31, 2**31 + 5, 2**33]) if self.kind.is_wild else 7
        base = end + rng.choice([0, 0, 0, 0, 1, rng.randint(1, 50), far])
        if rng.random() < 0.05:
            base = max(0, end - rng.randint(1, 5))
        known = log.latest_epoch or 0
        epoch = max(0, known + rng.choice([0, 0, 0, 1, 1, -1]))
        follower = max(epoch, known) + rng.choice([0, 0, 0, 1, -1])
        data = b""
        for _ in range(rng.choice([1, 1, 2, 3])):
            records = self.records()
            fields: dict[str, Any] = {"codec": self.codec(), "base_offset": base}
            last = base + len(records) - 1
            if rng.random() < 0.2:
                last += rng.randint(0, 5)
            if rng.random() < 0.15:
                fields |= self._as_producer(len(records))
            data += build_batch(records, leader_epoch=epoch, last_offset=last, **fields)
            base = last + 1 + rng.choice([0, 0, 2])
            epoch = max(epoch + rng.choice([0, 0, 0, 1, -1]), 0)
        return "follow", {"data": data, "epoch": follower}

    def _as_producer(self, count: int) -> dict[str, Any]:
        producer = self.producers[self.rng.randint(1, 6)]
        sequence = producer.sequence
        producer.sequence = (sequence + count) & 0x7FFFFFFF
        producer.is_open |= producer.is_transactional
        return {
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "base_sequence": sequence,
            "transactional": producer.is_transactional,
        }

    def old(self, log: Log) -> Step:
        """Append records of magic 0 or 1, as a leader, which turns them to magic 2, or follower."""
        rng = self.rng
        if not self.kind.has_old_formats:
            return self.append(log)
        magic = rng.choice([0, 1])
        records = [(max(time, -1), key, value) for time, key, value, _ in self.records()]
        codec = rng.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
        if rng.random() < 0.5:
            keeps = self.config["compression.type"] == "producer" or not self.kind.has_codecs
            return self.lead(log, build_old(magic, records, codec=Codec.NONE if keeps else codec))
        base = log.log_end_offset + rng.choice([0, 0, 3])
        codec = codec if self.kind.has_codecs else Codec.NONE
        data = build_old(magic, records, base_offset=base, codec=codec)
        return "follow", {"data": data, "epoch": log.latest_epoch or 0}

    def damaged(self, log: Log) -> Step:
        """Append a batch with flipped bits, or cut off."""
        rng = self.rng
        data = bytearray(build_batch(self.records(), codec=self.codec()))
        for _ in range(rng.randint(1, 2)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data) + 1) :]
        return self.lead(log, bytes(data))

    def update_high_watermark(self, log: Log) -> Step:
        """Set the high watermark, mostly to the end, else to the end of a batch, or too far.

        Never to one within a batch, as deleted records may leave it: Kafka lowers it at some time.
        """
        start, end = log.log_start_offset, log.log_end_offset
        ends = {each.base_offset + each.last_offset_delta + 1 for each in batch_headers(log)} | {
            end
        }
        within = sorted(each for each in ends if each >= start)
        outside = [end + 3, max(start - 2, 0) if start in ends else end]
        offset = self.rng.choice([end, end, end, *[self.rng.choice(within)] * 2, *outside])
        return "update high watermark", {"offset": offset}

    def raise_start(self, log: Log) -> Step:
        """Delete records, now and then more than may be."""
        start, stable = log.log_start_offset, log.last_stable_offset
        offset = self.rng.randint(start, max(start, stable))
        return "raise start", {"offset": offset if self.rng.random() < 0.95 else stable + 1}

    def truncate(self, log: Log) -> Step:
        """Truncate near the end, or anywhere."""
        rng, start, end = self.rng, log.log_start_offset, log.log_end_offset
        near, within = end - rng.randint(0, 6), rng.randint(start, end)
        anywhere = rng.randint(max(start - 5, 0), end + 2)
        return "truncate", {"offset": max(rng.choice([near, within, anywhere]), 0)}

    def truncate_fully(self, log: Log) -> Step:
        """Begin again at another offset."""
        start, end = log.log_start_offset, log.log_end_offset
        return "truncate fully", {"offset": self.rng.choice([start, end, end + 20])}

    def assign_epoch(self, log: Log) -> Step:
        """Begin a leader epoch."""
        rng, end = self.rng, log.log_end_offset
        epoch = max(0, (log.latest_epoch or 0) + rng.choice([1, 1, 2, 0, -1]))
        anywhere = rng.randint(log.log_start_offset, end)
        return "assign epoch", {"epoch": epoch, "offset": rng.choice([end, end, anywhere])}

    def advance(self, _: Log) -> Step:
        """Let time pass."""
        return "advance", {"ms": self.rng.choice([0, 10, 1000, 60_000, 600_000])}

    def set_time(self, _: Log) -> Step:
        """Set the time of day."""
        self.now_ms += self.rng.choice([-3_600_000, -1000, 5000, 3_600_000])
        return "set time", {"now": self.now_ms}

    def clean(self, log: Log) -> Step:
        """Compact, from the checkpoint or the start on; the map is small now and then.

        Not where Kafka's last stable offset, which limits it, is another.
        """
        stable = log.last_stable_offset
        is_start = stable in {log.log_end_offset, batch_at(log, stable)}
        if self.kind.has_codecs or not has_all_aborted(log) or not is_start:
            return self.append(log)
        start = self.rng.choice([None, self.checkpoint, self.checkpoint])
        slots = self.rng.choice([1000, 1000, 10, 40])
        return "clean", {"checkpoint": start, "mapBytes": 24 * slots}

    def read(self, log: Log) -> Step:
        """Read at some offset."""
        rng = self.rng
        start, end = max(log.log_start_offset - 1, 0), log.log_end_offset + 1
        how = {
            "offset": rng.randint(start, end),
            "maxBytes": rng.choice([1, 50, 200, 1000, 10**6]),
            "isolation": rng.choice(["LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED"]),
            "minOneBatch": rng.random() < 0.6,
        }
        return "read", how

    def find(self, _: Log) -> Step:
        """Look a time up."""
        rng, now = self.rng, self.now_ms
        return "find", {"time": rng.choice([now, now - rng.randint(0, 200_000), -1, -2, -3, 0])}

    def end_of_epoch(self, log: Log) -> Step:
        """Ask where an epoch ends."""
        return "end of epoch", {"epoch": self.rng.randint(-1, (log.latest_epoch or 0) + 2)}

    def consume(self, _: Log) -> Step:
        """Read all records."""
        isolation = self.rng.choice(["LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED"])
        return "consume", {"isolation": isolation}

    def configure(self, _: Log) -> Step:
        """Change one setting."""
        name = self.rng.choice(sorted(set(CHOICES) - FIXED))
        self.config = {**self.config, name: self._settings()[name]}
        return "configure", {"config": self.config}

    def reopen(self, _: Log) -> Step:
        """End the process, in order or not."""
        return self.rng.choice(["close", "close", "crash"]), {}

    STEPS: Final[dict[str, tuple[int, Callable[[Writer, Log], Step]]]] = {
        "append": (16, append),
        "append as producer": (26, append_as_producer),
        "follow": (8, follow),
        "old": (2, old),
        "damaged": (2, damaged),
        "update high watermark": (6, update_high_watermark),
        "raise start": (3, raise_start),
        "retain": (3, lambda *_: ("retain", {})),
        "roll": (3, lambda *_: ("roll", {})),
        "flush": (2, lambda self, _: ("flush", {"force": self.rng.random() < 0.5})),
        "truncate": (2, truncate),
        "truncate fully": (1, truncate_fully),
        "assign epoch": (2, assign_epoch),
        "advance": (2, advance),
        "set time": (1, set_time),
        "expire": (1, lambda *_: ("expire", {})),
        "clean": (6, clean),
        "end of epoch": (1, end_of_epoch),
        "find": (3, find),
        "read": (4, read),
        "consume": (2, consume),
        "configure": (2, configure),
        "reopen": (4, reopen),
    }


def batch_at(log: Log, offset: int) -> int:
    """Return the start of the batch that has the offset, or of the next one."""
    with log.read(offset, 1, isolation=Isolation.LOG_END) as found:
        return found.first_offset.offset


def has_all_aborted(log: Log) -> bool:
    """Whether no aborted transaction lies below the log start: Kafka keeps the records of those."""
    aborted = (each for segment in log.segments for each in segment.txn_index.all_aborted())
    return all(each.last_offset >= log.log_start_offset for each in aborted)
