"""Random histories of a log in Kafka and here: the same answers, offsets and files.

``HISTORY_SEED=100000 SCALE=10 pytest -m compat`` on this file tries 5,000 others than those of
every run. The last tests show what ``log_histories`` allows to differ.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.compat.log_histories import LogHistory
from tests.compat.two_logs import KafkaLog, OwnLog, opening
from tests.machinery.scale import scaled

from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.segment.index_entries import TIME_INDEX_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.compat.two_logs import Answer, OneLog
    from tests.conftest import Enumerated

    from tidelog.records.builder import RecordFields

pytestmark = pytest.mark.compat

STEPS: Final = 120
QUICK: Final = 10
BLOCK: Final = 50
BLOCKS: Final = 10
FIRST_SEED: Final = int(os.environ.get("HISTORY_SEED", "0"))
NOW_MS: Final = 1_700_000_000_000
FIRST: Final = f"{0:020d}"


def run(kafka_log: KafkaLog, seeds: range, folder: Path, enumerated: Enumerated) -> None:
    """Run a history for each seed; most come to their end, where Kafka's log stays intact."""
    unexpected, steps, ended = [], 0, 0
    for seed in seeds:
        history = LogHistory(seed, kafka_log, folder / str(seed))
        differences = history.run(STEPS)
        if differences:
            last = [str(event)[:400] for event in history.events[-3:]]
            unexpected.append("\n  ".join([f"seed {seed}", *last, *differences]))
        steps += len(history.events)
        ended += history.is_over
    enumerated("histories", len(seeds), at_least=len(seeds))
    enumerated("steps of histories", steps, at_least=STEPS * len(seeds) // 2)
    assert not unexpected, "\n".join(unexpected)
    assert ended <= max(2, len(seeds) // 8)


def test_a_log_does_what_kafkas_does(
    kafka_log: KafkaLog, tmp_path: Path, enumerated: Enumerated
) -> None:
    """The same answer, offsets, epochs, producers and segments after each step, and files."""
    run(kafka_log, range(FIRST_SEED, FIRST_SEED + QUICK), tmp_path, enumerated)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_log_does_what_kafkas_does_in_many_histories(
    block: int, kafka_log: KafkaLog, tmp_path: Path, enumerated: Enumerated
) -> None:
    """As above, with histories that no other block has."""
    count = scaled(BLOCK)
    first = FIRST_SEED + QUICK + block * count
    run(kafka_log, range(first, first + count), tmp_path, enumerated)


# What differs


class Two:
    """An empty log in Kafka, and one here."""

    def __init__(self, kafka_log: KafkaLog, folder: Path) -> None:
        self.sides: tuple[OneLog, OneLog] = kafka_log, OwnLog()
        self.places = [folder / name / "flights-0" for name in ("kafka", "here")]

    def open(self, **settings: str) -> None:
        """Open both as after a clean shutdown."""
        for side, place in zip(self.sides, self.places, strict=True):
            side.ask("open", **opening(place, settings, NOW_MS))

    def ask(self, act: str, **how: Any) -> list[Answer]:
        """Return what Kafka and we answer."""
        return [side.ask(act, **how) for side in self.sides]

    def lead(self, *records: RecordFields, **fields: Any) -> list[Answer]:
        """Append a batch as the leader."""
        return self._lead(build_batch(records, **fields), "CLIENT")

    def end_transaction(self, *, commit: bool) -> list[Answer]:
        """Append the marker that ends the transaction of producer 1."""
        producer = {"producer_id": 1, "producer_epoch": 0, "coordinator_epoch": 0}
        marker = build_marker(**producer, is_commit=commit, timestamp=NOW_MS)
        return self._lead(marker, "COORDINATOR")

    def _lead(self, data: bytes, origin: str) -> list[Answer]:
        return self.ask("lead", data=data, epoch=0, origin=origin, transactionVersion=0)

    def close(self) -> None:
        """Close both."""
        self.ask("flush", force=True)
        self.ask("close")


@pytest.fixture
def two(kafka_log: KafkaLog, tmp_path: Path) -> Iterator[Two]:
    """Two logs, not opened yet."""
    made = Two(kafka_log, tmp_path)
    yield made
    made.sides[1].stop()


def record(value: bytes | None, time_ms: int = NOW_MS, key: bytes = b"key") -> RecordFields:
    """Return a record."""
    return time_ms, key, value, ()


def of_transaction(sequence: int) -> dict[str, Any]:
    """Return the fields of a batch of producer 1's transaction."""
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence}
    return {**producer, "transactional": True}


def test_a_truncation_after_a_start_forgets_no_timestamp(two: Two) -> None:
    """In Kafka what is left of the segment has none, if its time index was not read before."""
    two.open()
    for value, time_ms in ((b"early", NOW_MS), (b"late", NOW_MS + 1000)):
        two.lead(record(value, time_ms))
    two.close()
    two.open()
    two.ask("truncate", offset=1)
    found = [answer["result"] for answer in two.ask("find", time=-3)]
    two.close()

    indexes = [(place / f"{FIRST}.timeindex").read_bytes() for place in two.places]

    assert found == ["none", f"0 {NOW_MS} 0"]
    assert [len(data) // TIME_INDEX_ENTRY.size for data in indexes] == [0, 1]


def test_a_truncation_above_the_high_watermark_unsettles_no_transaction(two: Two) -> None:
    """In Kafka the stable offset returns to one that had ended, until the watermark moves."""
    two.open()
    two.lead(record(b"committed"), **of_transaction(0))
    two.end_transaction(commit=True)
    two.ask("update high watermark", offset=2)
    two.lead(record(b"cut"))
    two.lead(record(b"cut"))
    two.ask("truncate", offset=3)
    appended = two.lead(record(b"next"))

    settled = two.ask("update high watermark", offset=2)

    stable = [
        [answer["state"]["lastStableOffset"] for answer in both] for both in (appended, settled)
    ]
    assert stable == [[0, 2], [2, 2]]


def test_a_cleaning_drops_the_records_of_aborted_transactions_below_the_log_start(two: Two) -> None:
    """Kafka keeps them, but not that they were aborted: they are read if the start is lost."""
    two.open(**{"cleanup.policy": "compact"})
    two.lead(record(b"aborted", key=b"a"), **of_transaction(0))
    two.end_transaction(commit=False)
    two.lead(record(b"kept", key=b"b"))
    two.ask("roll")
    two.ask("update high watermark", offset=3)
    two.ask("raise start", offset=2)
    two.ask("clean", checkpoint=None, mapBytes=24_000)
    two.close()

    two.open()  # with a log start of 0
    two.ask("update high watermark", offset=3)
    read = two.ask("consume", isolation="TXN_COMMITTED")

    offsets = [[offset for offset, _ in answer["result"]] for answer in read]
    assert offsets == [[0, 2], [2]]


def test_an_append_that_an_index_has_no_room_for_makes_the_index_sparser(two: Two) -> None:
    """Kafka refuses it when its records are in the file."""
    sizes = {"segment.index.bytes": "24", "index.interval.bytes": "0"}
    two.open(**sizes)
    data = b"".join(
        build_batch([record(b"value", NOW_MS + at)], base_offset=at, leader_epoch=0)
        for at in range(6)
    )

    theirs, ours = two.ask("follow", data=data, epoch=0)

    assert "full time index" in theirs["errorMessage"]
    assert theirs["state"]["logEndOffset"] == 0
    assert ours["result"][:2] == [0, 5]
    file_bytes = [(place / f"{FIRST}.log").stat().st_size for place in two.places]
    assert file_bytes[0] == file_bytes[1]


def test_a_high_watermark_in_a_gap_of_offsets_stays_where_it_is(two: Two) -> None:
    """Kafka moves it to the next batch when somebody reads."""
    two.open()
    after_a_gap = build_batch([record(b"value")], base_offset=7, leader_epoch=0)
    two.ask("follow", data=after_a_gap, epoch=0)
    how = {"offset": 0, "maxBytes": 100, "isolation": "HIGH_WATERMARK", "minOneBatch": True}

    read = two.ask("read", **how)

    assert [answer["result"][0] for answer in read] == [0, 0]
    assert [answer["state"]["highWatermark"] for answer in read] == [7, 0]
