"""The batch writer of the data source: tasks stage batches, the driver's commit appends them.

Delivery is at least once: a commit that fails may have appended some of the batches, and running
the job again appends them twice. Spark: ``KafkaWriter``.
Source: ``docs/decisions/0010-spark-writes-at-least-once.md``.
"""

from __future__ import annotations

import logging
import os
import random
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tidelog.arrow.encode import BatchForm
from tidelog.codec.compression import Codec
from tidelog.config.log_config import DELETION_SETTINGS, LogConfig
from tidelog.datadir.catalogue import read_catalogue
from tidelog.datadir.lock_file import LOCK_FILE, has_writer
from tidelog.embedded.doors import open_briefly
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.waiting import sleep_ms
from tidelog.errors import DirectoryLocked, InvalidArgument
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.validation.validate import LeaderPolicy
from tidelog.segment.filenames import check_topic_name
from tidelog.spark.options.source_options import DEFAULT_COMMIT_TIMEOUT_MS
from tidelog.spark.read.topic_partitions import list_partitions
from tidelog.spark.write.input_columns import row_columns, select_columns, split_by_topic
from tidelog.spark.write.staged_rows import (
    StagingTarget,
    TopicPlan,
    TopicStaging,
    delete_staged_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from tidelog.embedded.logs import Logs
    from tidelog.readonly.read_only_topic import ReadOnlyTopic
    from tidelog.spark.options.source_options import WriteOptions
    from tidelog.staging.staged_file import StagedFile


_log = logging.getLogger(__name__)

LOCK_POLL_MS: Final = 200


@dataclass
class StagedFiles(WriterCommitMessage):
    """The files that one task staged, for the driver to commit or to delete."""

    files: tuple[StagedFile, ...] = ()


class LogWriter(DataSourceArrowWriter):
    """Appends rows to the topic that the options name, or to the topic that each row names.

    Made on the driver; Spark pickles it for the tasks and for ``commit`` or ``abort``.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = row_columns(schema, has_topic=options.topic is not None)
        self._txn = uuid.uuid4().hex
        if options.topic is not None:
            check_topic_name(options.topic)
        _make_directory(options.path)
        check_not_busy(options)
        self._topics = known_topics(options)
        self._count = options.num_partitions or 1
        self._new_topic = plan_topic(options, self._count, options.new_topic_config())
        _check_known(options, self._topics)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedFiles:
        """Stage the rows of one task attempt; runs in a worker."""
        target = StagingTarget(SYSTEM_FILES, self._options.path, self._txn, random.SystemRandom())
        first_partition = _task_number()  # spreads rows without a key over the partitions
        stagings: dict[str, TopicStaging] = {}
        try:
            for batch in iterator:
                for topic, rows in self._split(batch).items():
                    if topic not in stagings:
                        plan = self._topics.get(topic, self._new_topic)
                        stagings[topic] = TopicStaging(target, topic, plan, first_partition)
                    stagings[topic].append(rows, SYSTEM_CLOCK)
            staged = [staging.finish(SYSTEM_CLOCK) for staging in stagings.values()]
        except BaseException:
            for staging in stagings.values():
                staging.abandon()
            raise
        return StagedFiles(tuple(file for files in staged for file in files))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append the batches that the tasks staged, in order of tasks; runs on the driver."""
        staged = _files(messages)
        topics = {file.topic for file in staged}
        if self._options.topic is not None:
            topics.add(self._options.topic)
        with open_when_free(self._options) as logs:
            for topic in sorted(topics - set(logs.topics())):
                logs.create_topic(topic, self._count, self._options.topic_config)
            logs.commit_staged(staged)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files that the tasks staged; a failed task has deleted its own."""
        delete_staged_files(SYSTEM_FILES, self._options.path, _files(messages))

    def _split(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        rows = select_columns(batch, self._columns)
        return split_by_topic(rows) if self._options.topic is None else {self._options.topic: rows}


def check_not_busy(options: WriteOptions) -> None:
    """Raise DirectoryLocked if a process writes to the directory, before tasks work in vain.

    With the option ``commitTimeoutMs`` the commit waits for that process instead.
    """
    if options.commit_timeout_ms is None and has_writer(options.path):
        raise DirectoryLocked(os.path.join(options.path, LOCK_FILE))


def open_when_free(options: WriteOptions, wait_ms: Callable[[int], None] = sleep_ms) -> Logs:
    """Open the directory to write; wait, by ``wait_ms``, while another process writes to it.

    Raises:
        DirectoryLocked: it is still in use after ``commitTimeoutMs``.
    """
    timeout_ms = options.commit_timeout_ms
    if timeout_ms is None:
        timeout_ms = DEFAULT_COMMIT_TIMEOUT_MS
    until_ns = SYSTEM_CLOCK.monotonic_ns() + timeout_ms * 1_000_000
    while True:
        try:
            return open_briefly(options.path)
        except DirectoryLocked:
            if SYSTEM_CLOCK.monotonic_ns() >= until_ns:
                raise
        wait_ms(LOCK_POLL_MS)


def _make_directory(path: str) -> None:
    """Make the data directory durably if it does not exist: tasks stage their files in it."""
    if not SYSTEM_FILES.exists(path):
        SYSTEM_FILES.make_directory(path)
        SYSTEM_FILES.sync_directory(os.path.dirname(os.path.abspath(path)))


def _files(messages: list[WriterCommitMessage | None]) -> list[StagedFile]:
    return [file for each in messages if isinstance(each, StagedFiles) for file in each.files]


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def known_topics(options: WriteOptions) -> dict[str, TopicPlan]:
    """Return a plan for each existing topic, or only for the one that the options name."""
    counts: dict[str, int] = {}
    for topic, partition in list_partitions(SYSTEM_FILES, options.path):
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    directory = open_directory_read_only(options.path, fs=SYSTEM_FILES)
    for entry in read_catalogue(SYSTEM_FILES, options.path).topics.values():
        # After a crash, partition directories may be missing; the commit makes them.
        counts[entry.name] = max(counts.get(entry.name, 0), max(entry.partitions) + 1)
    return {
        topic: plan_topic(options, count, _topic_config(directory.topics.get(topic)))
        for topic, count in counts.items()
        if options.topic in (None, topic)
    }


def _check_known(options: WriteOptions, topics: Mapping[str, TopicPlan]) -> None:
    """Check the options that apply to new topics only, in case the topic exists.

    Raises:
        InvalidArgument: ``numPartitions`` is not the number of partitions of the existing topic.
    """
    existing = topics.get(options.topic or "")
    if existing is None:
        return
    if options.num_partitions not in (None, existing.partitions):
        raise InvalidArgument(
            f"option numPartitions is {options.num_partitions}, but topic {options.topic} has "
            f"{existing.partitions} partitions, which a write does not change; remove the option"
        )
    if options.topic_config:
        names = ", ".join(f"topic.{name}" for name in options.topic_config)
        _log.warning("options-ignored: %s: topic %s exists already", names, options.topic)


def _topic_config(topic: ReadOnlyTopic | None) -> LogConfig:
    """Return the settings that the commit will find; None: nothing is known of the topic."""
    if topic is None:
        return LogConfig().without(DELETION_SETTINGS)
    return topic.config_in_force(LogConfig())


def plan_topic(options: WriteOptions, partitions: int, config: LogConfig) -> TopicPlan:
    """Return how to make batches for a topic with ``config``; its codec overrides the option."""
    policy = LeaderPolicy.of(config)
    codec, level = policy.codec, policy.level
    if codec is None:
        codec, level = Codec.named(options.compression or "none"), None
    if options.compression_level is not None:
        level = options.compression_level
    form = BatchForm(codec, level, min(options.batch_bytes, config.max_message_bytes))
    return TopicPlan(partitions, form, config.segment_size_bytes, config.max_message_bytes, policy)
