"""The same log, compacted here and by Kafka 4.3.1."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Unpack

import pytest
from tests.compat.conftest import hand_over
from tests.compat.two_logs import batches_of
from tests.machinery.long_varints import with_long_key_lengths
from tests.machinery.scale import scaled

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.throttle import CleanerIo
from tidelog.codec.checkpoint_file import read_checkpoint
from tidelog.codec.compression import Codec
from tidelog.config.log_config import LogConfig
from tidelog.datadir.offset_checkpoints import CLEANER_OFFSET_FILE
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.log.log import Log
from tidelog.log.producers.producer_state import ProducerStateConfig
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.compat.conftest import Kafka
    from tests.machinery.fields import ProducerFields

    from tidelog.records.builder import BatchFields

pytestmark = pytest.mark.compat
SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "16384",
    "index.interval.bytes": "512",
    "min.cleanable.dirty.ratio": "0.01",
}
RETENTION_MS = 86_400_000
HORIZON = 0x40


@contextmanager
def open_log(directory: Path) -> Iterator[Log]:
    scheduler = InlineScheduler()
    with Log.open(
        str(directory),
        fs=SYSTEM_FILES,
        clock=SYSTEM_CLOCK,
        scheduler=scheduler,
        rng=Random(0),
        config=LogConfig.parse(SETTINGS),
        producer_config=ProducerStateConfig(transaction_verification=False),
    ) as log:
        log.update_high_watermark(log.log_end_offset)
        yield log
    scheduler.close()


def write_history(directory: Path, rng: Random) -> None:
    """Append plain, idempotent and transactional batches of few keys, with tombstones."""
    now_ms = SYSTEM_CLOCK.now_ms() - 60_000
    sequences = dict.fromkeys(range(1, 6), 0)
    opened: set[int] = set()

    def batch(**fields: Unpack[BatchFields]) -> bytes:
        count = rng.randint(1, 12)
        records = [
            (
                now_ms + rng.randint(-500, 500),
                b"key-%d" % rng.randint(0, 60),
                None if rng.random() < 0.2 else rng.randbytes(rng.randint(0, 40)),
                ((("h", b"x"),) if rng.random() < 0.2 else ()),
            )
            for _ in range(count)
        ]
        codec = rng.choice([Codec.NONE, Codec.NONE, *Codec])
        return build_batch(records, BatchSpec(codec=codec), **fields)

    with open_log(directory) as log:
        for _ in range(400):
            now_ms += 10
            producer_id = rng.randint(0, 5)
            known: ProducerFields = {"producer_id": producer_id, "producer_epoch": 0}
            if producer_id in opened and rng.random() < 0.4:
                marker = build_marker(
                    **known, coordinator_epoch=0, is_commit=rng.random() < 0.5, timestamp=now_ms
                )
                origin = AppendOrigin.COORDINATOR
                log.append_as_leader(marker, origin=origin, transaction_version=1)
                opened.discard(producer_id)
            elif producer_id == 0:
                log.append_as_leader(batch())
            else:
                is_transactional = producer_id in opened or producer_id > 2
                opened.update({producer_id} if is_transactional else ())
                data = batch(
                    **known,
                    base_sequence=sequences[producer_id],
                    transactional=is_transactional,
                )
                info = log.append_as_leader(data)
                sequences[producer_id] += info.last_offset - info.first_offset + 1
        for producer_id in sorted(opened):
            known = {"producer_id": producer_id, "producer_epoch": 0}
            marker = build_marker(**known, coordinator_epoch=0, is_commit=False, timestamp=now_ms)
            origin = AppendOrigin.COORDINATOR
            log.append_as_leader(marker, origin=origin, transaction_version=1)
        log.roll()
        log.append_as_leader(build_batch([(now_ms, b"last", b"", ())]))


def wait_until_cleaned(kafka: Kafka, offset: int) -> None:
    """Wait until the broker's cleaner has written down that it came to ``offset``."""
    pause = threading.Event()
    for _ in range(1000):
        lines = read_checkpoint(SYSTEM_FILES, str(kafka.directory / CLEANER_OFFSET_FILE))
        if lines.get(("dirty", 0)) == offset:
            return
        pause.wait(0.2)
    pytest.fail(f"Kafka did not clean up to {offset}")


