"""What a repartition would do: the offsets to read, the new topic's settings, what forbids it.

It uses none of Spark's classes, so it can be tested without a session.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.arrow.writing.write_options import WriteOptions
from tidelog.arrow.writing.write_plan import known_topics
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.readonly.absent_partitions import BY_NOTHING
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.batch import INT64_MAX
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import check_topic_name
from tidelog.spark.options.source_options import (
    DEFAULT_SPLIT_BYTES,
    ReadOptions,
    TopicChoice,
)
from tidelog.spark.read.data_loss import DataLossPolicy
from tidelog.spark.read.read_plan import make_tasks, range_of
from tidelog.spark.read.topic_partitions import PartitionDirectories
from tidelog.spark.sessions.parallelism import default_parallelism
from tidelog.staging.finished import read_finished
from tidelog.staging.staged_file import MAX_TXN_BYTES, check_txn, transaction_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.readonly.read_only_topic import ReadOnlyTopic
    from tidelog.spark.read.read_plan import Task
    from tidelog.staging.finished import CommittedTransaction

KEYLESS: Final = ("spread", "source")
"""Where records without a key go: see ``repartition``."""

_RETENTION_BYTES: Final = "retention.bytes"
_NOT_COPIED: Final = "message.timestamp.type"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionRequest:
    """What the user asks for; see ``repartition``."""

    paths: tuple[str, ...]
    topic: str
    to: str
    partitions: int
    to_path: str
    txn_id: str | None = None
    isolation: Isolation = Isolation.READ_COMMITTED
    keyless: str = KEYLESS[0]
    max_split_bytes: int = DEFAULT_SPLIT_BYTES

    def check(self) -> None:
        """Raise InvalidArgument or InvalidTopic for values that are wrong by themselves."""
        check_topic_name(self.to)
        if self.txn_id is not None:
            check_txn(self.txn_id)
        if self.partitions < 1:
            raise InvalidArgument(f"the number of partitions is {self.partitions}, below 1")
        if self.keyless not in KEYLESS:
            raise InvalidArgument(f"keyless is {self.keyless!r}, not one of {', '.join(KEYLESS)}")
        if self.isolation is Isolation.LOG_END:
            raise InvalidArgument("offsets above the high watermark are not repartitioned")
        if self.topic == METADATA_TOPIC:
            raise InvalidArgument(f"{METADATA_TOPIC} has one partition, and is written by Kafka")
        is_same = os.path.realpath(self.to_path) in map(os.path.realpath, self.paths)
        if self.topic == self.to and is_same:
            raise InvalidArgument(
                f"topic {self.to} cannot be written to itself: name a new topic with another name"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionPlan:
    """The offsets to read, by partition, ends exclusive, and how to write them.

    ``read`` are the options of the read, and ``tasks`` its tasks, in order of partitions and
    offsets. ``size_bytes`` is about the size of these offsets in the logs of the source.
    ``config``: the settings of the new topic, empty if it exists; ``birth``: its birth values.
    ``retention_bytes``: the new topic's ``retention.bytes`` if greater than the source's, as it has
    fewer partitions, else None. ``committed``: the same repartition as it was committed before,
    None: it was not.
    """

    read: ReadOptions
    tasks: tuple[Task, ...]
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    size_bytes: int
    config: Mapping[str, str]
    birth: Mapping[str, str]
    retention_bytes: int | None
    txn_id: str
    committed: CommittedTransaction | None

    @property
    def offsets(self) -> int:
        """The number of offsets to read: an upper bound of the number of records."""
        return sum(self.ends.values()) - sum(self.starts.values())


def offsets_json(topic: str, offsets: Mapping[int, int]) -> str:
    """Return offsets in the form of the options ``startingOffsets`` and ``endingOffsets``."""
    return json.dumps({topic: {str(number): offset for number, offset in sorted(offsets.items())}})


def plan_repartition(request: RepartitionRequest, config: Mapping[str, str]) -> RepartitionPlan:
    """Return what to do now; ``config`` are settings of the new topic that replace the source's.

    Raises:
        InvalidArgument: the topics or numbers do not fit together; see ``repartition``.
        UnknownTopicOrPartition: the topic to read does not exist.
        PartitionsElsewhere: some of its partitions are in directories that are not named.
        DataLoss: a partition or a segment of it is missing.
        CorruptMessage: damage hides what is committed.
        KafkaStorageError: the list of topics cannot be read, or the disk failed.
    """
    request.check()
    directories = PartitionDirectories(
        SYSTEM_FILES, request.paths, accept=BY_NOTHING, asks_holder=True
    )
    options = ReadOptions(
        request.paths,
        TopicChoice(topics=(request.topic,)),
        committed=request.isolation is Isolation.READ_COMMITTED,
        max_split_bytes=request.max_split_bytes,
    )
    policy = DataLossPolicy(fail_on_data_loss=True, hint="")
    found = directories.chosen(options.choice)
    policy.report_missing(directories.missing_of(options.choice))
    directories.check_catalogue()
    topic = directories.topics[request.topic]
    ranges = [range_of(directories, partition, options, policy) for partition in found]
    tasks = make_tasks(ranges, options, default_parallelism())
    txn_id = request.txn_id or _txn_of(request, topic)
    target = _check_target(request, txn_id)
    return RepartitionPlan(
        read=options,
        tasks=tuple(tasks),
        starts={each.log.partition: each.start_offset for each in ranges},
        ends={each.log.partition: each.end_offset for each in ranges},
        size_bytes=sum(part.size_bytes for task in tasks for part in task),
        config={} if target.exists else config_of_copy(topic, config, request.partitions),
        birth=topic.settings_of_copy().birth,
        retention_bytes=None
        if target.exists or _RETENTION_BYTES in config
        else enlarged_retention_bytes(topic, request.partitions),
        txn_id=txn_id,
        committed=target.committed,
    )


def config_of_copy(
    topic: ReadOnlyTopic, config: Mapping[str, str], partitions: int
) -> dict[str, str]:
    """Return the settings of a topic of ``partitions`` partitions that gets ``topic``'s records.

    They are those of ``topic``, replaced by ``config``; see ``settings_of_copy``. With fewer
    partitions each keeps more bytes. The timestamp type is not copied: records would get the time
    of the copy.
    """
    kept = topic.settings_of_copy().config
    kept.pop(_NOT_COPIED, None)
    size = enlarged_retention_bytes(topic, partitions)
    enlarged = {} if size is None else {_RETENTION_BYTES: str(size)}
    return kept | enlarged | dict(config)


def enlarged_retention_bytes(topic: ReadOnlyTopic, partitions: int) -> int | None:
    """Return what each of fewer ``partitions`` than ``topic`` has must keep; None: as before.

    All of them together keep as many bytes as those of ``topic``.
    """
    try:
        copied = topic.settings_of_copy()
        size = int({**copied.birth, **copied.config}.get(_RETENTION_BYTES, "-1"))
    except ValueError:
        return None  # the creation of the topic refuses it
    enlarged = min(-(-size * len(topic.partitions) // partitions), INT64_MAX)
    return enlarged if size > 0 and enlarged > size else None


def _txn_of(request: RepartitionRequest, topic: ReadOnlyTopic) -> str:
    """Return the id of the transaction: the same for a repeat, whatever was appended since."""
    source = ",".join(request.paths) if topic.topic_id is None else format_uuid(topic.topic_id)
    txn = f"repartition {request.topic} ({source}) to {request.to} {request.partitions}"
    is_long = len(txn.encode()) > MAX_TXN_BYTES
    return f"repartition {transaction_hash(txn)}" if is_long else txn


class _Target(NamedTuple):
    """Whether the topic to write exists, and the transaction if it was committed before."""

    exists: bool
    committed: CommittedTransaction | None = None


def _check_target(request: RepartitionRequest, txn_id: str) -> _Target:
    """Return what is known of the topic to write.

    Raises InvalidArgument for a topic that has another number of partitions or records of others.
    """
    path, to = request.to_path, request.to
    if not SYSTEM_FILES.exists(path):
        return _Target(exists=False)
    existing = known_topics(WriteOptions(path=path, topic=to)).get(to)
    committed = read_finished(SYSTEM_FILES, path).get(txn_id)
    if committed is not None:
        now = {} if existing is None else {to: existing.topic_id}
        committed.check_topics([to], now)
        return _Target(exists=True, committed=committed)
    if existing is None:
        return _Target(exists=False)
    if existing.refusal is not None:
        raise InvalidArgument(existing.refusal)
    if existing.partitions != request.partitions:
        raise InvalidArgument(
            f"topic {to} exists with {existing.partitions} partitions, not {request.partitions}:"
            " name a topic that does not exist yet"
        )
    ends = _log_ends(path, to)
    if any(ends.values()):
        number = min(number for number, end in ends.items() if end)
        raise InvalidArgument(
            f"topic {to} has records already ({to}-{number} ends at offset {ends[number]}), and"
            " older ones would follow them: name a topic that does not exist yet, or is empty"
        )
    return _Target(exists=True)


def _log_ends(path: str, topic: str) -> dict[int, int]:
    directory = open_directory_read_only(path, fs=SYSTEM_FILES)
    ends = {}
    for number in directory.topics[topic].partitions:
        with directory.open(topic, number) as log:
            ends[number] = log.log_end_offset
    return ends
