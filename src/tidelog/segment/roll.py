"""When to roll a new segment, as a pure function. Kafka: ``LogSegment.shouldRoll``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.records.batch import INT32_MAX

if TYPE_CHECKING:
    from tidelog.config.log_config import LogConfig


class RollParams(NamedTuple):
    """The append that is about to be made. Source: Kafka RollParams.

    ``size_bytes`` is that of all batches, ``last_offset`` is inclusive, ``max_timestamp`` is in ms
    or -1, and ``now_ms`` is the time of day.
    """

    size_bytes: int
    last_offset: int
    max_timestamp: int
    now_ms: int


class SegmentState(NamedTuple):
    """The state of the active segment that matters for rolling.

    ``first_timestamp`` is the first batch's maximum timestamp in ms, -1 if it has none;
    ``is_indexable`` means that both indexes have room.
    """

    base_offset: int
    size_bytes: int
    created_ms: int
    jitter_ms: int
    first_timestamp: int
    is_indexable: bool

    def waited_ms(self, incoming: RollParams) -> int:
        """Milliseconds from the first batch to ``incoming``, by record timestamps if possible."""
        if self.first_timestamp >= 0:
            return incoming.max_timestamp - self.first_timestamp
        return incoming.now_ms - self.created_ms


def should_roll(state: SegmentState, incoming: RollParams, config: LogConfig) -> bool:
    """Return whether a new segment must be rolled before ``incoming`` is appended.

    Args:
        state: of the active segment.
        incoming: the append.
        config: ``segment.bytes`` in bytes; ``segment.ms`` (or ``max.compaction.lag.ms``) in ms.

    Source: Kafka LogSegment.shouldRoll and LogSegment.timeWaitedForRoll.
    """
    too_big = state.size_bytes > config.segment_size_bytes - incoming.size_bytes
    max_age_ms = config.max_segment_ms - state.jitter_ms
    too_old = state.size_bytes > 0 and state.waited_ms(incoming) > max_age_ms
    return too_big or too_old or must_roll(state, incoming)


def must_roll(state: SegmentState, incoming: RollParams) -> bool:
    """Return whether a segment cannot take ``incoming``, whatever the settings are."""
    # An index entry stores the relative offset in an int32.
    fits = 0 <= incoming.last_offset - state.base_offset <= INT32_MAX
    return not state.is_indexable or not fits
