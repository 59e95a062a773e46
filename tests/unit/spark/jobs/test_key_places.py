"""Records that lie where the hash of their key would not put them now are older."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelog.records.partitioner import murmur2, partition_for_key
from tidelog.spark.jobs.key_places import KeyPlaces, OutOfPlace, all_of

KEYS = [b"", *(b"k%d" % number for number in range(50))]


def places(pairs: list[tuple[bytes | None, int]], count: int) -> KeyPlaces:
    keys, partitions = zip(*pairs, strict=True)
    columns = [pa.array(keys, pa.binary()), pa.array(partitions, pa.int32())]
    return KeyPlaces.of(pa.record_batch(columns, ["key", "partition"]), count)


def written(*counts: int) -> OutOfPlace:
    """Return what is out of place after all keys were written with each number of partitions."""
    pairs = [(key, partition_for_key(key, count)) for count in counts for key in KEYS]
    return OutOfPlace.of(places([*pairs, (None, 0), (None, 1)], counts[-1]))


def test_a_record_is_in_place_where_the_hash_of_its_key_puts_it() -> None:
    """One without a key is in place everywhere; the partitioner's hash has 31 bits."""
    at = partition_for_key(b"k", 5)

    found = places([(b"k", at), (b"k", (at + 1) % 5), (None, 3), (b"", 4)], 5)

    assert found.is_out.tolist() == [False, True, False, partition_for_key(b"", 5) != 4]
    hashes = [murmur2(b"k") & 0x7FFFFFFF] * 2 + [-1, murmur2(b"") & 0x7FFFFFFF]
    assert found.hashes.tolist() == hashes


@pytest.mark.parametrize("counts", [(7,), (3, 7), (8, 12), (1, 2), (5, 5)])
def test_the_order_is_known_if_partitions_were_added_once(counts: tuple[int, ...]) -> None:
    """Records out of place are then where the number before puts them."""
    found = written(*counts)

    assert found.unordered(counts[-1]) == 0
    expected = [partition_for_key(k, counts[0]) != partition_for_key(k, counts[-1]) for k in KEYS]
    assert found.records == sum(expected)


@pytest.mark.parametrize("counts", [(3, 5, 7), (4, 8, 12), (8, 12, 16)])
def test_the_order_is_unknown_if_partitions_were_added_several_times(
    counts: tuple[int, ...],
) -> None:
    """Old records of a key may lie in several partitions."""
    found = written(*counts)

    assert found.unordered(counts[-1]) == found.records > 0


def test_the_order_is_unknown_if_another_partitioner_chose() -> None:
    """Whether it had fewer partitions cannot be seen."""
    found = OutOfPlace.of(places([(key, len(key) % 2) for key in KEYS], 2))

    assert found.unordered(2) == found.records > 0


def test_what_tasks_find_counts_together() -> None:
    """Each may be explained by a number of partitions, and all by none."""
    one, other = (
        OutOfPlace.of(places([(key, partition_for_key(key, count)) for key in KEYS], 12))
        for count in (5, 8)
    )

    assert one.unordered(12) == other.unordered(12) == 0
    assert all_of([one, other]).unordered(12) == one.records + other.records
    assert all_of([one, OutOfPlace(), one]).unordered(12) == 0
    assert all_of([]).unordered(12) == 0
