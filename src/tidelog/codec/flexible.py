"""Kafka's flexible encoding: compact strings and arrays, fixed fields, tagged fields.

The messages of KRaft's control records and of the cluster's metadata use it. Kafka: ``Readable``
and the generated message classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar
from uuid import UUID

from tidelog.codec.layout import Layout, Wire
from tidelog.codec.varint import read_unsigned_varint
from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable

H = TypeVar("H", bound=tuple[Any, ...])
T = TypeVar("T")


class _Id(NamedTuple):
    uuid: Annotated[bytes, Wire("16s", "An id.")]


_ID: Final = Layout(_Id)


class FlexibleReader:
    """Reads one field after another; raises InvalidRecord if the bytes end before a field does.

    ``what`` names the message in errors.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """Whether all bytes have been read."""
        return self._at == len(self._data)

    def fixed(self, layout: Layout[H]) -> H:
        """Read a structure of a fixed size."""
        return layout.unpack(self._take(layout.size))

    def unsigned(self) -> int:
        """Read an unsigned varint."""
        value, self._at = read_unsigned_varint(self._data, self._at)
        return value

    def string(self) -> str:
        """Read a compact string; what is not UTF-8 is replaced, null is an empty string."""
        return self._take(max(self.unsigned() - 1, 0)).decode("utf-8", "replace")

    def exact_string(self) -> str:
        """Read a compact string; InvalidRecord if it is null or not UTF-8."""
        text = self.nullable_string()
        if text is None:
            raise InvalidRecord(f"{self._what} has a null where text is needed")
        return text

    def nullable_string(self) -> str | None:
        """Read a compact string that may be null; InvalidRecord if it is not UTF-8."""
        size = self.unsigned()
        if not size:
            return None
        try:
            return self._take(size - 1).decode()
        except UnicodeDecodeError:
            raise InvalidRecord(f"{self._what} has text that is not UTF-8") from None

    def uuid(self) -> UUID:
        """Read a 16-byte id."""
        return UUID(bytes=self.fixed(_ID).uuid)

    def array(self, element: Callable[[FlexibleReader], T]) -> list[T]:
        """Read a compact array; null is an empty one."""
        return [element(self) for _ in range(max(self.unsigned() - 1, 0))]

    def skip_tags(self) -> None:
        """Skip the tagged fields at the end of a structure."""
        for _ in range(self.unsigned()):
            self.unsigned()
            self._take(self.unsigned())

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise InvalidRecord(f"{self._what} is cut short")
        self._at += size
        return taken
