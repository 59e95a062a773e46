"""The files around the segments of one log: which may be there, and what they hold."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, TEMPORARY_SUFFIX, read_checkpoint
from tidelog.datadir.metadata_files import CLEAN_SHUTDOWN_FILE
from tidelog.datadir.offset_checkpoints import (
    CHECKPOINT_FILES,
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
)
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.explain.verify.findings import (
    RESCUE,
    Finding,
    attempt,
    damage,
    raise_unanswered,
    unusual,
)
from tidelog.log.topic_id import PARTITION_METADATA_FILE, read_partition_metadata
from tidelog.records.batch import INT32_MAX
from tidelog.segment.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    is_index_file,
    is_log_file,
    parse_segment_file,
    producer_snapshot_file,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.env.files import FileStat, FileSystem
    from tidelog.segment.filenames import TopicPartition

_LEFTOVERS: Final = {
    CLEANED_SUFFIX: ("is a segment that was never finished", "none needed: opening removes it"),
    SWAP_SUFFIX: ("is a replacement that was interrupted", "none needed: opening finishes it"),
}
_MOVE_AWAY: Final = "move it elsewhere: the segments that it would replace are still there"
_WAITS: Final = "none needed: a running service, or the next opening, deletes what waits"
_UNFINISHED: Final = ("is a file that was never finished", "delete it")
_FOREIGN: Final = ("is not a file of a log", "none needed: it is left alone")
_WITHOUT: Final = {
    HIGH_WATERMARK_FILE: "readers then see each log up to its end",
    RECOVERY_POINT_FILE: "logs are then checked from their start",
    LOG_START_OFFSET_FILE: (
        "logs then begin with their first segments, where deleted records may still be"
    ),
    CLEANER_OFFSET_FILE: "compacted logs are then cleaned from their start",
}
"""The checkpoint files, and what follows if one is deleted."""
assert set(_WITHOUT) == set(CHECKPOINT_FILES)
_KNOWN_NAMES: Final = (LEADER_EPOCH_FILE, PARTITION_METADATA_FILE, "quorum-state")
_KRAFT_SNAPSHOT_SUFFIX: Final = ".checkpoint"


class Promises(NamedTuple):
    """The lines and marks of the data directory about one log; None where there is none.

    ``is_clean``: the directory was shut down in order, so that nothing will be recovered.
    """

    high_watermark: int | None
    recovery_point: int | None
    log_start_offset: int | None
    cleaner_offset: int | None
    is_clean: bool


class CheckpointLines:
    """The offset checkpoints of data directories; used by one thread at a time.

    Each has a line for every partition, so that checks of many parse it once, and again only after
    a writer has replaced it: no log is judged by older lines than there are.
    """

    def __init__(self, fs: FileSystem) -> None:
        self._fs: Final = fs
        self._parsed: Final[dict[str, tuple[FileStat, OffsetCheckpoint]]] = {}

    def read(self, path: str) -> OffsetCheckpoint:
        """Return the lines of a file; errors as ``read_checkpoint``."""
        try:
            stat = self._fs.stat(path)  # before the lines: a change in between is seen next time
        except FileNotFoundError:
            return read_checkpoint(self._fs, path)
        if not stat.inode:  # in an archive, whose files have no times either
            return read_checkpoint(self._fs, path)
        known = self._parsed.get(path)
        if known is None or known[0] != stat:
            known = self._parsed[path] = stat, read_checkpoint(self._fs, path)
        return known[1]


class LogFiles(NamedTuple):
    """The files of a partition directory by kind: base offsets and snapshot offsets, ascending."""

    names: tuple[str, ...]
    bases: tuple[int, ...]
    snapshots: tuple[int, ...]

    @property
    def is_bare(self) -> bool:
        """Whether there are only .log files, as of a log that was made and never opened."""
        return all(is_log_file(name) for name in self.names)

    def is_truncated_to(self, next_offset: int) -> bool:
        """Return whether a segment from ``next_offset`` on waits for deletion."""
        found = filter(None, map(parse_segment_file, self.names))
        return any(
            (each.kind, each.state) == (LOG_SUFFIX, DELETED_SUFFIX) and each.offset >= next_offset
            for each in found
        )


def read_promises(
    fs: FileSystem, data_dir: str, key: TopicPartition, checkpoints: CheckpointLines
) -> Generator[Finding, None, Promises]:
    """Yield what is wrong with the checkpoint files; return the lines about one log."""
    said: dict[str, int | None] = {}
    for name, without in _WITHOUT.items():
        path = os.path.join(data_dir, name)
        remedy = f"correct the file, or delete it: {without}"
        lines = yield from attempt(partial(checkpoints.read, path), path, remedy, byte=0)
        said[name] = (lines or {}).get(key)
    return Promises(
        said[HIGH_WATERMARK_FILE],
        said[RECOVERY_POINT_FILE],
        said[LOG_START_OFFSET_FILE],
        said[CLEANER_OFFSET_FILE],
        fs.exists(os.path.join(data_dir, CLEAN_SHUTDOWN_FILE)),
    )


def list_files(fs: FileSystem, directory: str) -> Generator[Finding, None, LogFiles]:
    """Yield what is odd about the names in a partition directory; return the files by kind."""
    names = tuple(sorted(fs.list(directory)))
    bases, snapshots, waiting = [], [], list[str]()
    for name in names:
        path = f"{directory}/{name}"
        found = parse_segment_file(name)
        if found is None and (name in _KNOWN_NAMES or name.endswith(_KRAFT_SNAPSHOT_SUFFIX)):
            continue
        if found is None:
            is_unfinished = name.removesuffix(TEMPORARY_SUFFIX) in _KNOWN_NAMES
            what, remedy = _UNFINISHED if is_unfinished else _FOREIGN
            yield unusual(path, None, f"{name} {what}", remedy)
        elif found.state == DELETED_SUFFIX:
            waiting.append(name)
        elif found.state:
            what, remedy = _LEFTOVERS[found.state]
            yield unusual(path, None, f"{name} {what}", remedy)
            if (found.kind, found.state) == (LOG_SUFFIX, SWAP_SUFFIX):
                yield from _check_swap(fs, path)
        elif found.kind == LOG_SUFFIX:
            bases.append(found.offset)
        elif found.kind == SNAPSHOT_SUFFIX:
            snapshots.append(found.offset)
    if waiting:
        yield _waiting(directory, waiting)
    bases.sort()
    yield from _check_links(fs, directory, names, bases)
    return LogFiles(names, tuple(bases), tuple(sorted(snapshots)))


def _check_links(
    fs: FileSystem, directory: str, names: Sequence[str], bases: Sequence[int]
) -> Iterator[Finding]:
    """Yield the files of segments that are links: nothing is written through one."""
    for name in names:
        path = f"{directory}/{name}"
        found = parse_segment_file(name)
        if found is None or found.state or not fs.is_link(path):
            continue
        if is_index_file(name):
            remedy = "delete the link: the next opening builds the index again"
            yield damage(path, None, "the index is a link: no writer uses it", remedy)
        elif found.kind == LOG_SUFFIX and found.offset == bases[-1]:
            what = "the .log file of the active segment is a link: no writer opens the log"
            yield damage(path, None, what, "put the file itself in the place of the link")
        elif found.kind == LOG_SUFFIX:
            yield unusual(path, None, "the .log file is a link: deleting it deletes the link only")


def _waiting(directory: str, names: list[str]) -> Finding:
    """Return one finding about all files that wait for deletion, since they may be many."""
    name = next(
        (name for name in names if is_log_file(name.removesuffix(DELETED_SUFFIX))), names[0]
    )
    others = len(names) - 1
    what = "waits for deletion"
    if others:
        what = f"and {others:,} other file{'s' * (others > 1)} wait for deletion"
    return unusual(f"{directory}/{name}", None, f"{name} {what}", _WAITS)


def _check_swap(fs: FileSystem, path: str) -> Iterator[Finding]:
    """Yield what keeps opening the log from completing a replacement of segments."""
    try:
        with closing(fs.open(path)) as file:
            size_bytes = file.size()
    except KafkaStorageError as error:
        yield damage(path, None, f"no log manager loads the log: {error}", _MOVE_AWAY)
        return
    if size_bytes > INT32_MAX:
        what = f"{size_bytes:,} bytes, more than a segment can have: no log manager loads the log"
        yield damage(path, None, what, _MOVE_AWAY)


def check_names(directory: str, files: LogFiles) -> Iterator[Finding]:
    """Yield what has no segment to belong to."""
    for name in files.names:
        found = parse_segment_file(name)
        if found is not None and is_index_file(name) and found.offset not in files.bases:
            what = f"{name} has no .log file: its segment is gone, or was never made"
            yield unusual(f"{directory}/{name}", None, what, "none needed: opening removes it")
    for base in () if files.is_bare else files.bases[1:]:
        if base not in files.snapshots:
            path = producer_snapshot_file(directory, base)
            what = f"there is no snapshot at {base}: recovery begins at an older one"
            yield unusual(path, None, what)
    strays = [offset for offset in files.snapshots if offset not in files.bases]
    if strays and strays[-1] >= max(files.bases, default=0):
        strays.pop()  # the one that a shutdown leaves at the log's end
    if strays:
        strays.pop()  # the one of the shutdown before: opening keeps the newest
    for offset in strays:
        path = producer_snapshot_file(directory, offset)
        what = f"no segment begins at {offset}, and two newer snapshots are of no segment either"
        yield unusual(path, None, what, "none needed: opening removes it")


def check_metadata(fs: FileSystem, directory: str) -> Iterator[Finding]:
    """Yield what is wrong with ``partition.metadata``."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    try:
        topic_id = read_partition_metadata(fs, path)
    except (KafkaStorageError, InvalidArgument) as error:
        raise_unanswered(error)
        yield damage(path, 0, str(error), "write the id that the topic's other partitions have")
        return
    if topic_id is None:
        yield unusual(path, None, "the partition has no topic id", "none needed: opening adds one")


