"""One fault at one file operation of this process, made by the real file system's methods."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.crash.fault_kinds import KINDS, Kind

from tidelog.env.system_files import SystemFile, SystemFiles
from tidelog.testing.faults import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WRAPPED = (
    *((SystemFile, name) for name in ("pread", "pread_into", "pwrite", "truncate", "sync")),
    *(
        (SystemFiles, name)
        for name in (
            *("open", "rename", "link", "delete", "delete_directory", "list", "make_directory"),
            *("stat", "exists", "set_mtime_ms", "lock", "free_bytes", "sync_directory"),
        )
    ),
)


@dataclass
class PlannedFault:
    """Raises an error of a kind at the ``number``-th operation below ``top`` that it can hit.

    Numbers count from 1; ``counts`` are the operations that each kind could hit, ``hit`` is the one
    that failed.
    """

    top: str
    kind: Kind | None = None
    number: int = 0

    def __post_init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.hit: Operation | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the operations of this process pass through here."""
        real = [(owner, name, getattr(owner, name)) for owner, name in _WRAPPED]
        for owner, name, method in real:
            setattr(owner, name, self._wrapped(name, method))
        try:
            yield
        finally:
            for owner, name, method in real:
                setattr(owner, name, method)

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(this: Any, *args: Any, **options: Any) -> Any:
            path = args[0] if isinstance(this, SystemFiles) else this.path
            if path.startswith(self.top):
                self._count(Operation(name, path), this, args, options)
            return real(this, *args, **options)

        return call

    def _count(
        self, operation: Operation, this: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        mode = options.get("mode", args[1] if len(args) > 1 else "r")
        is_new = operation.name == "open" and mode != "r" and not os.path.exists(operation.path)
        changing = {operation} if operation.name != "open" or is_new else set()
        for kind in KINDS:
            if not kind.can_hit(operation, changing):
                continue
            self.counts[kind.name] += 1
            if kind is self.kind and self.counts[kind.name] == self.number:
                self.hit = operation
                if kind.is_short:
                    data = memoryview(args[0]).cast("B")
                    os.pwrite(this.fileno(), data[: len(data) // 2], args[1])
                raise kind.error(operation.path)
