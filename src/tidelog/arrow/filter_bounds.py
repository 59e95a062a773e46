"""What a filter of Arrow says of columns: which it names, and the ranges it leaves.

Arrow does not show what is in an expression, but it decides whether one can hold at all where
something is guaranteed; the bounds are found by asking that. What is not found prunes nothing.
Arrow: ``SimplifyWithGuarantee``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from tidelog.records.batch import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

_FORMAT: Final = ds.IpcFileFormat()
_FILES: Final = LocalFileSystem()
_LEAST: Final = -INT64_MAX - 1


class FilterBounds(NamedTuple):
    """Rows with offsets outside ``[start_offset, end_offset)`` or before ``since`` do not match.

    ``since`` is in the unit of the column ``timestamp``; None: no time is too early.
    """

    start_offset: int
    end_offset: int
    since: int | None


def columns_in(filters: ds.Expression, schema: pa.Schema) -> list[str]:
    """Return the columns that a filter names; ArrowInvalid for one that is not in ``schema``."""
    _can_hold(filters, [ds.scalar(True)], schema)
    return [
        name for number, name in enumerate(schema.names) if _fails(filters, schema.remove(number))
    ]


def partitions_in(
    filters: ds.Expression, schema: pa.Schema, partitions: Sequence[int]
) -> list[int]:
    """Return those of the partitions of which rows may match."""
    kind = schema.field("partition").type
    guarantees = [ds.field("partition") == pa.scalar(number, kind) for number in partitions]
    return [partitions[at] for at in _can_hold(filters, guarantees, schema)]


def bounds_in(
    filters: ds.Expression, schema: pa.Schema, named: Collection[str]
) -> FilterBounds | None:
    """Return the bounds of the rows that may match; None: there are no such rows.

    ``named`` are the columns that the filter names.
    """

    def holds(guarantee: ds.Expression) -> bool:
        try:
            return bool(_can_hold(filters, [guarantee], schema))
        except pa.ArrowInvalid:
            # The number does not fit the type of the filter, as a float: this proves nothing.
            return True

    if not holds(ds.scalar(True)):
        return None
    start, end, since = 0, INT64_MAX, None
    if "nan" in str(filters):
        # Arrow takes a comparison with NaN for true below some bounds; no row answers it so.
        return FilterBounds(start, end, since)
    if "offset" in named:
        offset = ds.field("offset")
        start = _first(lambda least: holds(offset <= pa.scalar(least, pa.int64())))
        end = _first(lambda most: not holds(offset >= pa.scalar(most, pa.int64())))
    if "timestamp" in named:
        kind = schema.field("timestamp").type
        timestamp = ds.field("timestamp")
        first = _first(lambda least: holds(timestamp <= pa.scalar(least, kind)))
        since = first if first > _LEAST else None
    return FilterBounds(max(start, 0), end, since)


def _first(is_reached: Callable[[int], bool]) -> int:
    """Return the least value that reaches something, as all greater ones do; else the greatest."""
    low, high = _LEAST, INT64_MAX
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_reached(middle) else (middle + 1, high)
    return low


def _can_hold(
    filters: ds.Expression, guarantees: Iterable[ds.Expression], schema: pa.Schema
) -> list[int]:
    """Return the numbers of the guarantees under which the filter may hold for some row."""
    # No file is opened: only names and guarantees of fragments are looked at.
    fragments = [
        _FORMAT.make_fragment(f"{number}", filesystem=_FILES, partition_expression=guarantee)
        for number, guarantee in enumerate(guarantees)
    ]
    dataset = ds.FileSystemDataset(fragments, schema, _FORMAT, _FILES)
    return [int(fragment.path) for fragment in dataset.get_fragments(filter=filters)]


def _fails(filters: ds.Expression, schema: pa.Schema) -> bool:
    try:
        _can_hold(filters, [ds.scalar(True)], schema)
    except pa.ArrowInvalid:
        return True
    return False
