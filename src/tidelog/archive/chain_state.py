"""What an archive holds of a log at one version: the operations so far, carried out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidelog.archive.deltas import (
    DELETED_BEFORE,
    NOT_ON_DISK,
    Add,
    Claim,
    Deleted,
    Drop,
    Remove,
    Skip,
    Snapshot,
    Start,
    Truncate,
)
from tidelog.errors import CorruptArchive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.archive.deltas import Delta, Entry, Operation


def claim_of(name: str) -> int:
    """Return the claim epoch in the name of a segment's object."""
    return int(name.split("-")[1])


@dataclass(slots=True)
class ChainState:
    """An archive at ``version``, 0 if there is none yet.

    ``entries`` are the live segments in order of offsets; each begins where the one before ends, or
    where a skip does. ``removed`` are those that are no longer in the log, by name, whose objects
    may still be there; ``removed_in`` are the versions that removed them, and ``truncated`` the
    removed ones that were not below the start. ``start`` is the first offset of the log.
    ``claim_epoch`` and ``incarnation`` say who may commit: nobody, to a snapshot, of which
    ``partitions`` is how many its topic has; None for others. ``cleaned``: below that, segments
    were cleaned before they were archived; ``log_cleaned``: up to where the log was at the last
    version that knew it.
    """

    version: int = 0
    claim_epoch: int = 0
    incarnation: str = ""
    topic: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    removed: dict[str, Entry] = field(default_factory=dict)
    removed_in: dict[str, int] = field(default_factory=dict)
    truncated: frozenset[str] = frozenset()
    skips: list[Skip] = field(default_factory=list)
    start: int = 0
    start_why: str = ""
    end: int = 0
    is_deleted: bool = False
    partitions: int | None = None
    cleaned: int = 0
    log_cleaned: int = 0

    def can_add(self, base_offset: int, end_offset: int) -> bool:
        """Return whether the next segment may have these offsets.

        It begins where the archive ends; or before its start, if that lies in it, and nothing that
        is archived reaches so far.
        """
        if base_offset == self.end:
            return True
        if not (self.end == self.start and base_offset <= self.start < end_offset):
            return False
        before = [one for one in self.removed.values() if one.name not in self.truncated]
        return all(one.end_offset <= base_offset for one in (*self.entries, *before))

    @property
    def whole_start(self) -> int:
        """The first offset of the log, as its owner has it: it may lie before the first segment.

        It does where segments were lost. Below it lies what the owner had deleted before anything
        was archived, also where ``start`` was committed before that.
        """
        first = self.entries[0].base_offset if self.entries else self.end
        ends = (skip.end for skip in self.skips if skip.why == DELETED_BEFORE)
        return max([self.start, *(end for end in ends if end <= first)])

    @property
    def cleaned_end(self) -> int:
        """Up to where compaction explains offsets that segments lack; 0: nowhere in the log."""
        lost = (one for one in self.skips if one.why == NOT_ON_DISK and one.end > self.start)
        end = min([self.cleaned, *(one.start for one in lost)])
        return end if end > self.start else 0

    def copy(self) -> ChainState:
        """Return a state that can be changed without changing this one."""
        return replace(
            self,
            entries=[*self.entries],
            removed=dict(self.removed),
            removed_in=dict(self.removed_in),
            skips=[*self.skips],
        )

    def entry_at(self, offset: int) -> Entry | None:
        """Return the live segment that holds an offset; None if none does."""
        at = bisect_right(self.entries, offset, key=lambda entry: entry.base_offset) - 1
        if at < 0 or offset >= self.entries[at].end_offset:
            return None
        return self.entries[at]

    def entries_within(self, start: int, end: int) -> list[Entry]:
        """Return the live segments that hold offsets of ``[start, end)``."""
        first = bisect_right(self.entries, start, key=lambda entry: entry.end_offset)
        last = bisect_left(self.entries, end, key=lambda entry: entry.base_offset)
        return self.entries[first:last]

    def apply(self, delta: Delta) -> None:
        """Carry out the operations of the next version.

        Raises:
            CorruptArchive: it is another version, of another claim than the current one, or an
                operation contradicts those before.
        """
        if delta.version != self.version + 1:
            raise self._bad(f"version {delta.version} follows")
        if self.partitions is not None:
            raise self._bad("a version follows that of a snapshot")
        for operation in delta.operations:
            if isinstance(operation, Claim):
                self._claim(operation, delta.claim_epoch)
            elif delta.claim_epoch != self.claim_epoch:
                raise self._bad(f"version {delta.version} is of claim {delta.claim_epoch}")
            else:
                self._apply(operation)
        # What is added later may be of a log that was not cleaned so far.
        self.cleaned = max(self.cleaned, min(delta.cleaned, self.end))
        self.log_cleaned = delta.cleaned or self.log_cleaned
        self.version = delta.version

    def _claim(self, claim: Claim, epoch: int) -> None:
        if epoch != self.claim_epoch + 1:
            raise self._bad(f"claim {epoch} follows")
        self.claim_epoch, self.incarnation = epoch, claim.incarnation
        self.topic, self.config = claim.topic, claim.config

    def _apply(self, operation: Operation) -> None:
        if self.is_deleted and not isinstance(operation, Drop):
            raise self._bad("an operation follows the deletion of the topic")
        match operation:
            case Add():
                self._add(operation.entry)
            case Skip():
                self._skip(operation)
            case Start():
                self._raise_start(operation)
            case Truncate():
                self._truncate(operation.offset)
            case Remove():
                self._remove(operation.name)
            case Drop():
                self._drop(operation.name)
            case Snapshot():
                self.partitions = operation.partitions
            case Deleted():
                self._delete()

    def _delete(self) -> None:
        self.is_deleted = True
        for entry in self.entries:
            self._note_removed(entry)
        self.entries = []

    def _add(self, entry: Entry) -> None:
        if not self.can_add(entry.base_offset, entry.end_offset):
            raise self._bad(f"a segment begins at {entry.base_offset}")
        if claim_of(entry.name) != self.claim_epoch:
            raise self._bad(f"{entry.name} is of another claim")
        self.entries.append(entry)
        self.end = entry.end_offset

    def _skip(self, skip: Skip) -> None:
        if skip.start != self.end:
            raise self._bad(f"a skip begins at {skip.start}")
        self.skips.append(skip)
        self.end = skip.end

    def _raise_start(self, start: Start) -> None:
        if start.offset < self.start:
            raise self._bad(f"the start falls to {start.offset}")
        self.start, self.start_why = start
        self.end = max(self.end, self.start)

    def _truncate(self, offset: int) -> None:
        if offset > self.end:
            raise self._bad(f"it is truncated to {offset}")
        while self.entries and self.entries[-1].base_offset >= offset:
            gone = self.entries.pop()
            self._note_removed(gone)
            self.truncated |= {gone.name}
        if self.entries and self.entries[-1].end_offset > offset:
            raise self._bad(f"it is truncated to {offset}, in the middle of a segment")
        self.skips = [skip for skip in self.skips if skip.end <= offset]
        self.end = max(offset, self.start)
        self.cleaned = min(self.cleaned, self.end)
        self.log_cleaned = min(self.log_cleaned, self.end)

    def _remove(self, name: str) -> None:
        if not self.entries or self.entries[0].name != name:
            raise self._bad(f"{name} is removed, and is not the first segment")
        if self.entries[0].end_offset > self.start:
            raise self._bad(f"{name} is removed, and holds offsets from the start on")
        self._note_removed(self.entries.pop(0))

    def _note_removed(self, entry: Entry) -> None:
        self.removed[entry.name] = entry
        self.removed_in[entry.name] = self.version + 1

    def _drop(self, name: str) -> None:
        if self.removed.pop(name, None) is None:
            raise self._bad(f"{name} is dropped, and was not removed")
        del self.removed_in[name]

    def _bad(self, what: str) -> CorruptArchive:
        topic = f" of {self.topic}" if self.topic else ""
        return CorruptArchive(
            f"the archive{topic} contradicts itself after version {self.version}, claim"
            f" {self.claim_epoch}, end {self.end}: {what}"
        )
