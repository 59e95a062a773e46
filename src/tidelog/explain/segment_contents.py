"""What the batches of each segment of a log hold: times, records, codecs. No record is decoded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from tidelog.codec.compression import codec_name
from tidelog.codec.shown_rows import Batches, TimeOrMinus1
from tidelog.errors import CorruptMessage
from tidelog.lazy import np
from tidelog.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.batch_columns import BatchColumns


@dataclass(slots=True)
class SegmentContents:
    """What the batches hold, by their headers.

    Batches between the log start and the log end are counted.
    """

    batches: Annotated[int, "Number of batches, control batches included."] = 0
    records: Annotated[
        int, "Number of records without markers; a compressed batch of an old format counts as one."
    ] = 0
    control_batches: Annotated[int, "Number of batches of markers."] = 0
    transactional_batches: Annotated[int, "Number of batches of transactions, without markers."] = 0
    min_timestamp: Annotated[TimeOrMinus1, "Least base timestamp of a batch; -1: none."] = (
        NO_TIMESTAMP
    )
    max_timestamp: Annotated[TimeOrMinus1, "Greatest timestamp; -1: none."] = NO_TIMESTAMP
    codecs: Annotated[Batches, "Batches by codec."] = field(default_factory=dict)
    is_whole: Annotated[bool, "Whether all batches were counted: false after damage."] = True

    def add(self, batches: BatchColumns) -> None:
        """Count some batches of the segment."""
        control = batches.is_control
        self.batches += len(batches)
        records = batches.records_count  # 0: compaction has left the batch only
        self.records += int(np.where(records < 0, 1, records)[~control].sum())
        self.control_batches += int(control.sum())
        self.transactional_batches += int((batches.is_transactional & ~control).sum())
        known = batches.max_timestamp[batches.max_timestamp >= 0]
        if len(known):
            self.max_timestamp = max(self.max_timestamp, int(known.max()))
        # A delete horizon takes the place of the base timestamp in compacted batches.
        based = batches.base_timestamp[(batches.base_timestamp >= 0) & ~batches.has_delete_horizon]
        if len(based):
            least = int(based.min())
            is_first = self.min_timestamp == NO_TIMESTAMP
            self.min_timestamp = least if is_first else min(self.min_timestamp, least)
        found = Counter(self.codecs)
        for number, count in Counter(batches.codec.tolist()).items():
            found[codec_name(number)] += count
        self.codecs = dict(sorted(found.items()))


def contents_of(log: ReadOnlyLog) -> dict[int, SegmentContents]:
    """Return the contents of each segment by its base offset.

    At damage the count ends: that segment and all after it are not ``is_whole``. Raises
    KafkaStorageError.
    """
    bases = np.array([segment.base_offset for segment in log.segments], np.int64)
    found = {base: SegmentContents() for base in bases.tolist()}
    if not found:
        return found
    reached = log.log_start_offset
    try:
        for piece in log.pieces(reached, log.log_end_offset):
            numbers = np.searchsorted(bases, piece.batches.base_offset, "right") - 1
            for number in np.unique(numbers).tolist():
                found[int(bases[number])].add(piece.batches.select(numbers == number))
            reached = piece.batches.next_offset
    except CorruptMessage:
        for base in bases[max(np.searchsorted(bases, reached, "right") - 1, 0) :].tolist():
            found[base].is_whole = False
    return found
