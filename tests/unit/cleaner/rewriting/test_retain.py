"""Which records compaction retains, by kernels and in plain code."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from tidelog.cleaner.keys.key_table import KeyTable
from tidelog.cleaner.keys.offset_map import OffsetMap
from tidelog.cleaner.rewriting.decompressed_batches import DecompressedBatches
from tidelog.cleaner.rewriting.retain import check_record_retention, mark_superseded
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.kernels.compaction.key_rows import (
    EXPIRED,
    FILTER,
    KEEP,
    KEYLESS,
    RETAIN_EMPTY,
    STAYS,
    SUPERSEDED,
    SUPERSEDED_WHOLE,
)
from tidelog.records.batch import BatchFlags
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.decoding.record_areas import areas_of
from tidelog.records.decoding.record_columns import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.records.array_rows import Bytes, Ints

pytestmark = pytest.mark.usefixtures("engine")
NOW_MS: Final = 1_000
HORIZON: Final = BatchFlags.DELETE_HORIZON
BITS_START: Final = 10
BITS_END: Final = 20
LATEST_OFFSET: Final = 24
KEYS_IN_MAP: Final = (
    b"a",
    b"b",
    b"a",
    *(b"%d" % n for n in range(7)),
    b"d",
    b"e",
    b"d",
    b"f",
    b"g",
)
"""Keys from offset 10 on: "a" was put in again at 12, and "d", first at 20, at 22."""


def table_of(
    records: Sequence[tuple[int, bytes | None]], *, with_kernels: bool
) -> tuple[Bytes, KeyTable]:
    """Return keys and a table of records with these offsets, which have values and area 0."""
    table = KeyTable(with_kernels=with_kernels)
    table.rows = np.full((keys.KEY_COLUMNS, len(records) + 1), -1, np.int64)
    table.hashes = np.zeros((2, len(records) + 1), np.int64)
    table.count = len(records)
    at = 0
    for column, (offset, key) in enumerate(records):
        table.rows[keys.OFFSET, column] = offset
        table.rows[keys.KEY_AT, column] = at
        table.rows[keys.KEY_SIZE, column] = -1 if key is None else len(key)
        table.rows[[keys.VALUE_SIZE, keys.AREA], column] = 1, 0
        at += len(key or b"")
    return np.frombuffer(b"".join(key or b"" for _, key in records) + b"\0", np.uint8), table


def map_of(span: int, *, with_kernels: bool) -> OffsetMap:
    """Return a map with bits for ``span`` offsets from ``BITS_START`` on."""
    return OffsetMap(
        24_000, 0.5, start_offset=BITS_START, span=span, rng=Random(1), with_kernels=with_kernels
    )


def filled_map(*, with_kernels: bool) -> OffsetMap:
    offset_map = map_of(BITS_END - BITS_START, with_kernels=with_kernels)
    records = list(enumerate(KEYS_IN_MAP, BITS_START))
    data, table = table_of(records, with_kernels=with_kernels)
    assert offset_map.put(data, table) == len(KEYS_IN_MAP)
    assert (offset_map.bits_end, offset_map.latest_offset) == (BITS_END, LATEST_OFFSET)
    return offset_map


def verdicts(
    records: Sequence[tuple[int, bytes | None]],
    *,
    with_kernels: bool,
    tombstones: Sequence[int] = (),
    area: int = 0,
    is_old: bool = False,
    retain_legacy_deletes: bool = False,
) -> list[int]:
    """Return the verdict on each record, all of which are in the batch ``area``.

    Batches: no delete horizon; one that has just passed; one in the future; one to be kept whole.
    """
    data, table = table_of(records, with_kernels=with_kernels)
    table.rows[keys.AREA] = area
    for offset in tombstones:
        table.rows[keys.VALUE_SIZE, table.rows[keys.OFFSET] == offset] = -1
    array = np.zeros((rows.BATCH_COLUMNS, 4), np.int64)
    array[rows.MAGIC] = 2
    array[rows.ATTRIBUTES] = 0, HORIZON, HORIZON, 0
    array[rows.BASE_TIMESTAMP] = 0, NOW_MS, NOW_MS + 1, 0
    batches = BatchColumns(array)
    actions = np.array([FILTER, FILTER, FILTER, KEEP])
    areas: Ints = np.zeros((rows.AREA_COLUMNS, 0), np.int64)
    if with_kernels and not is_old:  # nothing else reads them
        areas = areas_of(batches)
    legacy = None
    if is_old:
        legacy = RecordColumns(np.zeros((rows.RECORD_COLUMNS, 0), np.int64), data, batches)
    check_record_retention(
        DecompressedBatches(data, batches, actions, data, areas, len(records), legacy),
        table,
        filled_map(with_kernels=with_kernels),
        NOW_MS,
        retain_legacy_deletes=retain_legacy_deletes,
    )
    found: list[int] = table.rows[keys.VERDICT, : len(records)].tolist()
    return found


def test_batches_of_superseded_records_are_found_by_the_bits(engine: bool) -> None:
    """Those of which each offset has a record, and each record a bit that is set."""
    cases = [
        # first, last, records, magic, action, whether all is superseded
        (10, 12, 3, 2, FILTER, True),
        (47, 49, 3, 2, FILTER | RETAIN_EMPTY, True),
        (20, 20, 1, 2, FILTER, True),
        (9, 11, 3, 2, FILTER, False),  # no bit before the first
        (48, 50, 3, 2, FILTER, False),  # nor after the last
        (20, 19, 0, 2, FILTER, False),
        (20, 22, 2, 2, FILTER, False),
        (20, 22, 4, 2, FILTER, False),
        (20, 22, 3, 1, FILTER, False),  # a wrapper's offsets may be anything
        (20, 22, 3, 2, FILTER | KEEP, False),
        (20, 22, 3, 2, KEEP, False),
        (20, 22, 3, 2, 0, False),
        (34, 36, 3, 2, FILTER, False),  # 35 is the last of its key
        (33, 35, 3, 2, FILTER, False),
        (35, 37, 3, 2, FILTER, False),
    ]
    offset_map = map_of(40, with_kernels=engine)
    offset_map.bits[:] = 0xFF
    offset_map.bits[(35 - BITS_START) >> 3] ^= 1 << ((35 - BITS_START) & 7)
    array = np.zeros((rows.BATCH_COLUMNS, len(cases)), np.int64)
    fields = [rows.BASE_OFFSET, rows.LAST_OFFSET, rows.RECORDS_COUNT, rows.MAGIC]
    array[fields] = np.array([case[:4] for case in cases]).T
    actions = np.array([case[4] for case in cases])

    mark_superseded(BatchColumns(array), actions, offset_map, with_kernels=engine)

    assert actions.tolist() == [
        action & ~FILTER | SUPERSEDED_WHOLE if is_whole else action
        for *_, action, is_whole in cases
    ]


@pytest.mark.parametrize("is_old", [False, True])
def test_a_record_is_superseded_by_a_later_one_with_its_key(engine: bool, is_old: bool) -> None:
    """Bits say so, or the map's offset of the key; records above the map stay."""
    records = [
        (5, b"a", SUPERSEDED),
        (6, b"unknown", STAYS),
        (10, b"a", SUPERSEDED),
        (11, b"b", STAYS),
        (12, b"a", STAYS),
        (20, b"d", SUPERSEDED),
        (22, b"d", STAYS),
        (24, b"g", STAYS),
        (25, b"a", STAYS),
    ]

    found = verdicts([record[:2] for record in records], with_kernels=engine, is_old=is_old)

    assert found == [verdict for *_, verdict in records]


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ((11, 20), [STAYS, SUPERSEDED]),
        ((20, 22), [SUPERSEDED, STAYS]),
        ((9, 10), [SUPERSEDED, SUPERSEDED]),
        ((10, 19), [SUPERSEDED, STAYS]),
    ],
)
def test_keys_without_a_bit_are_looked_up(
    engine: bool, offsets: tuple[int, int], expected: list[int]
) -> None:
    """The first after the bits and the last before them, too."""
    names = {9: b"a", 10: b"a", 11: b"b", 19: b"6", 20: b"d", 22: b"d"}

    found = verdicts([(offset, names[offset]) for offset in offsets], with_kernels=engine)

    assert found == expected


