"""A directory in a model: names as programs see them, and what a power cut may leave of them.

The same disk as ``testing.disk``: a change of names happens as a whole or not at all, and
independent ones in any order, until a sync of the directory makes all of them durable. A file's
bytes are durable after a sync of the file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TORN: Final = "torn"
"""The content of a file whose bytes a power cut took."""

Names = frozenset[tuple[str, Any]]
Change = tuple[tuple[str, Any], ...]
"""Names that change together, each with its new content; None: the name is gone."""


class Directory(NamedTuple):
    """The files by name; ``durable`` and ``pending`` are for power cuts.

    ``pending`` are the changes since the last sync, in order. The bytes of ``unsynced`` files can
    still be lost.
    """

    names: Names = frozenset()
    durable: Names = frozenset()
    pending: tuple[Change, ...] = ()
    unsynced: frozenset[str] = frozenset()

    @property
    def files(self) -> Mapping[str, Any]:
        """The content of each file."""
        return _files(self.names)

    def changed(self, *changes: tuple[str, Any], is_synced: bool = True) -> Directory:
        """Return the directory with names changed, in one step that may be lost."""
        gone = {name for name, content in changes if content is None}
        unsynced = self.unsynced - gone
        if not is_synced:
            unsynced |= {name for name, _ in changes} - gone
        names, pending = _applied(self.names, changes), _in_order((*self.pending, changes))
        return Directory(names, self.durable, pending, unsynced)

    def synced(self) -> Directory:
        """Return the directory with all names durable; the bytes of files are another matter."""
        return Directory(self.names, self.names, (), self.unsynced)

    def file_synced(self, name: str) -> Directory:
        """Return the directory with the bytes of one file durable."""
        return self._replace(unsynced=self.unsynced - {name})

    def after_power_cut(self) -> Iterator[Directory]:
        """Yield what may be left: each choice of names, and of the bytes of unsynced files."""
        surviving = _surviving(self.pending, set())
        for names in dict.fromkeys(_applied(self.durable, *kept) for kept in surviving):
            torn = sorted(self.unsynced & dict(names).keys())
            for choice in range(1 << len(torn)):
                lost = [(name, TORN) for n, name in enumerate(torn) if choice >> n & 1]
                left = _applied(names, tuple(lost))
                yield Directory(left, left)


def _in_order(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return changes with the last one moved to where it stands among those of other names."""
    *others, last = changes
    at = len(others)
    while at and last[0][0] < others[at - 1][0][0]:
        if not _touched(last).isdisjoint(_touched(others[at - 1])):
            break
        at -= 1
    return (*others[:at], last, *others[at:])


def _touched(change: Change) -> set[str]:
    return {name for name, _ in change}


@lru_cache(maxsize=10_000)
def _files(names: Names) -> Mapping[str, Any]:
    return dict(names)


def _applied(names: Names, *changes: tuple[tuple[str, Any], ...]) -> Names:
    files = dict(names)
    for change in changes:
        for name, content in change:
            if content is None:
                files.pop(name, None)
            else:
                files[name] = content
    return frozenset(files.items())


def _surviving(pending: tuple[Change, ...], lost: set[str]) -> Iterator[tuple[Change, ...]]:
    """Yield the changes that survive, in every way; one depends on those of its names before."""
    if not pending:
        yield ()
        return
    first, rest = pending[0], pending[1:]
    touched = _touched(first)
    yield from _surviving(rest, lost | touched)
    if lost.isdisjoint(touched):
        for kept in _surviving(rest, lost):
            yield (first, *kept)