def check_promises(
    data_dir: str, promised: Promises, start_offset: int, end_offset: int
) -> Iterator[Finding]:
    """Yield where the checkpoints and the log, ``[start, end)``, contradict each other."""
    watermark, point, start, cleaner, _ = promised
    for name, is_broken, finding, what, remedy in (
        (
            HIGH_WATERMARK_FILE,
            watermark is not None and watermark > end_offset,
            damage,
            f"readers saw offsets up to {watermark}, but the log ends at {end_offset}",
            (
                "find where the records went, as in a copy or an archive, before a process opens"
                f" the directory to write: that sets the log's line in this file to {end_offset}"
            ),
        ),
        (
            RECOVERY_POINT_FILE,
            point is not None and point > end_offset,
            unusual,
            f"offsets up to {point} were flushed, but the log ends at {end_offset}",
            "none needed: opening the directory to write corrects the log's line in this file",
        ),
        (
            LOG_START_OFFSET_FILE,
            start is not None and start > end_offset,
            damage,
            f"the log starts at {start} and ends at {end_offset}: opening would empty it",
            f"before it is opened, lower that offset to the first segment's, or {RESCUE}",
        ),
        (
            CLEANER_OFFSET_FILE,
            cleaner is not None and not start_offset <= cleaner <= end_offset,
            unusual,
            f"cleaned up to {cleaner}, outside the log [{start_offset}, {end_offset})",
            "none needed: the cleaner begins again",
        ),
    ):
        if is_broken:
            yield finding(os.path.join(data_dir, name), None, what, remedy)
