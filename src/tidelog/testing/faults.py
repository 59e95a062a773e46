"""What goes wrong on a disk, and when.

Owns the plan of errors and of the power cut, and the list of operations that such a plan counts.
Must not know how files are kept.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# A cut during a sync comes before it has an effect; during any other operation, after it: what it
# did is not durable yet, so the power cut decides what is left of it.
_SYNCS: Final = frozenset({"sync", "sync_directory"})


class PowerCut(BaseException):
    """The power failed. No ``except Exception`` catches it, as no program outlives the moment."""


class Operation(NamedTuple):
    """One operation that changed the disk, or made changes durable."""

    name: str
    path: str


@dataclass(slots=True)
class _Failure:
    operation: str
    path_suffix: str
    error: OSError
    count: int
    skipped: int

    def hits(self, name: str, paths: tuple[str, ...]) -> bool:
        return self.operation == name and any(p.endswith(self.path_suffix) for p in paths)


class Faults:
    """Stands before every operation: counts it, and lets it fail as planned."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._failures: list[_Failure] = []
        self._left: int | None = None
        self._is_off = False

    def fail(
        self, operation: str, path_suffix: str, error: OSError, count: int, skipped: int
    ) -> None:
        """Let ``count`` operations of this name, on such a path, raise ``error``."""
        self._failures.append(_Failure(operation, path_suffix, error, count, skipped))

    def crash_after(self, operations: int) -> None:
        """Let so many changing operations take place, and the power fail in the next one."""
        self._left = operations

    def reset(self) -> None:
        """Switch the power on again, with no fault planned."""
        self._failures.clear()
        self._left = None
        self._is_off = False

    def check(self, name: str, *paths: str) -> None:
        """Raise what is planned for an operation that changes nothing."""
        if self._is_off:
            raise PowerCut("the power is off")
        for failure in self._failures:
            if failure.count > 0 and failure.hits(name, paths):
                if failure.skipped:
                    failure.skipped -= 1
                    continue
                failure.count -= 1
                raise failure.error

    @contextmanager
    def change(self, name: str, *paths: str) -> Iterator[None]:
        """Raise what is planned for an operation that changes something, and count it."""
        self.check(name, *paths)
        self.operations.append(Operation(name, paths[0]))
        is_last = self._left == 0
        if self._left:
            self._left -= 1
        if is_last and name in _SYNCS:
            self._cut(name, paths)
        try:
            yield
        finally:
            if is_last:
                self._cut(name, paths)

    def _cut(self, name: str, paths: tuple[str, ...]) -> None:
        self._is_off = True
        raise PowerCut(f"the power failed during {name} of {paths[0]}")
