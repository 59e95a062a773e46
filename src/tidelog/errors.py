"""Every error tidelog raises, and Kafka's numbers for those that may reach a client.

Owns the error classes and ``ErrorCode``. Must not know any other part of tidelog. Kafka keeps the
same table in ``org.apache.kafka.common.protocol.Errors``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    """A protocol error number; ``retriable`` says whether a client may send the request again."""

    retriable: bool

    def __new__(cls, number: int, retriable: bool = False) -> ErrorCode:  # noqa: FBT001, FBT002, PYI034 - enum members are declared as tuples, and IntEnum needs its own type here
        """Make the member whose value is ``number`` alone."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2, True
    UNKNOWN_TOPIC_OR_PARTITION = 3, True
    MESSAGE_TOO_LARGE = 10
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    INVALID_TIMESTAMP = 32
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    TRANSACTION_COORDINATOR_FENCED = 52
    KAFKA_STORAGE_ERROR = 56, True
    LOG_DIR_NOT_FOUND = 57
    UNKNOWN_PRODUCER_ID = 59
    FENCED_LEADER_EPOCH = 74, True
    UNKNOWN_LEADER_EPOCH = 75, True
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78, True
    INVALID_RECORD = 87
    INCONSISTENT_TOPIC_ID = 103, True


class TidelogError(Exception):
    """The base of every error tidelog raises on purpose."""


class InvalidArgument(TidelogError, ValueError):
    """A caller passed a value the function cannot take; nothing was changed."""


class KafkaError(TidelogError):
    """An error a Kafka client may see; each subclass owns one ``ErrorCode``."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class RebuildableError(TidelogError):
    """A derived file is damaged; the loader rebuilds or truncates it. Never reaches a client."""


class InvariantError(TidelogError):
    """A bug in tidelog: the log takes no more writes, and a client gets UNKNOWN_SERVER_ERROR."""


class _LocatedError(KafkaError):
    """A Kafka error about bytes: ``position`` is a byte position in ``path`` (or the buffer)."""

    def __init__(self, reason: str, position: int | None = None, path: str | None = None) -> None:
        super().__init__(reason, position, path)
        self.reason = reason
        self.position = position
        self.path = path

    def __str__(self) -> str:
        file = f" of {self.path}" if self.path is not None else ""
        place = f" at byte {self.position}{file}" if self.position is not None else file
        return f"{self.reason}{place}"


class CorruptMessage(_LocatedError):
    """Bytes are no whole, valid batch: length, magic or checksum is wrong. Nothing was kept."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecord(_LocatedError):
    """A record or its batch breaks a rule; ``record_errors`` lists (index, reason) per record."""

    code = ErrorCode.INVALID_RECORD

    def __init__(
        self,
        reason: str,
        position: int | None = None,
        path: str | None = None,
        record_errors: tuple[tuple[int, str], ...] = (),
    ) -> None:
        super().__init__(reason, position, path)
        self.args = (reason, position, path, record_errors)
        self.record_errors = record_errors