def test_a_tombstone_expires_when_its_horizon_has_passed(engine: bool) -> None:
    """Not before; without a horizon, or above the map, it stays; a superseded one is one."""
    records = [(11, b"b"), (13, b"0"), (20, b"d")]
    found = [
        verdicts(records, with_kernels=engine, tombstones=[11, 20], area=area) for area in range(3)
    ]

    assert found[0] == found[2] == [STAYS, STAYS, SUPERSEDED]
    assert found[1] == [EXPIRED, STAYS, SUPERSEDED]
    ends = verdicts([(24, b"g"), (25, b"g")], with_kernels=engine, tombstones=[24, 25], area=1)
    assert ends == [EXPIRED, STAYS]


def test_an_empty_value_is_not_a_tombstone(engine: bool) -> None:
    """Only null is."""
    data, table = table_of([(11, b"b")], with_kernels=engine)
    table.rows[[keys.VALUE_SIZE, keys.AREA]] = 0
    array = np.zeros((rows.BATCH_COLUMNS, 1), np.int64)
    array[rows.MAGIC], array[rows.ATTRIBUTES] = 2, HORIZON
    batches = BatchColumns(array)
    decompressed = DecompressedBatches(
        data, batches, np.array([FILTER]), data, areas_of(batches), 1
    )

    check_record_retention(
        decompressed,
        table,
        filled_map(with_kernels=engine),
        NOW_MS,
        retain_legacy_deletes=False,
    )

    assert table.rows[keys.VERDICT, 0] == STAYS


@pytest.mark.parametrize("is_retained", [False, True])
def test_old_tombstones_stay_as_the_cleaning_decides(engine: bool, is_retained: bool) -> None:
    """Batches of magic 0 and 1 have no delete horizon."""
    found = verdicts(
        [(11, b"b"), (13, b"0")],
        with_kernels=engine,
        tombstones=[11],
        is_old=True,
        retain_legacy_deletes=is_retained,
    )

    assert found == [STAYS if is_retained else EXPIRED, STAYS]


def test_a_record_without_a_key_is_dropped(engine: bool) -> None:
    """An empty key is one; above the map's end, or in a batch that is kept, all records stay."""
    records = [(11, None), (13, b""), (25, None)]

    assert verdicts(records, with_kernels=engine) == [KEYLESS, STAYS, STAYS]
    assert verdicts(records, with_kernels=engine, area=3) == [STAYS, STAYS, STAYS]
    assert verdicts([(10, b"a")], with_kernels=engine, area=3) == [STAYS]
    assert verdicts([], with_kernels=engine) == []
