"""Transactions of a Python program: records for several topics, all of them once or none.

Records are staged in a file of the data directory; ``commit`` puts them into the logs, see
``docs/exactly-once.md``. These are not transactions of Kafka's producers: readers of any isolation
see the records from the commit on.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from tidelog.codec.compression import Codec
from tidelog.codec.one_line import Told, shortened
from tidelog.config.sources import topic_settings
from tidelog.datadir.birth import birth_values
from tidelog.datadir.catalogue import Topic
from tidelog.datadir.internal_topics import COORDINATOR_CONFIG
from tidelog.datadir.partition_directories import random_id
from tidelog.embedded.topic_writer import TopicWriter
from tidelog.env.forks import OfOneProcess
from tidelog.errors import (
    CommitUnfinished,
    InvalidArgument,
    TidelogError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tidelog.manager.topics.topic_checks import check_count_type, check_topic
from tidelog.readonly.group_positions import (
    OFFSETS_TOPIC,
    partition_of_group,
    position_records,
    removal_records,
)
from tidelog.records.new_record import NOT_GIVEN, NewRecord, NotGiven, content_of, header_tuple
from tidelog.records.validation.own_records import OwnRecords
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.records.validation.rejection import ignore_rejections
from tidelog.segment.filenames import check_topic_type
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction as Staged
from tidelog.staging.finished import read_finished
from tidelog.staging.group_step import steps_of
from tidelog.staging.journal import NewTopic, is_committed
from tidelog.staging.manifest_names import waiting_hashes
from tidelog.staging.staged_file import check_txn, transaction_hash
from tidelog.staging.staged_folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.config.sources import SettingValue
    from tidelog.env.machine import Machine
    from tidelog.env.moments import Moment
    from tidelog.readonly.group_positions import Position
    from tidelog.records.builder import RecordFields
    from tidelog.records.record import Header
    from tidelog.segment.filenames import TopicPartition
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.group_step import CommittedAt, GroupPartition, GroupStep


class Commits(Protocol):
    """How the transactions of a directory are committed: here, or by the process that holds it."""

    def finish_transaction(self, path: str, txn: str) -> None:
        """Apply a transaction that is committed and not applied yet; CommitPending if it cannot be.

        Nothing if there is none of this id.
        """

    def commit(self, path: str, transaction: Staged) -> CommittedTransaction:
        """Commit a transaction, unless it was committed before."""


class TransactionHome(Protocol):
    """What a transaction needs of the process that holds its directory, or knows its topics."""

    @property
    def staged_commits(self) -> Commits:
        """Where it is committed."""

    @property
    def machine(self) -> Machine:
        """The disk, clock and the rest."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings."""

    @property
    def overrides(self) -> Mapping[str, str]:
        """The settings that take precedence over a topic's own."""

    def defaults_of_new(self) -> LogConfig:
        """Return what holds for a new topic that sets nothing."""

    def topics(self) -> dict[str, Topic]:
        """Return every topic by name."""

    def topic(self, name: str) -> Topic:
        """Return one topic; raise UnknownTopicOrPartition where there is none."""

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""

    def directory_id(self, path: str) -> UUID:
        """Return the ``directory.id`` of a directory."""


