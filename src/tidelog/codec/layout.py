"""Fixed-size big-endian structures, declared once as a NamedTuple.

Reader, writer, ``tidelog dump`` and ``docs/format.md`` all use the same declaration.
"""

from __future__ import annotations

import struct
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

from tidelog.errors import InvalidArgument
from tidelog.lazy import np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

Buffer: TypeAlias = "bytes | bytearray | memoryview | NDArray[np.uint8]"
"""Bytes in any of their forms. (``collections.abc.Buffer`` needs Python 3.12.)"""

H = TypeVar("H", bound=tuple[Any, ...])


def byte_view(data: Buffer) -> memoryview:
    """Return ``data`` as a view of single bytes, not copied; it must be contiguous in memory."""
    return memoryview(cast("memoryview", data)).cast("B")


class Wire(NamedTuple):
    """How one field is stored: a ``struct`` code and the meaning of the field."""

    code: str
    meaning: str


class Layout(Generic[H]):
    """A fixed-size big-endian structure, built from a NamedTuple whose fields carry a ``Wire``.

    ``offsets`` maps each field to its byte position from the start of the structure; ``size`` is
    the size of the whole structure in bytes.
    """

    def __init__(self, header: type[H]) -> None:
        hints = get_type_hints(header, include_extras=True)
        self.wires: dict[str, Wire] = {name: hint.__metadata__[0] for name, hint in hints.items()}
        # Any: arrays are buffers, too, which mypy does not know; a cast at each use is a call.
        self._struct: Any = struct.Struct(">" + "".join(wire.code for wire in self.wires.values()))
        self._make: Any = partial(tuple.__new__, header)  # its ``_make``, without a Python call
        self.name = header.__name__
        self.size = self._struct.size
        self._fields: dict[str, Any] = {
            name: struct.Struct(">" + wire.code) for name, wire in self.wires.items()
        }
        self.offsets: dict[str, int] = {}
        position = 0
        for name, wire in self.wires.items():
            self.offsets[name] = position
            position += struct.calcsize(">" + wire.code)

    def unpack(self, data: Buffer, at: int = 0) -> H:
        """Read the structure at byte ``at``; the caller has checked that it is complete."""
        made: H = self._make(self._struct.unpack_from(data, at))
        return made

    def unpack_field(self, name: str, data: Buffer, at: int = 0) -> int:
        """Read one number of a structure that begins at byte ``at`` and may be cut after it."""
        found: int = self._fields[name].unpack_from(data, at + self.offsets[name])[0]
        return found

    def unpack_all(self, data: bytes | memoryview) -> Iterator[tuple[Any, ...]]:
        """Read the structures in ``data``; an incomplete one at its end is left out."""
        whole = memoryview(data)[: len(data) - len(data) % self.size]
        found: Iterator[tuple[Any, ...]] = self._struct.iter_unpack(whole)
        return found

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The same structure as an element of arrays."""
        return np.dtype([(name, f">{wire.code}") for name, wire in self.wires.items()])

    def pack(self, value: H) -> bytes:
        """Return the bytes of ``value``; InvalidArgument if a number does not fit its field."""
        try:
            packed: bytes = self._struct.pack(*value)
        except struct.error as error:
            raise InvalidArgument(f"{self.name} has a value out of range: {error}") from error
        return packed

    def pack_into(self, value: tuple[int, ...], buffer: Buffer, at: int) -> None:
        """Write the fields ``value`` into a ``buffer`` at byte ``at``; errors as for ``pack``."""
        try:
            self._struct.pack_into(buffer, at, *value)
        except struct.error as error:
            raise InvalidArgument(f"{self.name} has a value out of range: {error}") from error

    def pack_field(self, name: str, value: int, buffer: Buffer, at: int = 0) -> None:
        """Write one field of a structure that begins at byte ``at``; errors as for ``pack``."""
        try:
            self._fields[name].pack_into(buffer, at + self.offsets[name], value)
        except struct.error as error:
            raise InvalidArgument(f"{self.name}.{name} is out of range: {error}") from error
