"""Buffers the rows of one task, encodes them as batches and writes these to staged files.

Rows are checked as a leader would check them, so a bad row fails its task, not the commit. It uses
none of Spark's classes, so it can be tested without a session. Kafka: ``RecordAccumulator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from tidelog.arrow.encode import TopicEncoder
from tidelog.errors import MessageTooLarge
from tidelog.segment.filenames import check_topic_name
from tidelog.staging.staged_file import StagedWriter

if TYPE_CHECKING:
    from random import Random

    from tidelog.arrow.encode import BatchForm, Encoded
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.records.validation.validate import LeaderPolicy
    from tidelog.staging.staged_file import StagedFile

BUFFER_BYTES: Final = 8 << 20
"""Bytes of rows to buffer, so that each of many partitions gets full batches."""

MAX_OPEN_FILES: Final = 256


class TopicPlan(NamedTuple):
    """What a task needs to know about a topic: plain values, so that Spark can pickle them."""

    partitions: int
    form: BatchForm
    segment_bytes: int
    max_message_bytes: int
    policy: LeaderPolicy


class StagingTarget(NamedTuple):
    """Where a task writes: the data directory, and the id of the write that its files belong to."""

    fs: FileSystem
    data_dir: str
    txn: str
    rng: Random


class TopicStaging:
    """Stages the rows of one topic; used by one task attempt.

    Args:
        target: where to write the files.
        topic: the topic's name.
        plan: its partitions and how to make batches for them.
        first_partition: where rows without a key start, modulo the number of partitions.
    """

    def __init__(
        self, target: StagingTarget, topic: str, plan: TopicPlan, first_partition: int
    ) -> None:
        check_topic_name(topic)
        self._target = target
        self._topic = topic
        self._plan = plan
        self._encoder = TopicEncoder(
            plan.partitions, plan.form, first_partition % plan.partitions, plan.policy
        )
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._open: dict[int, StagedWriter] = {}
        self._finished: list[StagedFile] = []

    def append(self, rows: pa.RecordBatch, clock: Clock) -> None:
        """Buffer rows, and write them once there are enough; errors as ``TopicEncoder.encode``.

        Raises:
            MessageTooLarge: a batch is larger than the topic's ``max.message.bytes``.
        """
        self._buffered.append(rows)
        self._buffered_bytes += rows.nbytes
        if self._buffered_bytes >= BUFFER_BYTES:
            self._write_buffered(clock)

    def finish(self, clock: Clock) -> list[StagedFile]:
        """Make all rows durable; return the files in the order in which to append them."""
        self._write_buffered(clock)
        self._finish_open()
        return self._finished

    def abandon(self) -> None:
        """Delete all files of this task."""
        for writer in self._open.values():
            writer.abandon()
        delete_staged_files(self._target.fs, self._target.data_dir, self._finished)
        self._open, self._finished = {}, []

    def _write_buffered(self, clock: Clock) -> None:
        if not self._buffered:
            return
        rows = pa.concat_batches(self._buffered)
        self._buffered, self._buffered_bytes = [], 0
        for encoded in self._encoder.encode(rows, clock.now_ms()):
            self._write(encoded)

    def _write(self, encoded: Encoded) -> None:
        largest = int(encoded.batches.size.max())
        if largest > self._plan.max_message_bytes:
            batch = f"a batch for {self._topic}-{encoded.partition}"
            raise MessageTooLarge(batch, largest, self._plan.max_message_bytes)
        writer = self._writer(encoded.partition, len(encoded.data))
        writer.append(encoded.data, records=encoded.records, max_timestamp=encoded.max_timestamp)

    def _writer(self, partition: int, size_bytes: int) -> StagedWriter:
        """Return the partition's open file, or a new one if the bytes would exceed a segment."""
        writer = self._open.get(partition)
        if writer is not None and writer.size_bytes + size_bytes > self._plan.segment_bytes:
            del self._open[partition]  # a closed file must not be abandoned later
            self._finished.append(writer.finish())
            writer = None
        if writer is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._finish_open()
            fs, data_dir, txn, rng = self._target
            writer = StagedWriter(
                fs, data_dir, txn, topic=self._topic, partition=partition, rng=rng
            )
            self._open[partition] = writer
        return writer

    def _finish_open(self) -> None:
        while self._open:
            _, writer = self._open.popitem()
            self._finished.append(writer.finish())


def delete_staged_files(fs: FileSystem, data_dir: str, files: list[StagedFile]) -> None:
    """Delete staged files; those that do not exist any more are skipped."""
    present = set(fs.list(data_dir))
    for file in files:
        if file.name in present:
            fs.delete(f"{data_dir}/{file.name}")
