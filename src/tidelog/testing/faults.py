"""Planned disk errors and power cuts, and the list of operations that a plan counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

# A cut during a sync comes before the sync has an effect. A cut during any other operation comes
# after it: its change is not durable yet, so the power cut decides what is left of it.
_SYNCS: Final = frozenset({"sync", "sync_directory"})


class PowerCut(BaseException):
    """The power failed. Not caught by ``except Exception``, since no program survives this."""


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


class _FaultAt(NamedTuple):
    call: int
    error: OSError
    is_short: bool


class Faults:
    """Counts every operation before it runs, and raises the planned fault.

    ``calls`` counts all operations, ``traced`` lists them from ``trace`` on.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.calls = 0
        self.traced: list[Operation] | None = None
        self._at: _FaultAt | None = None
        self._is_short = False
        self._failures: list[_Failure] = []
        self._left: int | None = None
        self._is_off = False

    def fail(
        self, operation: str, path_suffix: str, error: OSError, count: int, skipped: int
    ) -> None:
        """Make ``count`` operations with this name, on such a path, raise ``error``."""
        self._failures.append(_Failure(operation, path_suffix, error, count, skipped))

    def fail_at(self, number: int, error: OSError, *, is_short: bool) -> None:
        """Make the ``number``-th operation from now on (0 is the next) raise ``error``.

        With ``is_short`` it is a write, and half of it reaches the file before.
        """
        self._at = _FaultAt(self.calls + number, error, is_short)

    def take_short(self) -> OSError | None:
        """Return the error of a write that is to stop half-way; once."""
        if self._at is None or not self._is_short:
            return None
        self._is_short = False
        return self._at.error

    def crash_after(self, operations: int) -> None:
        """Let ``operations`` more changing operations succeed; the power fails in the next one."""
        self._left = operations

    def reset(self) -> None:
        """Turn the power on again and drop all planned faults."""
        self._failures.clear()
        self._at = None
        self._is_short = False
        self._left = None
        self._is_off = False

    def check(self, name: str, *paths: str) -> None:
        """Raise any fault planned for an operation that changes nothing."""
        if self._is_off:
            raise PowerCut("the power is off")
        if self.traced is not None:
            self.traced.append(Operation(name, paths[0]))
        self.calls += 1
        if self._at is not None and self._at.call == self.calls - 1:
            if not self._at.is_short:
                raise self._at.error
            self._is_short = True
        for failure in self._failures:
            if failure.count > 0 and failure.hits(name, paths):
                if failure.skipped:
                    failure.skipped -= 1
                    continue
                failure.count -= 1
                raise failure.error

    def begin_change(self, name: str, *paths: str) -> bool:
        """Count an operation that changes something, and raise any fault planned for it.

        Return whether the power fails at its end: however it ends, the caller calls ``cut``.
        """
        self.check(name, *paths)
        self.operations.append(Operation(name, paths[0]))
        is_last = self._left == 0
        if self._left:
            self._left -= 1
        if is_last and name in _SYNCS:
            self.cut(name, *paths)
        return is_last

    def cut(self, name: str, *paths: str) -> None:
        """Let the power fail in an operation."""
        self._is_off = True
        raise PowerCut(f"the power failed during {name} of {paths[0]}")
