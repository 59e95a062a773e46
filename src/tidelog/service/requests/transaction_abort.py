"""Aborts an open transaction of one partition as its coordinator would, and takes that back.

Before the marker is appended a small file in the data directory, ``tidelog.<hash>.abort``, says
which one it will be. Only a marker that such a file describes, and that nothing was appended
behind, is ever taken back. Kafka: ``KafkaAdminClient.abortTransaction``, by which a
broker writes the marker; it cannot be undone there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.checkpoint_file import replace_file
from tidelog.codec.shown_rows import as_json
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.versioned_file import read_versioned
from tidelog.env.moments import utc_text
from tidelog.env.renamed_files import delete_if_there
from tidelog.errors import (
    CannotUndo,
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.log.producers.abort_plan import plan_abort
from tidelog.readonly.transactional_id import DECIDED, TRANSACTIONS_TOPIC, stored_transactions
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import TopicPartition
from tidelog.service.requests.request_arguments import partitions_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.log.producers.abort_plan import AbortPlan
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition
    from tidelog.readonly.snapshot_log import SnapshotLog
    from tidelog.readonly.transactional_id import Transaction
    from tidelog.service.requests.home import Home

_log = logging.getLogger(__name__)

VERSION: Final = 1
SUFFIX: Final = ".abort"
COORDINATOR_VERSION: Final = 0
"""The transaction version of the marker: that of Kafka's tool, which knows no other."""
_HASH_BYTES: Final = 16
_OFFSET_BYTES: Final = 8
_LEADER_EPOCH: Final = slice(12, 16)


class AbortRecord(NamedTuple):
    """What the file of an abort says: the plan, the topic, and the marker as it was to be.

    The offset and the leader epoch in ``marker`` are not those of the log.
    """

    plan: Mapping[str, Any]
    topic_id: str
    marker: bytes
    time_ms: int


def path_of(data_dir: str, key: TopicPartition) -> str:
    """Return the path of the file about a partition."""
    name = hashlib.blake2b(str(key).encode(), digest_size=_HASH_BYTES).hexdigest()
    return os.path.join(data_dir, f"tidelog.{name}{SUFFIX}")


def read_record(fs: FileSystem, data_dir: str, key: TopicPartition) -> AbortRecord | None:
    """Return what is known of the last abort in a partition; None: nothing.

    Raises CannotUndo for a file that cannot be read.
    """

    def parse(content: dict[str, Any]) -> AbortRecord:
        plan = content["plan"]
        if (plan["topic"], plan["partition"]) != key:
            raise ValueError(f"it is about {plan['topic']}-{plan['partition']}")
        marker = base64.b64decode(content["marker"], validate=True)
        return AbortRecord(plan, content["topicId"], marker, content["timeMs"])

    path = path_of(data_dir, key)
    try:
        return read_versioned(fs, path, VERSION, parse)
    except FileNotFoundError:
        return None
    except (OSError, KafkaStorageError) as error:
        raise CannotUndo(f"{path} cannot be read: {error}") from error


