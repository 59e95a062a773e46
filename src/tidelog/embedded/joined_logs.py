"""The topics of a data directory that another process holds, for reading and writing.

Records are read from the files; whatever changes something goes through that process.
"""

from __future__ import annotations

import itertools
import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from tidelog.broker.client_request import FOLLOW, NEW_TOPIC
from tidelog.codec.compression import Codec
from tidelog.codec.given_values import check_flags, check_partition, listed
from tidelog.codec.one_line import first_names
from tidelog.codec.uuid_text import ZERO_ID
from tidelog.config.log_config import LogConfig
from tidelog.config.sources import topic_settings
from tidelog.datadir.partition_directories import check_data_directory
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.door_client import DoorClient, check_answer
from tidelog.embedded.group_reader import GroupReader
from tidelog.embedded.joined_reads import JoinedReads
from tidelog.embedded.joined_source import JoinedSource
from tidelog.embedded.lock_wait import once_served
from tidelog.embedded.logs import Appended
from tidelog.embedded.topic_writer import NOT_APPENDED, TopicWriter, append_gathered
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.machine import brief_machine
from tidelog.env.moments import check_ms
from tidelog.env.paths import absolute_path
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.waiting import sleep_ms
from tidelog.error_codes import ErrorCode
from tidelog.errors import (
    InvalidArgument,
    KafkaStorageError,
    LogDirNotFound,
    MessageTooLarge,
    NotServed,
    OffsetOutOfRange,
    OutcomeUnknown,
    TidelogError,
    TopicAlreadyExists,
)
from tidelog.log.retention.retention_rules import deletion_end
from tidelog.manager.topics.topic_checks import check_count, check_count_type, check_same
from tidelog.readonly.read_files import reading
from tidelog.records.builder import build_batch
from tidelog.records.isolation import Isolation
from tidelog.records.new_record import NOT_GIVEN, NewRecord, NotGiven, content_of
from tidelog.records.partitioner import chosen_partition
from tidelog.segment.filenames import TopicPartition, check_topic_type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tidelog.config.sources import SettingValue
    from tidelog.embedded.transaction import Transaction
    from tidelog.env.machine import Machine
    from tidelog.env.moments import Moment
    from tidelog.records.builder import RecordFields
    from tidelog.records.new_record import GivenRecord
    from tidelog.records.record import Header

_IN_THE_LOG: Final = 1
_ON_THE_DISK: Final = -1
"""What an append waits for, as ``acks`` of Kafka's producers."""
_NEVER_TOO_LARGE: Final = LogConfig().max_message_bytes
"""Up to this size a batch is sent without a look at the topic's limit, which is rarely lower."""
_TOPIC: Final = 2
_SET, _DELETE = 0, 1


def join_logs(
    path: str | os.PathLike[str], *more: str | os.PathLike[str], wait_ms: int = 0
) -> JoinedLogs:
    """Join the program that has a data directory open, to read, append and change topics.

    It is ``tidelog serve``, ``tidelog run``, or one that has called ``tidelog.open``. Records are
    read from the files, and all else goes through it, by a socket beside them: several programs use
    one directory at the same time, each as if it were its own.

    Args:
        path: a data directory of that program. Any of them will do: it says which others it has
            open, and all are read.
        more: further data directories of the same program.
        wait_ms: how long to wait, in ms, until such a program holds the directory, as while it is
            started, which may first create the directory; 0: not at all.

    Raises:
        NotServed: no such program holds a directory, or with ``wait_ms`` there is no such directory
            by then.
        InvalidArgument: there is no such directory, and ``wait_ms`` is 0; different programs hold
            them; or ``wait_ms`` is below 0.
        KafkaStorageError: the disk failed.
    """
    machine = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
    paths = [absolute_path(one) for one in (path, *more)]
    check_ms("wait_ms", wait_ms)

    def join() -> JoinedLogs:
        owned = _directories_of_one(paths, is_awaited=wait_ms > 0)
        return JoinedLogs(*owned, machine=machine, wait_ms=sleep_ms)

    return once_served(join, wait_ms, clock=SYSTEM_CLOCK, sleep_ms=sleep_ms)


