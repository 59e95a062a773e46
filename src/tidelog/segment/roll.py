"""When a segment has to be closed and the next one begun.

Owns the rule, as a pure function of values. Must not know files or the clock. Kafka:
``LogSegment.shouldRoll``, ``RollParams``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.records.batch import INT32_MAX

if TYPE_CHECKING:
    from tidelog.config.log_config import LogConfig


class RollParams(NamedTuple):
    """What is about to be appended, and when. Source: Kafka RollParams.

    ``size_bytes`` of all batches, ``last_offset`` inclusive, ``max_timestamp`` in ms or -1, and
    the time of day ``now_ms``.
    """

    size_bytes: int
    last_offset: int
    max_timestamp: int
    now_ms: int


class SegmentState(NamedTuple):
    """What the rule needs of the active segment.

    ``first_timestamp`` is the first batch's greatest timestamp in ms, -1 if it has none;
    ``is_indexable`` says whether both indexes have room.
    """

    base_offset: int
    size_bytes: int
    created_ms: int
    jitter_ms: int
    first_timestamp: int
    is_indexable: bool

    def waited_ms(self, incoming: RollParams) -> int:
        """Milliseconds from the first batch to ``incoming``: record time where there is any."""
        if self.first_timestamp >= 0:
            return incoming.max_timestamp - self.first_timestamp
        return incoming.now_ms - self.created_ms


def should_roll(state: SegmentState, incoming: RollParams, config: LogConfig) -> bool:
    """Say whether the active segment must be closed before ``incoming`` is appended.

    Args:
        state: of the active segment.
        incoming: what is to be appended.
        config: ``segment.bytes`` in bytes; ``segment.ms`` (or ``max.compaction.lag.ms``) in ms.

    Source: Kafka LogSegment.shouldRoll and LogSegment.timeWaitedForRoll.
    """
    too_big = state.size_bytes > config.segment_size_bytes - incoming.size_bytes
    max_age_ms = config.max_segment_ms - state.jitter_ms
    too_old = state.size_bytes > 0 and state.waited_ms(incoming) > max_age_ms
    # An index entry keeps the relative offset in an int32.
    fits = 0 <= incoming.last_offset - state.base_offset <= INT32_MAX
    return too_big or too_old or not state.is_indexable or not fits
