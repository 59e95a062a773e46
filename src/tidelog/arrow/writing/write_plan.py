"""The plan of a write, made before rows are staged: topics, their settings, and what forbids it.

Spark: ``KafkaWriter.validateQuery``.
"""

from __future__ import annotations

import logging
import os
import random
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tidelog.arrow.batch_form import BatchForm
from tidelog.arrow.writing.staged_rows import PlannedTopic, TopicPlan
from tidelog.codec.compression import Codec, compress
from tidelog.codec.uuid_text import format_uuid
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.deletion_marks import read_catalogue_in_force
from tidelog.datadir.lock_file import LOCK_FILE, writer_of
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, read_meta_properties
from tidelog.embedded.doors import open_briefly
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.paths import absolute_path
from tidelog.env.signals import program_of
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DirectoryLocked, InvalidArgument
from tidelog.manager.topics.topic_checks import check_count, check_topic
from tidelog.readonly.read_files import StorageErrors
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.segment.filenames import check_topic_name
from tidelog.staging.finished import read_finished
from tidelog.staging.marker import MAX_MARKER_BYTES, MarkerVisits, make_marker
from tidelog.staging.staged_folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from tidelog.arrow.writing.write_options import WriteOptions
    from tidelog.datadir.catalogue import Topic
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.staged_objects import StagedObjects, StoreVisits
    from tidelog.staging.stream_batch import StreamBatch

_log = logging.getLogger(__name__)

KAFKA: Final = "java"
"""The program of a broker."""

_SWEEP_MS: Final = 3_600_000
_swept_ms: Final[dict[tuple[str, UUID], int]] = {}
"""When this process swept a data directory's part of a store, by the store's clock."""


@dataclass(frozen=True)
class WritePlan:
    """How tasks make batches; Spark pickles it for them.

    ``columns`` are the indexes of the columns of a record. ``topics`` are those that exist, or only
    the one that the options name; any other is created by the commit as ``new_topic``. ``marker``
    is an empty file in the data directory that every task must see. ``staged_at`` is the URI where
    tasks stage instead; the marker is there, too. ``committed`` is what was committed before under
    the id of the write, for the one topic that it names.
    """

    columns: Mapping[str, int]
    topics: Mapping[str, TopicPlan]
    new_topic: TopicPlan
    marker: str
    staged_at: str | None = None
    committed: CommittedTransaction | None = None

    def planned(self, topic: str) -> PlannedTopic:
        """Return what the commit needs to know about a topic."""
        found = self.topics.get(topic)
        plan = found or self.new_topic
        return PlannedTopic(plan.partitions, plan.topic_id, is_new=found is None)

    def folder(self, path: str) -> LocalFolder | StagedObjects:
        """Return where a task stages its rows."""
        if self.staged_at is None:
            return LocalFolder(SYSTEM_FILES, path)
        return objects_at(self.staged_at)

    def visits(self, path: str, stream: StreamBatch | None = None) -> MarkerVisits | StoreVisits:
        """Visit the marker; raise DirectoryNotShared unless this process sees the driver's data.

        ``stream``: the batch that the task belongs to, None for a batch write.
        """
        if self.staged_at is not None:
            from tidelog.staging.staged_objects import StoreVisits  # noqa: PLC0415 - few writes need a store

            return StoreVisits(objects_at(self.staged_at), self.marker)
        note = b"." if stream is None else marker_note(stream)
        return MarkerVisits(SYSTEM_FILES, path, self.marker, SYSTEM_CLOCK, note)


def make_plan(options: WriteOptions, columns: Mapping[str, int], txn: str) -> WritePlan:
    """Check all that can be known before tasks work, and write the marker of ``txn``.

    Args:
        options: how to write.
        columns: the indexes of the columns of a record, as ``row_columns`` returns them.
        txn: the id of the write.

    Raises:
        InvalidArgument: an option or a topic is not fit for the write.
        TransactionMismatch: ``txn_id`` was committed before, for other topics.
        InvalidConfig: a setting of a new topic is not valid.
        PolicyViolation: a new topic would have more partitions than are made at once.
        DirectoryLocked: Kafka holds the directory, and ``commit_timeout_ms`` is not set.
        StoreError: the store of ``staging_uri`` does not take the marker.
        KafkaStorageError: the disk failed or is full, or the path is not a directory.
    """
    with StorageErrors(options.path):
        return _make_plan(options, columns, txn)


