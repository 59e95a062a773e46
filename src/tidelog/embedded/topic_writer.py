"""Batching records and distributing them over the partitions of a topic.

Kafka's producer does the same: ``RecordAccumulator`` and ``BuiltInPartitioner``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.codec.compression import Codec
from tidelog.codec.given_values import check_partition
from tidelog.codec.one_line import Told
from tidelog.embedded.gathered_records import gather
from tidelog.env.attempts import try_all
from tidelog.env.forks import OfOneProcess
from tidelog.errors import (
    InvalidArgument,
    InvalidRecord,
    InvalidTimestamp,
    OutcomeUnknown,
    TidelogError,
    UnknownTopicOrPartition,
)
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.log.directory_guard import is_interrupt
from tidelog.manager.partition import Partition
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import BatchSpec
from tidelog.records.bulk_builder import build_batches
from tidelog.records.new_record import (
    BYTES_LIKE,
    NOT_GIVEN,
    NewRecord,
    NotGiven,
    check_several,
    content_of,
    header_tuple,
    not_bytes,
)
from tidelog.records.partitioner import partition_for_key
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.records.validation.record_rules import NO_KEY, RecordRules, time_limits
from tidelog.records.validation.rejection import ignore_rejections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from numpy.typing import NDArray

    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.env.clock import Clock
    from tidelog.env.moments import Moment
    from tidelog.records.builder import RecordFields
    from tidelog.records.bulk_builder import RecordSource
    from tidelog.records.new_record import GivenRecord
    from tidelog.records.record import Header

BATCH_BYTES: Final = 64 << 10
"""Bytes of records after which a batch is appended, if the topic takes as many."""

NOT_APPENDED: Final = "Records of a writer were not appended: {}"
"""A note for an error that ends the body of a ``with``."""

_RECORD_OVERHEAD: Final = 36
"""Most bytes that a record takes besides its key, value and headers: varints and a byte."""
_SMALL_RECORD: Final = 9
"""Bytes of a small record besides its value."""
_PLAIN_WORK: Final = 40
"""What it takes to append a record by itself, as bytes of work for ``use_kernels``."""
_FIRST_CHUNK: Final = 500
_LONGEST_CHUNK: Final = 10_000
_CHUNK_BYTES: Final = 1 << 20
"""Bytes of a chunk of records, about; the first chunk is chosen by number."""
_PIECE: Final = 200
"""Records that are read after one whose size was looked at, if they may be as many."""
_HEADER_OVERHEAD: Final = 10
"""Most bytes that a header takes besides its name and value."""


class RecordTarget(Protocol):
    """What takes the batches of one partition."""

    def append_records(self, records: Iterable[RecordFields], *, codec: Codec) -> object:
        """Take records as one batch."""


class TopicLogs(Protocol):
    """The topics and partitions that a writer appends to."""

    def topic(self, name: str) -> Topic:
        """Return one topic; raise UnknownTopicOrPartition where there is none."""

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""

    def partition(self, topic: str, partition: int) -> RecordTarget:
        """Return one partition."""

    def flush(self) -> None:
        """Make all durable, and let readers see it."""


class TopicWriter(OfOneProcess, Told):
    """Appends records to one topic; used by one thread.

    ``flush`` appends what was gathered. The end of a ``with`` does so too, also after an error, and
    so does ``close`` of the logs.

    A record goes to its own ``partition`` if it names one, else where Kafka's producers send its
    key; one without a key joins the batch that is being filled, which moves on when it is full.
    ``records`` counts what was appended. Only logs that get records are loaded.

    What was gathered and cannot be appended stays gathered: each flush, and each record that finds
    the batch full, tries it again. It is left out only where nobody knows whether it was appended:
    after an interrupt, such as an error that a handler of a signal raises, and after
    OutcomeUnknown, where another program holds the directory.

    Raises:
        UnknownTopicOrPartition: there is no such topic.
    """

    def __init__(
        self,
        directory: TopicLogs,
        topic: str,
        *,
        clock: Clock,
        codec: Codec | str = Codec.NONE,
        gathering: set[TopicWriter] | None = None,
        check_open: Callable[[], None] = lambda: None,
    ) -> None:
        """``gathering`` is a set in which the writer is while it has gathered records.

        ``check_open`` raises once nothing that is gathered would be appended any more.
        """
        check_open()
        self._check_open = check_open
        self._codec = Codec.named(codec)
        config = directory.config_of(topic)
        self._directory = directory
        self._topic = topic
        self._numbers = sorted(directory.topic(topic).partitions)
        self._clock = clock
        self._policy = LeaderPolicy.of(config)
        batch_bytes = min(BATCH_BYTES, config.max_batch_bytes)
        self._room = batch_bytes - BATCH_HEADER.size
        self._segment_bytes = config.segment_size_bytes
        self._batches: dict[int, list[RecordFields]] = {n: [] for n in self._numbers}
        self._sizes = dict.fromkeys(self._numbers, 0)
        self._turn = 0
        self._takes_batches = True
        """Whether partitions are logs, as far as is known, and not of another process."""
        self._gathering = set() if gathering is None else gathering
        self._is_of_call = gathering is None
        self.records = 0

    def _told(self) -> str:
        gathered = sum(map(len, self._batches.values()))
        return f"of topic {self._topic!r}: records={self.records}, gathered={gathered}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.is_inherited:
            return
        try:
            self.flush()
        except TidelogError as failure:
            if error is None:
                raise
            error.add_note(NOT_APPENDED.format(failure))

    def __del__(self) -> None:
        """Warn where gathered records are dropped without a word, as at the end of a program."""
        held = vars(self)  # it may not have been made whole, or be a forked child's copy
        if self in held.get("_gathering", ()) and not held["_is_of_call"]:
            warnings.warn(
                f"records of a writer of topic {self._topic!r} are dropped: neither it nor the logs"
                " were closed",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )

    def append(
        self,
        value: GivenRecord | NotGiven | None = NOT_GIVEN,
        *,
        json: object = NOT_GIVEN,
        key: bytes | bytearray | memoryview | None = None,
        headers: Iterable[Header] = (),
        timestamp: Moment | None = None,
        partition: int | None = None,
    ) -> None:
        """Take one record, and append the batch that it fills.

        After an error this record is not taken, and those before it are not affected.

        Args:
            value: the record's value, or without the other arguments a whole record in a form of
                ``NewRecord.of``.
            json: the value as JSON, in place of ``value``; see ``Logs.append``.
            key: as the others, see ``Logs.append``.
            headers: names and values.
            timestamp: in ms since the epoch, or a ``datetime``; None: now.
            partition: where it goes, instead of where the key says.

        Raises:
            InvalidArgument: a part of the record is of a wrong type, or no record can hold it.
            UnknownTopicOrPartition, InvalidRecord, InvalidTimestamp: the topic does not take this
                record, or no longer takes those before it in the batch.
            MessageTooLarge: the same, for a record larger than ``max.message.bytes`` as a batch.
            KafkaStorageError: the disk failed, or the logs are closed.
        """
        if json is not NOT_GIVEN or value is NOT_GIVEN:
            value = content_of(value, json)  # type: ignore[assignment]  # it is bytes or None
        is_whole = key is None and not headers and timestamp is None and partition is None
        if value is None or (isinstance(value, BYTES_LIKE) and not is_whole):
            content = None if value is None else bytes(value)
            self._take(NewRecord(key, content, header_tuple(headers), timestamp, partition))  # type: ignore[arg-type]  # it checks them
        elif is_whole:
            self._take(NewRecord.of(value))
        else:
            raise InvalidArgument(not_bytes(value, "value"))

    def _take(self, given: NewRecord) -> None:
        self._check_open()
        record = given.checked()
        number = self._number_of(record)
        now_ms = self._clock.now_ms()
        timestamp = record.timestamp_or(now_ms)
        self._check(record, timestamp, now_ms)
        size = _size_of(record)
        if self._sizes[number] + size > self._room:
            self._append_batch(number)
        if not self._batches[number]:
            self._gathering.add(self)
        self._batches[number].append((timestamp, record.key, record.value, record.headers))
        self._sizes[number] += size
        if self._sizes[number] >= self._room:
            try:
                self._append_batch(number)
            except Exception:
                if self._batches[number]:  # those before this record stay gathered
                    self._batches[number].pop()
                    self._sizes[number] -= size
                raise

    def append_all(self, records: Iterable[GivenRecord]) -> None:
        """Take records as ``append`` does, far more quickly where they are of one form.

        That is one of ``NewRecord.of``, without headers and partition, and with times as numbers.

        No more of ``records`` is read ahead than about a megabyte, or 200 where their sizes change
        suddenly, and nothing after one that is in buffers, which may be used again for the next, as
        a dict may. After an error, some of what was read last may be taken, those for one partition
        but not those for another among them.
        """
        check_several(records)
        self._check_open()
        iterator, count = iter(records), _FIRST_CHUNK
        while chunk := _read_ahead(iterator, count):
            size = self._append_chunk(chunk)
            if size is None:
                count = _FIRST_CHUNK
                for record in chunk:
                    self._take(NewRecord.of(record))
            else:
                count = min(max(_CHUNK_BYTES * len(chunk) // size, 1), _LONGEST_CHUNK)

    def _append_chunk(self, chunk: list[GivenRecord]) -> int | None:
        """Append records as whole batches; return their bytes, None if that is not possible."""
        if not self._takes_batches:
            return None
        now_ms = self._clock.now_ms()
        source = gather(chunk, now_ms)
        if source is None or not self._takes(source, now_ms):
            return None
        is_one = len(self._numbers) == 1
        chosen = None if is_one else self._partitions_of(source)
        for index in [0] if chosen is None else np.unique(chosen).tolist():
            number = self._numbers[index]
            partition = self._directory.partition(self._topic, number)
            if not isinstance(partition, Partition):
                return None
            self._append_batch(number)
            indices = None if chosen is None else np.flatnonzero(chosen == index)
            policy = self._policy
            spec = BatchSpec(
                codec=self._codec if policy.codec is None else policy.codec, level=policy.level
            )
            size = self._room + BATCH_HEADER.size
            built = build_batches(source, spec, chosen=indices, batch_bytes=size)
            partition.append(built.data, AppendOrigin.STAGED)
            self.records += len(chunk) if indices is None else len(indices)
        return source.content_bytes

    def _takes(self, source: RecordSource, now_ms: int) -> bool:
        """Return whether the topic takes each of the records, as far as it is seen at once."""
        policy, table, times = self._policy, source.table, source.table[rows.TIMESTAMP]
        sizes = np.maximum(table[rows.KEY_SIZE], 0) + np.maximum(table[rows.VALUE_SIZE], 0)
        room = self._segment_bytes - len(sizes) * _RECORD_OVERHEAD - _CHUNK_BYTES
        limits = time_limits(now_ms, policy.timestamp_before_max_ms, policy.timestamp_after_max_ms)
        return (
            int(sizes.max()) + _RECORD_OVERHEAD <= self._room
            and int(sizes.sum()) <= room
            and limits[0] <= int(times.min())
            and int(times.max()) <= limits[1]
            and not (policy.needs_keys and (table[rows.KEY_SIZE] < 0).any())
            and self._numbers[-1] + 1 == len(self._numbers)
            # Last, since else it counts what is done without it.
            and use_kernels(source.content_bytes + len(sizes) * _PLAIN_WORK)
        )

    def _partitions_of(self, source: RecordSource) -> NDArray[np.int32]:
        """Return the partition of each record; those without a key fill one after another."""
        count = len(self._numbers)
        chosen = source.partitions_of_keys(count)
        keyless = np.flatnonzero(chosen < 0)
        if len(keyless):
            ends = np.cumsum(np.maximum(source.table[rows.VALUE_SIZE][keyless], 0) + _SMALL_RECORD)
            chosen[keyless] = (self._turn + (ends - 1) // self._room) % count
            self._turn = (self._turn + 1 + int(ends[-1] - 1) // self._room) % count
        return chosen

    def flush(self) -> None:
        """Append what was gathered, make everything durable and let readers see it.

        Errors as ``append``; what was not appended then is still gathered.
        """
        self.append_gathered()
        self._directory.flush()

    def append_gathered(self) -> None:
        """Append what was gathered, which may not be durable then.

        Each partition is tried; the first error is raised at the end, as by ``append``.
        """
        appends = (partial(self._append_batch, number) for number in self._numbers)
        try_all(appends, TidelogError)
        self._gathering.discard(self)

    def _number_of(self, record: NewRecord) -> int:
        number = record.partition
        if number is not None:
            number = check_partition(number)
        elif record.key is None:
            return self._numbers[self._turn]
        else:
            number = partition_for_key(record.key, self._numbers[-1] + 1)
        if number not in self._batches:
            raise UnknownTopicOrPartition(f"there is no partition {self._topic}-{number}")
        return number

    def _check(self, record: NewRecord, timestamp: int, now_ms: int) -> None:
        """Refuse now what would else be refused together with the whole batch."""
        policy = self._policy
        if policy.needs_keys and record.key is None:
            raise InvalidRecord(NO_KEY[policy.is_policy_known])
        limits = time_limits(now_ms, policy.timestamp_before_max_ms, policy.timestamp_after_max_ms)
        if limits[0] <= timestamp <= limits[1]:
            return
        rules = RecordRules.of(policy, now_ms, ignore_rejections)
        if rules.has_bad_time(np.array(timestamp), is_append_time=False):
            raise InvalidTimestamp(rules.time_reason(timestamp))

    def _append_batch(self, number: int) -> None:
        batch, size = self._batches[number], self._sizes[number]
        if not batch:
            return
        partition = self._directory.partition(self._topic, number)
        self._takes_batches = isinstance(partition, Partition)
        self._batches[number], self._sizes[number] = [], 0
        try:
            partition.append_records(batch, codec=self._codec)
        except Exception as error:
            # Else it may have been appended: a repeat would append it twice.
            if not (is_interrupt(error) or isinstance(error, OutcomeUnknown)):
                self._batches[number], self._sizes[number] = batch, size
            raise
        self.records += len(batch)
        if number == self._numbers[self._turn]:
            self._turn = (self._turn + 1) % len(self._numbers)


def append_gathered(gathering: set[TopicWriter]) -> None:
    """Append what writers have gathered, once; raise the first error at the end."""
    try:
        try_all((writer.append_gathered for writer in list(gathering)), TidelogError)
    except TidelogError:
        gathering.clear()  # what was refused is not tried again
        raise


def _read_ahead(records: Iterator[GivenRecord], count: int) -> list[GivenRecord]:
    """Read up to ``count`` records, fewer if they are large; of a few the size is looked at."""
    chunk: list[GivenRecord] = []
    left = _CHUNK_BYTES
    for record in records:
        chunk.append(unchanging(record))
        size = readable_ahead(record)
        if size is None:
            break
        more = min(_PIECE, count - len(chunk), left // size - 1)
        if more <= 0 or not _add_unchanging(chunk, islice(records, more)):
            break
        left -= size * (more + 1)
    return chunk


def _add_unchanging(chunk: list[GivenRecord], records: Iterable[GivenRecord]) -> bool:
    """Add records, the last one that may be changed for the next; return whether none may."""
    for record in records:
        if type(record) is dict:
            chunk.append(record.copy())
            parts: object = tuple(record.values())
        else:
            chunk.append(record)
            parts = record
        if type(parts) is bytes:
            continue
        try:
            hash(parts)  # a quick look at each part
        except (TypeError, ValueError):  # a part is a buffer, a list, or an object for JSON
            return False
    return True


def unchanging(record: GivenRecord) -> GivenRecord:
    """Return a record that is another object than the next one, if a dict is used again for it."""
    return record.copy() if type(record) is dict else record


def readable_ahead(record: object) -> int | None:
    """Return about the size of a record; None if it may be changed for the next one."""
    if type(record) is bytes:
        return len(record) + 1
    parts = record.values() if type(record) is dict else record
    if not isinstance(parts, Iterable) or isinstance(parts, (bytearray, memoryview, str, Mapping)):
        return None
    size = 1
    for part in parts:
        if isinstance(part, bytes):
            size += len(part)
        elif not (part is None or isinstance(part, int) or (type(part) is tuple and not part)):
            return None  # a buffer, which may be empty now, or headers that have some
    return size


def _size_of(record: NewRecord) -> int:
    """Return the most bytes that a record takes in a batch."""
    size = _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _HEADER_OVERHEAD + len(name.encode()) + len(value or b"")
    return size
