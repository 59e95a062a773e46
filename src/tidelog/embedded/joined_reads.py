"""What is read of logs that another process holds: of its files, as far as it has acknowledged."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.codec.one_line import open_or_closed
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.door_client import DoorClient, check_answer, retried
from tidelog.embedded.read_only_logs import ReadOnlyLogs, RecentLook
from tidelog.errors import (
    KafkaStorageError,
    OffsetOutOfRange,
    TidelogError,
    UnknownTopicOrPartition,
)
from tidelog.log.reading.offset_lookup import OffsetTarget
from tidelog.readonly.missing.holes import warn_of_lost
from tidelog.readonly.read_only_log import Offsets
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import check_topic_type, given_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.embedded.read_only_logs import Look
    from tidelog.env.machine import Machine
    from tidelog.readonly.epoch_lineage import Epochs
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.record import Record
    from tidelog.segment.filenames import TopicPartition

_KNOWN_NS: Final = 1_000_000_000


class JoinedReads(ReadOnlyLogs):
    """Topics and records of the process at the other end of a connection, without a lock."""

    def __init__(
        self, path: str, *more: str, machine: Machine, wait_ms: Callable[[int], None]
    ) -> None:
        super().__init__(
            *(path, *more),
            fs=machine.fs,
            clock=machine.clock,
            wait_ms=wait_ms,
            asks_holder=False,  # it says where its logs end, for each look
        )
        self._machine = machine
        self._door = DoorClient(path)
        self._recent: Final = super()._recent_look()
        """What a reader looks with, which opens the log of each of its partitions all the time."""
        self._listed: dict[str, tuple[int, Topic]] = {}
        """Topics, and until when they are taken for known, in ns."""
        open_now = partial(BusyDirectory, *self.paths, machine=machine)
        self._found: Final = RecentLook(open_now, self._clock, _KNOWN_NS)
        """What ``_listed`` are looked up in."""
        self._door.connect()  # raises where nobody listens

    def _told(self) -> str:
        return f"{super()._told()}: {open_or_closed(is_open=not self._door.is_closed)}"

    def listed_topic(self, name: str) -> Topic:
        """Return a topic, as it was found recently; raise UnknownTopicOrPartition."""
        check_topic_type(name)
        known = self._listed.get(name)
        if known is None or self._clock.monotonic_ns() > known[0]:
            try:
                until_ns, directory = self._found.until(name)
                known = until_ns, directory.topic(name)
            except TidelogError:
                self._found.forget()  # it may have been created since
                until_ns, directory = self._found.until(name)
                known = until_ns, directory.topic(name)
            self._listed[name] = known
        return known[1]

    def visible_records(
        self, key: TopicPartition, start: int, isolation: Isolation
    ) -> Iterator[Record]:
        """Yield the records of a partition from an offset on, that a reader of this level sees.

        Raises OffsetOutOfRange, CorruptMessage, UnknownTopicOrPartition where they are of another
        topic than the one that was looked up.
        """
        with self._seen(key, start, isolation, self._recent) as (log, first, end):
            # After it was opened: what was looked up is a second old, and the topic may have been
            # deleted and created again since.
            self._check_id(key.topic, log.topic_id)
            yield from log.records(first, end, committed=isolation is Isolation.READ_COMMITTED)
            if log.holes:
                warn_of_lost(log.directory, self._recent(key.topic).lost(log, first, end))

    def _recent_look(self, partition: int | None = None) -> Look:
        return super()._recent_look() if partition is None else self._look_for_one

    def _look_for_one(self, topic: str) -> ReadOnlyDirectory:
        # A look at a topic of thousands of partitions takes a tenth of a second. Where one of them
        # is holds until it is not there any more.
        directory = self._recent(topic)
        directory.read_checkpoints_again()
        return directory

    def known_epochs(self, key: TopicPartition) -> Epochs:
        """Return the leader epochs of a partition, as far as they are known."""
        with self._open(key, self._recent) as log:
            return log.known_epochs()

    def _check_id(self, name: str, found: UUID | None) -> None:
        known = self._listed.get(name)
        if known is not None and found not in {None, known[1].topic_id}:
            self._listed.pop(name, None)  # unless another thread has done so
            self._found.forget()
            raise UnknownTopicOrPartition(f"topic {name} was deleted, and is another one now")

    @contextmanager
    def _seen(
        self,
        key: TopicPartition,
        start_offset: int | None,
        isolation: Isolation | str,
        look: Look | None = None,
    ) -> Iterator[tuple[ReadOnlyLog, int, int]]:
        # The process says where its readers begin and end: the files that do are written later. It
        # is asked for the end before they are opened, so that they hold what it names.
        end_of = self._end_of(isolation)
        told_end = None if end_of is None else end_of(key)
        with self._open(key, look or self._look) as log:
            first, log_end = self.start_of(key), log.log_end_offset
            start = first if start_offset is None else start_offset
            if start_offset is not None and not first <= start <= log_end:
                raise OffsetOutOfRange(start, first, log_end).of_log(str(key))
            yield log, start, max(start, log_end if told_end is None else min(told_end, log_end))

    def _offsets_of(self, key: TopicPartition, look: Look) -> Offsets:
        stable = self.end_of(key, Isolation.READ_COMMITTED)
        with self._seen(key, None, Isolation.READ_UNCOMMITTED, look) as (log, start, end):
            return Offsets(start, end, max(start, min(stable, end)), log.log_end_offset)

    def _end_of(self, isolation: Isolation | str) -> Callable[[TopicPartition], int] | None:
        level = Isolation.of(isolation)
        return None if level is Isolation.LOG_END else partial(self.end_of, isolation=level)

    def start_of(self, key: TopicPartition) -> int:
        """Return the log start offset of a partition, as the process has it."""
        return self._offset(key, OffsetTarget.EARLIEST)

    def end_of(self, key: TopicPartition, isolation: Isolation) -> int:
        """Return the offset up to which a reader of this level sees, as the process has it."""
        return self._offset(
            key, OffsetTarget.LATEST, is_committed=isolation is Isolation.READ_COMMITTED
        )

    def _offset(self, key: TopicPartition, target: int, *, is_committed: bool = False) -> int:
        """Return an offset; wait until a partition that is being created is in service.

        Raises InvalidArgument, UnknownTopicOrPartition; KafkaStorageError at once where a disk has
        failed.
        """
        given_partition(*key)
        asked = partial(self._offset_now, key, target, is_committed=is_committed)
        try:
            return asked()
        except KafkaStorageError:
            if self._has_failed_disk():
                raise
        return retried(self._machine, asked, KafkaStorageError)

    def _offset_now(self, key: TopicPartition, target: int, *, is_committed: bool) -> int:
        place = {"partitionIndex": key.partition, "timestamp": target}
        answer = self._door.ask(
            "ListOffsets",
            7,
            replicaId=-1,
            isolationLevel=int(is_committed),
            topics=[{"name": key.topic, "partitions": [place]}],
        )
        found = answer["topics"][0]["partitions"][0]
        self._check(key, found["errorCode"])
        offset: int = found["offset"]
        return offset

    def _check(self, key: TopicPartition, code: int) -> None:
        """Raise the error that is answered about a partition, if one is; it names the partition."""
        if not code:
            return
        waits = f"{key} is not in service yet: try again"
        try:
            check_answer({"errorCode": code, "errorMessage": self._reason(key) or waits})
        except UnknownTopicOrPartition:
            topic = self.topic(key.topic)
            # The catalogue has a new topic before the process itself takes it for there.
            if topic.is_listed and key.partition in {*topic.partitions, *topic.missing}:
                raise KafkaStorageError(waits) from None
            raise

    def _reason(self, key: TopicPartition) -> str | None:
        """Return why a partition cannot be read; ListOffsets has no field for it."""
        asked = [{"name": key.topic, "partitionIndexes": [key.partition]}]
        answer = self._door.ask("DescribeProducers", 0, topics=asked)
        reason: str | None = answer["topics"][0]["partitions"][0]["errorMessage"]
        return reason

    def _has_failed_disk(self) -> bool:
        found = self._door.ask("DescribeLogDirs", 2, topics=[])["results"]
        return any(one["errorCode"] for one in found)
