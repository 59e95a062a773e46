"""The partition of a key, as chosen by Kafka's producers.

This is the plain form, for one key; ``kernels.hashing.murmur`` handles whole columns. Kafka:
``Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidPartitions

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEED: Final = 0x9747_B28C
_FACTOR: Final = 0x5BD1_E995
_MASK32: Final = 0xFFFF_FFFF
_MASK31: Final = 0x7FFF_FFFF
HASHES: Final = _MASK31 + 1
"""A number of partitions for which a key's partition is its hash itself."""
_WORD_BYTES: Final = 4


def murmur2(key: bytes) -> int:
    """Return Kafka's 32-bit hash of a key, unsigned. Source: Kafka Utils.murmur2."""
    state = (_SEED ^ len(key)) & _MASK32
    whole = len(key) - len(key) % _WORD_BYTES
    for at in range(0, whole, _WORD_BYTES):
        word = key[at] | key[at + 1] << 8 | key[at + 2] << 16 | key[at + 3] << 24
        word = word * _FACTOR & _MASK32
        word = (word ^ word >> 24) * _FACTOR & _MASK32
        state = state * _FACTOR & _MASK32 ^ word
    if whole < len(key):
        rest = 0
        for byte in reversed(key[whole:]):
            rest = rest << 8 | byte
        state = (state ^ rest) * _FACTOR & _MASK32
    state = (state ^ state >> 13) * _FACTOR & _MASK32
    return state ^ state >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition, in ``[0, partitions)``, to which Kafka's producers send ``key``."""
    if partitions < 1:
        raise InvalidPartitions(f"the number of partitions must be at least 1, not {partitions}")
    return (murmur2(key) & _MASK31) % partitions


def chosen_partition(key: bytes | None, numbers: Sequence[int], turn: int) -> int:
    """Return the partition of a key; without one, that of a ``turn``, of sorted ``numbers``."""
    if key is None:
        return numbers[turn % len(numbers)]
    return partition_for_key(key, numbers[-1] + 1)
