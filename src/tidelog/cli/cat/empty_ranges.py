"""Why a range of offsets that was asked for holds no record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.cli.terminal import print_message

if TYPE_CHECKING:
    from tidelog.readonly.read_only_log import ReadOnlyLog

_AROUND: Final = 1_000
"""Offsets on either side of the range in which the bounds of a gap are looked for."""


def report_gaps(
    command: str, log: ReadOnlyLog, start: int, end: int, *, committed: bool = False
) -> None:
    """Print on stderr the gaps that offsets ``[start, end)`` lie in, with their causes.

    The range lies in the log. ``committed``: for a reader of committed records. Raises
    CorruptMessage, KafkaStorageError as ``find_gaps``.
    """
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.missing.gaps import find_gaps

    first = max(start - _AROUND, log.log_start_offset)
    last = min(end + _AROUND, log.log_end_offset)
    for gap in find_gaps(log, first, last, fs=SYSTEM_FILES, committed=committed):
        if gap.start_offset < end and gap.end_offset > start:
            is_cut = gap.start_offset == first > log.log_start_offset
            is_cut |= gap.end_offset == last < log.log_end_offset
            offsets = (
                f"{'at least ' * is_cut}offsets {gap.start_offset:,} to {gap.end_offset - 1:,}"
            )
            text = f"{log.topic}-{log.partition}: {offsets} hold no record: {gap.cause}"
            print_message(command, text)
