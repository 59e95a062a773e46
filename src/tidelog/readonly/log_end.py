"""Where a log ends that another process may be writing, and whether there is damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import CorruptMessage
from tidelog.readonly.checkpoints import NO_LINES, Lines
from tidelog.readonly.held_files import SnapshotOutdated
from tidelog.readonly.log_snapshot import MAX_LOOKS, LogSnapshot, changing
from tidelog.records.damage.past_damage import behind_damage
from tidelog.records.file_records import FileRecords

if TYPE_CHECKING:
    from tidelog.readonly.partition_files import PartitionFiles
    from tidelog.readonly.read_only_segment import ReadOnlySegment


class LogEnd(NamedTuple):
    """The offset after the last whole, valid batch; what is wrong there, if it is damage.

    ``position`` is the byte of the last segment after that batch. ``is_below_start``: the batches
    end below the log start of the checkpoint, and ``offset`` is that log start.
    """

    offset: int
    damage: CorruptMessage | None
    position: int
    is_below_start: bool = False


def find_end(files: PartitionFiles) -> LogEnd:
    """Find the log's end; ``files`` then has the checkpoint lines that belong to it.

    What contradicts the lines, or may be damage, is determined once more with lines and a snapshot
    taken again: the writer may have truncated the log since they were read, or deleted the topic
    and created it again. Only what two looks in a row show is returned.

    Raises:
        KafkaStorageError: each of ``MAX_LOOKS`` looks shows something else.
    """
    before: tuple[object, ...] | None = None
    reason = ""
    for number in range(MAX_LOOKS):
        if number:
            files.renew()
        try:
            found = end_of(files.snapshot, files.lines, past_damage=files.past_damage)
        except SnapshotOutdated as outdated:
            before, reason = None, str(outdated)
            continue
        if found.damage is None and not found.is_below_start:
            return found
        now = (files.lines, found.offset, found.damage and found.damage.args)
        if now == before:
            return found
        before, reason = now, str(found.damage or "the log ends below its start")
    raise changing(files.directory, reason)


def end_of(snapshot: LogSnapshot, lines: Lines = NO_LINES, *, past_damage: bool = False) -> LogEnd:
    """Walk from the last index entry to the log end and say what is there.

    An offset that is missing below the high watermark, or below the end that a clean stop left, is
    damage. A log does not end below its start. With ``past_damage`` the walk continues after bad
    bytes, which are then no damage. Raises SnapshotOutdated.
    """
    offset, position, damage = lines.log_start_offset, 0, None
    path, at = snapshot.directory, None
    if snapshot.segments:
        segment = snapshot.segments[-1]
        path, records = segment.path, segment.tail()
        offset = records.lowest
        position = at = records.start
        while True:
            for piece in records.pieces(check_crc=True):
                offset = piece.batches.next_offset
                position = at = piece.batches.next_position
            start = _start_behind(records, segment, past_damage=past_damage)
            if start is None:
                break
            bounds = segment.bounds.after(offset - 1)
            records = FileRecords(records.file, start, bounds=bounds)
        damage = None if segment.is_unfinished(records) else records.problem
    is_below_start = offset < lines.log_start_offset
    offset = max(offset, lines.log_start_offset)
    if damage is None and offset < lines.promised_end:
        damage = CorruptMessage(lines.missing(offset), at, path)
    return LogEnd(offset, damage, position, is_below_start)


def _start_behind(
    records: FileRecords, segment: ReadOnlySegment, *, past_damage: bool
) -> int | None:
    """Return where the walk continues after what has ended it; None if it is at the log's end."""
    if not records.trailing_bytes:
        return None
    # A batch may claim to be longer than the file, but a valid one is known after it.
    known = segment.last_entry.position
    if records.damaged_end <= known > records.start:
        return known
    return behind_damage(records) if past_damage else None
