"""Every error tidelog raises; those that may reach a client of Kafka's have a code."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from tidelog.error_codes import ErrorCode

if TYPE_CHECKING:
    from typing import Self


class TidelogError(Exception):
    """The base of all errors that tidelog raises deliberately."""


@dataclass_transform(eq_default=False)
class _WithFields(TidelogError):
    """An error whose fields are declared in its class; those of its base come first.

    They are its ``args``, too, by which it is pickled. A plain class, since what ``dataclasses``
    generates takes time at each start.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(dict.fromkeys((*cls._fields, *cls.__annotations__)))

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - each as it is declared
        fields = self._fields
        values = {name: getattr(self, name) for name in fields if hasattr(self, name)}
        values |= {**named, **dict(zip(fields, given, strict=False))}
        if len(given) > len(fields) or values.keys() != set(fields):
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}")
        super().__init__(*map(values.get, fields))
        vars(self).update(values)


def text_or_kind(error: BaseException) -> str:
    """Return the text of an error; of one that has none, such as an interrupt, its class."""
    return str(error) or type(error).__name__


class InvalidArgument(TidelogError, ValueError):
    """An argument is not valid; nothing was changed."""


class TransactionMismatch(_WithFields, InvalidArgument):
    """A transaction id was committed before, for other topics; nothing was written.

    ``others`` are topics that this attempt writes to and the committed one, which wrote to
    ``topics``, did not; ``deleted`` those that were deleted since, and perhaps created again.
    """

    txn: str
    others: tuple[str, ...]
    topics: tuple[str, ...]
    deleted: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.others:
            # A repeat is written whole: other topics would have these records twice.
            others = ", ".join(topic for topic in self.topics if topic not in self.deleted)
            again = f"again, a second time to {others}, too" if others else "again"
            return (
                f"transaction {self.txn!r} was committed before, and topic"
                f" {', '.join(self.deleted)} was deleted since: to write it {again}, choose another"
                f" id, or run: tidelog staged forget {shlex.quote(self.txn)}"
            )
        wrote = ", ".join(self.topics) or "no topic"
        return (
            f"transaction {self.txn!r} was committed before for {wrote}, not for"
            f" {', '.join(self.others)}; choose another id"
        )


class OldStreamBatch(_WithFields, InvalidArgument):
    """A stream committed a later batch than this one before; nothing was written.

    Its checkpoint was rolled back, or a copy of it is in use. ``last_batch_id`` was committed at
    ``time_ms``, in ms since the epoch, with ``records`` records.
    """

    query_id: str
    batch_id: int
    last_batch_id: int
    time_ms: int
    records: int

    def __str__(self) -> str:
        return (
            f"batch {self.batch_id} of stream {self.query_id} is older than batch"
            f" {self.last_batch_id}, which was committed at {self.time_ms} ms with"
            f" {self.records:,} records: the stream's checkpoint was rolled back, or copied;"
            " use a new checkpoint. skipOldBatches=true skips such batches, also rows in them that"
            " were never written"
        )


class MissingStreamBatches(_WithFields, InvalidArgument):
    """A stream's batch does not follow the last one that was committed; nothing was written.

    The data directory was restored from an older copy, or the stream wrote elsewhere meanwhile.
    ``last_batch_id`` was committed at ``time_ms``, in ms since the epoch.
    """

    query_id: str
    batch_id: int
    last_batch_id: int
    time_ms: int

    def __str__(self) -> str:
        last = self.last_batch_id
        return (
            f"batch {self.batch_id} of stream {self.query_id} does not follow batch {last}, the"
            f" last one in this data directory, committed at {self.time_ms} ms: the directory was"
            " restored from an older copy, or the stream wrote elsewhere since. To write what is"
            f" missing, stop the stream and delete the files above {last} in the folders offsets"
            " and commits of its checkpoint; to go without it, set acceptMissingBatches=true for"
            " one run"
        )


class DirectoryNotShared(InvalidArgument):
    """An executor does not see the data directory that the driver sees; nothing was written."""


class PartitionsElsewhere(_WithFields, InvalidArgument):
    """Partitions are in data directories that were not named; nothing was read.

    ``partitions`` are (topic, first, last), both numbers inclusive. ``directories`` are the paths
    of the data directories that hold them, as far as these are known.
    """

    text: str
    partitions: tuple[tuple[str, int, int], ...]
    directories: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


