"""The batch writer of the data source: tasks stage batches, the driver's commit appends them.

Owns what crosses between driver and tasks, and when a staged file goes. Must not know how rows
become batches (``staged_rows``) or how a log is appended to (``tidelog.manager``).

At least once: a job whose commit fails half way may have appended a part, and running it again
appends that part twice. Spark: ``KafkaWriter``.
"""

from __future__ import annotations

import logging
import os
import random
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tidelog.arrow.encode import BatchForm
from tidelog.codec.compression import Codec
from tidelog.config.log_config import DELETION_SETTINGS, LogConfig
from tidelog.datadir.catalogue import read_catalogue
from tidelog.embedded.doors import open_briefly
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.records.validation.validate import LeaderPolicy
from tidelog.segment.filenames import check_topic_name
from tidelog.spark.read.topic_partitions import list_partitions
from tidelog.spark.write.input_columns import by_topic, pick, row_columns
from tidelog.spark.write.staged_rows import Place, TopicPlan, TopicStaging, remove

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from tidelog.datadir.catalogue import Topic
    from tidelog.spark.options.source_options import WriteOptions
    from tidelog.staging.staged_file import StagedFile


_log = logging.getLogger(__name__)


@dataclass
class StagedFiles(WriterCommitMessage):
    """What one task wrote, for the driver to commit or to remove."""

    files: tuple[StagedFile, ...] = ()


class LogWriter(DataSourceArrowWriter):
    """Appends rows to the topic that the options name, or to the topic of each row.

    Made on the driver; Spark pickles it for the tasks and for ``commit`` or ``abort``.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._places = row_columns(schema, has_topic=options.topic is not None)
        self._txn = uuid.uuid4().hex
        if options.topic is not None:
            check_topic_name(options.topic)
        _make_directory(options.path)
        self._topics = _known_topics(options)
        self._count = options.num_partitions or 1
        self._new_topic = plan_topic(options, self._count, LogConfig.parse(options.topic_config))
        _check_known(options, self._topics)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedFiles:
        """Stage the rows of one task; runs in a worker, for each attempt anew."""
        place = Place(SYSTEM_FILES, self._options.path, self._txn, random.SystemRandom())
        first = _task_number()
        stagings: dict[str, TopicStaging] = {}
        try:
            for batch in iterator:
                for topic, rows in self._split(batch).items():
                    if topic not in stagings:
                        plan = self._topics.get(topic, self._new_topic)
                        stagings[topic] = TopicStaging(place, topic, plan, first)
                    stagings[topic].append(rows, SYSTEM_CLOCK)
            parts = [staging.finish(SYSTEM_CLOCK) for staging in stagings.values()]
        except BaseException:
            for staging in stagings.values():
                staging.abandon()
            raise
        return StagedFiles(tuple(file for files in parts for file in files))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append what the tasks staged, in order of tasks; runs on the driver."""
        staged = _files(messages)
        wanted = {file.topic for file in staged}
        if self._options.topic is not None:
            wanted.add(self._options.topic)
        with open_briefly(self._options.path) as logs:
            for topic in sorted(wanted - set(logs.topics())):
                logs.create_topic(topic, self._count, self._options.topic_config)
            logs.commit_staged(staged)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks staged; a task that failed has removed its own files."""
        remove(SYSTEM_FILES, self._options.path, _files(messages))

    def _split(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        rows = pick(batch, self._places)
        return by_topic(rows) if self._options.topic is None else {self._options.topic: rows}


def _make_directory(path: str) -> None:
    """Make the data directory, durably, where it is missing: tasks stage their files in it."""
    if not SYSTEM_FILES.exists(path):
        SYSTEM_FILES.make_directory(path)
        SYSTEM_FILES.sync_directory(os.path.dirname(os.path.abspath(path)))


def _files(messages: list[WriterCommitMessage | None]) -> list[StagedFile]:
    return [file for part in messages if isinstance(part, StagedFiles) for file in part.files]


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _known_topics(options: WriteOptions) -> dict[str, TopicPlan]:
    """Plan the topics that are there: those of the options, or all."""
    counts: dict[str, int] = {}
    for topic, partition in list_partitions(SYSTEM_FILES, options.path):
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    listed = read_catalogue(SYSTEM_FILES, options.path).topics
    for known in listed.values():
        # A crash may have left out directories; the commit will make them.
        counts[known.name] = max(counts.get(known.name, 0), max(known.partitions) + 1)
    return {
        topic: plan_topic(options, count, _config_in_force(listed.get(topic)))
        for topic, count in counts.items()
        if options.topic in (None, topic)
    }


def _check_known(options: WriteOptions, topics: Mapping[str, TopicPlan]) -> None:
    """Tell of options for a new topic where the topic is there.

    Raises:
        InvalidArgument: another number of partitions is asked for than the topic has.
    """
    known = topics.get(options.topic or "")
    if known is None:
        return
    if options.num_partitions not in (None, known.partitions):
        raise InvalidArgument(
            f"topic {options.topic} has {known.partitions} partitions, and a write does not change "
            f"that: leave numPartitions={options.num_partitions} away"
        )
    if options.topic_config:
        names = ", ".join(f"topic.{name}" for name in options.topic_config)
        _log.warning("options-passed-over: %s: topic %s is there", names, options.topic)


def _config_in_force(topic: Topic | None) -> LogConfig:
    """Return a topic's settings; the commit will adopt one that no catalogue lists."""
    if topic is None:
        return LogConfig().without(DELETION_SETTINGS)
    return topic.config_in_force(LogConfig())


def plan_topic(options: WriteOptions, partitions: int, config: LogConfig) -> TopicPlan:
    """Say how batches for a topic with these settings are made; the topic's codec goes first."""
    policy = LeaderPolicy.of(config)
    codec, level = policy.codec, policy.level
    if codec is None:
        codec, level = Codec.named(options.compression or "none"), None
    if options.compression_level is not None:
        level = options.compression_level
    form = BatchForm(codec, level, min(options.batch_bytes, config.max_message_bytes))
    return TopicPlan(partitions, form, config.segment_size_bytes, config.max_message_bytes, policy)
