"""Which records of a log are wanted: by time, key and pattern, and the last of those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.codec.layout import byte_view
from tidelog.readonly.missing.damaged_range import ignore_damage
from tidelog.readonly.read_only_log import open_read_only

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.array_rows import Bools
    from tidelog.records.decoding.record_columns import RecordColumns

_LEAST_WINDOW: Final = 1_000
"""Offsets that are looked through at first for the last records."""


class RecordFilter(NamedTuple):
    """What a record must be like; None: anything.

    ``until_ms`` is exclusive. ``pattern`` must be found in the key or the value. ``committed``
    leaves out the records of aborted transactions; the ranges end at the last stable offset.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    key: bytes | None = None
    pattern: re.Pattern[bytes] | None = None
    committed: bool = False

    def records(self, log: ReadOnlyLog, start: int, end: int) -> Iterator[RecordColumns]:
        """Yield those with offsets in ``[start, end)``; errors as of ``ReadOnlyLog.columns``."""
        since_ms, committed = self.since_ms, self.committed
        for found in log.columns(start, end, since_ms=since_ms, committed=committed):
            yield self._chosen(found)

    def _chosen(self, found: RecordColumns) -> RecordColumns:
        if self.until_ms is not None:
            found = found.select(found.timestamp < self.until_ms)
        if self.key is not None:
            found = found.select(found.key_size == len(self.key))
            found = found.select(_has_key(found, self.key))
        if self.pattern is not None:
            found = found.select(_matches(found, self.pattern))
        return found

    def start_of_last(
        self, directory: str, start: int, end: int, count: int, *, fs: FileSystem
    ) -> int:
        """Return the offset at which the last ``count`` records of ``[start, end)`` begin.

        ``directory`` is the log's. What lies before them is not read. Damage is passed without a
        word: what is there is said when the records are read.
        """
        with open_read_only(directory, fs=fs, on_damage=ignore_damage) as looked:
            first = max(start, looked.log_start_offset)
            return self._start_of_last(looked, first, min(end, looked.log_end_offset), count)

    def _start_of_last(self, log: ReadOnlyLog, start: int, end: int, count: int) -> int:
        window, upper, missing = max(count, _LEAST_WINDOW), end, count
        while missing and upper > start:
            lower = max(start, upper - window)
            pieces = [found.offset.copy() for found in self.records(log, lower, upper)]
            offsets = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
            if len(offsets) >= missing:
                return int(offsets[-missing])
            missing -= len(offsets)
            upper, window = lower, 2 * window
        return start if missing else end


def _has_key(found: RecordColumns, key: bytes) -> Bools:
    """Return which records have this key; all have one of its length."""
    bytes_of_keys = found.data[found.key_at[:, np.newaxis] + np.arange(len(key))]
    is_same: Bools = (bytes_of_keys == np.frombuffer(key, np.uint8)).all(axis=1)
    return is_same


def _matches(found: RecordColumns, pattern: re.Pattern[bytes]) -> Bools:
    """Return in which records the key or the value has a match."""
    view = byte_view(found.data)
    fields = (
        (found.key_at.tolist(), found.key_size.tolist()),
        (found.value_at.tolist(), found.value_size.tolist()),
    )
    is_match = np.zeros(len(found), np.bool_)
    for starts, sizes in fields:
        for number, (at, size) in enumerate(zip(starts, sizes, strict=True)):
            if size >= 0 and pattern.search(view[at : at + size]):
                is_match[number] = True
    return is_match