class KafkaError(TidelogError):
    """An error that may reach a Kafka client; each subclass has its own ``ErrorCode``.

    ``log`` is the log that raised it, as topic-partition, where one did; ``str`` begins with it.
    """

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    log: str | None = None

    def of_log(self, log: str) -> Self:
        """Name the log that raised the error, unless one is named already."""
        if self.log is None:
            self.log = log
        return self

    def __str__(self) -> str:
        return self._text() if self.log is None else f"{self.log}: {self._text()}"

    def _text(self) -> str:
        return super().__str__()


class RebuildableError(TidelogError):
    """A derived file is damaged; the loader rebuilds or truncates it. Never reaches a client."""


class InvariantError(TidelogError):
    """A bug in tidelog: the log stops accepting writes; clients get UNKNOWN_SERVER_ERROR."""


class _LocatedError(_WithFields, KafkaError):
    """An error about bytes: ``position`` is a byte position in ``path``, or in the buffer."""

    reason: str
    position: int | None = None
    path: str | None = None

    remedy = ""
    """What the caller can do, which is known where the bytes were asked for."""

    def _text(self) -> str:
        file = f" of {self.path}" if self.path is not None else ""
        place = f" at byte {self.position}{file}" if self.position is not None else file
        remedy = f": {self.remedy}" if self.remedy else ""
        return f"{self.reason}{place}{remedy}"


class CorruptMessage(_LocatedError):
    """Not a whole, valid batch: length, magic or checksum is wrong. Nothing was stored."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecord(_LocatedError):
    """A record or its batch breaks a rule; ``record_errors`` lists (index, reason) per record."""

    code = ErrorCode.INVALID_RECORD

    record_errors: tuple[tuple[int, str], ...] = ()


class InvalidTimestamp(_WithFields, KafkaError):
    """A record's timestamp is outside the topic's limits; ``record_errors`` as in InvalidRecord."""

    code = ErrorCode.INVALID_TIMESTAMP

    reason: str
    record_errors: tuple[tuple[int, str], ...] = ()

    def _text(self) -> str:
        return self.reason


class OffsetOutOfRange(_WithFields, KafkaError):
    """The requested offset is not in the log; read from the earliest or the latest instead.

    ``range_start`` is set where the offset is the end of a range and lies below its start,
    ``limit`` where the log holds the offset, and only what is below the limit may be deleted.
    ``reason`` says why an offset is none of this log, though it may lie within it.
    """

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    requested: int
    log_start_offset: int
    log_end_offset: int
    range_start: int | None = None
    limit: int | None = None
    reason: str = ""

    def _text(self) -> str:
        held = f"the log holds [{self.log_start_offset}, {self.log_end_offset}]"
        if self.reason:
            held = f"{self.reason}; {held}"
        if self.range_start is not None:
            held = f"the range begins at {self.range_start}"
        if self.limit is not None and self.limit < self.requested <= self.log_end_offset:
            held = (
                f"records can be deleted up to {self.limit}, the high watermark or where a"
                f" transaction is to be applied; {held}"
            )
        return f"offset {self.requested} is out of range: {held}"


class _TooLargeError(_WithFields, KafkaError):
    """``what`` has ``size_bytes``; ``setting`` is what limits it, where one does."""

    what: str
    size_bytes: int
    limit_bytes: int
    setting: str = ""

    def _text(self) -> str:
        setting = f" ({self.setting})" if self.setting else ""
        excess = f"{self.size_bytes} bytes exceeds the limit of {self.limit_bytes}"
        return f"{self.what} of {excess}{setting}"


class MessageTooLarge(_TooLargeError):
    """A batch exceeds ``max.message.bytes``, or its decompressed size exceeds the limit."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLarge(_TooLargeError):
    """An append is larger than the maximum segment size; split it."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class UnknownTopicOrPartition(KafkaError):
    """The topic or partition does not exist in this data directory; create it first."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class NotLeaderOrFollower(KafkaError):
    """The partition has another role here: a follower takes no appends of clients, for one."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class FencedLeaderEpoch(KafkaError):
    """A newer leader epoch than the one given is known; nothing was changed."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class IllegalGeneration(_WithFields, KafkaError):
    """A reader's positions are fenced: its group is no longer where it took them up.

    Nothing was committed, neither the positions nor the transaction that they belong to. ``rewind``
    continues where the group is now. ``began`` and ``committed`` are offsets that the group had
    committed when the reader took up the partition, and has now; None: none.
    """

    code = ErrorCode.ILLEGAL_GENERATION

    group: str
    topic: str
    partition: int
    began: int | None
    committed: int | None

    def _text(self) -> str:
        began, now = (
            "no committed offset" if one is None else f"committed offset {one}"
            for one in (self.began, self.committed)
        )
        return (
            f"a reader of group {self.group!r} began at {began} of {self.topic}-{self.partition},"
            f" and another commit was made since ({now} now): nothing was committed; rewind the"
            " reader, and process the records that follow again"
        )