def _make_plan(options: WriteOptions, columns: Mapping[str, int], txn: str) -> WritePlan:
    count = options.num_partitions or 1
    new_topic = plan_topic(options, count, options.new_topic_config())
    if options.topic is not None:
        check_topic_name(options.topic)
    if not SYSTEM_FILES.exists(options.path):
        # A write that is refused later would leave the directory there, empty.
        check_count(count)
        if options.topic is not None:
            check_topic(options.topic, count, {}, defaults=LogConfig())
    make_directory(options.path, is_allowed=options.create_directory)
    check_not_busy(options)
    topics = known_topics(options)
    _check_known(options, topics)
    if options.topic not in topics:
        check_count(count)
    committed = None
    if options.txn_id is not None and options.topic is not None:
        committed = read_finished(SYSTEM_FILES, options.path).get(options.txn_id)
        if committed is not None:
            ids = {name: plan.topic_id for name, plan in topics.items()}
            committed.check_topics([options.topic], ids)
    marker = make_marker(SYSTEM_FILES, options.path, txn, random.SystemRandom())
    staged_at = None
    if options.staging_uri is not None:
        try:
            staged_at = _prepare_store(options.path, options.staging_uri, txn, marker)
        except BaseException:
            delete_staged(options.path, [marker])
            raise
    return WritePlan(columns, topics, new_topic, marker, staged_at, committed)


@lru_cache(maxsize=4)
def objects_at(uri: str) -> StagedObjects:
    """Return the staged objects of a write: one store for all that a process does with them."""
    from tidelog.staging.staged_objects import StagedObjects  # noqa: PLC0415 - few writes need a store

    return StagedObjects(uri)


def _prepare_store(path: str, uri: str, txn: str, marker: str) -> str:
    """Put the marker of a write on its store, and sweep there; return the URI for its tasks."""
    from tidelog.staging.staged_objects import staged_uri, sweep_staged  # noqa: PLC0415 - few writes need a store

    directory_id = _directory_id(path)
    if directory_id is None:  # it is new, or an old broker wrote it, before Kafka 3.7
        with open_briefly(path) as logs:
            directory_id = logs.manager.directory_id(absolute_path(path))
    at = staged_uri(uri, directory_id, txn)
    made = objects_at(at).make_marker(marker)
    swept = uri, directory_id
    if made.modified_ms - _swept_ms.get(swept, -_SWEEP_MS) >= _SWEEP_MS:
        retention_ms = BrokerConfig().tidelog_staged_retention_ms
        for name in sweep_staged(uri, directory_id, retention_ms, made.modified_ms):
            _log.info("staged-object-deleted path=%s name=%s", uri, name)
        _swept_ms[swept] = made.modified_ms
    return at


def marker_note(stream: StreamBatch) -> bytes:
    """Return what the tasks of a micro-batch write into its marker."""
    return f"{stream.batch_id} {stream.query_id}".encode()[:MAX_MARKER_BYTES]


def check_not_busy(options: WriteOptions) -> None:
    """Raise DirectoryLocked if Kafka holds the directory, before tasks work in vain.

    It commits for nobody; other processes do, or end. With ``commit_timeout_ms`` the commit waits
    for it to end.
    """
    holder = writer_of(options.path)
    if options.commit_timeout_ms is None and holder and program_of(holder) == KAFKA:
        raise DirectoryLocked(os.path.join(options.path, LOCK_FILE), holder)


def make_directory(path: str, *, is_allowed: bool) -> None:
    """Make the data directory durably if it does not exist: tasks stage their files in it.

    Raises InvalidArgument where that is not allowed.
    """
    if not SYSTEM_FILES.exists(path):
        if not is_allowed:
            raise InvalidArgument(
                f"no data directory {path}, and option createDirectory is false: make it with"
                " tidelog create, or correct the path"
            )
        SYSTEM_FILES.make_directory(path)
        # A program that writes once sees by nothing else that it has named another directory.
        _log.warning("data-directory-created path=%s", path)
        SYSTEM_FILES.sync_directory(os.path.dirname(os.path.abspath(path)))


