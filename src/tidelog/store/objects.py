"""What the archive asks of a store; ``ObjectStore`` answers it, and tests do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class ObjectInfo(NamedTuple):
    """An object: its size, the tag of its content, and when it was written, by the store's clock.

    ``name`` is relative to the store's prefix. ``etag`` is empty where a store has none.
    """

    name: str
    size_bytes: int
    etag: str
    modified_ms: int


class Objects(Protocol):
    """Objects under a prefix, by name; see ``ObjectStore`` for what each method promises."""

    @property
    def name(self) -> str:
        """Where it is, in one spelling."""

    def get(self, name: str) -> bytes:
        """Return a whole object; ObjectNotFound if there is none."""

    def head(self, name: str) -> ObjectInfo | None:
        """Return what is known of an object; None if there is none."""

    def get_ranges(
        self, name: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        """Return several ranges ``[start, end)``."""

    def create(self, name: str, data: bytes) -> bool:
        """Create an object unless there is one of this name; return whether it is ours."""

    def put(self, name: str, parts: Iterable[bytes], size_bytes: int) -> ObjectInfo:
        """Write an object of a name that nobody else uses; return it as the store has it."""

    def delete(self, name: str) -> None:
        """Delete an object; nothing happens if there is none."""

    def directories(self, prefix: str = "") -> list[str]:
        """Return the names of the directories in a directory, in order."""

    def list(self, prefix: str = "", after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield the objects whose names begin with a directory ``prefix``, in order of names."""