class NonEmptyGroup(KafkaError):
    """A group has a reader, or clients, so its positions are not set from outside; none was."""

    code = ErrorCode.NON_EMPTY_GROUP
    _remedy = "nothing was set; close what reads it first"

    def __init__(self, group: str, holders: tuple[str, ...] = ()) -> None:
        super().__init__(*((group, holders) if holders else (group,)))
        self.group, self.holders = group, holders

    def _text(self) -> str:
        held = ", ".join(self.holders or ("members",))
        return f"group {self.group!r} has {held}: {self._remedy}"


class GroupInUse(NonEmptyGroup, InvalidArgument):
    """Another reader of a group reads the same partitions, or clients are in it.

    Nothing was changed. A standby waits and tries again: they leave when they are closed, or end.
    """

    _remedy = "wait until the group is free, or choose other partitions or another group"


class InvalidTopic(KafkaError):
    """A topic name, or a directory name derived from it, is not valid in Kafka."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class TopicAlreadyExists(KafkaError):
    """A topic with this name already exists; nothing was changed."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(KafkaError):
    """The number of partitions is below one, or less than the topic already has."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidConfig(_WithFields, KafkaError):
    """Settings are not valid; ``problems`` names each key with the reason."""

    code = ErrorCode.INVALID_CONFIG

    problems: tuple[str, ...]

    def _text(self) -> str:
        return "invalid configuration: " + "; ".join(self.problems)


class UnsupportedForMessageFormat(KafkaError):
    """The request needs a newer record format than the log's."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class PolicyViolation(KafkaError):
    """The topic's cleanup policy does not allow the request."""

    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceNumber(KafkaError):
    """A batch's sequence does not follow the producer's last one; a batch in between was lost."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(KafkaError):
    """A newer instance of this producer has taken over."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(KafkaError):
    """A batch or marker does not fit the state of the producer's transaction."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFenced(KafkaError):
    """A marker came from a transaction coordinator that has since been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class KafkaStorageError(KafkaError):
    """The disk failed, or the log is closed or offline; other directories are not affected."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class ForkedProcess(_WithFields, KafkaStorageError):
    """Another process, of which this one is a forked child, has opened this; nothing was changed.

    ``kind`` is the class of the object, and ``pid`` the process that it belongs to.
    """

    kind: str
    pid: int

    def _text(self) -> str:
        return (
            f"this {self.kind} belongs to process {self.pid}, of which this process is a fork: open"
            " the directory here, by tidelog.join, which works through the process that holds it,"
            " or read-only, and use spawn or forkserver where the parent has threads"
        )


class DirectoryFull(KafkaStorageError):
    """Free space is down to the reserve: appends fail until space is freed; reads still work."""


class StoreError(KafkaStorageError):
    """An object store refused a request, or its answer was not what was asked for."""


class StoreNotInstalled(StoreError):
    """The package for object stores is not installed; the extra ``store`` installs it."""


class StoreUnavailable(StoreError):
    """An object store did not answer in time, or only with errors of its own; try again later."""


class ObjectNotFound(StoreError):
    """There is no object of this name."""


class CorruptArchive(StoreError):
    """What an archive says of a log contradicts itself, or is not what a release writes."""


class NewerArchive(StoreError):
    """A newer release has written to an archive; nothing of it is read or changed."""


class ArchiveDiverged(StoreError):
    """An archive is of another log, or of another history of this one; nothing was changed."""


class ArchiveOvertaken(StoreError):
    """Another writer has committed the next version of an archive; nothing was changed."""


class DamagedLog(_WithFields, KafkaStorageError):
    """A recovery found offsets that contradict each other, and one damaged batch explains that.

    Nothing was cut, and what is sound can be read. The log takes no appends, and no truncation
    above the damage, until ``tidelog recover`` cuts it there; nothing was changed.
    """

    log_name: str
    path: str
    position: int
    reason: str

    def _text(self) -> str:
        topic = self.log_name.rpartition("-")[0]
        return (
            f"the log takes no appends, since a batch is damaged at byte {self.position} of"
            f" {self.path}: {self.reason}. The records around it can be read; `tidelog recover"
            f" {topic}` cuts the log there, and keeps what it cuts for `tidelog salvage`"
        )


class ArchivedLogLost(_WithFields, KafkaStorageError):
    """The directory of a partition is gone whose log continues an archive; nothing was created.

    The archive has offsets below ``end``, which a log that began again would give to others.
    """

    path: str
    uri: str
    start: int
    end: int

    def _text(self) -> str:
        data_dir, _, name = self.path.rpartition("/")
        topic, _, number = name.rpartition("-")
        return (
            f"{self.path} is gone, and the archive {self.uri} has offsets {self.start} to"
            f" {self.end - 1} of its log, which takes no appends until it is back: stop what uses"
            f" {data_dir}, then run `tidelog restore {self.uri} {topic} -p {number} --to"
            f" {data_dir}`"
        )


class CommitPending(KafkaStorageError):
    """A committed transaction is not applied yet; its partitions take no appends until it is."""


class CommitUnfinished(KafkaStorageError):
    """The transaction is committed, but not yet applied: it must not be repeated under another id.

    A repetition with the same id is safe. The records appear once their cause, such as a full disk,
    is gone: by the running service, or when the directory is opened for writing next.
    """


class CommitOutcomeUnknown(CommitUnfinished):
    """Another process was to commit the transaction, and it is not known whether it did.

    Repeat the transaction with the same id: it is then committed once, whatever happened.
    """


class CorruptFile(KafkaStorageError):
    """A metadata or checkpoint file is malformed; nothing in it was used."""


class LogDirNotFound(KafkaError):
    """The path is not one of the configured data directories."""

    code = ErrorCode.LOG_DIR_NOT_FOUND


class InvalidReplicaAssignment(KafkaError):
    """A partition cannot be placed in the requested directory; nothing was changed."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class UnsupportedCompressionType(KafkaError):
    """The compression codec is unknown, or not allowed here."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InconsistentTopicId(KafkaError):
    """The topic id on disk differs from the one requested."""

    code = ErrorCode.INCONSISTENT_TOPIC_ID


class OffsetsOutOfOrder(KafkaError):
    """Batches that keep their own offsets do not have increasing offsets."""


class UnexpectedAppendOffset(_WithFields, KafkaError):
    """A follower's batch starts below the log end offset; both its offsets are inclusive.

    ``base_offsets`` are those of the first batches of the append.
    """

    first_offset: int
    last_offset: int
    log_end_offset: int
    log_start_offset: int
    base_offsets: tuple[int, ...]

    def _text(self) -> str:
        offsets = f"offsets {self.first_offset} to {self.last_offset}"
        held = f"log end offset {self.log_end_offset} (log start offset {self.log_start_offset})"
        batches = ", ".join(map(str, self.base_offsets))
        return f"{offsets} begin below the {held}; the first batches begin at {batches}"


class CorruptIndex(RebuildableError):
    """An index file is inconsistent; it is rebuilt from the .log file."""


class CorruptSnapshot(RebuildableError):
    """A producer snapshot is not readable; it is deleted and an older one is used."""


class SegmentOffsetOverflow(_WithFields, RebuildableError):
    """A batch's last offset does not fit the segment's 32-bit relative offsets."""

    base_offset: int
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} does not fit the segment that starts at {self.base_offset}"


class StartAborted(TidelogError):
    """A start was asked to stop while it loaded logs; those that were recovered stay recovered."""


class CleaningAborted(TidelogError):
    """A cleaning was aborted, or found a segment that must be split first; no data is lost."""


class DataLoss(_WithFields, TidelogError):
    """Requested offsets ``[start_offset, end_offset)`` no longer exist; ``cause`` gives the reason.

    The reader may continue with the remaining records by accepting the loss, unless ``cause`` says
    that it has read them already. If ``end_offset`` is None, all offsets from the start on are
    missing; their number is unknown.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int | None
    cause: str

    def __str__(self) -> str:
        is_open = self.end_offset is None
        offsets = "from {} on" if is_open else "[{}, {})"
        lost = offsets.format(self.start_offset, self.end_offset)
        return f"{self.topic}-{self.partition} has no offsets {lost}: {self.cause}"


