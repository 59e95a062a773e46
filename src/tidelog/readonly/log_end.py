"""Where a log ends that another process may be writing, and whether there is damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import CorruptMessage
from tidelog.readonly.log_snapshot import MAX_LOOKS, LogSnapshot, SnapshotOutdated, changing
from tidelog.readonly.read_only_segment import place_for
from tidelog.records.batch import INT64_MAX
from tidelog.records.file_records import FileRecords
from tidelog.records.past_damage import next_batch
from tidelog.segment.unfinished_end import ends_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.readonly.partition_files import PartitionFiles


class Lines(NamedTuple):
    """One log's lines in the checkpoints of its data directory.

    ``high_watermark`` is None where there is no line; ``log_start_offset`` is 0 then.
    """

    high_watermark: int | None
    log_start_offset: int


NO_LINES = Lines(None, 0)


class LogEnd(NamedTuple):
    """The offset after the last whole, valid batch; what is wrong there, if it is damage.

    ``position`` is the byte of the last segment behind that batch. ``is_below_start``: the batches
    end below the log start of the checkpoint, and ``offset`` is that log start.
    """

    offset: int
    damage: CorruptMessage | None
    position: int
    is_below_start: bool = False


def find_end(
    files: PartitionFiles,
    lines: Lines,
    read_lines: Callable[[], Lines],
    *,
    past_damage: bool = False,
) -> tuple[Lines, LogEnd]:
    """Find the log's end; return it with the checkpoint lines that belong to it.

    What contradicts the lines, or may be damage, is determined once more with lines read anew and
    another snapshot: the writer may have truncated the log since they were read, or deleted the
    topic and created it again. Only what two looks in a row show is returned.

    Args:
        files: the segments.
        lines: as they were read before the present snapshot was taken.
        read_lines: reads them anew.
        past_damage: whether the end is sought behind damage too.

    Raises:
        KafkaStorageError: each of ``MAX_LOOKS`` looks shows something else.
    """
    before: tuple[object, ...] | None = None
    reason = ""
    for number in range(MAX_LOOKS):
        if number:
            lines = read_lines()
            files.renew()
        try:
            found = end_of(files.snapshot, lines, past_damage=past_damage)
        except SnapshotOutdated as outdated:
            before, reason = None, str(outdated)
            continue
        if found.damage is None and not found.is_below_start:
            return lines, found
        now = (lines, found.offset, found.damage and found.damage.args)
        if now == before:
            return lines, found
        before, reason = now, str(found.damage or "the log ends below its start")
    raise changing(files.directory, reason)


def end_of(snapshot: LogSnapshot, lines: Lines = NO_LINES, *, past_damage: bool = False) -> LogEnd:
    """Walk from the last index entry to the log end and say what is there.

    An offset below the high watermark that is missing is damage. A log does not end below its
    start. With ``past_damage`` the walk continues behind bad bytes, which are then no damage.
    Raises SnapshotOutdated.
    """
    offset, position, damage = lines.log_start_offset, 0, None
    path, at = snapshot.directory, None
    if snapshot.segments:
        segment = snapshot.segments[-1]
        path, offset = segment.path, segment.base_offset
        with snapshot.opened(segment) as file:
            start, before = place_for(file, segment.hints(snapshot.fs), INT64_MAX)
            position = start
            while start < segment.size_bytes:
                records = FileRecords(file, start, bounds=snapshot.bounds_of(segment, before))
                try:
                    for piece in records.whole_pieces(check_crc=True):
                        offset = int(piece.batches.last_offset[-1]) + 1
                        position = int(piece.batches.end[-1])
                except CorruptMessage as bad:
                    bad_at = bad.position or position
                    if past_damage:
                        before, start = offset - 1, records.damaged_end
                        if start <= bad_at:
                            start = next_batch(file, bad_at, segment.size_bytes)
                        continue
                    damage = None if ends_here(file, bad_at) else bad
                break
        at = position
    is_below_start = offset < lines.log_start_offset
    offset = max(offset, lines.log_start_offset)
    promised = lines.high_watermark or 0
    if damage is None and offset < promised:
        reason = f"offsets {offset} to {promised - 1}, below the high watermark, are missing"
        damage = CorruptMessage(reason, at, path)
    return LogEnd(offset, damage, position, is_below_start)
