"""A disk in memory that knows which changes have reached it.

Everything has two states: what a running program sees, and what a power cut leaves.

A power cut does what real file systems were seen to do. Any unsynced write may be kept, lost or cut
short, or may leave the file longer, with zeros in place of its bytes. Truncations of one file
happen in order. A change of names happens as a whole or not at all, and independent ones in any
order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tidelog.env.files import Buffer

Kept = Literal["none", "all", "prefix", "any"]
"""How many of the unsynced changes survive a power cut; "any" can also tear a write."""

_STYLES: Final[tuple[Kept, ...]] = ("none", "all", "prefix", "any")


class FileBytes:
    """The bytes of a file. Zeros at its end, as a preallocated index has, take no memory."""

    __slots__ = ("_held", "_size")

    def __init__(self) -> None:
        self._held = bytearray()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self.read(0, self._size)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes of a range, as far as the file has them."""
        held = bytes(self._held[start:end])
        return held + bytes(max(min(end, self._size) - start - len(held), 0))

    def write(self, data: bytes, position: int) -> None:
        """Replace bytes from ``position`` on, or add some; zeros fill a gap before them."""
        if data:
            self._held.extend(bytes(max(position - len(self._held), 0)))
            self._held[position : position + len(data)] = data
        self._size = max(self._size, position + len(data))

    def resize(self, size: int) -> None:
        """Truncate, or extend with zeros."""
        del self._held[size:]
        self._size = size

    def copied(self) -> FileBytes:
        """Return a copy."""
        copy = FileBytes()
        copy._held, copy._size = self._held[:], self._size
        return copy


class _Write(NamedTuple):
    position: int
    data: bytes

    def apply(self, content: FileBytes) -> None:
        content.write(self.data, self.position)


class _Truncation(NamedTuple):
    size: int

    def apply(self, content: FileBytes) -> None:
        content.resize(self.size)


_inodes: Final = count(1)


class FileNode:
    """The bytes of one file: ``content`` is what programs see; the rest is for power cuts."""

    def __init__(self, now_ms: int) -> None:
        self.inode = next(_inodes)
        self.content = FileBytes()
        self.mtime_ms = now_ms
        self._durable = FileBytes()
        self._pending: list[_Write | _Truncation] = []

    @property
    def is_synced(self) -> bool:
        """Whether a power cut leaves the bytes that programs see."""
        return bytes(self._durable) == bytes(self.content)

    def write(self, data: Buffer, position: int) -> None:
        """Write ``data`` at ``position``; zeros fill a gap before it."""
        self._change(_Write(position, bytes(data)))

    def truncate(self, size: int) -> None:
        """Truncate or extend to ``size`` bytes."""
        self._change(_Truncation(size))

    def sync(self) -> None:
        """Make all changes durable."""
        for change in self._pending:
            change.apply(self._durable)
        self._pending.clear()

    def forget(self) -> None:
        """Act as a failed sync: programs see the changes, but no later sync saves them."""
        self._pending.clear()

    def cut(self, rng: Random, kept: Kept | None = None) -> None:
        """Apply a power cut: keep only the changes that survive it."""
        for change in _survivors(self._pending, rng, kept):
            change.apply(self._durable)
        self._pending.clear()
        self.content = self._durable.copied()

    def _change(self, change: _Write | _Truncation) -> None:
        change.apply(self.content)
        self._pending.append(change)


def _survivors(
    pending: list[_Write | _Truncation], rng: Random, kept: Kept | None
) -> Iterator[_Write | _Truncation]:
    style = kept or rng.choice(_STYLES)
    if style == "all":
        yield from pending
    elif style == "prefix" and pending:
        whole = rng.randrange(len(pending))
        yield from pending[:whole]
        if isinstance(torn := pending[whole], _Write):
            yield from _parts(torn, "torn", rng)
    elif style == "any":
        yield from _some(pending, rng)


def _some(pending: list[_Write | _Truncation], rng: Random) -> Iterator[_Write | _Truncation]:
    for change in pending:
        fate = rng.choice(("kept", "kept", "lost", "torn", "zeros", "piece"))
        if isinstance(change, _Write):
            yield from _parts(change, fate, rng)
        elif fate == "kept":
            yield change
        else:
            return  # changes after a lost truncation are lost too