class NotJson(_WithFields, TidelogError, ValueError):
    """The value of a record is not JSON, for this ``reason``; others can be read."""

    topic: str
    partition: int
    offset: int
    reason: str

    def __str__(self) -> str:
        place = f"offset {self.offset} of {self.topic}-{self.partition}"
        return f"the value at {place} is not JSON: {self.reason}"


class MirrorDiverged(_WithFields, TidelogError):
    """A mirror is not the beginning of its source; nothing was copied.

    ``offset`` is the log end of the mirror of this partition. The source was truncated, or somebody
    wrote to the mirror. ``source_end``: that of the source, if it ends before the mirror, which may
    be all that has the records in between; None: it does not.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    source_end: int | None = None

    def __str__(self) -> str:
        advice = "to mirror it again, delete the topic in the mirror"
        if self.source_end is not None:
            advice = (
                f"only the mirror has the records from offset {self.source_end} on: keep it, and"
                " mirror to another directory"
            )
        return (
            f"the mirror of {self.topic}-{self.partition}, which ends at {self.offset}, is not the"
            f" beginning of its source: {self.reason}; {advice}"
        )


class DirectoryLocked(_WithFields, TidelogError):
    """A process (maybe this one) already writes the data directory; ``pid`` 0 if unknown.

    ``lets_join``: a Python program can use it through that process, by ``tidelog.join``.
    """

    path: str
    pid: int = 0

    lets_join = False

    def __str__(self) -> str:
        how = "; tidelog.join writes through that process" if self.lets_join else ""
        return f"{self._use()}; one process at a time may write, any may read{how}"

    def _use(self, program: str = "") -> str:
        holder = f"process {self.pid}{program}" if self.pid else "another process"
        if self.pid == os.getpid() and not program:
            holder = f"this process ({self.pid})"
        return f"{self.path.removesuffix('/.lock')} is in use by {holder}"


class RequestNotTaken(DirectoryLocked):
    """The process that holds a directory took no request; nothing was changed."""

    pid: int
    reason: str

    def __str__(self) -> str:
        return f"{super().__str__()}. {self.reason}"


class RequestFailed(_WithFields, TidelogError):
    """A running service refused a request, or failed to carry it out.

    ``error`` is the name of the class of its error, ``text`` that error's text, and ``exit_code``
    what the command ends with. ``done`` are the parts of the result until then.
    """

    error: str
    text: str
    exit_code: int
    done: tuple[object, ...] = ()

    def __str__(self) -> str:
        return self.text


class NotServed(_WithFields, TidelogError):
    """No program that others can join has a data directory open, or none answers.

    Nothing was changed.
    """

    path: str
    reason: str | None = None

    def __str__(self) -> str:
        return self.reason or (
            f"no program has {self.path} open that others can join: start `tidelog run -d"
            f" {self.path}`, or wait for one that starts again with tidelog.join(..., wait_ms=...)"
        )


class CannotUndo(TidelogError):
    """What was done cannot be taken back, or not any more; nothing was changed."""


class OutcomeUnknown(TidelogError):
    """A service took a request and ended before it answered: it may have been carried out."""


class CommitTimeout(DirectoryLocked):
    """The directory stayed in use for ``timeout_ms``, and ``txn`` was not committed in that time.

    Nothing was written, and nothing will be. ``pid``, 0 if unknown, used the directory; it runs
    ``program``, empty if unknown. Kafka (java) commits nothing for other processes.
    """

    pid: int
    txn: str
    timeout_ms: int
    program: str = ""

    def __str__(self) -> str:
        program = f" ({self.program})" if self.program else ""
        return (
            f"{self._use(program)}, which did not commit transaction {self.txn!r}"
            f" within {self.timeout_ms:,} ms; nothing was written"
        )


class UnsupportedPlatform(TidelogError):
    """The operation needs POSIX locks, fsync and rename; reading works everywhere."""


__all__ = [
    name
    for name, one in list(globals().items())
    if isinstance(one, type) and issubclass(one, TidelogError) and not name.startswith("_")
]