def delete_staged(path: str, names: Iterable[str]) -> None:
    """Delete staged files; those that do not exist any more are skipped."""
    for name in names:
        try:
            SYSTEM_FILES.delete(os.path.join(path, name))
        except FileNotFoundError:
            continue
        except OSError as error:  # a sweep deletes it later
            _log.warning("staged-file-not-deleted path=%s reason=%s", f"{path}/{name}", error)


def known_topics(options: WriteOptions) -> dict[str, TopicPlan]:
    """Return a plan for each existing topic, or only for the one that the options name.

    A topic with partitions in other data directories has the reason in ``refusal``.
    """
    directory = open_directory_read_only(options.path, fs=SYSTEM_FILES)
    listed = read_catalogue_in_force(SYSTEM_FILES, options.path).topics
    home = _directory_id(options.path)
    plans = {}
    for name, topic in directory.topics.items():
        if options.topic not in (None, name):
            continue
        entry = listed.get(name)
        numbers = {*topic.partitions, *(() if entry is None else entry.partitions)}
        config = topic.config_in_force(LogConfig())
        plan = plan_topic(options, max(numbers) + 1, config)
        topic_id = topic.topic_id if entry is None else entry.topic_id
        refusal = _elsewhere(options.path, name, numbers, entry, home)
        ignored = tuple(
            key
            for key, value in options.topic_config.items()
            if config.with_overrides({key: value}) != config
        )
        plans[name] = plan._replace(topic_id=topic_id, refusal=refusal, ignored=ignored)
    return plans


def _directory_id(path: str) -> UUID | None:
    properties = read_meta_properties(SYSTEM_FILES, os.path.join(path, META_PROPERTIES_FILE))
    return None if properties is None else properties.directory_id


def _elsewhere(
    path: str, name: str, numbers: set[int], entry: Topic | None, home: UUID | None
) -> str | None:
    """Return why a topic cannot be written as a whole in one directory; None if it can."""
    if name == METADATA_TOPIC:
        return f"{METADATA_TOPIC} is written by Kafka only"
    absent = sorted(set(range(max(numbers) + 1)) - numbers)
    homes = {} if entry is None else entry.partitions
    others = sorted(number for number, one in homes.items() if one != home)
    if not others and not absent:
        return None
    number = (others or absent)[0]
    where = f"the data directory with directory.id {format_uuid(homes[number])}" if others else ""
    hint = f"; DIR is {where}" if where else ""
    return (
        f"partition {number} of topic {name} lies in another data directory than {path}, and a"
        " write goes to one directory; move it there first:"
        f" tidelog move {name} --partition {number} -d DIR --to {path}{hint}"
    )


def _check_known(options: WriteOptions, topics: Mapping[str, TopicPlan]) -> None:
    """Check the number of partitions, which applies to new topics only, in case the topic exists.

    Raises:
        InvalidArgument: the existing topic has another number of partitions, or not all of these
            lie in this directory.
    """
    existing = topics.get(options.topic or "")
    if existing is None:
        return
    if existing.refusal is not None:
        raise InvalidArgument(existing.refusal)
    if options.num_partitions not in (None, existing.partitions):
        raise InvalidArgument(
            f"topic {options.topic} has {existing.partitions} partition"
            f"{'s' * (existing.partitions != 1)}, which a write does not change: do not ask for"
            f" {options.num_partitions}"
        )


def warn_of_ignored_config(options: WriteOptions, plan: WritePlan) -> None:
    """Log the settings for a new topic of which an existing one has another value."""
    existing = plan.topics.get(options.topic or "")
    if existing is not None and existing.ignored:
        names = ", ".join(existing.ignored)
        _log.warning("settings-ignored: %s: topic %s exists already", names, options.topic)


def plan_topic(options: WriteOptions, partitions: int, config: LogConfig) -> TopicPlan:
    """Return how to make batches for a topic with ``config``; its codec overrides the option."""
    policy = LeaderPolicy.of(config)
    codec, level = policy.codec, policy.level
    if codec is None:
        codec, level = Codec.named(options.compression or "none"), None
    if options.compression_level is not None:
        level = options.compression_level
        compress(codec, b"", level)  # raises InvalidArgument for a level that the codec lacks
    limit = config.max_batch_bytes
    form = BatchForm(codec, level, min(options.batch_bytes, limit))
    return TopicPlan(partitions, form, config.segment_size_bytes, limit, policy)
