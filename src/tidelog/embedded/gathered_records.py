"""Many records as the table from which batches are built, without a look at each in Python.

Records of one form are gathered so, if they have no headers and name no partition; others are rare
where speed matters. A value given as an object for JSON is not read ahead, as it may be changed.
"""

from __future__ import annotations

from operator import itemgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.kernels import rows
from tidelog.lazy import np
from tidelog.records.bulk_builder import RecordSource
from tidelog.records.new_record import NewRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tidelog.records.new_record import GivenRecord

    Ints = NDArray[np.int64]
    Parts = Mapping[str, Sequence[Any]]

_NULL: Final = -1
_MAY_BE_NULL: Final = {bytes, NoneType}
_LISTS: Final = {tuple, list, NoneType}
_NAMES: Final = {*NewRecord._fields}
_SHORTEST, _LONGEST = 2, 4
"""Parts of a record that is a tuple: key and value, and perhaps headers and timestamp."""


class _Column(NamedTuple):
    """Byte strings one after another; a size of -1 is null."""

    data: NDArray[np.uint8]
    at: Ints | int
    size: Ints | int


def gather(given: Sequence[GivenRecord], now_ms: int) -> RecordSource | None:
    """Return records as a table; None where one needs a look at it, as it may be an error.

    All have one of the forms of ``NewRecord.of``, no headers and no partition. Keys and values are
    bytes or None, times are numbers; those without a time get ``now_ms``.
    """
    parts = _parts_of(given)
    if parts is None or not _is_bare(parts):
        return None
    values, times = _column(parts["value"]), _times(parts.get("timestamp"), now_ms)
    no_bytes = np.empty(0, np.uint8)
    keys = _column(parts["key"]) if "key" in parts else _Column(no_bytes, 0, _NULL)
    if times is None or keys is None or values is None:
        return None
    table = np.empty((rows.RECORD_COLUMNS, len(given)), np.int64)
    table[rows.TIMESTAMP] = times
    table[rows.HEADERS_AT] = table[rows.HEADERS_COUNT] = 0
    table[rows.VALUE_AT], table[rows.VALUE_SIZE] = values.at, values.size
    table[rows.KEY_AT], table[rows.KEY_SIZE] = keys.at, keys.size
    return RecordSource(table, keys.data, values.data, no_bytes)


def _parts_of(given: Sequence[Any]) -> Parts | None:
    """Return the parts of records by name; None unless all have the same ones."""
    first = given[0]
    if len(set(map(type, given))) > 1:
        return None
    if type(first) is bytes:
        return {"value": given}
    if type(first) is NewRecord or type(first) is tuple:
        is_whole = type(first) is NewRecord or _SHORTEST <= len(first) <= _LONGEST
        if not is_whole or len(set(map(len, given))) > 1:
            return None
        names = NewRecord._fields[: len(first)]
        return {name: list(map(itemgetter(at), given)) for at, name in enumerate(names)}
    if type(first) is dict:
        known = first.keys()
        if "value" in known and known <= _NAMES and all(one.keys() == known for one in given):
            return {name: list(map(itemgetter(name), given)) for name in known}
    return None


def _is_bare(parts: Parts) -> bool:
    """Whether no record has headers, or names a partition."""
    headers, partitions = parts.get("headers", ()), parts.get("partition", ())
    is_without = set(map(type, headers)) <= _LISTS and not any(headers)
    return is_without and set(map(type, partitions)) <= {NoneType}


def _times(given: Sequence[Any] | None, now_ms: int) -> Ints | int | None:
    """Return the times of records, or the one of all; None if one is not known to be a time."""
    types = set() if given is None else set(map(type, given))
    if given is None or types == {NoneType}:
        return now_ms
    if not types <= {int, NoneType}:
        return None
    try:
        times = np.array([now_ms if one is None else one for one in given], np.int64)
    except OverflowError:
        return None
    return times if times.min() >= 0 else None


def _column(parts: Sequence[Any]) -> _Column | None:
    """Return bytes as a column; None if one is neither bytes nor None."""
    types = set(map(type, parts))
    if not types <= _MAY_BE_NULL:
        return None
    has_null = NoneType in types
    plain: Sequence[bytes] = [part or b"" for part in parts] if has_null else parts
    size = np.fromiter(map(len, plain), np.int64, len(plain))
    at = np.cumsum(size) - size
    if has_null:
        size[[part is None for part in parts]] = _NULL
    return _Column(np.frombuffer(b"".join(plain), np.uint8), at, size)