def _parts(write: _Write, fate: str, rng: Random) -> Iterator[_Write]:
    """Yield the surviving parts of a write.

    "zeros" and "piece": the file has grown to its full size, with none or some of the bytes.
    """
    position, data = write
    if fate in {"zeros", "piece"}:
        yield _Write(position + len(data), b"")
    if fate == "kept":
        yield write
    elif fate == "torn":
        yield _Write(position, data[: rng.randrange(len(data) + 1)])
    elif fate == "piece":
        start = rng.randrange(len(data) + 1)
        end = rng.randrange(start, len(data) + 1)
        yield _Write(position + start, data[start:end])


@dataclass(eq=False, slots=True)
class DirectoryNode:
    """The names in one directory: ``entries`` as programs see them, ``durable`` on the disk."""

    mtime_ms: int
    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node = FileNode | DirectoryNode
Entry = tuple[DirectoryNode, str]


@dataclass(eq=False, slots=True)
class _Renaming:
    """Entries that change together, and the directories not synced since."""

    entries: dict[Entry, Node | None]
    unsynced: set[DirectoryNode]

    def apply(self) -> None:
        for (directory, name), node in self.entries.items():
            _set(directory.durable, name, node)


def _set(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


class Disk:
    """A tree of directories and files."""

    def __init__(self, now_ms: int) -> None:
        self.root = DirectoryNode(now_ms)
        self._pending: list[_Renaming] = []

    def rename(self, entries: dict[Entry, Node | None]) -> None:
        """Atomically set each entry (directory, name) to a node, or remove it for None."""
        for (directory, name), node in entries.items():
            _set(directory.entries, name, node)
        self._pending.append(_Renaming(entries, {directory for directory, _ in entries}))

    def sync(self, directory: DirectoryNode) -> None:
        """Make the changes in ``directory`` durable, and those that they depend on.

        A change in two directories is durable once both were synced.
        """
        needed: set[Entry] = set()
        settled: list[_Renaming] = []
        left: list[_Renaming] = []
        for change in reversed(self._pending):
            change.unsynced.discard(directory)
            if change.unsynced and needed.isdisjoint(change.entries):
                left.append(change)
            else:
                needed.update(change.entries)
                settled.append(change)
        for change in reversed(settled):
            change.apply()
        self._pending = left[::-1]

    def cut(self, rng: Random, kept: Kept | None = None) -> None:
        """Apply a power cut; ``rng`` chooses what survives, or ``kept`` does for all files."""
        for change in self._surviving_renamings(rng, kept):
            change.apply()
        self._pending.clear()
        nodes = list(self.nodes(durable=True))
        for node in nodes:
            if isinstance(node, FileNode):
                node.cut(rng, kept)
            else:
                node.entries = dict(node.durable)

    def nodes(self, *, durable: bool = False) -> Iterator[Node]:
        """Yield each file and directory once, in order of names."""
        seen: set[int] = set()
        waiting: list[Node] = [self.root]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            if isinstance(node, DirectoryNode):
                names = node.durable if durable else node.entries
                waiting.extend(names[name] for name in sorted(names, reverse=True))

    def used_bytes(self) -> int:
        """Return the total size of all files."""
        return sum(len(node.content) for node in self.nodes() if isinstance(node, FileNode))

    def _surviving_renamings(self, rng: Random, kept: Kept | None) -> Iterator[_Renaming]:
        style: Kept = rng.choice(_STYLES) if kept is None else kept
        end = rng.randrange(len(self._pending) + 1)
        lost: set[Entry] = set()
        for number, change in enumerate(self._pending):
            is_kept = {
                "none": False,
                "all": True,
                "prefix": number < end,
                "any": rng.random() < 0.5,
            }[style]
            # A later change of an entry depends on the earlier ones.
            if is_kept and lost.isdisjoint(change.entries):
                yield change
            else:
                lost.update(change.entries)
