"""A part of a log that is to be read, by tasks or by a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidelog.readonly.read_only_log import ReadOnlyLog


class LogRange(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of a log that was closed: its index may be asked.

    ``topic_id`` is that of its topic, in Kafka's text form; None: it has none, or nobody asks.
    """

    log: ReadOnlyLog
    start_offset: int
    end_offset: int
    topic_id: str | None = None
