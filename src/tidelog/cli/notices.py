"""What the library logs while a command runs: sentences for people, or log lines with ``-v``.

``tidelog run`` does not use this: machines read its log, and it sets up logging itself.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.terminal import begin_line, print_message
from tidelog.explain.printable_text import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LINE: Final = "%(asctime)s level=%(levelname)s logger=%(name)s %(message)s"
"""The format of a log line."""

SENTENCES: Final = {
    "checkpoint-reset": "{path} cannot be read and is started again: {reason}",
    "clean-log-cut": "{path}: the last {cut_bytes:,} bytes are not a complete batch and were"
    " truncated",
    "clean-log-damaged": "{path}: damaged at byte {position:,}; run tidelog verify for details",
    "cleaner-checkpoint-reset": "{directory}: the cleaner checkpoint {checkpoint:,} is not in"
    " [{log_start:,}, {log_end:,}); cleaning restarts at the log start",
    "cleaner-checkpoint-unreadable": "{path} cannot be read; cleaning restarts at the log start:"
    " {reason}",
    "cleaner-failures-not-written": "{path} could not be written: {reason}",
    "cleaner-failures-unreadable": "{path} cannot be read and is ignored: {reason}",
    "cleaning-failed": "{topic}-{partition} was not cleaned: {error}",
    "contradiction-kept": "{path}: damaged at byte {position:,}, and left as it is: {reason}",
    "cut-kept": "{path}: {bytes:,} bytes that were cut off are kept in {kept_in}; tidelog salvage"
    " shows them",
    "cut-not-described": "{path} keeps what was cut off, without a description: {reason}",
    "cut-not-kept": "{path}: what is cut off is not kept: {reason}",
    "data-directory-created": "created data directory {path}",
    "deletion-put-off": "{directory}: old segments stay for now: {reason}",
    "directory-full": "{directory}: fewer than {reserve_bytes:,} bytes are free; appends are"
    " refused",
    "directory-not-closed": "{directory}: what was written is durable; closing failed: {reason}",
    "disk-full": "{directory}: the disk is full",
    "duplicates-dropped": "a list contains duplicates: {value} is read as {kept}",
    "empty-segment-replaced": "{directory}: the empty segment {base_offset:,} was recreated",
    "foreign-directory-ignored": "{directory} is left alone: {reason}",
    "foreign-file-ignored": "{path} is left alone: no file of a log has this name",
    "index-corrupt": "{path} is damaged and is rebuilt: {reason}",
    "kernels-not-cached": "kernels are compiled again by each process: {reason}",
    "kernels-unavailable": "large work is done in plain Python, which is slower: {reason}",
    "key-collision": "{directory}: two keys have the same hash; the compaction starts again with"
    " another one: {reason}",
    "key-order-unknown": "{records:,} records of {topic} may be in the wrong order among those of"
    " their key in {to}: no single smaller number of partitions puts them where they are, so"
    " partitions were added several times, or another partitioner chose",
    "last-time-entry-missing": "{path}: the last entry of the time index is missing: {reason}",
    "leader-epochs-cleared": "{directory}: a batch of an old format has no leader epoch; the known"
    " epochs were deleted",
    "leader-epochs-not-flushed": "{directory}: the leader epochs could not be flushed",
    "leader-epochs-replaced": "{directory}: epoch {epoch} starts at {start_offset:,} and replaces"
    " {removed}",
    "leftover-deleted": "{path} was left over and was deleted",
    "empty-replacement-deleted": "{path} is empty and would have replaced records: it was deleted",
    "leftovers-not-deleted": "{directory}: files that a compaction wrote in vain could not be"
    " deleted; the next opening of the log deletes them: {reason}",
    "listener-failed": "{log}: {listener} failed on a new {offset}",
    "log-cut": "{directory}: {cut_bytes:,} bytes of segment {base_offset:,} were truncated, and"
    " {segments_removed:,} segments after it deleted",
    "log-end-lost": "{directory}: the log ends at {log_end_offset:,}, but readers have seen it up"
    " to {high_watermark:,}: its end was lost",
    "log-emptied": "{directory}: the log ended at {log_end_offset:,}, before its start"
    " {log_start_offset:,}; it was emptied",
    "log-lost": "{directory} is missing, with records up to {high_watermark:,}; the log starts"
    " again",
    "log-dir-offline": "{directory} is offline: {reason}",
    "log-not-loaded": "{directory} cannot be loaded: {reason}",
    "log-not-closed": "{directory} was not closed cleanly: {reason}",
    "offset-gap": "{directory}: no segment holds the offsets from {start_offset:,} to"
    " {end_offset:,}",
    "orphaned-index-deleted": "{path} had no .log file and was deleted",
    "roll-put-off": "{directory}: the active segment stays, since no new one can be made: {reason}",
    "segment-truncated": "{path}: truncated at byte {position:,}: {reason}",
    "segment-split": "{path} held offsets too far apart and was split: {reason}",
    "producers-not-recalled": "{path} cannot be read: producers that repeat several requests may be"
    " refused: {reason}",
    "snapshot-not-written": "{path} could not be written: {reason}",
    "snapshot-not-deleted": "{path} could not be deleted: {reason}",
    "snapshot-dropped": "{path} cannot be read and was deleted: {reason}",
    "request-abandoned": "{path} was left by a service that ended before it answered",
    "request-delayed": "{path} waits for space or file descriptors: {reason}",
    "request-ignored": "{path} is not a request that this release reads: {reason}",
    "request-not-answered": "{path} could not be answered: {reason}",
    "request-refused": "{path} was refused: {reason}",
    "setting-removed": "{path}: {setting} was removed from Kafka: {reason}",
    "settings-not-of-storage": "{path}: passed over, since they do not concern storage: {settings}",
    "settings-without-effect": "accepted without effect: {settings}",
    "commit-expired": "{directory}: transaction {txn} was not committed before its deadline",
    "commit-refused": "{directory}: the transaction of {manifest} was not committed: {reason}",
    "creation-not-undone": "{topic} was created in part and could not be removed: {reason}",
    "ready-manifest-delayed": "{path} waits for space or file descriptors: {reason}",
    "ready-manifest-ignored": "{path}, a transaction that waits, is left alone: {reason}",
    "log-left-out": "{topic}-{partition} is left out: {reason}",
    "transaction-left": "{directory}: transaction {txn} is committed and not applied yet: {reason}",
    "tasks-still-running": "{count} background tasks still run after {waited_ms:,} ms",
    "topic-deleted-at-once": "the files of {topic} are deleted first, to make space: {reason}",
    "topic-id-unreadable": "{directory}: its topic id cannot be read: {reason}",
    "topic-not-adopted": "{topic} is left alone, since its id cannot be read: {reason}",
    "topics-not-written": "{directory}: the list of topics is written later: {reason}",
    "topics-not-restored": "{directory}: the previous list of topics could not be restored:"
    " {reason}",
    "topic-deletion-put-off": "{topic} is not wholly deleted yet: {reason}",
    "topic-adopted": "{topic}: not in tidelog.topics.json, so that the settings {unknown} are"
    " unknown, and no records are deleted by them; set them with tidelog alter",
    "broker-setting-unusable": "the broker's setting {setting} ({source}, topic {topic}) is"
    " unknown: {reason}",
    "cluster-metadata-unusable": "{directory}: the settings of the broker's topics are unknown:"
    " {reason}",
    "metadata-snapshot-skipped": "{path} is not a complete snapshot and was passed over: {reason}",
    "topic-settings-of-birth": "{topic} has settings since its creation that those given here do"
    " not change: {kept}; change them with tidelog alter -o, or drop them with --follow",
    "topic-settings-reconciled": "{topic}: settings that contradict each other were changed for"
    " now, so that less is deleted: {reason}",
    "partitions-elsewhere": "partitions that are not served: {count:,}, of {topic}; their data"
    " directory, with directory.id {directory_id}, is not in use (is its disk mounted?)",
    "topic-settings-unknown": "{topic}: the settings {unknown} are unknown, and no records are"
    " deleted by them",
    "truncated-below-high-watermark": "{directory}: truncated to {offset:,}, below the high"
    " watermark {high_watermark:,}",
}
_NAME: Final = re.compile(r"(\w+)=%[sd]")


def sentence(record: logging.LogRecord) -> str:
    """Return an event as a sentence; as its log line, if it has no sentence."""
    event, _, _ = str(record.msg).partition(" ")
    values: dict[str, Any] = dict(
        zip(_NAME.findall(str(record.msg)), record.args or (), strict=False)
    )
    try:
        return SENTENCES[event].format(**values)
    except (KeyError, ValueError):
        return record.getMessage()


class _Sentences(logging.Handler):
    """Prints one sentence for each event."""

    def __init__(self, command: str, left_out: Collection[str]) -> None:
        super().__init__(logging.WARNING)
        self._command = command
        self._left_out = left_out
        self.topic: str | None = None
        """The topic whose unknown settings the command prints itself."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print it after everything the command has printed so far."""
        event = str(record.msg).partition(" ")[0]
        if event == "topic-adopted":
            *values, names = record.args or ("",)
            left = [name for name in str(names).split(", ") if name != self.topic]
            if not left:
                return
            args = (*values, ", ".join(left))
            record = logging.makeLogRecord({**record.__dict__, "args": args})
        if event not in self._left_out:
            print_message(self._command, sentence(record))


class _Lines(logging.StreamHandler):  # type: ignore[type-arg]  # generic for type checkers only
    """Writes log lines, each on an empty line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one, after the line that shows progress is erased."""
        begin_line()
        super().emit(record)


class OneLine(logging.Formatter):
    """Escapes the values in a log line so that they cannot break it; a traceback has its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the line without the traceback."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - logging's own
        """Return a traceback; its last lines hold the error's text."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


@contextmanager
def setting_topic(topic: str) -> Iterator[None]:
    """Leave a topic out where the body logs whose settings are unknown: it sets them."""
    handlers = [one for one in logging.getLogger("tidelog").handlers if isinstance(one, _Sentences)]
    for one in handlers:
        one.topic = topic
    try:
        yield
    finally:
        for one in handlers:
            one.topic = None


@contextmanager
def printing_notices(
    command: str, *, verbose: bool = False, left_out: Collection[str] = ()
) -> Iterator[None]:
    """Print what the body logs; ``left_out`` are events that the command prints itself."""
    logger = logging.getLogger("tidelog")
    handler: logging.Handler
    if verbose:
        handler = _Lines(sys.stderr)
        handler.setFormatter(OneLine(LINE))
    else:
        handler = _Sentences(command, left_out)
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
