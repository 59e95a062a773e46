"""Partitions of keys, as chosen by Kafka's producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aiokafka.partitioner import murmur2

from tidelog.kernels.hashing.murmur import partition_keys
from tidelog.kernels.rows import BAD_ARGUMENT
from tidelog.records.partitioner import HASHES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

PARTITIONS = 1_000_003


def partitions_of(
    kernel: Callable[..., int], keys: list[bytes | None], partitions: int
) -> list[int]:
    size = np.array([-1 if key is None else len(key) for key in keys], np.int64)
    at = np.cumsum(np.maximum(size, 0)) - np.maximum(size, 0)
    data = np.frombuffer(b"".join(key or b"" for key in keys), np.uint8)
    out = np.full(len(keys), -9, np.int32)
    nulls = kernel(data, at, size, partitions, out)
    assert nulls == keys.count(None)
    return out.tolist()


def test_partitions_are_those_of_another_client(
    run: Callable[[Any], Any], rng: random.Random
) -> None:
    """Keys of every length get the partition that aiokafka's default partitioner chooses."""
    keys = [rng.randbytes(size) for size in (*range(20), 100, 1_000)]

    found = partitions_of(run(partition_keys), list(keys), PARTITIONS)

    assert [(murmur2(key) & 0x7FFFFFFF) % PARTITIONS for key in keys] == found


def test_published_hashes_are_met(run: Callable[[Any], Any]) -> None:
    """The hashes are those of Kafka's own test of murmur2."""
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}

    found = partitions_of(run(partition_keys), list(hashes), HASHES)

    assert [value & 0x7FFFFFFF for value in hashes.values()] == found


def test_a_null_key_has_no_partition(run: Callable[[Any], Any]) -> None:
    """Null keys get -1 and are counted; an empty key is a key."""
    found = partitions_of(run(partition_keys), [None, b"", None], 4)

    assert found == [-1, (murmur2(b"") & 0x7FFFFFFF) % 4, -1]


@pytest.mark.parametrize(("at", "size"), [(-1, 1), (3, 1), (0, 4), (0, 2**62)])
def test_a_key_outside_the_data_is_refused(run: Callable[[Any], Any], at: int, size: int) -> None:
    """No byte outside the data is hashed."""
    out = np.zeros(1, np.int32)
    slices = np.array([at], np.int64), np.array([size], np.int64)

    assert run(partition_keys)(np.zeros(3, np.uint8), *slices, 2, out) == BAD_ARGUMENT


@pytest.mark.parametrize("partitions", [0, -1, HASHES + 1])
def test_there_must_be_partitions(run: Callable[[Any], Any], partitions: int) -> None:
    """A number of partitions that is none, or more than a key has hashes, is rejected."""
    none = np.zeros(0, np.int64)
    found = run(partition_keys)(
        np.zeros(0, np.uint8), none, none, partitions, np.zeros(0, np.int32)
    )

    assert found == BAD_ARGUMENT
