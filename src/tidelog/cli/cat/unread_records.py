"""What a rescue leaves in a log: damaged ranges, and records beyond the checkpointed offsets.

A broker that crashed may have left a high watermark that is too low, or a log start that is too
high; readers then see less than there is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.cli.terminal import print_message
from tidelog.datadir.lock_file import has_writer
from tidelog.explain.printable_text import counted

if TYPE_CHECKING:
    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.readonly.missing.damaged_range import DamagedRange
    from tidelog.readonly.read_only_log import ReadOnlyLog


def report_skipped(
    command: str, skipped: set[DamagedRange | str], found: DamagedRange | str
) -> None:
    """Print what damage hides on stderr, unless it is ``skipped`` already, as it is read again."""
    if found not in skipped:
        skipped.add(found)
        print_message(command, f"skipped {found}")


def report_unread(
    chosen: ChosenPartitions, place: Place, log: ReadOnlyLog, start: int, end: int
) -> bool:
    """Print on stderr how many readable records ``cat`` has left; return whether there are any.

    ``start`` and ``end`` are where it was to begin and end in ``log``.
    """
    from tidelog.readonly.missing.damaged_range import ignore_damage
    from tidelog.readonly.read_only_log import open_read_only

    is_stale, fs = end == log.high_watermark, chosen.directory.fs
    with open_read_only(place.path, fs=fs, on_damage=ignore_damage, below_start=True) as whole:
        # A writer may have appended since the checkpoints were read, and since the log was opened:
        # what readers see by now, or was not there then, is not left.
        first, last = whole.log_start_offset, min(whole.log_end_offset, log.log_end_offset)
        seen = max(first, end, whole.high_watermark if is_stale else end)
        below = sum(map(len, whole.columns(first, max(first, min(start, last)))))
        above = sum(map(len, whole.columns(seen, last))) if seen < last else 0
    if is_stale and above and has_writer(os.path.dirname(place.path)):
        above = 0  # it is about to show them: no crash has left this high watermark
    name = f"{log.topic}-{log.partition}"
    if below:
        print_message(
            "cat",
            f"{name}: {counted(below, 'record')} below the log start {start:,} not read; they were"
            " deleted, or the checkpoint is wrong: add --below-start to print them",
        )
    if above:
        where = "high watermark" if is_stale else "last stable offset"
        remedy = "add --up-to logEnd" if is_stale else "leave out --isolation read_committed"
        print_message(
            "cat",
            f"{name}: {counted(above, 'record')} above the {where} {end:,} not read: {remedy} to"
            " print them",
        )
    return bool(below or above)
