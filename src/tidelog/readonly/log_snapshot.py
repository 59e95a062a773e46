"""The .log files of a partition directory at one moment: listed, opened and measured once.

A writer beside the reader may roll, delete, truncate or replace segments at any time. What was
opened stays readable whatever becomes of its name, and bytes beyond the measured size do not count,
so all answers of one snapshot fit together. Where the files change while the snapshot is taken, or
one of them is cut afterwards, ``SnapshotOutdated`` is raised and the caller takes another one.
Kafka has no such reader; its tools walk single files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.errors import CorruptMessage, KafkaStorageError
from tidelog.readonly.held_files import HeldFiles, SnapshotOutdated, outdated_if_gone
from tidelog.readonly.read_only_segment import ReadOnlySegment
from tidelog.records.batch import INT64_MAX
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.segment.filenames import (
    LOG_SUFFIX,
    SWAP_SUFFIX,
    log_file,
    parse_segment_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tidelog.readonly.read_files import ReadFiles

T = TypeVar("T")

MAX_LOOKS: Final = 8
"""Snapshots taken in a row before a log counts as changing faster than it can be read."""


class LogSnapshot:
    """The segments of one partition directory; used by one thread at a time.

    ``close`` releases the files. A segment read after that is opened again, which raises
    SnapshotOutdated if it is no longer there.
    """

    def __init__(
        self, directory: str, held: HeldFiles, segments: tuple[ReadOnlySegment, ...]
    ) -> None:
        self.directory: Final = directory
        self.fs: Final = held.fs
        self.segments: Final = segments
        self._held: Final = held

    @classmethod
    def take(
        cls,
        directory: str,
        fs: ReadFiles,
        end_offset: int = INT64_MAX,
        topic_id: UUID | None = None,
    ) -> LogSnapshot:
        """List, open and measure the segments; no batch has offsets from ``end_offset`` on.

        ``topic_id``: as for ``HeldFiles``.

        Raises:
            FileNotFoundError: there is no such directory.
            KafkaStorageError: the files changed during every one of ``MAX_LOOKS`` attempts.
        """

        def look(_: int) -> LogSnapshot:
            held = HeldFiles(fs, topic_id)
            try:
                return cls(directory, held, _look(directory, held, end_offset))
            except BaseException:
                held.close()
                raise

        return answer(look, lambda: directory)

    def close(self) -> None:
        """Close the files that are held, and drop what was read of the indexes."""
        self._held.close()
        for segment in self.segments:
            segment.forget()


def changing(directory: str, reason: str) -> KafkaStorageError:
    """Return the error of a log that is changed faster than it can be read."""
    return KafkaStorageError(
        f"{directory} changed during each of {MAX_LOOKS} attempts to read it: {reason}"
    )


def answer(look: Callable[[int], T], directory: Callable[[], str]) -> T:
    """Return what a look finds; where the files change under it, or it shows damage, another one.

    ``look`` gets the number of the attempt, from 0; ``directory`` returns the log's, for errors.

    Raises:
        CorruptMessage: two attempts in a row show the same damage.
        KafkaStorageError: the files changed during every one of ``MAX_LOOKS`` attempts.
    """
    damage: CorruptMessage | None = None
    reason = ""
    for number in range(MAX_LOOKS):
        try:
            return look(number)
        except SnapshotOutdated as outdated:
            damage, reason = None, str(outdated)
        except CorruptMessage as bad:
            if damage is not None and damage.args == bad.args:
                raise
            damage, reason = bad, str(bad)
    raise changing(directory(), reason)


def _look(directory: str, held: HeldFiles, end_offset: int) -> tuple[ReadOnlySegment, ...]:
    """List, open and measure once; ``held`` gets the files."""
    found = _list(directory, held.fs)
    bases, segments = sorted(found), []
    for base_offset, end in zip(bases, [*bases[1:], end_offset], strict=False):
        suffix = found[base_offset]
        path = log_file(directory, base_offset, suffix)
        with outdated_if_gone(path):
            file = held.fs.open(path)
        size_bytes = file.size()
        held.add(base_offset, file)
        # A replacement that is being put in the place of others may reach beyond the next of them.
        bounds = OffsetBounds(base_offset, INT64_MAX if suffix == SWAP_SUFFIX else end)
        is_active = base_offset == bases[-1]
        where = directory, base_offset, size_bytes, suffix
        segments.append(ReadOnlySegment(*where, held=held, bounds=bounds, is_active=is_active))
    _check_unchanged(directory, held.fs, found)
    return tuple(segments)


def _check_unchanged(directory: str, fs: ReadFiles, found: dict[int, str]) -> None:
    """Raise SnapshotOutdated unless only new segments at the end have come since the listing.

    A listing is not one step on any file system: a file that is renamed meanwhile may be missed.
    """
    last = max(found, default=-1)
    now = _list(directory, fs)
    if {base: suffix for base, suffix in now.items() if base <= last} != found:
        raise SnapshotOutdated(f"segments of {directory} were deleted or replaced")


def _list(directory: str, fs: ReadFiles) -> dict[int, str]:
    """Return the suffix of each segment's .log file by base offset.

    A complete replacement that is being put in the place of others (``.swap``) stands for the .log
    file of its base offset where that is not there.
    """
    found: dict[int, str] = {}
    for name in fs.list(directory):
        parts = parse_segment_file(name)
        if parts is None or parts.kind != LOG_SUFFIX or parts.state not in {"", SWAP_SUFFIX}:
            continue
        if found.get(parts.offset, SWAP_SUFFIX) == SWAP_SUFFIX:
            found[parts.offset] = parts.state
    return found