def cleaned_by_kafka(kafka: Kafka, source: Path, end: int) -> Path:
    """Let Kafka clean a copy of a log up to ``end``; return where that lies."""
    with kafka.properties.open("a", encoding="utf-8") as properties:
        properties.write("log.cleaner.backoff.ms=300\nlog.initial.task.delay.ms=0\n")
    with kafka.running():
        kafka.ask("create dirty " + ",".join(f"{k}={v}" for k, v in SETTINGS.items()))
    target = kafka.directory / "dirty-0"
    hand_over(source, target)
    with kafka.running():
        wait_until_cleaned(kafka, end)
    return target


def clean_here(log: Log, end: int, now_ms: int) -> None:
    """Clean all below ``end``."""
    settings = CleanerSettings(128 << 20, 0.9)
    io = CleanerIo(1 << 20, lambda: None)
    scheduler = InlineScheduler()
    cleaner = Cleaner(settings, clock=SYSTEM_CLOCK, scheduler=scheduler, rng=Random(0), io=io)
    cleaner.clean(log, OffsetsToClean(0, end), now_ms)


@pytest.mark.parametrize("seed", range(scaled(3)))
def test_kafka_and_tidelog_clean_a_log_to_the_same_batches(
    kafka: Kafka, tmp_path: Path, seed: int
) -> None:
    """Same files, headers, records; same bytes where nothing is compressed; same index entries."""
    ours = tmp_path / "dirty-0"
    write_history(ours, Random(seed))
    with open_log(ours) as log:
        end = log.segments.active.base_offset
    theirs = cleaned_by_kafka(kafka, ours, end)

    expected = batches_of(theirs)
    horizons = {h["base_timestamp"] for _, h, _, _ in expected if h["attributes"] & HORIZON}
    assert len(horizons) == 1
    with open_log(ours) as log:
        clean_here(log, end, horizons.pop() - RETENTION_MS)

    found = batches_of(ours)
    assert expected == found
    for name in {name for name, *_ in found}:
        for suffix in (".txnindex", ".timeindex"):
            mine, kafkas = (place / name.replace(".log", suffix) for place in (ours, theirs))
            assert mine.exists() == kafkas.exists()
            assert not mine.exists() or mine.read_bytes() == kafkas.read_bytes()


def test_lengths_longer_than_need_be_differ_in_rewritten_batches_only(
    kafka: Kafka, tmp_path: Path
) -> None:
    """Kafka shortens them where it writes a batch again, we copy them; all else is the same."""
    ours = tmp_path / "dirty-0"
    now_ms = SYSTEM_CLOCK.now_ms() - 60_000
    with open_log(ours) as log:
        for keys in ((b"gone", b"stays"), (b"whole",), (b"gone", b"last")):
            batch = build_batch([(now_ms, key, b"value", ()) for key in keys], leader_epoch=0)
            longer = with_long_key_lengths(batch)
            base_offset = log.log_end_offset
            log.append_as_follower(base_offset.to_bytes(8, "big") + longer[8:], 0)
        log.roll()
        end = log.segments.active.base_offset
    theirs = cleaned_by_kafka(kafka, ours, end)
    with open_log(ours) as log:
        clean_here(log, end, SYSTEM_CLOCK.now_ms())

    mine, kafkas = batches_of(ours), batches_of(theirs)
    assert [row[2] for row in mine] == [row[2] for row in kafkas]
    assert mine[1:] == kafkas[1:]
    first, shorter = mine[0], kafkas[0]
    assert len(first[3]) - len(shorter[3]) == 2
    assert {**first[1], "length": 0, "crc": 0} == {**shorter[1], "length": 0, "crc": 0}
