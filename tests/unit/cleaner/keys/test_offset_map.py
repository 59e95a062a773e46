"""The offset map: from keys to offsets, in bounded memory."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.cleaner.keys.key_table import KeyTable
from tidelog.cleaner.keys.offset_map import OffsetMap, slot_count, usable_entries
from tidelog.errors import InvalidArgument
from tidelog.kernels.compaction import key_rows as columns


def table_of(keys: list[bytes], *, start: int = 0, with_kernels: bool) -> tuple[Any, KeyTable]:
    """Return a table of records with these keys and offsets from ``start`` on."""
    data = np.frombuffer(b"".join(keys) + b"\0", np.uint8)
    table = KeyTable(with_kernels=with_kernels)
    table.rows = np.zeros((columns.KEY_COLUMNS, len(keys) + 1), np.int64)
    table.hashes = np.zeros((2, len(keys) + 1), np.int64)
    at = 0
    for number, key in enumerate(keys):
        table.rows[columns.OFFSET, number] = start + number
        table.rows[columns.KEY_AT, number] = at
        table.rows[columns.KEY_SIZE, number] = len(key)
        at += len(key)
    table.count = len(keys)
    return data, table


def map_of(memory_bytes: int = 24 * 1000, load_factor: float = 0.5, **fields: Any) -> OffsetMap:
    given_fields = {"start_offset": 0, "span": 1000, "with_kernels": False, **fields}
    return OffsetMap(memory_bytes, load_factor, rng=random.Random(1), **given_fields)


def offsets(found: OffsetMap, keys: list[bytes]) -> list[int]:
    data, table = table_of(keys, with_kernels=found.with_kernels)
    found.look_up(data, table, 0, len(keys))
    found_offsets: list[int] = table.rows[columns.LATEST, : len(keys)].tolist()
    return found_offsets


def superseded(found: OffsetMap) -> list[int]:
    bits = np.unpackbits(found.bits, bitorder="little")
    return (np.flatnonzero(bits) + found.bits_start).tolist()


def test_memory_and_load_factor_limit_the_number_of_keys() -> None:
    """As in Kafka: slots of 24 bytes, of which the load factor is the share that may be used."""
    assert slot_count(3 * 24 + 23) == 3
    assert usable_entries(3 * 24, 0.75) == 2
    assert slot_count(2**40) == (2**31 - 1) // 24


@pytest.mark.parametrize("engine", [False, True])
def test_no_more_keys_are_put_in_than_there_are_slots(engine: bool) -> None:
    """A load factor above 1, which Kafka takes, counts as 1."""
    found = map_of(3 * 24, float("inf"), with_kernels=engine)
    data, table = table_of([b"a", b"b", b"c", b"d"], with_kernels=engine)

    assert (found.capacity, found.put(data, table)) == (3, 3)


def test_a_map_without_room_is_refused() -> None:
    """Memory for not even one key is an error, not a cleaning that never gets on."""
    with pytest.raises(InvalidArgument):
        map_of(23)


@pytest.mark.usefixtures("engine")
def test_the_last_offset_of_a_key_is_found(engine: bool) -> None:
    """Putting a key again replaces its offset; unknown keys have none.

    Scenario: OffsetMapTest.testBasicValidation, OffsetMapTest.testLatestOffset
    """
    found = map_of(with_kernels=engine)
    data, table = table_of([b"a", b"b", b"a", b""], start=5, with_kernels=engine)

    assert found.put(data, table) == 4

    assert offsets(found, [b"a", b"b", b"", b"c"]) == [7, 6, 8, -1]
    assert (found.entries, found.latest_offset) == (3, 8)


@pytest.mark.usefixtures("engine")
def test_a_full_map_takes_nothing_more(engine: bool) -> None:
    """A full map refuses even a key that it contains.

    Scenario: OffsetMapTest.testGetWhenFull, OffsetMapTest.testUtilization
    """
    found = map_of(2 * 24, 1.0, with_kernels=engine)
    data, table = table_of([b"a", b"b", b"a", b"c"], with_kernels=engine)

    assert found.put(data, table) == 2
    assert found.latest_offset == 1
    assert found.utilization == 1.0
    assert offsets(found, [b"a", b"c"]) == [0, -1]


@pytest.mark.usefixtures("engine")
def test_a_superseded_offset_gets_its_bit(engine: bool) -> None:
    """The bit is set of exactly the offsets that a later record supersedes."""
    found = map_of(start_offset=100, with_kernels=engine)
    data, table = table_of([b"a", b"b", b"a", b"a"], start=100, with_kernels=engine)

    found.put(data, table)

    assert superseded(found) == [100, 102]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.lists(st.binary(max_size=20) | st.sampled_from([b"a", b"b"]), max_size=120))
def test_a_map_is_a_dict_that_remembers_what_it_replaced(keys: list[bytes]) -> None:
    """Kernels and plain code agree with a dict, for any keys."""
    known: dict[bytes, int] = {}
    replaced = []
    for offset, key in enumerate(keys):
        if key in known:
            replaced.append(known[key])
        known[key] = offset
    for with_kernels in (False, True):
        found = map_of(with_kernels=with_kernels, span=len(keys))
        data, table = table_of(keys, with_kernels=with_kernels)

        assert found.put(data, table) == min(len(keys), table.count)

        if len(known) < found.capacity:
            assert offsets(found, [*known, b"unknown key of 24 bytes!"]) == [*known.values(), -1]
            assert superseded(found) == sorted(replaced)


def test_map_and_bits_stay_within_the_memory_given() -> None:
    """For any number of offsets, both arrays together take at most ``memory_bytes``."""
    for memory_bytes in (24, 1000, 1 << 20, 10_000_000):
        for span in (0, 1, 1000, 10**7, 10**9):
            for load_factor in (0.1, 0.9, 1.0):
                if usable_entries(memory_bytes, load_factor) < 1:
                    continue
                found = map_of(memory_bytes, load_factor, span=span)
                assert found.table.nbytes + found.bits.nbytes <= memory_bytes
                assert min(found.capacity, span) <= len(found.table) // columns.SLOT_WORDS
