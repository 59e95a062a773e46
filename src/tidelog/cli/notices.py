"""What the library logs while a command runs, as sentences for people; as log lines with ``-v``.

Owns the sentence for each event. Must not know commands. ``run`` is no such command: its log is
read by machines, and it sets that up itself.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LINE: Final = "%(asctime)s level=%(levelname)s logger=%(name)s %(message)s"
"""The form of a log line."""

SENTENCES: Final = {
    "checkpoint-reset": "{path} did not read and begins anew: {reason}",
    "clean-log-cut": "{path}: the last {cut_bytes:,} bytes were no whole batch and are cut off",
    "clean-log-damaged": "{path}: damaged at byte {position:,}; tidelog verify says how",
    "cleaner-checkpoint-reset": "{directory}: was clean up to {checkpoint:,}, which is not in"
    " [{log_start:,}, {log_end:,}); cleaning begins at its start",
    "cleaner-checkpoint-unreadable": "{path} did not read; cleaning begins at the start: {reason}",
    "cleaner-failures-not-written": "{path} could not be written: {reason}",
    "cleaner-failures-unreadable": "{path} did not read and is passed over: {reason}",
    "cleaning-failed": "{topic}-{partition} was not cleaned: {error}",
    "directory-full": "{directory}: less than {reserve_bytes:,} bytes are free; no appends",
    "disk-full": "{directory}: the disk is full",
    "duplicates-dropped": "a list names something twice: {given} is taken as {kept}",
    "empty-segment-replaced": "the empty segment {base_offset:,} was made anew",
    "index-corrupt": "{path} was damaged and is built anew: {reason}",
    "last-time-entry-missing": "{path}: the last entry of the time index is missing: {reason}",
    "leader-epochs-cleared": "{directory}: an old batch has no leader epoch; those known go",
    "leader-epochs-not-flushed": "{directory}: the leader epochs could not be flushed",
    "leader-epochs-replaced": "{directory}: epoch {epoch} begins at {start_offset:,} and takes the"
    " place of {removed}",
    "leftover-deleted": "{path} was left over and is deleted",
    "log-cut": "{directory}: {cut_bytes:,} bytes of segment {base_offset:,} were cut off, and"
    " {segments_removed:,} segments behind it removed",
    "log-end-lost": "{directory}: ends at {log_end_offset:,}, but readers saw it up to"
    " {high_watermark:,}: its end was lost",
    "log-emptied": "{directory}: ended at {log_end_offset:,}, before its start"
    " {log_start_offset:,}; it was emptied",
    "log-lost": "{directory} is gone, with records up to {high_watermark:,}; it begins anew",
    "log-not-closed": "{directory} was not closed in order: {reason}",
    "offset-gap": "{directory}: no segment holds the offsets from {start_offset:,} to"
    " {end_offset:,}",
    "orphaned-index-deleted": "{path} had no .log file and is deleted",
    "segment-cut": "{path}: cut at byte {position:,}: {reason}",
    "segment-split": "{path} held offsets too far apart and was split: {reason}",
    "snapshot-dropped": "{path} did not read and is dropped: {reason}",
    "topic-adopted": "{topic} is not in tidelog.topics.json: {unknown} unknown, so nothing of it is"
    " deleted by them; tidelog alter sets them",
    "topic-settings-unknown": "{topic}: {unknown} unknown, so nothing of it is deleted by them",
    "truncated-below-high-watermark": "{directory}: cut back to {offset:,}, below the high"
    " watermark {high_watermark:,}",
}
_NAME: Final = re.compile(r"(\w+)=%[sd]")


def sentence(record: logging.LogRecord) -> str:
    """Return an event as a sentence; one that has none as it is logged."""
    event, _, _ = str(record.msg).partition(" ")
    values: dict[str, Any] = dict(
        zip(_NAME.findall(str(record.msg)), record.args or (), strict=False)
    )
    try:
        return SENTENCES[event].format(**values)
    except (KeyError, ValueError):
        return record.getMessage()


class _Sentences(logging.Handler):
    """Prints a sentence an event."""

    def __init__(self, prefix: str, left_out: Collection[str]) -> None:
        super().__init__(logging.WARNING)
        self._prefix = prefix
        self._left_out = left_out

    def emit(self, record: logging.LogRecord) -> None:
        """Print it behind what the command has printed so far."""
        if str(record.msg).partition(" ")[0] not in self._left_out:
            sys.stdout.flush()
            print(f"{self._prefix}: {sentence(record)}", file=sys.stderr)


@contextmanager
def telling(
    prefix: str, *, verbose: bool = False, left_out: Collection[str] = ()
) -> Iterator[None]:
    """Tell what is logged in the body; ``left_out`` are events that the command tells itself."""
    logger = logging.getLogger("tidelog")
    handler: logging.Handler
    if verbose:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(LINE))
    else:
        handler = _Sentences(prefix, left_out)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    if verbose:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
