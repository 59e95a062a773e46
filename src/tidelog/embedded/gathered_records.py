"""Many records as the table from which batches are built, without a look at each in Python.

Only plain values, and pairs of key and value, are gathered so; other forms are rare where speed
matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.kernels import rows
from tidelog.records.bulk_builder import RecordSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidelog.records.new_record import GivenRecord

    Ints = NDArray[np.int64]

_NULL: Final = -1
_NO_BYTES: Final = np.empty(0, np.uint8)
_MAY_BE_NULL: Final = {bytes, type(None)}


class _Column(NamedTuple):
    """Byte strings one after another; a size of -1 is null."""

    data: NDArray[np.uint8]
    at: Ints
    size: Ints


def gather(given: Sequence[GivenRecord], timestamp: int) -> RecordSource | None:
    """Return records as a table, all with ``timestamp``; None where one has another form.

    Values are bytes, pairs are tuples of a key and a value, each bytes or None.
    """
    keys, values = _split(given)
    if values is None:
        return None
    table = np.empty((rows.RECORD_COLUMNS, len(given)), np.int64)
    table[rows.TIMESTAMP] = timestamp
    table[rows.HEADERS_AT] = table[rows.HEADERS_COUNT] = 0
    table[rows.VALUE_AT], table[rows.VALUE_SIZE] = values.at, values.size
    if keys is None:
        table[rows.KEY_AT], table[rows.KEY_SIZE] = 0, _NULL
        return RecordSource(table, _NO_BYTES, values.data, _NO_BYTES)
    table[rows.KEY_AT], table[rows.KEY_SIZE] = keys.at, keys.size
    return RecordSource(table, keys.data, values.data, _NO_BYTES)


def _split(given: Sequence[GivenRecord]) -> tuple[_Column | None, _Column | None]:
    """Return the columns of keys, if there are any, and of values; None for other forms."""
    types = set(map(type, given))
    if types == {bytes}:
        return None, _column(given, has_null=False)
    if types == {tuple} and set(map(len, given)) == {2}:
        keys, values = zip(*given, strict=True)
        key_types, value_types = set(map(type, keys)), set(map(type, values))
        if key_types | value_types <= _MAY_BE_NULL:
            return (
                _column(keys, has_null=key_types != {bytes}),
                _column(values, has_null=value_types != {bytes}),
            )
    return None, None


def _column(parts: Sequence[object], *, has_null: bool) -> _Column:
    plain: Sequence[bytes] = [part or b"" for part in parts] if has_null else parts  # type: ignore[assignment, misc]  # the types are known
    size = np.fromiter(map(len, plain), np.int64, len(plain))
    at = np.cumsum(size) - size
    if has_null:
        size[[part is None for part in parts]] = _NULL
    return _Column(np.frombuffer(b"".join(plain), np.uint8), at, size)
