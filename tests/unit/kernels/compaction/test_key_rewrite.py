"""Batches rewritten without removed records: the kernel compared with its plain equivalent."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches as Batches
from tidelog.cleaner.rewriting.rewrite import rewrite_plainly
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.kernels.compaction.key_rewrite import rewrite_batches
from tidelog.kernels.compaction.key_walk import walk_keys
from tidelog.records.batch import BATCH_HEADER, TimestampType
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.decoding.record_areas import areas_of
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[Any], Any]

HORIZON_MS = 5_000_000
HOSTILE = (-(2**63), -(2**31), -1, 0, 1, 60, 61, 2**31, 2**62, 2**63 - 1)


def some_batch(rng: random.Random, base_offset: int) -> bytes:
    """Make a batch of any kind: append times, horizons, tombstones, long values, no record.

    The greatest timestamp is among those chosen: its distance from -1 exceeds an int64.
    """
    records = [
        (
            rng.choice((-1, rng.randrange(10**12, 10**12 + 10**6), 2**63 - 1)),
            rng.choice((b"", rng.randbytes(9))),
            rng.choice((None, b"", rng.randbytes(rng.randrange(40)), rng.randbytes(1_500))),
            [("h", rng.choice((None, b"x")))] * rng.randrange(2),
        )
        for _ in range(rng.randrange(1, 9))
    ]
    is_appended = rng.random() < 0.3
    kind = TimestampType.LOG_APPEND_TIME if is_appended else TimestampType.CREATE_TIME
    spec = BatchSpec(
        base_offset=base_offset,
        leader_epoch=rng.randrange(3),
        timestamp_type=kind,
        max_timestamp=10**12 if is_appended else None,
        producer_id=rng.choice((-1, 7)),
        producer_epoch=0,
        base_sequence=3,
        delete_horizon_ms=rng.choice((None, None, 10**12)),
    )
    return build_batch(records, spec)


class Case:
    """Some batches with random actions and verdicts, as the cleaner passes them to the kernel."""

    def __init__(self, seed: int, data: bytes | None = None) -> None:
        rng = random.Random(seed)
        some = (some_batch(rng, 100 * n) for n in range(rng.randrange(1, 6)))
        self.data = np.frombuffer(b"".join(some) if data is None else data, np.uint8)
        self.batches = walk(self.data).batches
        choices = [keys.FILTER, keys.FILTER | keys.UNMAPPED]
        if data is None:
            choices += [keys.FILTER | keys.RETAIN_EMPTY, keys.KEEP | keys.MARK_EMPTIED, 0]
        count = len(self.batches)
        self.actions = np.array([rng.choice(choices) for _ in range(count)], np.int64)
        self.areas = areas_of(self.batches)
        self.rows = np.zeros((keys.KEY_COLUMNS, int(self.areas[rows.AREA_COUNT].sum())), np.int64)
        self.count, status, _ = walk_keys(
            self.data, self.areas, self.actions, -(2**63), False, self.rows
        )
        assert status == rows.OK
        verdicts = keys.STAYS, keys.STAYS, keys.SUPERSEDED
        self.rows[keys.VERDICT, : self.count] = [rng.choice(verdicts) for _ in range(self.count)]

    def plain(self) -> tuple[bytes, Any, list[int]]:
        """Return what the plain equivalent writes: bytes, headers, results."""
        run = Batches(self.data, self.batches, self.actions, self.data, self.areas, self.count)
        written = rewrite_plainly(run, self.rows[:, : self.count], HORIZON_MS)
        return written.data.tobytes(), written.batches.array.tolist(), written.results.tolist()

    def by_kernel(
        self, run: Run, *, room: int | None = None, copy: bool = True
    ) -> tuple[int, bytes, Any, list[int]]:
        """Return the same from the kernel, and its status; guard bytes follow its output buffer."""
        needed = len(self.data) + 10 * self.count + rows.HEADER_BYTES * len(self.batches)
        room = needed if room is None else room
        out = np.full(room + 64, 0xAB, np.uint8)
        written = np.zeros((rows.BATCH_COLUMNS, len(self.batches)), np.int64)
        results = np.zeros(len(self.batches), np.int64)
        status, kept, size = run(rewrite_batches)(
            self.data,
            self.batches.array,
            self.actions,
            self.rows,
            self.count,
            HORIZON_MS,
            copy,
            out[:room],
            written,
            results,
        )
        assert (out[room:] == 0xAB).all()
        assert 0 <= size <= room
        return status, out[:size].tobytes(), written[:, :kept].tolist(), results.tolist()


@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_writes_what_plain_code_writes(run: Run, seed: int) -> None:
    """Bytes, headers and results are the same, and each written batch can be read."""
    case = Case(seed)

    status, data, headers, results = case.by_kernel(run)

    assert status == rows.OK
    assert (data, headers, results) == case.plain()
    found = walk(data, check_crc=True)
    assert (found.error, found.next_position) == (None, len(data))
    assert headers == found.batches.array.tolist()


@pytest.mark.parametrize("base_offset", [0, 2**63 - 2])
def test_distances_wrap(run: Run, base_offset: int) -> None:
    """Between timestamps, and between offsets of a batch that goes beyond the greatest."""
    times = (0, -1, 2**63 - 1, 5)
    data = build_batch([(time, b"k", b"v", ()) for time in times])
    header = BATCH_HEADER.unpack(data)._replace(base_offset=base_offset)
    case = Case(0, BATCH_HEADER.pack(header) + data[BATCH_HEADER.size :])
    case.rows[keys.VERDICT] = keys.SUPERSEDED, keys.STAYS, keys.STAYS, keys.STAYS

    status, data, headers, results = case.by_kernel(run)

    assert (status, results) == (rows.OK, [keys.REWRITTEN])
    assert (data, headers, results) == case.plain()
    found = decode(data, walk(data).batches)
    assert found.timestamp.tolist() == [-1, 2**63 - 1, 5]
    assert found.offset.tolist() == case.rows[keys.OFFSET, 1:4].tolist()


def test_whole_batches_may_be_noted_only(run: Run) -> None:
    """Without copying, an unchanged batch gets a column with position -1 and no bytes."""
    case = Case(3)
    case.actions[:] = keys.KEEP
    case.rows[keys.VERDICT] = keys.STAYS
    case.rows[keys.VALUE_SIZE] = 0

    status, data, headers, results = case.by_kernel(run, copy=False)

    assert (status, data) == (rows.OK, b"")
    assert results == [keys.COPIED] * len(case.batches)
    assert headers[rows.POSITION] == [-1] * len(case.batches)


@pytest.mark.parametrize("seed", range(10))
def test_too_little_room_is_a_status(run: Run, seed: int) -> None:
    """Whatever the buffer's size, nothing is written after it; a small one is BAD_ARGUMENT."""
    case = Case(seed)
    whole = len(case.plain()[0])

    for room in (0, 1, 60, 61, whole // 2, whole - 1):
        if 0 <= room < whole:
            assert case.by_kernel(run, room=room)[0] == rows.BAD_ARGUMENT


def test_a_negative_timestamp_is_refused(run: Run) -> None:
    """A batch with a record whose timestamp would be below -1 cannot be rewritten."""
    case = Case(1)
    case.actions[:] = keys.FILTER
    case.batches.array[rows.RECORDS_COUNT] += 1  # so that each batch has to be rewritten
    case.rows[keys.VERDICT] = keys.STAYS
    case.rows[keys.TIMESTAMP, 0] = -2

    assert case.by_kernel(run)[0] == rows.BAD_TIMESTAMP


@pytest.mark.parametrize("seed", range(60))
def test_hostile_numbers_are_a_status(run: Run, seed: int) -> None:
    """Positions outside the data and wrong counts never read or write out of bounds."""
    rng, case = random.Random(seed), Case(seed)
    for table in (case.batches.array, case.rows):
        for _ in range(rng.randrange(3)):
            table[rng.randrange(table.shape[0]), rng.randrange(table.shape[1])] = rng.choice(
                HOSTILE
            )

    status, _, _, results = case.by_kernel(run)

    assert status in {rows.OK, rows.BAD_ARGUMENT, rows.BAD_TIMESTAMP}
    assert set(results) <= {keys.DROPPED, keys.EMPTIED, keys.COPIED, keys.REWRITTEN}


def test_arrays_that_do_not_fit_are_refused(run: Run) -> None:
    """Too few rows, actions or columns, or a count beyond the rows, are BAD_ARGUMENT."""
    case = Case(5)
    out, count = np.zeros(1 << 16, np.uint8), len(case.batches)
    table = np.zeros((rows.BATCH_COLUMNS, count), np.int64)
    results = np.zeros(count, np.int64)
    good = [case.data, case.batches.array, case.actions, case.rows, case.count, 0, True]
    good += [out, table, results]
    for index, wrong in (
        (1, case.batches.array[:5].copy()),
        (2, case.actions[:-1].copy()),
        (3, case.rows[:5].copy()),
        (4, case.rows.shape[1] + 1),
        (4, -1),
        (8, table[:, :-1].copy()),
        (9, results[:-1].copy()),
    ):
        arguments = [*good[:index], wrong, *good[index + 1 :]]
        assert run(rewrite_batches)(*arguments) == (rows.BAD_ARGUMENT, 0, 0)
