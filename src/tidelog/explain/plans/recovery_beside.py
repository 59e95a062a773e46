"""What a recovery would cut off a log that another process is writing.

Loading the log, as a plan does otherwise, would take files that change meanwhile for files that
need repair. So the batches are checked in what readers see, and index files are left out: their
owner is still writing them. Kafka has no such answer.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from tidelog.datadir.lock_file import has_writer
from tidelog.datadir.offset_checkpoints import RECOVERY_POINT_FILE, read_offsets
from tidelog.env.files import WRONG_KIND
from tidelog.errors import CorruptMessage, KafkaStorageError
from tidelog.log.loading.load_watch import Loss
from tidelog.log.loading.lost_records import look_into
from tidelog.manager.recovered_log import MissingOffsets, RecoveredLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidelog.env.files import FileStat, FileSystem
    from tidelog.log.loading.lost_records import LostBytes
    from tidelog.readonly.missing.holes import Hole
    from tidelog.readonly.read_only_log import ReadOnlyLog


class WriterWatch(NamedTuple):
    """Notices a process that writes data directories: by their locks, or by files that change."""

    fs: FileSystem
    data_dirs: tuple[str, ...]
    partitions: tuple[str, ...]
    before: dict[str, FileStat]

    @classmethod
    def begin(cls, fs: FileSystem, partitions: Sequence[str]) -> WriterWatch:
        """Note which files there are in these partitions, and in their data directories."""
        data_dirs = tuple(dict.fromkeys(map(os.path.dirname, partitions)))
        before = _stats(fs, (*data_dirs, *partitions))
        return cls(fs, data_dirs, tuple(partitions), before)

    def has_writer(self) -> bool:
        """Whether a process holds the lock, or files are not as they were at first."""
        if any(map(has_writer, self.data_dirs)):
            return True
        return _stats(self.fs, (*self.data_dirs, *self.partitions)) != self.before


def _stats(fs: FileSystem, directories: Sequence[str]) -> dict[str, FileStat]:
    found: dict[str, FileStat] = {}
    for directory in directories:
        try:
            paths = [os.path.join(directory, name) for name in fs.list(directory)]
        except FileNotFoundError:
            continue
        for path in paths:
            try:
                stat = fs.stat(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in WRONG_KIND:
                    raise
                continue  # such as a link to itself
            if not stat.is_directory:
                found[path] = stat
    return found


def recovery_points(fs: FileSystem, data_dir: str) -> dict[tuple[str, int], int]:
    """Return the lines of the checkpoint of recovery points."""
    return dict(read_offsets(fs, os.path.join(data_dir, RECOVERY_POINT_FILE)))


def check_log(log: ReadOnlyLog, recovery_point: int, holes: Iterable[Hole] = ()) -> RecoveredLog:
    """Check the batches from ``recovery_point`` on; what is bad is a loss, with all after it.

    ``holes`` are those that ``ReadOnlyDirectory.unexplained_holes`` returns.

    Raises KafkaStorageError, UnknownTopicOrPartition, OffsetOutOfRange if the files changed faster
    than they could be read.
    """
    end = log.log_end_offset
    start = min(max(recovery_point, log.log_start_offset), end)
    checked_bytes, reached = 0, start
    losses: tuple[LostBytes, ...] = ()
    try:
        for piece in log.pieces(start, end):
            checked_bytes += int(piece.batches.size.sum())
            reached = piece.batches.next_offset
    except CorruptMessage as bad:
        losses = tuple(_losses(log, bad, reached))
        if not losses:
            raise
    lost_bytes = sum(loss.size_bytes for loss in losses)
    return RecoveredLog(
        log.topic,
        log.partition,
        log.log_start_offset,
        reached if losses else end,
        log.checkpointed_high_watermark,
        checked_bytes,
        max(log.size_bytes - checked_bytes - lost_bytes, 0),
        tuple(MissingOffsets(*hole[:2]) for hole in holes),
        losses,
    )


def _losses(log: ReadOnlyLog, bad: CorruptMessage, reached: int) -> Iterator[LostBytes]:
    """Yield the rest of the damaged segment, and the segments after it."""
    is_behind = False
    for segment in log.segments:
        if not is_behind and segment.path != bad.path:
            continue
        try:
            file = segment.open(log.fs)
        except FileNotFoundError:
            raise KafkaStorageError(f"{segment.path} was deleted while it was read") from None
        with closing(file):
            position = 0 if is_behind else bad.position or 0
            reason = f"after damage in {bad.path}" if is_behind else bad.reason
            yield look_into(
                Loss(
                    segment.path,
                    segment.base_offset,
                    file,
                    position,
                    segment.size_bytes,
                    segment.base_offset if is_behind else reached,
                    reason,
                    is_segment=is_behind,
                )
            )
        is_behind = True
