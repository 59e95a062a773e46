"""Named rows of a 2-D array, and the types of the arrays that batches and records use.

``memory`` and ``record_columns`` define the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from tidelog.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidelog.codec.layout import Buffer

    Bools: TypeAlias = NDArray[np.bool_]
    Bytes: TypeAlias = NDArray[np.uint8]
    Ints: TypeAlias = NDArray[np.int64]


SLACK_BYTES: Final = 64
"""Spare bytes after the buffers of kernels, so that they may copy whole vectors."""


class Table(Protocol):
    """An object with a 2-D array: one row per field, one column per batch or record."""

    array: Ints


class Row:
    """A descriptor for a row of a ``Table``: reading the attribute gives a view of the row."""

    def __init__(self, index: int, meaning: str) -> None:
        self.index = index
        self.__doc__ = meaning

    def __get__(self, table: Table, kind: type[Table]) -> Ints:
        row: Ints = table.array[self.index]
        return row


def as_bytes(data: Buffer) -> Bytes:
    """Return ``data`` as a 1-D uint8 array over the same memory."""
    return data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)


def every(mask: Bools) -> bool:
    """Return whether all are true; on short arrays ``mask.all()`` takes four times as long."""
    return int(np.count_nonzero(mask)) == mask.size


def increases(column: Ints) -> bool:
    """Return whether each number is greater than the one before."""
    return every(column[1:] > column[:-1])
