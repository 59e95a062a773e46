"""The partition of a key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import InvalidPartitions
from tidelog.kernels.hashing.murmur import partition_keys
from tidelog.records.partitioner import murmur2, partition_for_key

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Published values of Kafka's hash, as signed 32-bit numbers (Kafka's UtilsTest)."""


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    """murmur2 with Kafka's seed; unsigned here."""
    assert expected % 2**32 == murmur2(key)


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_the_sign_is_dropped_before_dividing(key: bytes, expected: int) -> None:
    """A partition is ``(hash & 0x7fffffff) % partitions``, as with Kafka's ``toPositive``."""
    assert (expected & 0x7FFF_FFFF) % 7 == partition_for_key(key, 7)


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_has_a_partition(partitions: int) -> None:
    """Without partitions there is none to send a key to."""
    with pytest.raises(InvalidPartitions):
        partition_for_key(b"a", partitions)


@settings(deadline=None)
@given(
    keys=st.lists(st.none() | st.binary(max_size=70), max_size=10), partitions=st.integers(1, 100)
)
def test_the_kernel_agrees(keys: list[bytes | None], partitions: int) -> None:
    """Whole columns are hashed to the same partitions; a null key has none."""
    data = np.frombuffer(b"".join(key or b"" for key in keys) or b"\0", np.uint8)
    sizes = np.array([-1 if key is None else len(key) for key in keys], np.int64)
    lengths = np.maximum(sizes, 0)
    at = np.cumsum(lengths) - lengths
    out = np.zeros(len(keys), np.int32)

    nulls = partition_keys(data, at, sizes, partitions, out)

    expected = [-1 if key is None else partition_for_key(key, partitions) for key in keys]
    assert (keys.count(None), expected) == (nulls, out.tolist())