def abort_transaction(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Append an abort marker for the open transaction of a producer, durably.

    Returns the plan that was carried out. Raises InvalidArgument if that transaction is not open
    any more, or is one that a coordinator has to end: see ``coordinated``; KafkaStorageError while
    that is not known, as without a log of the coordinator; and as ``Partition.append``,
    CommitPending among others.
    """
    key, partition = _partition(home.manager, arguments)
    _check_uncoordinated(home.manager, arguments["producer_id"], key)
    with partition.listeners, partition.lock:
        log = partition.log
        plan = plan_of(key, log, arguments["producer_id"])
        if plan.first_offset != arguments["first_offset"]:
            raise InvalidArgument(
                f"the open transaction of producer {plan.producer_id} in {key} begins at offset"
                f" {plan.first_offset}, not {arguments['first_offset']}; nothing was written"
            )
        time_ms = home.machine.clock.now_ms()
        marker = plan.marker(time_ms)
        topic_id = format_uuid(home.manager.topic(key.topic).topic_id)
        record = AbortRecord(as_json(plan), topic_id, marker, time_ms)
        # Before the marker is appended: an abort without its record could not be undone.
        _write_record(home.machine.fs, log.data_dir, key, record)
        info = partition.append(
            marker, AppendOrigin.COORDINATOR, transaction_version=COORDINATOR_VERSION
        )
        log.flush(force=True)
    _log.info(
        "transaction-aborted topic=%s partition=%d producer_id=%d first_offset=%d marker_offset=%d",
        *(*key, plan.producer_id, plan.first_offset, info.last_offset),
    )
    return as_json(plan)


def check_abort(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Change nothing; raise the errors of ``abort_transaction`` about a coordinator.

    So a plan, which knows only the files, learns whether a broker runs.
    """
    key, _ = _partition(home.manager, arguments)
    _check_uncoordinated(home.manager, arguments["producer_id"], key)
    return {}


def _check_uncoordinated(manager: LogManager, producer_id: int, key: TopicPartition) -> None:
    """Raise InvalidArgument for a transaction that a coordinator here has to end."""
    broker = manager.coordinated
    known = (broker or partial(_in_logs, manager))(producer_id, key)
    if known is not None:
        now_ms = manager.machine.clock.now_ms()
        raise coordinated(known, key, now_ms, is_broker=broker is not None)


def _in_logs(manager: LogManager, producer_id: int, key: TopicPartition) -> Transaction | None:
    """As ``LogManager.coordinated`` where no broker runs: the next one takes up what is stored."""
    topic = manager.topics().get(TRANSACTIONS_TOPIC)
    missing = []
    for number in () if topic is None else sorted(topic.partitions):
        home = TopicPartition(TRANSACTIONS_TOPIC, number)
        try:
            # Asked before the log: to load it would begin it again, empty.
            if manager.is_missing(home):
                missing.append(home)
                continue
            log = manager.partition(*home).log
        except UnknownTopicOrPartition:  # in a directory that is not open here
            continue
        with log.watch("reading transactions"):
            for found in stored_transactions(log.records(), log.directory).values():
                if found.producer_id == producer_id and found.is_to_end_in(key):
                    return found
    check_none_missing(missing)
    return None


def check_none_missing(missing: Sequence[TopicPartition]) -> None:
    """Raise KafkaStorageError if logs of coordinators are missing: they may know the transaction.

    A service that starts begins them again, empty, and logs a warning; from then on an abort is not
    refused.
    """
    if missing:
        raise KafkaStorageError(
            f"the directories of {', '.join(map(str, missing))} are missing, and may have the"
            " transaction: its client could commit it later; nothing was written. Put them back; if"
            " they are lost, start tidelog serve, which begins them empty, and repeat this"
        )


def coordinated(
    known: Transaction, key: TopicPartition, now_ms: int, *, is_broker: bool | None
) -> InvalidArgument:
    """Return the error about a transaction that a coordinator has to end in a partition.

    A marker that it does not know of would lose records: it answers the client's commit with
    success, also after a restart, and writes a commit marker that ends nothing, since the
    transaction is aborted there already. To change its record as well would end the transaction in
    one partition only, or all of them at once, which ``tidelog serve`` does by itself.

    ``is_broker``: whether a broker runs here; None: a process does of which that is not known.
    """
    if is_broker is False:
        end = f"No broker runs here; {_by_a_start(known, now_ms)}"
    else:
        end = f"Its coordinator, the broker of this directory (tidelog serve), {_by_broker(known)}"
    if is_broker is None:
        end += (
            ". If the process that has the directory is not tidelog serve but a program, or tidelog"
            f" run, no broker runs; stop it, and {_by_a_start(known, now_ms)}"
        )
    return InvalidArgument(
        f"the transaction of producer {known.producer_id} in {key} is that of transactional id"
        f" {known.transactional_id!r}; nothing was written. {end}"
    )


def _by_broker(known: Transaction) -> str:
    """Return, in words, what a broker that runs does about a transaction."""
    if known.state in DECIDED:
        return f"has decided about it ({known.state.shown}), and writes the marker once it can"
    until = utc_text(known.started_ms + known.timeout_ms)
    end = "ends it as its client says, or aborts it once its time is over"
    end += f" ({until} UTC)" * (until is not None)
    return f"{end}; a client that begins with that id aborts it at once"


def _by_a_start(known: Transaction, now_ms: int) -> str:
    """Return, in words, what the start of a broker does about a transaction."""
    start = "start tidelog serve: it"
    if known.state in DECIDED:
        return f"{start} writes the marker of what was decided ({known.state.shown}) at once"
    until_ms = known.started_ms + known.timeout_ms
    until = utc_text(until_ms)
    shown = "" if until is None else f"{until} UTC"
    if until_ms <= now_ms:
        return f"{start} aborts it at once, as its time is over{shown and f' ({shown})'}"
    when = f"at {shown}" if shown else "once its time is over"
    return f"{start} aborts it {when}, or at once when a client begins with that transactional id"


def plan_of(key: TopicPartition, log: Log | SnapshotLog, producer_id: int) -> AbortPlan:
    """Return the marker that would be appended to a log; errors as ``plan_abort``."""
    return plan_abort(
        key,
        log.active_producers(),
        producer_id,
        log_end_offset=log.log_end_offset,
        high_watermark=log.high_watermark,
    )


def undo_abort(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Truncate the marker that ``abort_transaction`` appended last; the transaction is open again.

    Repeatable after a crash. Raises CannotUndo, with nothing changed, if there is no such marker,
    or if something was appended after it.
    """
    key, partition = _partition(home.manager, arguments)
    fs = home.machine.fs
    with partition.listeners, partition.lock:
        log = partition.log
        data_dir = log.data_dir
        record = read_record(fs, data_dir, key)
        if record is None:
            raise CannotUndo(f"no abort of a transaction in {key} is known")
        if record.topic_id != format_uuid(home.manager.topic(key.topic).topic_id):
            raise CannotUndo(f"the abort was made in another topic of the name {key.topic}")
        offset = int(record.plan["markerOffset"])
        if log.log_end_offset > offset:
            _check_last(log, key, record, offset)
            home.manager.truncation.truncate_to({key: offset})
            log.flush(force=True)
            _log.info("transaction-abort-undone topic=%s partition=%d offset=%d", *key, offset)
        _delete_record(fs, data_dir, key)
        return {**record.plan, "lastStableOffsetAfter": log.last_stable_offset}


def check_undo(
    key: TopicPartition, record: AbortRecord, disk_start_offset: int, log_end_offset: int
) -> None:
    """Raise CannotUndo if something follows the marker of this record, or the disk lacks it."""
    offset = int(record.plan["markerOffset"])
    if log_end_offset > offset + 1:
        raise CannotUndo(
            f"{key} has records from {offset + 1} on, after the marker at {offset}: what readers"
            " have seen there would be lost"
        )
    if disk_start_offset > offset:
        raise CannotUndo(
            f"{key} starts at {disk_start_offset} on the disk, after the marker at {offset}, which"
            " was deleted there: an archive may have it, and archives are not cut"
        )


def _check_last(log: Log, key: TopicPartition, record: AbortRecord, offset: int) -> None:
    """Raise CannotUndo unless the log ends with the marker of this record."""
    check_undo(key, record, log.local_log_start_offset, log.log_end_offset)
    size = len(record.marker)
    with log.watch("reading"), log.read(offset, size, isolation=Isolation.LOG_END) as found:
        data = bytearray(found.read())
    # Offset and leader epoch are assigned by the log.
    for area in (slice(_OFFSET_BYTES), _LEADER_EPOCH):
        data[area] = record.marker[area]
    if bytes(data) != record.marker:
        raise CannotUndo(f"what {key} has at {offset} is not the marker that was written there")


def _partition(
    manager: LogManager, arguments: Mapping[str, Any]
) -> tuple[TopicPartition, Partition]:
    keys = partitions_of(arguments)
    if len(keys) != 1:
        raise InvalidArgument("a transaction is aborted in one partition at a time")
    return keys[0], manager.partition(*keys[0])


def _write_record(fs: FileSystem, data_dir: str, key: TopicPartition, record: AbortRecord) -> None:
    content = {
        "version": VERSION,
        "plan": dict(record.plan),
        "topicId": record.topic_id,
        "marker": base64.b64encode(record.marker).decode("ascii"),
        "timeMs": record.time_ms,
    }
    path = path_of(data_dir, key)
    try:
        replace_file(fs, path, json.dumps(content).encode())
    except OSError as error:
        raise KafkaStorageError(f"writing {path} failed: {error}; nothing was aborted") from error


def _delete_record(fs: FileSystem, data_dir: str, key: TopicPartition) -> None:
    path = path_of(data_dir, key)
    try:
        delete_if_there(fs, path)
    except OSError as error:
        raise KafkaStorageError(f"deleting {path} failed: {error}; repeat it") from error
