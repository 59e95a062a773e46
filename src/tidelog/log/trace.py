"""Log lines about each append, read and high watermark, in Kafka's words at Kafka's TRACE level.

``is_traced`` is asked once an append or read; the lines are made only if it says yes. Kafka:
``UnifiedLog`` and ``LocalLog``.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.config.log_levels import TRACE

if TYPE_CHECKING:
    from tidelog.log.append_info import AppendInfo
    from tidelog.log.context import LogContext
    from tidelog.segment.offset_metadata import LogOffsetMetadata

_log = logging.getLogger(__name__)


is_traced: Final = partial(_log.isEnabledFor, TRACE)
"""Return whether these lines are logged: ``tidelog.log.trace`` is at TRACE."""


def trace_append(context: LogContext, info: AppendInfo, next_offset: int, size_bytes: int) -> None:
    """Log what an append did; ``next_offset`` is the log end after it."""
    text = (
        "%s Appended message set with last offset: %d, first offset: %d, next offset: %d,"
        " and messages: MemoryRecords(size=%d)"
    )
    if info.is_duplicate:
        text = (
            "%s Duplicate batch detected, returning AppendInfo from duplicate batch with"
            " last offset: %d, first offset: %d, next offset: %d,"
            " skipped messages: MemoryRecords(size=%d)"
        )
    offsets = info.last_offset, info.first_offset, next_offset
    _log.log(TRACE, text, context.ident, *offsets, size_bytes)


def trace_high_watermark(context: LogContext, place: LogOffsetMetadata) -> None:
    """Log a new high watermark with its place."""
    _log.log(
        TRACE,
        "%s Setting high watermark (offset=%d, segment=[%d:%d])",
        *(context.ident, place.offset, place.segment_base_offset, place.position),
    )


def trace_read(context: LogContext, start_offset: int, max_bytes: int, size_bytes: int) -> None:
    """Log a read before it begins; ``size_bytes`` is the log's."""
    _log.log(
        TRACE,
        "[LocalLog partition=%s, dir=%s] Reading maximum %d bytes at offset %d from log with total"
        " length %d bytes",
        *(context.log_name, context.directory, max_bytes, start_offset, size_bytes),
    )
