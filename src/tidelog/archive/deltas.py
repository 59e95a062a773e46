"""What the versions of a chain say, and how: one line of JSON each.

It is read from a store that others may write to, so every value is checked: numbers are bounded,
names stay where they belong, and what a newer release wrote is refused.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tidelog.errors import CorruptArchive, InvalidTopic, NewerArchive
from tidelog.records.batch import INT64_MAX
from tidelog.segment.filenames import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FORMAT: Final = 1
"""The version of these lines that this release writes; it refuses greater ones."""
MAX_LINE_BYTES: Final = 4 << 20
MAX_EPOCHS: Final = 100_000

SECTIONS: Final = ("log", "coarse", "txnindex", "snapshot", "epochs", "index", "timeindex")
"""The parts of a segment's object, in their order."""

_OBJECT: Final = re.compile(r"s/\d{20}-\d{1,10}-[0-9a-f]{32}")
_NONCE: Final = re.compile(r"[0-9a-f]{32}")


def is_segment_name(name: str) -> bool:
    """Return whether this is the name of a segment's object, below the chain's prefix."""
    return _OBJECT.fullmatch(name) is not None


class Entry(NamedTuple):
    """One closed segment in the archive.

    Offsets are ``[base_offset, end_offset)``. ``size_bytes`` and ``crc32c`` describe the
    ``.log`` file; ``sections`` have the length of each part of the object, in the order of
    ``SECTIONS``. ``epochs`` are leader epochs with the offsets at which they begin, and ``opened``
    the producers with a transaction that is open at the end, with its first offset.
    ``max_timestamp`` is in ms, -1 if no record has one.
    """

    name: str
    base_offset: int
    end_offset: int
    max_timestamp: int
    size_bytes: int
    crc32c: int
    etag: str
    sections: tuple[int, ...]
    epochs: tuple[tuple[int, int], ...] = ()
    opened: tuple[tuple[int, int], ...] = ()

    def section(self, kind: str) -> tuple[int, int]:
        """Return where a part of the object begins and ends, in bytes."""
        at = SECTIONS.index(kind)
        start = sum(self.sections[:at])
        return start, start + self.sections[at]


class Claim(NamedTuple):
    """A log claims the chain: all later operations are those of ``incarnation``."""

    incarnation: str
    topic: str
    config: Mapping[str, str]


class Add(NamedTuple):
    """A segment is archived."""

    entry: Entry


class Start(NamedTuple):
    """The log begins at ``offset``; ``why`` is the decision, as ``retention``."""

    offset: int
    why: str


DELETED_BEFORE: Final = "deleted before it was archived"
"""Why of a ``Skip``, where a decision of the log's owner took the offsets out of it."""
NOT_ON_DISK: Final = "not on the disk"
"""Why of a ``Skip``, where the disk has lost the offsets."""


class Skip(NamedTuple):
    """Offsets ``[start, end)`` were deleted, or lost, before they were archived."""

    start: int
    end: int
    why: str


class Truncate(NamedTuple):
    """The archive ends at ``offset``: its segments from there on were of another history."""

    offset: int


class Remove(NamedTuple):
    """A segment below the start is no longer in the log; its object goes later."""

    name: str


class Drop(NamedTuple):
    """The object of a removed segment is deleted."""

    name: str


class Snapshot(NamedTuple):
    """The chain is a snapshot's and ends here; ``partitions``: how many the topic has."""

    partitions: int


class Deleted(NamedTuple):
    """The topic was deleted."""


Operation: TypeAlias = Claim | Add | Start | Skip | Truncate | Remove | Drop | Deleted | Snapshot