class InvalidTimestamp(KafkaError):
    """A record's timestamp is outside the topic's limits; ``record_errors`` as InvalidRecord."""

    code = ErrorCode.INVALID_TIMESTAMP

    def __init__(self, reason: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(reason, record_errors)
        self.reason = reason
        self.record_errors = record_errors

    def __str__(self) -> str:
        return self.reason


class OffsetOutOfRange(KafkaError):
    """A reader asked for an offset the log does not hold; ask for the earliest or latest."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, requested: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(requested, log_start_offset, log_end_offset)
        self.requested = requested
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset

    def __str__(self) -> str:
        held = f"[{self.log_start_offset}, {self.log_end_offset}]"
        return f"offset {self.requested} is out of range: this log serves {held}"


class _TooLargeError(KafkaError):
    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(what, size_bytes, limit_bytes)
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return f"{self.what} of {self.size_bytes} bytes exceeds the limit of {self.limit_bytes}"


class MessageTooLarge(_TooLargeError):
    """One batch is larger than ``max.message.bytes``, or decompresses beyond its bound."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLarge(_TooLargeError):
    """One append is larger than a whole segment may be; split it."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class UnknownTopicOrPartition(KafkaError):
    """No such topic or partition in this data directory; create it first."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class InvalidTopic(KafkaError):
    """A topic name, or a directory name made from it, is not one Kafka allows."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class TopicAlreadyExists(KafkaError):
    """A topic of this name exists; nothing was changed."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(KafkaError):
    """A number of partitions below one, or fewer than the topic has."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidConfig(KafkaError):
    """Settings do not hold; ``problems`` names each bad key with the reason."""

    code = ErrorCode.INVALID_CONFIG

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "invalid configuration: " + "; ".join(self.problems)


class UnsupportedForMessageFormat(KafkaError):
    """What was asked needs a newer record format."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class PolicyViolation(KafkaError):
    """The topic's cleanup policy does not allow the request."""

    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceNumber(KafkaError):
    """A producer's batch does not follow its last one; a batch before it was lost."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(KafkaError):
    """A newer instance of this producer has taken over."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(KafkaError):
    """A batch does not fit the producer's transaction."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFenced(KafkaError):
    """A marker came from a transaction coordinator that has been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class KafkaStorageError(KafkaError):
    """The disk failed, or the log is closed or offline; other directories go on."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class DirectoryFull(KafkaStorageError):
    """Free space has come down to the reserve: no appends until there is more; reads go on."""


class CorruptFile(KafkaStorageError):
    """A metadata or checkpoint file is malformed; nothing in it was used."""


class LogDirNotFound(KafkaError):
    """The path is none of the configured data directories."""

    code = ErrorCode.LOG_DIR_NOT_FOUND


class InvalidReplicaAssignment(KafkaError):
    """A partition cannot be put where it was to go; nothing was changed."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class UnsupportedCompressionType(KafkaError):
    """The codec is unknown, or not allowed where it was met."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InconsistentTopicId(KafkaError):
    """The topic id on disk is another than the one given."""

    code = ErrorCode.INCONSISTENT_TOPIC_ID


class OffsetsOutOfOrder(KafkaError):
    """Offsets that must be taken as given do not increase."""


class UnexpectedAppendOffset(KafkaError):
    """A follower's batch begins below the log end; its first and last offset say where."""

    def __init__(self, first_offset: int, last_offset: int, log_end_offset: int) -> None:
        super().__init__(first_offset, last_offset, log_end_offset)
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_end_offset = log_end_offset

    def __str__(self) -> str:
        given = f"offsets {self.first_offset} to {self.last_offset}"
        return f"{given} begin below the log end offset {self.log_end_offset}"


class CorruptIndex(RebuildableError):
    """An index file contradicts itself; it is rebuilt from the .log file."""


class CorruptSnapshot(RebuildableError):
    """A producer snapshot does not read; it is deleted and an older one taken."""


class TornTail(RebuildableError):
    """The last bytes of a log are no whole batch, as after a crash; they are cut off."""


class SegmentOffsetOverflow(RebuildableError):
    """A batch's last offset does not fit the segment's 32-bit relative offsets."""

    def __init__(self, base_offset: int, offset: int) -> None:
        super().__init__(base_offset, offset)
        self.base_offset = base_offset
        self.offset = offset

    def __str__(self) -> str:
        return f"offset {self.offset} does not fit the segment that starts at {self.base_offset}"


class CleaningAborted(TidelogError):
    """A cleaning was told to stop, or met a segment to be split first; nothing is lost by it."""


class DataLoss(TidelogError):
    """Offsets ``[start_offset, end_offset)`` that a reader asked for are gone; ``cause`` says why.

    Nothing was skipped. The reader may go on with what is left by saying that loss is accepted.
    ``end_offset`` None: all from the start on, and nobody knows how many there were.
    """

    def __init__(
        self, topic: str, partition: int, start_offset: int, end_offset: int | None, cause: str
    ) -> None:
        super().__init__(topic, partition, start_offset, end_offset, cause)
        self.topic = topic
        self.partition = partition
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.cause = cause

    def __str__(self) -> str:
        is_open = self.end_offset is None
        offsets = "from {} on" if is_open else "[{}, {})"
        lost = offsets.format(self.start_offset, self.end_offset)
        return f"{self.topic}-{self.partition} has no offsets {lost}: {self.cause}"


class DirectoryLocked(TidelogError):
    """Another process (or this one) already writes the data directory; ``pid`` 0: unknown."""

    def __init__(self, path: str, pid: int = 0) -> None:
        super().__init__(path, pid)
        self.path = path
        self.pid = pid

    def __str__(self) -> str:
        holder = f"process {self.pid}" if self.pid else "another process"
        directory = self.path.removesuffix("/.lock")
        return f"{directory} is in use by {holder}; one process at a time may write, any may read"


class UnsupportedPlatform(TidelogError):
    """The operation needs POSIX locks, fsync and rename; reading works everywhere."""
