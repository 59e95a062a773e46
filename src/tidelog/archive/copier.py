"""Copies the closed segments of one log to its archive, for the holder of the directory's lock.

Nothing is copied twice, and a copy that was not committed is an orphan: its name is never used
again. Kafka: ``RemoteLogManager.RLMCopyTask``.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tidelog.archive.chain import Chain, version_name
from tidelog.archive.chain_state import ChainState, claim_of
from tidelog.archive.claim_file import Digest, KnownArchive, change_claim, claim_file, read_claim
from tidelog.archive.coarse_index import CoarseIndex
from tidelog.archive.deltas import (
    DELETED_BEFORE,
    NOT_ON_DISK,
    Add,
    Claim,
    Deleted,
    Drop,
    Remove,
    Skip,
    Start,
    Truncate,
)
from tidelog.archive.segment_object import SegmentObject, segment_facts
from tidelog.codec.crc32c import crc32c_of
from tidelog.datadir.offset_checkpoints import cleaned_end
from tidelog.errors import (
    ArchiveDiverged,
    ArchiveOvertaken,
    CorruptArchive,
    StoreUnavailable,
)
from tidelog.segment.filenames import log_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random
    from uuid import UUID

    from tidelog.archive.claim_file import ClaimFile
    from tidelog.archive.deltas import Entry, Operation
    from tidelog.env.files import FileSystem
    from tidelog.store.objects import Objects


REMOVED_MS: Final = 24 * 3_600_000
"""How long the object of a removed segment is kept at least."""
_READ_BYTES: Final = 8 << 20
MAX_DRAWN: Final = 1000
"""Claims in a row whose outcome is unknown."""


class ClosedSegment(NamedTuple):
    """Offsets ``[base, end)`` of a segment that is closed, flushed and decided.

    ``end_offset`` is where the next segment begins, at or below the last stable offset.
    """

    base_offset: int
    end_offset: int


class ArchivedLog(Protocol):
    """What the copier asks of a log, whose directory this process holds."""

    @property
    def topic(self) -> str:
        """The name of its topic."""

    @property
    def partition(self) -> int:
        """Its number."""

    @property
    def topic_id(self) -> UUID:
        """The id of its topic."""

    @property
    def config(self) -> Mapping[str, str]:
        """The settings that the topic sets itself."""

    @property
    def directory(self) -> str:
        """The path of its directory."""

    @property
    def data_dir(self) -> str:
        """The data directory that holds it."""

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log."""

    @property
    def local_start_offset(self) -> int:
        """The offset from which on the disk has the log; what lies before, the archive has."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def is_tiered(self) -> bool:
        """Whether the disk gives up what the archive has, so that both are one log."""

    def closed_segments(self) -> Sequence[ClosedSegment]:
        """Return the segments that may be copied, in order."""


class Copier:
    """Copies what one log has closed, as long as its claim holds.

    Args:
        fs: the disk.
        store: the archive's objects.
        log: the log.
        rng: makes names and nonces.
        takes_over: claim an archive that another log, or a copy of this one, has written.
        follows_start: let the archive begin where the log does; else it keeps what the log has
            deleted.
        truncates: remove from the archive what the log no longer has; else such an archive is
            refused.
        claims_first: claim the archive before there is anything to write, for who deletes from
            the disk what the archive has: nobody may change that unnoticed.
    """

    def __init__(
        self,
        fs: FileSystem,
        store: Objects,
        log: ArchivedLog,
        rng: Random,
        *,
        takes_over: bool = False,
        follows_start: bool = False,
        truncates: bool = False,
        claims_first: bool = False,
    ) -> None:
        self._truncates = truncates
        self._claims_first = claims_first
        self.truncated = 0
        """How many segments were removed since they are not the log's."""
        self.is_behind = False
        """Whether the log ends before its archive begins, and so must begin there, too."""
        self._fs = fs
        self._store = store
        self._log = log
        self._rng = rng
        self._takes_over = takes_over
        self._follows_start = follows_start
        self._chain: Final = Chain(store, log.topic_id, log.partition, rng)
        self._path: Final = claim_file(log.data_dir, log.topic_id, log.partition)
        self.state = ChainState()
        self._epoch = 0
        """That of the claim; 0: there is none."""
        self._with_claim: list[Operation] = []
        """Operations that are committed together with the claim."""
        self._cleaned = 0
        """Up to where the cleaner's checkpoint explains offsets that segments lack."""
        self._digests: dict[int, Digest] = {}
        self._kept_digests: dict[int, Digest] | None = None
        """Those that the claim file has, as far as this object has written it."""
        self._copied_ms: dict[str, int] = {}
        """What ``copied_ms`` has found, by name."""
        self._remembered: KnownArchive | None = None
        self._tails: dict[tuple[str, int], int] = {}
        """Checksums of the ends of archived segments, by name and size."""

    def copy(self, before_part: Callable[[int], None] = lambda _: None) -> list[Entry]:
        """Copy all closed segments that are not archived; return them.

        ``before_part`` is called before each part of them, with its size in bytes, on any thread;
        it waits as long as it likes, and raises what ends the copy.

        Raises:
            ArchiveDiverged: the archive is not of this log, or of another history of it; nothing
                was changed.
            ArchiveOvertaken: another process has claimed it; nothing more is copied.
            StoreUnavailable: what is committed stays; call it again.
            CorruptMessage: a segment is damaged.
        """
        self.look()
        segments = self._closed_segments()
        self._note_deletions(segments)
        copied = []
        try:
            for one in segments:
                if one.end_offset > self.state.end:
                    self._note_gap(one)
                    before_part(0)
                    copied.append(self._copied(one, before_part))
        finally:
            self._keep_digests()
        return copied

    def look(self) -> None:
        """Read what the archive says now, and whether this log may write it.

        It is claimed with the first version that is written; at once if another log has claimed
        it, if it is new, and if the topic's settings have changed. Raises as ``copy``.
        """
        self._chain.read(state=self.state)
        if not self._epoch:
            self._prepare_claim()
        elif self.state.claim_epoch != self._epoch:
            self._epoch = 0
            raise ArchiveOvertaken(f"another process has claimed the archive of {self._name}")

    def equal_end(self) -> int:
        """Return the offset below which the archive has every closed segment of the disk.

        Byte for byte, as far as the files have not been written since they were compared.
        """
        end = 0
        for segment in self._closed_segments():
            entry = self.state.entry_at(segment.base_offset)
            if entry is None or not self._is_equal(segment, entry):
                break
            end = segment.end_offset
        return end

    def copied_ms(self, entry: Entry) -> int:
        """Return when a segment was copied, by the store's clock, in ms; -1 if it is gone there.

        None of its records was appended later.
        """
        if entry.name not in self._copied_ms:
            coarse = CoarseIndex(self._store, self._chain.name(entry.name), entry)
            self._copied_ms[entry.name] = coarse.copied_ms
        return self._copied_ms[entry.name]

    def delete_below(self, offset: int, why: str) -> Sequence[Entry]:
        """Let the log start at an offset; return the segments below it, which the log loses.

        They are no longer read; ``sweep`` deletes them a day later. Raises as ``copy``.
        """
        if offset <= self.state.start:
            return ()
        gone = self._ended_by(offset)
        self._commit(_raised_start(offset, why, gone))
        return gone

    def end_archive(self) -> None:
        """Mark the archive as that of a deleted topic. Raises as ``copy``."""
        if not self.state.is_deleted:
            self._commit([Deleted()])

    def remember(self, archive: KnownArchive) -> None:
        """Note durably, in the claim file, that the log continues an archive.

        A start that was noted as higher stays: records were deleted meanwhile.
        """
        if archive == self._remembered:  # each look would read the file
            return

        def noted(known: ClaimFile) -> ClaimFile:
            old, left = known.archive, known.left
            if left is not None and left.uri == archive.uri:
                left = None
            if old is None or old.uri != archive.uri:
                return known._replace(archive=archive, left=left)
            start = max(archive.start, old.start)
            return known._replace(archive=archive._replace(start=start), left=left)

        self._change_own(noted)
        self._remembered = archive

    def leave(self) -> None:
        """Note durably, in the claim file, that the log continues this archive no longer."""
        left = KnownArchive(self._store.name, self.state.start, self.state.end)
        self._change_own(lambda known: known._replace(archive=None, left=left))
        self._remembered = None

    def sweep(self, now_ms: int) -> int:
        """Delete objects that nothing needs any more, after a copy; return how many.

        Those are copies that were never committed; and segments that were removed a day ago, so
        that readers which began before have had that time. It is the store's clock that counts;
        ``now_ms`` only says when to ask what time it is there.

        Raises as ``copy``.
        """
        state, store = self.state, self._store
        due = self._due(now_ms)
        known = {entry.name for entry in state.entries} | state.removed.keys()
        orphans = self._chain.segments_beside(known)
        if due or orphans:
            self._claim()  # else what is deleted here might be another claimant's
        for name in due:
            store.delete(self._chain.name(name))
        if due:  # once they are gone: the archive would forget those that a kill has left
            self._commit([Drop(name) for name in due])
        # Of this claim one may be in use; a put of an earlier claim that comes late is one more.
        orphans = [name for name in orphans if claim_of(name) < self._epoch]
        for name in orphans:
            store.delete(self._chain.name(name))
        return len(due) + len(orphans)

    def _due(self, now_ms: int) -> list[str]:
        """Return the segments that were removed a day ago."""
        removed = self.state.removed_in
        times = {version: self._time_of(version) for version in {*removed.values()}}

        def due_at(time_ms: int) -> list[str]:
            return [name for name, at in removed.items() if time_ms - times[at] >= REMOVED_MS]

        due = due_at(self._time_of(self.state.version)) if removed else []
        if not due and due_at(now_ms):
            self._commit([])  # nothing was written since: a version says what time it is
            due = due_at(self._time_of(self.state.version))
        return due

    def _time_of(self, version: int) -> int:
        """Return when a version was committed, by the store's clock, in ms."""
        name = self._chain.name(version_name(version))
        found = self._store.head(name)
        if found is None:
            raise CorruptArchive(f"{name} is gone, and versions are never deleted")
        return found.modified_ms

    @property
    def _name(self) -> str:
        return f"{self._log.topic}-{self._log.partition}"

    def _claim(self) -> None:
        """Claim the archive, if that is not done."""
        if not self._epoch:
            self._commit([])

    def _commit(self, operations: Sequence[Operation]) -> None:
        """Commit the next version, and write the runs that it ends. Raises as ``copy``."""
        if self._epoch:
            self._chain.commit(self.state, operations, self._epoch, self._cleaned)
        else:
            epoch, claim = self.state.claim_epoch + 1, self._drawn_claim()
            operations = [claim, *self._with_claim, *operations]
            self._chain.commit(self.state, operations, epoch, self._cleaned)
            self._epoch = epoch
        # After each kind of version: most of an archive to which little is added are claims, and
        # where a run is missing all of its versions are read one by one.
        with suppress(StoreUnavailable):
            self._chain.write_runs(self.state.version)

    def _prepare_claim(self) -> None:
        """Claim the archive if it must be; what both have in common must be the same bytes."""
        known, state, uri = read_claim(self._fs, self._path), self.state, self._store.name
        if state.partitions is not None:
            raise ArchiveDiverged(f"{uri} is a snapshot, which never changes: name another archive")
        self._check_end()
        # Before the advice to continue, which it would refuse, too.
        self._check_known(known.archive)
        drawn = known.drawn_since(uri, state.incarnation)
        if state.version and drawn is None and not self._takes_over:
            raise ArchiveDiverged(
                f"the archive of {self._name} was written by another log, or by a copy of this"
                " one: --continue claims it for this one, after which the other one stops"
            )
        self._digests = dict(known.digests)
        cut = self._common_end() if self._truncates else state.end
        if cut == state.end and not self.is_behind:
            self._check_lineage()
        self._cleaned = self._cleaned_end()
        self._with_claim = []
        if not state.version and self._log.log_start_offset:
            self._with_claim.append(Start(self._log.log_start_offset, "log start"))
        if cut < state.end:
            self._with_claim.append(self._truncation(cut))
        settings = self._log.topic, dict(self._log.config)
        is_kept = drawn is not None and settings == (state.topic, state.config)
        if not state.is_deleted and (self._claims_first or self._with_claim or not is_kept):
            self._claim()
        last = known.archive
        if last is not None and last.uri == uri and self._truncates:
            self.remember(last._replace(end=state.end))

    def _cleaned_end(self) -> int:
        """Return up to where the log was cleaned.

        No further than the archive knows where the disk lacks segments of it: a cleaning since may
        have changed others for them, and a log restored from both would count as clean.
        """
        log, state = self._log, self.state
        key = log.topic, log.partition
        end = cleaned_end(self._fs, log.data_dir, key, is_tolerant=True)
        is_whole = not state.entries or state.entries[0].base_offset >= log.local_start_offset
        return end if is_whole else min(end, state.log_cleaned)

    def _drawn_claim(self) -> Claim:
        """Return a claim of an incarnation that is new, and noted in the claim file."""
        uri, state = self._store.name, self.state
        fresh, digests = f"{self._rng.getrandbits(128):032x}", self._digests

        def noted(known: ClaimFile) -> ClaimFile:
            # What the archive does not name yet may come late, as may the claim that follows.
            drawn = known.drawn_since(uri, state.incarnation)
            drawn = known.drawn.get(uri, ()) if drawn is None else drawn
            names = (fresh, *drawn[:MAX_DRAWN])
            return known._replace(drawn={**known.drawn, uri: names}, digests=digests)

        # Durable before the claim: a claim that this file does not name would be nobody's.
        change_claim(self._fs, self._path, noted)
        return Claim(fresh, self._log.topic, dict(self._log.config))

    def _check_known(self, last: KnownArchive | None) -> None:
        """Raise ArchiveDiverged if this is not all of the archive in which the log begins."""
        state, uri = self.state, self._store.name
        if last is None:
            return
        if last.uri != uri and self._begins_before(last.end):
            raise ArchiveDiverged(
                f"{self._name} begins in the archive {last.uri}, not in {uri}: name that one, or"
                " restore it first"
            )
        reason = last.why_behind(self._name, state.end)
        if last.uri == uri and reason is not None and not self._truncates:
            raise ArchiveDiverged(reason)

    def _begins_before(self, archive_end: int) -> bool:
        """Return whether the log begins in an archive, which ends at an offset."""
        first = next(iter(self._log.closed_segments()), None)
        return (archive_end if first is None else first.base_offset) > self._log.log_start_offset

    def _check_end(self) -> None:
        """Raise ArchiveDiverged if the log ends before its archive.

        Whether it was truncated or began again, its next records would get offsets that the
        archive has given to others. ``is_behind`` says whether the log has nothing that was not
        deleted since, by retention or on request: then it has to begin where the archive does.
        """
        state, end = self.state, self._log.log_end_offset
        self.is_behind = self._truncates and self._log.is_tiered and end < state.start
        if end < state.start and not self.is_behind:
            way = "Name another archive"
            if self._log.is_tiered:
                way = (
                    "What it has was deleted since. Run tidelog archive --truncate: the log is then"
                    " empty and begins there, too"
                )
            raise ArchiveDiverged(
                f"the archive of {self._name} begins at offset {state.start}, where the log, which"
                f" was restored from an older copy, has not come to: it ends at {end}. {way}"
            )
        if end < state.end and not self._truncates:
            raise ArchiveDiverged(
                f"the archive of {self._name} has offsets {max(end, state.start)} to"
                f" {state.end - 1}, which the log has not: it ends at {end}, since it was lost,"
                " truncated, or restored from an older copy. To get them back, move the log's"
                " directory away and run tidelog restore; to remove them from the archive, run"
                " tidelog archive --truncate"
            )

    def _closed_segments(self) -> list[ClosedSegment]:
        """Return the closed segments; one that is archived ends where it does there.

        The next one may have been lost, as a power cut may take a file that was not flushed and
        leave the one after it.
        """
        found = []
        for one in self._log.closed_segments():
            entry = self.state.entry_at(one.base_offset)
            ends_before = entry is not None and entry.end_offset < one.end_offset
            if entry is not None and ends_before and entry.base_offset == one.base_offset:
                ended = ClosedSegment(one.base_offset, entry.end_offset)
                size_bytes = self._fs.stat(
                    log_file(self._log.directory, one.base_offset)
                ).size_bytes
                # A file of another size may hold offsets after that end.
                is_same = size_bytes == entry.size_bytes and self._is_equal(ended, entry)
                found.append(ended if is_same else one)
            else:
                found.append(one)
        return found

    def _check_lineage(self) -> None:
        """Raise ArchiveDiverged unless both have the same segments where both have some."""
        local = self._closed_segments()
        bases = {one.base_offset for one in local}
        self._digests = {base: one for base, one in self._digests.items() if base in bases}
        for segment in local:
            for entry in self.state.entries_within(*segment):
                if not self._is_equal(segment, entry):
                    raise ArchiveDiverged(
                        f"the archive of {self._name} holds other records than the log in offsets"
                        f" {entry.base_offset} to {entry.end_offset - 1}"
                    )
        last = local[-1].end_offset if local else self._log.local_start_offset
        if self.state.entries and last < self.state.end:
            raise ArchiveDiverged(
                f"the archive of {self._name} ends at offset {self.state.end}, and its closed"
                f" segments here at {last}: the log was lost, truncated, or restored from an older"
                " copy"
            )

    def _common_end(self) -> int:
        """Return where the last archived segment ends that the log has, or may have had."""
        local, entries = self._closed_segments(), self.state.entries
        bases = {one.base_offset for one in local}
        self._digests = {base: one for base, one in self._digests.items() if base in bases}
        end = local[-1].end_offset if local else self._log.local_start_offset
        others = (
            entry.base_offset
            for segment in local
            for entry in self.state.entries_within(*segment)
            if not self._is_equal(segment, entry)
        )
        ahead = (entry.base_offset for entry in entries if entry.end_offset > end)
        # Else what the disk has there would never be archived, nor be deleted on it.
        missed = (
            skip.start
            for skip in self.state.skips
            if any(one.base_offset <= skip.start < one.end_offset for one in local)
        )
        cut = min(next(found, self.state.end) for found in (others, ahead, missed))
        if self._log.log_end_offset < cut:  # the log is to have again what was skipped
            kept = (entry.end_offset for entry in entries if entry.end_offset <= cut)
            cut = min(cut, max(kept, default=self.state.start))
        return cut

    def _truncation(self, cut: int) -> Truncate:
        """Return the operation that ends the archive at an offset.

        Raises ArchiveDiverged if the log would lose records by that.
        """
        first = self._log.local_start_offset
        if cut < first and self._log.log_start_offset < first:
            raise ArchiveDiverged(
                f"{self._name} begins in this archive, and is on the disk from offset {first} on:"
                f" to end the archive at {cut} would lose the records in between. Restore it"
            )
        self.truncated = sum(entry.base_offset >= cut for entry in self.state.entries)
        return Truncate(cut)

    def _is_equal(self, segment: ClosedSegment, entry: Entry) -> bool:
        """Return whether the archive has a segment's bytes.

        A log that is moved loses what lies below its start: of an archived segment it has the end.
        """
        if segment.end_offset != entry.end_offset or segment.base_offset < entry.base_offset:
            return False
        digest = self._digests[segment.base_offset] = self._digest(segment)
        if segment.base_offset == entry.base_offset:
            return (digest.size_bytes, digest.crc32c) == (entry.size_bytes, entry.crc32c)
        if digest.size_bytes > entry.size_bytes:
            return False
        tail = entry.name, digest.size_bytes
        if tail not in self._tails:
            self._tails[tail] = self._checksum_of_end(entry, digest.size_bytes)
        return self._tails[tail] == digest.crc32c

    def _checksum_of_end(self, entry: Entry, size_bytes: int) -> int:
        """Return the checksum of the last bytes of a segment's file in the archive."""
        name, size = self._chain.name(entry.name), entry.size_bytes
        starts = range(size - size_bytes, size, _READ_BYTES)
        ranges = ((at, min(at + _READ_BYTES, size)) for at in starts)
        return crc32c_of(self._store.get_ranges(name, [one])[0] for one in ranges)

    def _digest(self, segment: ClosedSegment) -> Digest:
        """Return the checksum of a segment's file, read again if it was written since."""
        stat = self._fs.stat(log_file(self._log.directory, segment.base_offset))
        known = self._digests.get(segment.base_offset)
        if known is not None and known.is_of(stat) and known.end_offset == segment.end_offset:
            return known
        facts = segment_facts(self._fs, self._log.directory, *segment)
        return Digest(stat.inode, facts.size_bytes, stat.mtime_ms, facts.crc32c, segment.end_offset)

    def _keep_digests(self) -> None:
        """Write down those of what was copied; without them the next claim reads it again.

        Only of what the disk still has: else the file would grow with the archive, and be written
        again for each segment of it.
        """
        first = self._log.local_start_offset
        digests = {base: one for base, one in self._digests.items() if base >= first}
        self._digests = dict(digests)
        if digests != self._kept_digests:
            self._change_own(lambda known: known._replace(digests=digests))
            self._kept_digests = digests

    def _change_own(self, change: Callable[[ClaimFile], ClaimFile]) -> None:
        """Change the claim file; one that is gone, or a copy, is left as it is."""
        change_claim(self._fs, self._path, lambda known: change(known) if known.inode else known)

    def _note_deletions(self, segments: Sequence[ClosedSegment]) -> None:
        """Commit that offsets were deleted before they were archived, or are to be left out."""
        state, start = self.state, self._log.log_start_offset
        first = segments[0].base_offset if segments else start
        operations: list[Operation] = []
        if self._follows_start and start > state.start:
            operations += _raised_start(start, "log start", self._ended_by(start))
        elif state.end < first <= start:  # a gap above the start would contradict the archive
            operations.append(Skip(state.end, first, DELETED_BEFORE))
        if operations:
            self._commit(operations)

    def _note_gap(self, segment: ClosedSegment) -> None:
        """Commit that the disk lacks what comes before a segment, so that copying continues.

        Nothing that is archived is given up for it.
        """
        if self.state.end < segment.base_offset and self.state.entries:
            self._commit([Skip(self.state.end, segment.base_offset, NOT_ON_DISK)])

    def _ended_by(self, offset: int) -> list[Entry]:
        """Return the archived segments that end at or below an offset."""
        return [*takewhile(lambda entry: entry.end_offset <= offset, self.state.entries)]

    def _copied(self, segment: ClosedSegment, before_part: Callable[[int], None]) -> Entry:
        """Put a segment, then commit it."""
        self._claim()  # its name says whose it is
        if not self.state.can_add(*segment):
            raise ArchiveDiverged(
                f"the archive of {self._name} ends at offset {self.state.end}, and the next segment"
                f" of the log begins at {segment.base_offset}: its segments begin elsewhere, or one"
                " is missing"
            )
        stat = self._fs.stat(log_file(self._log.directory, segment.base_offset))
        made = SegmentObject(self._fs, self._log.directory, *segment)
        entry = self._chain.put_segment(made, self._epoch, before_part)
        self._commit([Add(entry)])
        self._digests[entry.base_offset] = Digest(
            stat.inode, entry.size_bytes, stat.mtime_ms, entry.crc32c, entry.end_offset
        )
        return entry


def _raised_start(offset: int, why: str, gone: Sequence[Entry]) -> list[Operation]:
    return [Start(offset, why), *(Remove(entry.name) for entry in gone)]