def _directories_of_one(paths: Sequence[str], *, is_awaited: bool) -> list[str]:
    """Return data directories with the others that their process has open.

    Raises InvalidArgument if they are not all of one process. A directory that does not exist is
    the same error, or NotServed where it is awaited: its process may be about to create it.
    """
    fs = reading(SYSTEM_FILES)
    owned: dict[str, frozenset[str]] = {}
    for path in paths:
        if not fs.exists(path):
            missing = f"{path} does not exist"
            raise NotServed(path, missing) if is_awaited else InvalidArgument(missing)
        check_data_directory(fs, path)
        with closing(DoorClient(path)) as door:
            answer = door.ask("DescribeLogDirs", 2, topics=[])
        owned[path] = frozenset(one["logDir"] for one in answer["results"] if not one["errorCode"])
    first, *others = paths
    strange = [path for path in others if owned[path] != owned[first]]
    if strange:
        raise InvalidArgument(
            f"{first} and {first_names(strange)} are open in different programs: join each by"
            " itself"
        )
    return list(dict.fromkeys(paths)) + [
        path
        for path in sorted(owned[first])
        # The program may see its disks at other paths, as in a container.
        if fs.exists(path) and not any(os.path.samefile(path, one) for one in paths)
    ]


class JoinedLogs(JoinedReads):
    """The topics of a data directory that another program has open. Any thread may use it.

    It reads as ``open_directory_read_only`` does, beside the process and without a lock, and sees
    what that process has acknowledged. Appends and changes go through its socket; one that is not
    answered raises OutcomeUnknown, and the next call finds the process again once it was restarted.
    """

    def __init__(
        self, path: str, *more: str, machine: Machine, wait_ms: Callable[[int], None]
    ) -> None:
        super().__init__(path, *more, machine=machine, wait_ms=wait_ms)
        self._readers: WeakSet[GroupReader] = WeakSet()
        self._gathering: set[TopicWriter] = set()
        """Writers that have gathered records."""
        self._turns = itertools.count()

    def __exit__(self, *raised: object) -> None:
        try:
            self.close()
        except TidelogError as failure:
            _, error, _ = raised
            if not isinstance(error, BaseException):
                raise
            error.add_note(NOT_APPENDED.format(failure))

    def close(self) -> None:
        """Close the connection, and all readers; what was appended stays.

        What writers have gathered is appended first. Raises as their ``flush``; all else is done.
        """
        if self._door.is_inherited:
            return
        try:
            append_gathered(self._gathering)
        finally:
            for reader in tuple(self._readers):
                reader.close()
            self._door.close()

    # Topics

    def create_topic(
        self,
        /,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, SettingValue] | None = None,
        *,
        exist_ok: bool = False,
        **settings: object,
    ) -> None:
        """Create a topic, durably; arguments and errors as ``Logs.create_topic``."""
        check_flags(exist_ok=exist_ok)
        given = topic_settings(config, settings)
        count = 1 if partitions is None else check_count(partitions)
        check_topic_type(name)
        new = {
            "name": name,
            "numPartitions": count,
            "replicationFactor": 1,
            "configs": [{"name": key, "value": value} for key, value in given.items()],
        }
        answer = self._door.ask("CreateTopics", 7, topics=[new])
        try:
            check_answer(answer["topics"][0])
        except TopicAlreadyExists:
            if not exist_ok:
                raise
            topic = BusyDirectory(*self.paths, machine=self._machine).topic(name)
            check_same(topic, partitions, given, defaults=self._config_in_force(name))

    def _config_in_force(self, topic: str) -> LogConfig:
        """Return a topic's settings as the process has them; they may follow from its own."""
        resource = {"resourceType": _TOPIC, "resourceName": topic, "configurationKeys": None}
        asked = {"includeSynonyms": False, "includeDocumentation": False}
        answer = self._door.ask("DescribeConfigs", 4, resources=[resource], **asked)
        (found,) = answer["results"]
        check_answer(found)
        values = {one["name"]: one["value"] for one in found["configs"]}
        known = {name: value for name, value in values.items() if value is not None}
        return LogConfig().with_overrides(known)

    def create_partitions(self, name: str, count: int) -> None:
        """Add partitions to a topic until it has ``count``; errors as ``Logs``."""
        check_topic_type(name)
        more = {"name": name, "count": check_count_type(count), "assignments": None}
        check_answer(self._door.ask("CreatePartitions", 3, topics=[more])["results"][0])

    def alter_topic(
        self,
        /,
        name: str,
        config: Mapping[str, SettingValue] | None = None,
        unset: Collection[str] = (),
        follow: Collection[str] = (),
        **settings: object,
    ) -> None:
        """Change a topic's settings, durably; arguments and errors as ``Logs.alter_topic``."""
        given = topic_settings(config, settings)
        changes: list[tuple[str, str | None, int]] = [
            *((key, value, _SET) for key, value in given.items()),
            *((key, None, _DELETE) for key in listed("unset", unset)),
            *((key, None, FOLLOW) for key in listed("follow", follow)),
        ]
        steps = [
            {"name": key, "value": value, "configOperation": step} for key, value, step in changes
        ]
        resource = {"resourceType": _TOPIC, "resourceName": name, "configs": steps}
        answer = self._door.ask("IncrementalAlterConfigs", 1, resources=[resource])
        check_answer(answer["responses"][0])

    def delete_topic(self, name: str) -> None:
        """Delete a topic; errors as ``Logs``."""
        topic = {"name": name, "topicId": ZERO_ID}
        check_answer(self._door.ask("DeleteTopics", 6, topics=[topic])["responses"][0])

    def delete_records(self, topic: str, partition: int, before_offset: int | str) -> int:
        """Delete the records of a partition below an offset; as ``Logs.delete_records``."""
        partition = check_partition(partition)
        before = deletion_end(before_offset)
        topics = [{"name": topic, "partitions": [{"partitionIndex": partition, "offset": before}]}]
        answer = self._door.ask("DeleteRecords", 2, topics=topics)["topics"][0]["partitions"][0]
        if answer["errorCode"] == ErrorCode.OFFSET_OUT_OF_RANGE:  # the answer has no reason
            first, limit, _, end = self.offsets(topic, partition)
            raise OffsetOutOfRange(before, first, end, limit=limit).of_log(f"{topic}-{partition}")
        if answer["errorCode"] == ErrorCode.KAFKA_STORAGE_ERROR:  # nor has this one
            raise self._not_deleted(TopicPartition(topic, partition), before)
        check_answer(answer)
        start: int = answer["lowWatermark"]
        return start

    def _not_deleted(self, key: TopicPartition, before: int) -> KafkaStorageError:
        start = self.start_of(key)
        if start < (self.end_of(key, Isolation.READ_UNCOMMITTED) if before < 0 else before):
            what = f"the process that holds {self.path} could not delete records of {key}"
            return KafkaStorageError(f"{what}: see its log")
        return KafkaStorageError(
            f"readers no longer see records of {key} below {start:,}, but a crash could bring them"
            " back: the disk is full, or fails; repeat the call once there is space"
        )

    # Writing

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
    ) -> Appended:
        """Append one record; arguments, and what is promised, as ``Logs.append``."""
        content = content_of(value, json)
        given = NewRecord(key, content, headers, timestamp).checked()  # type: ignore[arg-type]  # it checks them
        if partition is None:
            numbers = sorted(self.listed_topic(topic).partitions)
            partition = chosen_partition(given.key, numbers, next(self._turns))
        partition = check_partition(partition)
        record = given.fields(self._clock.now_ms())
        return Appended(partition, self._produce(topic, partition, build_batch([record])))

    def append_all(
        self, topic: str, records: Iterable[GivenRecord], *, codec: Codec | str = Codec.NONE
    ) -> int:
        """Append records in batches; as ``Logs.append_all``.

        It is durable when this returns, unless the process that holds the directory was started
        with ``tidelog.flush.policy=none``.
        """
        writer = joined_writer(self, topic, codec)
        writer.append_all(records)
        writer.flush()
        return writer.records

    def writer(self, topic: str, *, codec: Codec | str = Codec.NONE) -> TopicWriter:
        """Return a writer that spreads records over a topic's partitions; as ``Logs.writer``."""
        return joined_writer(self, topic, codec, self._gathering)

    def transaction(
        self, txn: str | None = None, path: str | None = None, *, codec: Codec | str = Codec.NONE
    ) -> Transaction:
        """Return a transaction, which the process commits; as ``Logs.transaction``.

        ``path`` is the data directory that holds its topics, None: the first that was joined.
        """
        self._door.check_open()
        home = self.path if path is None else absolute_path(path)
        if home not in self.paths:
            raise LogDirNotFound(home)
        # As if the process created them: this one has no settings.
        defaults = partial(self._config_in_force, NEW_TOPIC)
        directory = BusyDirectory(home, machine=self._machine, defaults=defaults)
        return directory.transaction(txn, codec=codec)

    def reader(
        self,
        *topics: str,
        group: str,
        partitions: Collection[int] | None = None,
        start: str = "earliest",
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> GroupReader:
        """Return a reader of topics that continues where its group has committed.

        Arguments and errors as ``Logs.reader``. The process that holds the directory keeps the
        group for it until it is closed, or this process ends.
        """
        reader = GroupReader(
            *(self.group_source(), topics, group),
            partitions=partitions,
            start=start,
            isolation=isolation,
        )
        self._readers.add(reader)
        return reader

    def group_source(self) -> JoinedSource:
        """Return what a reader of a group reads from; for one reader."""
        return JoinedSource(self, self._machine)

    def _produce(self, topic: str, partition: int, batch: bytes, acks: int = _IN_THE_LOG) -> int:
        """Send a batch; return the offset of its last record."""
        if len(batch) > _NEVER_TOO_LARGE:
            # Unread, one that is larger than any request may be would end the connection.
            self._check_size(topic, partition, batch)
        data = [{"name": topic, "partitionData": [{"index": partition, "records": batch}]}]
        answer = self._door.ask("Produce", 9, acks=acks, timeoutMs=0, topicData=data)
        found = answer["responses"][0]["partitionResponses"][0]
        offset: int = found["baseOffset"]
        if found["errorCode"] and offset >= 0:
            text = f"what was appended to {topic}-{partition} at {offset} may not be durable"
            raise OutcomeUnknown(f"{text}: {found['errorMessage']}")
        if found["errorCode"] == ErrorCode.MESSAGE_TOO_LARGE:  # the answer has no numbers
            self._check_size(topic, partition, batch)
        check_answer(found)
        return offset

    def _check_size(self, topic: str, partition: int, batch: bytes) -> None:
        limit_bytes = self._config_in_force(topic).max_message_bytes
        if len(batch) > limit_bytes:
            error = MessageTooLarge("a batch", len(batch), limit_bytes, "max.message.bytes")
            raise error.of_log(f"{topic}-{partition}")


def joined_writer(
    logs: JoinedLogs, topic: str, codec: Codec | str, gathering: set[TopicWriter] | None = None
) -> TopicWriter:
    """Return a writer; None for ``gathering``: of one call, as ``writer_of_call``."""
    return TopicWriter(
        _Target(logs),
        topic,
        clock=logs._clock,  # noqa: SLF001 - of this module
        codec=codec,
        gathering=gathering,
        check_open=logs._door.check_open,  # noqa: SLF001 - of this module
    )


class _Target(BusyDirectory):
    """What a ``TopicWriter`` appends to: it knows topics and partitions."""

    def __init__(self, logs: JoinedLogs) -> None:
        super().__init__(*logs.paths, machine=logs._machine)  # noqa: SLF001 - of this module
        self._logs = logs

    def partition(self, topic: str, partition: int) -> _TargetPartition:
        """Return one partition."""
        return _TargetPartition(self._logs, topic, partition)

    def flush(self) -> None:
        """Nothing is left to flush: each acknowledged batch has waited for that, if any does."""


class _TargetPartition:
    """Takes batches for one partition."""

    def __init__(self, logs: JoinedLogs, topic: str, partition: int) -> None:
        self._logs = logs
        self._topic = topic
        self._partition = partition

    def append_records(self, records: Iterable[RecordFields], *, codec: Codec) -> None:
        """Send records as one batch, and wait until it is on the disk."""
        batch = build_batch(records, codec=codec)
        self._logs._produce(  # noqa: SLF001 - of this module
            self._topic, self._partition, batch, _ON_THE_DISK
        )