_KINDS: Final[dict[str, type[Operation]]] = {
    "claim": Claim,
    "add": Add,
    "start": Start,
    "skip": Skip,
    "truncate": Truncate,
    "remove": Remove,
    "drop": Drop,
    "deleted": Deleted,
    "snapshot": Snapshot,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


class Delta(NamedTuple):
    """One version of a chain: operations under a claim; the ``nonce`` makes it unlike any other.

    ``cleaned``: up to where the log had been cleaned, 0 if that is not known. The line of such a
    version has no field for it, and who does not know the field reads over it.
    """

    version: int
    nonce: str
    claim_epoch: int
    operations: tuple[Operation, ...]
    cleaned: int = 0

    def to_line(self) -> bytes:
        """Return it as a line, with its end."""
        parts = [[_NAMES[type(one)], *_plain(one)] for one in self.operations]
        fields = {
            "format": FORMAT,
            "version": self.version,
            "nonce": self.nonce,
            "claim": self.claim_epoch,
            "operations": parts,
            **({"cleaned": self.cleaned} if self.cleaned else {}),
        }
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def parse_line(line: bytes, where: str) -> Delta:
    """Return a version from its line.

    Args:
        line: with or without its end.
        where: the object it was read from, for errors.

    Raises:
        NewerArchive: a newer release wrote it.
        CorruptArchive: it is not what a release writes.
    """
    fields = _fields(line, where)
    found = fields.get("format")
    if type(found) is int and found > FORMAT:
        raise NewerArchive(f"{where} has format {found}; this release reads up to {FORMAT}")
    reader = _Reader(where)
    if type(found) is not int or found != FORMAT:
        raise reader.bad("format", found)
    operations = fields.get("operations")
    if not isinstance(operations, list):
        raise reader.bad("operations", operations)
    return Delta(
        reader.number("version", fields.get("version"), least=1),
        reader.text("nonce", fields.get("nonce"), _NONCE),
        reader.number("claim", fields.get("claim"), least=1, most=2**31 - 1),
        tuple(reader.operation(one) for one in operations),
        reader.number("cleaned", fields.get("cleaned", 0)),
    )


def _fields(line: bytes, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise CorruptArchive(f"{where} has a line of {len(line):,} bytes")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise CorruptArchive(f"{where} is not a version of an archive") from None
    if not isinstance(fields, dict):
        raise CorruptArchive(f"{where} is not a version of an archive")
    return fields


def _plain(operation: Operation) -> Sequence[object]:
    return [list(one) if isinstance(one, Entry) else one for one in operation]


class _Reader:
    """Checks the values of one version."""

    def __init__(self, where: str) -> None:
        self._where = where

    def bad(self, name: str, value: object) -> CorruptArchive:
        """Return the error about a value."""
        return CorruptArchive(f"{self._where}: {name} cannot be {str(value)[:100]!r}")

    def number(self, name: str, value: object, *, least: int = 0, most: int = INT64_MAX) -> int:
        """Return a number within bounds, both inclusive."""
        if type(value) is not int or not least <= value <= most:
            raise self.bad(name, value)
        return value

    def text(self, name: str, value: object, form: re.Pattern[str] | None = None) -> str:
        """Return a short printable text, of a form."""
        if not isinstance(value, str) or len(value) > 1000 or not value.isprintable():
            raise self.bad(name, value)
        if form is not None and form.fullmatch(value) is None:
            raise self.bad(name, value)
        return value

    def operation(self, given: object) -> Operation:
        """Return one operation."""
        if not isinstance(given, list) or not given or not isinstance(given[0], str):
            raise self.bad("an operation", given)
        kind = _KINDS.get(given[0])
        if kind is None or len(given) - 1 != len(kind._fields):
            raise self.bad("an operation", given[0])
        return _READERS[kind](self, *given[1:])

    def skip(self, start: object, end: object, why: object) -> Skip:
        """Return the operation of these members; so do ``claim`` and ``entry``."""
        first = self.number("start", start)
        return Skip(first, self.number("end", end, least=first + 1), self.text("why", why))

    def claim(self, incarnation: object, topic: object, config: object) -> Claim:
        name = self.text("topic", topic)
        try:
            check_topic_name(name)
        except InvalidTopic:
            raise self.bad("topic", topic) from None
        if not isinstance(config, dict) or len(config) > 1000:
            raise self.bad("config", config)
        settings = {self.text("config", key): self.text(key, one) for key, one in config.items()}
        return Claim(self.text("incarnation", incarnation, _NONCE), name, settings)

    def entry(self, given: object) -> Entry:
        if not isinstance(given, list) or len(given) != len(Entry._fields):
            raise self.bad("an entry", given)
        name, base, end, max_timestamp, size, crc32c, etag, sections, epochs, opened = given
        base_offset = self.number("base", base)
        object_name = self.text("name", name, _OBJECT)
        if int(object_name[2:22]) != base_offset:
            raise self.bad("name", name)
        found = Entry(
            object_name,
            base_offset,
            self.number("end", end, least=base_offset + 1),
            self.number("max timestamp", max_timestamp, least=-1),
            self.number("size", size, most=2**31 - 1),
            self.number("crc32c", crc32c, most=2**32 - 1),
            self.text("etag", etag),
            self._sizes(sections),
            self._pairs("epochs", epochs),
            self._pairs("opened", opened),
        )
        if found.sections[0] != found.size_bytes:
            raise self.bad("sections", sections)
        return found

    def _sizes(self, given: object) -> tuple[int, ...]:
        if not isinstance(given, list) or len(given) != len(SECTIONS):
            raise self.bad("sections", given)
        return tuple(self.number("a section", one, most=2**32 - 1) for one in given)

    def _pairs(self, name: str, given: object) -> tuple[tuple[int, int], ...]:
        if not isinstance(given, list) or len(given) > MAX_EPOCHS:
            raise self.bad(name, given)
        pairs = []
        for one in given:
            if not isinstance(one, list) or len(one) != 2:
                raise self.bad(name, one)
            pairs.append((self.number(name, one[0]), self.number(name, one[1])))
        return tuple(pairs)


_READERS: Final[dict[type[Operation], Callable[..., Operation]]] = {
    Claim: _Reader.claim,
    Add: lambda reader, entry: Add(reader.entry(entry)),
    Start: lambda reader, start, why: Start(reader.number("start", start), reader.text("why", why)),
    Skip: _Reader.skip,
    Truncate: lambda reader, offset: Truncate(reader.number("offset", offset)),
    Remove: lambda reader, name: Remove(reader.text("name", name, _OBJECT)),
    Drop: lambda reader, name: Drop(reader.text("name", name, _OBJECT)),
    Snapshot: lambda reader, number: Snapshot(
        reader.number("partitions", number, least=1, most=2**31 - 1)
    ),
    Deleted: lambda _: Deleted(),
}
"""What makes operations of their members, which it checks."""