class Transaction(OfOneProcess, Told):
    """Records that are committed together; used by one thread, in a ``with``.

    Leaving the ``with`` commits, and an exception in it drops everything. If the id was committed
    before, ``committed`` says what was written then, and nothing is written again.

    One that is neither committed nor aborted is dropped. Python warns of that (ResourceWarning) if
    it has records and was used without a ``with``; tasks of an event loop leave some when they are
    cancelled, as they may.

    Once the disk has failed, or an interrupt has broken off an append, records are missing: all but
    ``abort`` raises KafkaStorageError, and nothing is committed.
    """

    def __init__(
        self,
        manager: TransactionHome,
        path: str,
        txn: str | None,
        *,
        codec: Codec | str = Codec.NONE,
    ) -> None:
        self._codec = Codec.named(codec)
        if txn is not None:
            check_txn(txn)
            # Before a repeat looks at topics: the first try may have created some of its own.
            manager.staged_commits.finish_transaction(path, txn)
        machine = manager.machine
        self._txn: Final = uuid4().hex if txn is None else txn
        self._is_named = txn is not None
        self._manager = manager
        self._path = path
        self._writers: dict[str, TopicWriter] = {}
        self._new: dict[str, NewTopic] = {}
        self._topics: dict[str, Topic] = {}
        self._positions: dict[str, dict[TopicPartition, Position]] = {}
        self._removed: dict[str, Collection[TopicPartition]] = {}
        """The groups that are deleted, with the positions that they have."""
        self._steps: dict[GroupPartition, GroupStep] = {}
        self._named: set[str] = set()
        """The topics that it writes or creates."""
        self._bundle = BundleWriter(LocalFolder(machine.fs, path), self.txn, rng=machine.rng)
        self._is_open = True
        self.is_left_to_owner = False
        """Whether what holds this sees to its end, or may leave it open."""
        found = read_finished(machine.fs, path).get(self.txn) if self._is_named else None
        self._is_repeat: Final = found is not None
        self._committed = None if found is None else replace(found, is_repeat=True)

    def _told(self) -> str:
        ended = "aborted" if self.committed is None else "committed"
        state = "open" if self._is_open else ended
        return f"{shortened(self.txn)} in {self._path!r}: topics={len(self._named)}, {state}"

    def __enter__(self) -> Self:
        self._check_open()
        self.is_left_to_owner = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if kind is not None or self.is_inherited:
            self.abort()
        elif self._is_open:
            self.commit()

    def __del__(self) -> None:
        """Warn where records are dropped without a word; a forked child's copy has none."""
        held = vars(self)  # it may not have been made whole
        is_open = held.get("_is_open", False) and not held["is_left_to_owner"]
        if is_open and self._writers and not self.is_inherited:
            warnings.warn(
                f"transaction {self.txn!r} was neither committed nor aborted, and its records are"
                " dropped: use it in a with",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )

    @property
    def txn(self) -> str:
        """The id."""
        return self._txn

    @property
    def is_repeat(self) -> bool:
        """Whether the id was committed before this began; then nothing is written."""
        return self._is_repeat

    @property
    def committed(self) -> CommittedTransaction | None:
        """What was committed under the id, in this process or an earlier one; None: nothing yet."""
        return self._committed

    # What it writes

    def append(
        self,
        topic: str,
        value: bytes | bytearray | memoryview | NotGiven | None = NOT_GIVEN,
        *,
        json: object = NOT_GIVEN,
        key: bytes | bytearray | memoryview | None = None,
        headers: Iterable[Header] = (),
        timestamp: Moment | None = None,
        partition: int | None = None,
    ) -> None:
        """Add one record; arguments and errors as ``Logs.append``. Its offset is not known yet."""
        content = content_of(value, json)
        record = NewRecord(key, content, header_tuple(headers), timestamp, partition)  # type: ignore[arg-type]  # checked below
        self.append_record(topic, record)

    def append_record(self, topic: str, record: NewRecord) -> None:
        """Add one record; errors as ``Logs.append``."""
        self._check_usable()
        check_topic_type(topic)
        self._named.add(topic)
        writer = self._writers.get(topic)
        if writer is None:
            clock = self._manager.machine.clock
            writer = TopicWriter(self, topic, clock=clock, codec=self._codec)
            self._writers[topic] = writer
        if self.committed is None:
            writer.append(record)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, SettingValue] | None = None
    ) -> None:
        """Create a topic as a part of the commit.

        Raises TopicAlreadyExists, unless the id was committed before, and the other errors of
        ``Logs.create_topic``.
        """
        self._check_usable()
        settings = topic_settings(config, {})
        partitions = check_count_type(partitions)
        exists = self.has_topic(name)
        if exists and not (self.is_repeat and name not in self._new):
            raise TopicAlreadyExists(f"topic {name} exists")
        self._named.add(name)
        if not exists:
            defaults = self._manager.defaults_of_new()
            check_topic(name, partitions, settings, defaults=defaults)
            topic_id = random_id(self._manager.machine.rng)
            birth = birth_values(defaults)
            self._new[name] = NewTopic(name, topic_id, partitions, settings, birth)

    def add_positions(
        self,
        group: str,
        positions: Mapping[TopicPartition, Position],
        before: Mapping[TopicPartition, CommittedAt | None] | None,
    ) -> None:
        """Commit a group's positions with the records, instead of those given before.

        ``before`` is as for ``steps_of``: the commit raises IllegalGeneration if the group is
        elsewhere. The topic of the positions is created if it does not exist.
        """
        self._check_usable()
        self._positions.setdefault(group, {}).update(positions)
        for step in steps_of(group, positions, before):
            self._steps.setdefault(step.key, step)
        self._named.add(OFFSETS_TOPIC)

    def remove_group(self, group: str, keys: Collection[TopicPartition]) -> None:
        """Delete a group with these positions; the commit raises NonEmptyGroup if it is read."""
        self._check_usable()
        self._removed[group] = keys
        for step in steps_of(group, keys, None):
            self._steps.setdefault(step.key, step)
        self._named.add(OFFSETS_TOPIC)

    def has_topic(self, name: str) -> bool:
        """Return whether a topic exists, or is created by this transaction."""
        check_topic_type(name)
        if name in self._new:
            return True
        try:
            self._manager.topic(name)
        except UnknownTopicOrPartition:
            return False
        return True

    def commit(self) -> CommittedTransaction:
        """Put all records into the logs, durably and visibly; return what was written.

        Raises:
            CommitUnfinished: the transaction is committed, but not all is in place yet.
            CommitPending: another transaction writes to one of the partitions; try again.
            IllegalGeneration: the group of a reader whose positions it commits is no longer where
                that reader began; nothing was changed.
            TransactionMismatch: the id was committed before, for other topics.
            KafkaStorageError: the disk failed, now or before; nothing was changed.
            KafkaError, InvalidArgument: refused; nothing was changed.
        """
        self._check_open()
        if self.committed is not None:
            self._is_open = False
            self.check_repeat(self._named)
            return self.committed
        try:
            self._append_positions()
            for writer in self._writers.values():
                writer.flush()
            staged = Staged(
                self.txn,
                self._is_named,
                self._bundle.finish(),
                tuple(self._new.values()),
                {name: topic.topic_id for name, topic in self._topics.items()},
                partitions={name: max(one.partitions) + 1 for name, one in self._topics.items()},
                steps=tuple(self._steps.values()),
            )
            self._committed = self._manager.staged_commits.commit(self._path, staged)
        except BaseException as error:
            if not isinstance(error, CommitUnfinished) and not self._is_needed(error):
                self.abort()
            raise
        finally:
            self._is_open = False
        return self._committed

    def _append_positions(self) -> None:
        # Only now: the topic may have been created since a reader's commit, by another group's.
        if self._positions and not self.has_topic(OFFSETS_TOPIC):
            self.create_topic(OFFSETS_TOPIC, 1, COORDINATOR_CONFIG)
        found = [(group, position_records(group, one)) for group, one in self._positions.items()]
        now_ms = self.now_ms()
        for group, keys in self._removed.items():
            found.append((group, removal_records(group, keys, now_ms, is_whole=True)))
        for group, records in sorted(found):
            chosen = partition_of_group(group, len(self.topic(OFFSETS_TOPIC).partitions))
            for timestamp, key, value, _ in records:
                record = NewRecord(key, value, (), timestamp, chosen)
                self.append_record(OFFSETS_TOPIC, record)

    def check_repeat(self, topics: Collection[str]) -> None:
        """Raise TransactionMismatch if the id was committed before for other topics than these.

        A topic that was created again since is another one.
        """
        if self.committed is not None:
            now = {name: topic.topic_id for name, topic in self._manager.topics().items()}
            self.committed.check_topics(topics, now)

    def abort(self) -> None:
        """Drop all records; nothing if the transaction has ended."""
        if not self.is_inherited and self._is_open:
            self._is_open = False
            self._bundle.abandon()

    def _check_usable(self) -> None:
        """Raise InvalidArgument after the end, KafkaStorageError if records are missing."""
        self._check_open()
        self._bundle.check()

    def _is_needed(self, error: BaseException) -> bool:
        """Return whether the commit may need the staged files, whatever its error says.

        An interrupt may leave a manifest by which another process commits.
        """
        fs = self._manager.machine.fs
        if is_committed(fs, self._path, self.txn, [self._bundle.attempt]):
            return True
        if isinstance(error, (TidelogError, OSError)):
            return False
        return transaction_hash(self.txn) in waiting_hashes(fs.list(self._path))

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidArgument(f"transaction {self.txn!r} has ended")

    # What its writers need

    def topic(self, name: str) -> Topic:
        """Return a topic, existing or new; raise UnknownTopicOrPartition where there is none."""
        check_topic_type(name)
        new = self._new.get(name)
        if new is None:
            return self._topics.setdefault(name, self._manager.topic(name))
        home = self._manager.directory_id(self._path)
        partitions = dict.fromkeys(range(new.partitions), home)
        return Topic(name, new.topic_id, partitions, new.config, birth=new.birth)

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""
        check_topic_type(topic)
        if topic not in self._new:
            return self._manager.config_of(topic)
        manager = self._manager
        return self.topic(topic).config_in_force(manager.config.log_defaults, manager.overrides)

    def partition(self, topic: str, partition: int) -> _StagedPartition:
        """Return what stages the batches of one partition."""
        self.topic(topic).home_of(partition)
        return _StagedPartition(self, self._bundle, topic, partition)

    def now_ms(self) -> int:
        """Return the time of day."""
        return self._manager.machine.clock.now_ms()

    def flush(self) -> None:
        """Do nothing: the commit makes everything durable."""


class _StagedPartition:
    """Checks batches as a leader does and stages them."""

    def __init__(
        self, transaction: Transaction, bundle: BundleWriter, topic: str, partition: int
    ) -> None:
        self._transaction = transaction
        self._bundle = bundle
        self._topic = topic
        self._partition = partition

    def append_records(self, records: Iterable[RecordFields], *, codec: Codec = Codec.NONE) -> None:
        """Stage records as one batch; errors as ``Partition.append_records``."""
        try:
            config = self._transaction.config_of(self._topic)
            batch = OwnRecords(records, codec).accept(
                LeaderPolicy.of(config),
                config.max_batch_bytes,
                self._transaction.now_ms(),
                ignore_rejections,
            )
            if batch is not None:
                segment_bytes = config.segment_size_bytes
                self._bundle.append(
                    self._topic, self._partition, batch.data, segment_bytes=segment_bytes
                )
        except TidelogError:
            raise
        except BaseException as error:  # such as an interrupt: the records may not be staged
            self._bundle.fail(error)
            raise
