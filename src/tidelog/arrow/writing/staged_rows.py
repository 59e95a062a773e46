"""Buffers the rows of one task, encodes them as batches and stages these in one file.

Rows are checked as a leader would check them, so a bad row fails its task, not the commit. It uses
none of Spark's classes, so it can be tested without a session. Kafka: ``RecordAccumulator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from tidelog.arrow.encode import TopicEncoder
from tidelog.errors import InvalidArgument, MessageTooLarge
from tidelog.records.batch import INT32_MAX
from tidelog.segment.filenames import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from tidelog.arrow.batch_form import BatchForm
    from tidelog.env.clock import Clock
    from tidelog.records.validation.policy import LeaderPolicy
    from tidelog.staging.bundle import BundleWriter
    from tidelog.staging.staged_run import StagedRun

ROWS_PART: Final = 8
"""This part of a task's buffer holds rows; encoding them takes about three times their size."""
MOST_ROWS_BYTES: Final = INT32_MAX
"""Rows are encoded before they are more: of more, Arrow cannot make one column of bytes."""
BATCHES_PART: Final = 4
"""This part of a task's buffer holds batches; writing them copies those of one partition."""


class TopicPlan(NamedTuple):
    """What a task needs to know about a topic: plain values, so that Spark can pickle them.

    ``topic_id`` is None for a topic that the commit creates, and where the directory names none.
    ``refusal`` is why the topic cannot be written, None if it can. ``ignored`` are the settings of
    the options of which the topic has another value.
    """

    partitions: int
    form: BatchForm
    segment_bytes: int
    max_batch_bytes: int
    policy: LeaderPolicy
    topic_id: UUID | None = None
    refusal: str | None = None
    ignored: tuple[str, ...] = ()


class PlannedTopic(NamedTuple):
    """What a commit needs to know about a topic as it was planned.

    ``is_new``: it did not exist. ``topic_id`` is None then, and where the directory names none.
    """

    partitions: int
    topic_id: UUID | None
    is_new: bool


class TaskStaging:
    """Stages the rows of one task attempt, for any number of topics.

    All go to one file, but those of a partition that gets much go to files of its own, which its
    log may adopt as segments; see ``BundleWriter``.

    Args:
        bundle: writes the file; ``BATCHES_PART`` of the memory is its own.
        topics: how to make batches for each topic that exists.
        new_topic: the same for a topic that does not exist yet.
        first_partition: where rows without a key start, modulo a topic's number of partitions.
        buffer_bytes: about the memory to take at most; a row of more is possible.
    """

    def __init__(
        self,
        bundle: BundleWriter,
        topics: Mapping[str, TopicPlan],
        new_topic: TopicPlan,
        *,
        first_partition: int = 0,
        buffer_bytes: int,
    ) -> None:
        self._topics = topics
        self._new_topic = new_topic
        self._first_partition = first_partition
        self._rows_bytes = buffer_bytes // ROWS_PART
        self._bundle = bundle
        self._encoders: dict[str, TopicEncoder] = {}
        self._buffered: dict[str, list[pa.RecordBatch]] = {}
        self._buffered_bytes = 0

    def append(self, topic: str, rows: pa.RecordBatch, clock: Clock) -> None:
        """Buffer rows, and encode them once there are enough; errors as ``TopicEncoder.encode``.

        Raises:
            MessageTooLarge: a batch is larger than the topic or one of its segments takes.
            InvalidTopic: the name of a topic that is not there is not valid.
            InvalidArgument: a topic cannot be written.
        """
        if self._buffered_bytes + rows.nbytes > MOST_ROWS_BYTES:
            self._encode_buffered(clock)
        self._buffered.setdefault(topic, []).append(rows)
        self._buffered_bytes += rows.nbytes
        if self._buffered_bytes >= self._rows_bytes:
            self._encode_buffered(clock)

    def finish(self, clock: Clock) -> list[StagedRun]:
        """Make all rows durable; return the runs in the order in which to append them."""
        self._encode_buffered(clock)
        return self._bundle.finish()

    def abandon(self) -> None:
        """Delete the files of this task."""
        self._bundle.abandon()

    def _encode_buffered(self, clock: Clock) -> None:
        buffered, self._buffered, self._buffered_bytes = self._buffered, {}, 0
        for topic, batches in buffered.items():
            self._encode(topic, pa.concat_batches(batches), clock)

    def _encode(self, topic: str, rows: pa.RecordBatch, clock: Clock) -> None:
        plan = self._topics.get(topic, self._new_topic)
        encoder = self._encoders.get(topic)
        if encoder is None:
            check_topic_name(topic)
            if plan.refusal is not None:
                raise InvalidArgument(plan.refusal)
            first = self._first_partition % plan.partitions
            encoder = TopicEncoder(plan.partitions, plan.form, first, plan.policy)
            self._encoders[topic] = encoder
        for encoded in encoder.encode(rows, clock.now_ms()):
            largest = int(encoded.batches.size.max())
            if largest > plan.max_batch_bytes:
                what = f"a batch for {topic}-{encoded.partition}"
                raise MessageTooLarge(what, largest, plan.max_batch_bytes)
            self._bundle.append(
                topic, encoded.partition, encoded.data, segment_bytes=plan.segment_bytes
            )
