"""Rows of one task, gathered, encoded and written to staged files.

Owns how much is gathered before it is encoded, and the checks a leader would make. Must not know
Spark's classes, so it can be tested without a session. Kafka: ``RecordAccumulator``.
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

GATHER_BYTES: Final = 8 << 20
"""Bytes of rows to gather, so that each of many partitions gets whole batches."""

MOST_OPEN_FILES: Final = 256


class TopicPlan(NamedTuple):
    """What a task must know of a topic: plain values, so Spark can pickle them."""

    partitions: int
    form: BatchForm
    segment_bytes: int
    max_message_bytes: int
    policy: LeaderPolicy


class Place(NamedTuple):
    """Where a task writes: the data directory, and the transaction its files belong to."""

    fs: FileSystem
    data_dir: str
    txn: str
    rng: Random


class TopicStaging:
    """Stages the rows of one topic; used by one task attempt.

    Args:
        place: where the files go.
        topic: the topic's name.
        plan: what is known of it.
        first: the partition with which rows without a key begin.
    """

    def __init__(self, place: Place, topic: str, plan: TopicPlan, first: int) -> None:
        check_topic_name(topic)
        self._place = place
        self._topic = topic
        self._plan = plan
        self._encoder = TopicEncoder(
            plan.partitions, plan.form, first % plan.partitions, plan.policy
        )
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._open: dict[int, StagedWriter] = {}
        self._finished: list[StagedFile] = []

    def append(self, rows: pa.RecordBatch, clock: Clock) -> None:
        """Take rows; errors as ``TopicEncoder.encode``.

        Raises:
            MessageTooLarge: a record is larger than the topic takes.
        """
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes
        if self._gathered_bytes >= GATHER_BYTES:
            self._write_gathered(clock)

    def finish(self, clock: Clock) -> list[StagedFile]:
        """Make everything durable; return the files, in the order in which to append them."""
        self._write_gathered(clock)
        self._finish_open()
        return self._finished

    def abandon(self) -> None:
        """Remove every file."""
        for writer in self._open.values():
            writer.abandon()
        remove(self._place.fs, self._place.data_dir, self._finished)
        self._open, self._finished = {}, []

    def _write_gathered(self, clock: Clock) -> None:
        if not self._gathered:
            return
        rows = pa.concat_batches(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        for part in self._encoder.encode(rows, clock.now_ms()):
            self._write(part)

    def _write(self, part: Encoded) -> None:
        largest = int(part.batches.size.max())
        if largest > self._plan.max_message_bytes:
            what = f"a batch for {self._topic}-{part.partition}"
            raise MessageTooLarge(what, largest, self._plan.max_message_bytes)
        writer = self._writer(part.partition, len(part.data))
        writer.append(part.data, records=part.records, max_timestamp=part.max_timestamp)

    def _writer(self, partition: int, size_bytes: int) -> StagedWriter:
        """Return the partition's open file, or a new one where it has no room left."""
        writer = self._open.get(partition)
        if writer is not None and writer.size_bytes + size_bytes > self._plan.segment_bytes:
            del self._open[partition]  # whatever follows, it is not to be abandoned once closed
            self._finished.append(writer.finish())
            writer = None
        if writer is None:
            if len(self._open) >= MOST_OPEN_FILES:
                self._finish_open()
            fs, data_dir, txn, rng = self._place
            writer = StagedWriter(
                fs, data_dir, txn, topic=self._topic, partition=partition, rng=rng
            )
            self._open[partition] = writer
        return writer

    def _finish_open(self) -> None:
        while self._open:
            _, writer = self._open.popitem()
            self._finished.append(writer.finish())


def remove(fs: FileSystem, data_dir: str, files: list[StagedFile]) -> None:
    """Remove staged files; those that are gone already are no error."""
    present = set(fs.list(data_dir))
    for file in files:
        if file.name in present:
            fs.delete(f"{data_dir}/{file.name}")
