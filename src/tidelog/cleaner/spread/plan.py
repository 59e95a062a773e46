"""What one cleaning by many processes does, as values that each of them is given."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cleaner.keys.superseded import SupersededOffsets
from tidelog.cleaner.rewriting.segment_copy import CleaningRound
from tidelog.errors import CleaningAborted
from tidelog.records.batch import INT32_MAX
from tidelog.records.file_records import FileRecords
from tidelog.segment.filenames import DELETED_SUFFIX
from tidelog.segment.txn_index import TxnIndexSearchResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.cleaner.cleanable_range import OffsetsToClean
    from tidelog.cleaner.rewriting.batch_retention import LastOfProducer
    from tidelog.config.log_config import LogConfig
    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.records.damage.sound_offsets import OffsetBounds
    from tidelog.segment.txn_index import AbortedTxn


class SourceFile(NamedTuple):
    """A segment to be cleaned, as it was planned.

    ``end_offset`` is the base offset of the next segment; ``aborted`` are the transactions that
    overlap its offsets.
    """

    path: str
    base_offset: int
    end_offset: int
    size_bytes: int
    modified_ms: int
    aborted: tuple[AbortedTxn, ...]

    def open(self, fs: FileSystem) -> OpenFile:
        """Open it; CleaningAborted if it is not as it was planned. Raises OSError."""
        try:
            file = fs.open(self.path, "r")
        except FileNotFoundError:
            raise CleaningAborted(f"{self.path} is gone, or this machine does not see it") from None
        size = file.size()
        if size != self.size_bytes:
            file.close()
            raise CleaningAborted(f"{self.path} has {size} bytes instead of {self.size_bytes}")
        return file


class OpenSource:
    """A ``SourceSegment`` of a file that is open, or that is only to be known by its offsets."""

    def __init__(self, source: SourceFile, file: OpenFile | None = None) -> None:
        self._source = source
        self._file = file
        self.path = source.path
        self.base_offset = source.base_offset
        self.size_bytes = source.size_bytes
        self.modified_ms = source.modified_ms

    def file_records(self, start: int = 0, *, bounds: OffsetBounds | None = None) -> FileRecords:
        """Return the batches from byte ``start`` on, with offsets within ``bounds``."""
        assert self._file is not None
        return FileRecords(self._file, start, self.size_bytes, bounds=bounds)

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:  # noqa: ARG002 - planned with it
        """Return the transactions that overlap its offsets."""
        return TxnIndexSearchResult(self._source.aborted, is_complete=True)

    def position_before(self, offset: int) -> int:  # noqa: ARG002 - of a ``SourceSegment``
        """Return the start: it is read whole."""
        return 0

    def read_next_offset(self) -> int:
        """Return the base offset of the next segment."""
        return self._source.end_offset

    def largest_timestamp(self) -> int:
        """Return the time of its file's change, in ms."""
        return self.modified_ms

    def first_batch_timestamp(self) -> int:
        """Return the time of its file's change, in ms."""
        return self.modified_ms


class FileGroup(NamedTuple):
    """Files ``[start, end)`` of the plan, which become one segment."""

    start: int
    end: int


@dataclass(frozen=True)
class SpreadPlan:
    """One cleaning of a log. Times are in ms.

    Args:
        directory: of the partition.
        config: the settings in force.
        files: the segments, in order, from the log's first to the end of what is cleaned.
        groups: which of them become one segment each.
        to_clean: the offsets whose keys are read; all records below its end are copied.
        now_ms: the time of this cleaning.
        legacy_horizon_ms: as ``CleaningRound``.
        producers: the active producers, by id.
        buckets: into how many parts the keys are divided.
        hash_key: the random key of the hash.
        is_exact: whether keys are compared themselves.
        with_kernels: whether compiled code is used.
        writes: whether segments are written; else it is only counted what would be.
        job: 16 hexadecimal digits in the name of each file written.
    """

    directory: str
    config: LogConfig
    files: tuple[SourceFile, ...]
    groups: tuple[FileGroup, ...]
    to_clean: OffsetsToClean
    now_ms: int
    legacy_horizon_ms: int
    producers: Mapping[int, LastOfProducer]
    buckets: int
    hash_key: tuple[int, int]
    is_exact: bool
    with_kernels: bool
    writes: bool
    job: str

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    def group_of(self, file: int) -> int:
        """Return the number of the group of a file."""
        return bisect_right(self.groups, file, key=attrgetter("start")) - 1

    def offsets_of(self, group: int) -> tuple[int, int]:
        """Return the offsets [start, end) that the records of a group may have.

        Its relative offsets must fit 32 bits, so those above are not in it, or it has to be split.
        """
        start, end = self.groups[group]
        base_offset = self.files[start].base_offset
        limits = self.files[end - 1].end_offset, self.to_clean.first_uncleanable_offset
        return base_offset, min(*limits, base_offset + INT32_MAX + 1)

    def superseded_of(self, group: int) -> SupersededOffsets:
        """Return the offsets of a group, with none superseded yet."""
        start, end = self.offsets_of(group)
        latest = self.to_clean.first_uncleanable_offset - 1
        return SupersededOffsets.of_range(start, end, latest, with_kernels=self.with_kernels)

    def round_of(self, superseded: SupersededOffsets) -> CleaningRound:
        """Return what the groups of this cleaning share, for one of them."""
        start, end = self.to_clean
        times = self.now_ms, self.config.delete_retention_ms, self.legacy_horizon_ms
        return CleaningRound(superseded, start, end, *times)

    def suffix_of(self, attempt: str) -> str:
        """Return the suffix of the files that one attempt writes.

        Both Kafka and tidelog delete such files when they open the log.
        """
        return f".{self.job}{attempt}{DELETED_SUFFIX}"
