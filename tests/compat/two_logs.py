"""Kafka's own log, and ours, act by act: each answers with the result of an act.

An act is a name and some values; ``KafkaLog.java`` lists them. An answer may have a ``result``, an
``error`` with its ``errorMessage`` and the ``errorCode`` that a client gets, ``taskErrors``, and
while the log is open its ``state``. Tasks that are due have run before the answer.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import traceback
import zlib
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tests.machinery.record_values import iterate

from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.pick import examine
from tidelog.cleaner.throttle import CleanerIo
from tidelog.config.log_config import LogConfig
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptSnapshot, KafkaError, TidelogError
from tidelog.log.log import Log
from tidelog.log.producers.producer_snapshot import unpack_snapshot
from tidelog.log.producers.producer_state import ProducerStateConfig
from tidelog.records.isolation import Isolation
from tidelog.records.memory import walk
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import ManualClock
from tidelog.testing.manual_time import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.compat.conftest import Java

    from tidelog.log.append_info import AppendInfo
    from tidelog.records.record import Record

    Answer = dict[str, Any]

ISOLATIONS = {
    "LOG_END": Isolation.LOG_END,
    "HIGH_WATERMARK": Isolation.READ_UNCOMMITTED,
    "TXN_COMMITTED": Isolation.READ_COMMITTED,
}
DAY_MS = 86_400_000
CODEC = 0x07
"""The bits of a batch's attributes that name its codec."""


class OneLog(Protocol):
    """A log that does one act after the other."""

    def ask(self, act: str, **how: Any) -> Answer:
        """Do an act; return what came of it."""

    def stop(self) -> None:
        """End the process."""


def opening(
    directory: Path,
    config: dict[str, str],
    now_ms: int,
    *,
    is_clean: bool = True,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    expiration_ms: int = DAY_MS,
    verifies: bool = False,
) -> dict[str, Any]:
    """Return what the act ``open`` needs."""
    return {
        "directory": str(directory),
        "config": config,
        "now": now_ms,
        "isClean": is_clean,
        "logStartOffset": log_start_offset,
        "recoveryPoint": recovery_point,
        "producerExpirationMs": expiration_ms,
        "verifies": verifies,
    }


class KafkaLog:
    """Kafka's log in a Java of its own; one is open at a time."""

    def __init__(self, java: Java) -> None:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        command = java.command("org.apache.kafka.storage.internals.log.KafkaLog")
        self._process = subprocess.Popen(
            [command[0], quiet, *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, act: str, **how: Any) -> Answer:
        """Do an act; return what came of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"act": act} | {name: _plain(value) for name, value in how.items()}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: Answer = json.loads(self._process.stdout.readline())
        return answer

    def stop(self) -> None:
        """End the Java."""
        self._process.kill()
        self._process.communicate()


def _plain(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


class OwnLog:
    """Our log; errors that are not of tidelog's own kind are raised."""

    def __init__(self) -> None:
        self.log: Log | None = None
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)

    @property
    def opened(self) -> Log:
        """The log, which is open."""
        assert self.log is not None
        return self.log

    def ask(self, act: str, **how: Any) -> Answer:
        """Do an act; return what came of it."""
        answer: Answer = {}
        try:
            self._act(act, how, answer)
        except TidelogError as error:
            code = int(error.code) if isinstance(error, KafkaError) else -1
            message = traceback.format_exc()
            answer |= {"error": type(error).__name__, "errorCode": code, "errorMessage": message}
        errors = self._run_due(how["ms"] if act == "advance" else 0)
        if errors:
            answer["taskErrors"] = errors
        if self.log is not None:
            answer["state"] = state_of(self.log)
        return answer

    def stop(self) -> None:
        """End the process, if the log is still open."""
        if self.log is not None:
            self.ask("crash")

    def _run_due(self, ms: int) -> list[str]:
        """Let time pass; return the errors of tasks."""
        errors = []
        end_ms = self.clock.elapsed_ms() + ms
        while True:
            try:
                self.clock.advance(end_ms - self.clock.elapsed_ms())
            except TidelogError as error:
                errors.append(repr(error))
            else:
                return errors

    def _act(self, act: str, how: dict[str, Any], answer: Answer) -> None:
        match act:
            case "open":
                self._open(how)
            case "close" | "crash":
                closed, self.log = self.opened, None
                closed.close() if act == "close" else closed.close_handlers()
            case "set time":
                self.clock.set_time_of_day(how["now"])
            case "advance" | "look":
                pass
            case "clean":
                answer["result"] = self._clean(self.opened, how)
            case "consume":
                answer["result"] = []
                answer["result"].extend(_consume(self.opened, how))
            case _:
                answer["result"] = ACTS[act](self.opened, how)

    def _open(self, how: dict[str, Any]) -> None:
        self.log = None
        self.clock = ManualClock(how["now"])
        self.scheduler = ManualScheduler(self.clock)
        self.log = Log.open(
            how["directory"],
            fs=SYSTEM_FILES,
            clock=self.clock,
            scheduler=self.scheduler,
            rng=Random(0),
            config=LogConfig.parse(how["config"]),
            log_start_offset=how["logStartOffset"],
            recovery_point=how["recoveryPoint"],
            clean_shutdown=how["isClean"],
            producer_config=ProducerStateConfig(
                producer_id_expiration_ms=how["producerExpirationMs"],
                transaction_verification=how["verifies"],
            ),
        )

    def _clean(self, log: Log, how: dict[str, Any]) -> list[int]:
        now_ms = self.clock.now_ms()
        found = examine(log, how["checkpoint"], now_ms)
        sizes = [found.offsets.first_dirty_offset, found.clean_bytes, found.cleanable_bytes]
        if not found.cleanable_bytes:
            return sizes
        cleaner = Cleaner(
            CleanerSettings(how["mapBytes"], 0.9),
            clock=self.clock,
            scheduler=self.scheduler,
            rng=Random(0),
            io=CleanerIo(1 << 16, lambda: None),
        )
        return [*sizes, cleaner.clean(log, found.offsets, now_ms).end_offset]


def _lead(log: Log, how: dict[str, Any]) -> list[int]:
    info = log.append_as_leader(
        how["data"],
        how["epoch"],
        origin=AppendOrigin[how["origin"]],
        transaction_version=how["transactionVersion"],
    )
    return _result(info)


def _result(info: AppendInfo) -> list[int]:
    """Return the offsets and times of an append; of a repeated one the greatest is not known."""
    greatest = -1 if info.is_duplicate else info.max_timestamp
    offsets = info.first_offset, info.last_offset
    return [*offsets, greatest, info.log_append_time, info.log_start_offset]


def _configure(log: Log, how: dict[str, Any]) -> None:
    log.update_config(LogConfig.parse(how["config"]))


def _roll(log: Log, _: dict[str, Any]) -> None:
    log.roll()


def _assign_epoch(log: Log, how: dict[str, Any]) -> None:
    log.maybe_assign_epoch(how["epoch"], how["offset"])


def _read(log: Log, how: dict[str, Any]) -> list[Any]:
    isolation = ISOLATIONS[how["isolation"]]
    place = how["offset"], how["maxBytes"]
    with log.read(*place, isolation=isolation, min_one_batch=how["minOneBatch"]) as found:
        data = found.read()
        aborted = [[each.producer_id, each.first_offset] for each in found.aborted or ()]
        return [len(data), zlib.crc32(data), found.is_first_batch_cut, aborted]


def _find(log: Log, how: dict[str, Any]) -> str:
    found = log.fetch_offset_by_timestamp(how["time"])
    if found is None:
        return "none"
    epoch = "null" if found.leader_epoch is None else found.leader_epoch
    return f"{found.offset} {found.timestamp} {epoch}"


def _end_of_epoch(log: Log, how: dict[str, Any]) -> list[int] | None:
    found = log.end_offset_for_epoch(how["epoch"])
    return None if found is None else [found.leader_epoch, found.offset]


def _consume(log: Log, how: dict[str, Any]) -> Iterator[list[int]]:
    """Yield offset and checksum of all records before an error."""
    for each in log.records(isolation=ISOLATIONS[how["isolation"]]):
        yield [each.offset, checksum(each)]


def is_same_answer(theirs: Answer, ours: Answer) -> bool:
    """Whether both acts had the same result, and both or none an error, whatever it is called."""
    have_failed = ["error" in each for each in (theirs, ours)]
    return theirs.get("result") == ours.get("result") and have_failed[0] == have_failed[1]


def finds_later(time: int, theirs: Answer, ours: Answer) -> bool:
    """Whether a lookup by time finds a record where Kafka, which looks in one segment, does not."""
    found = ours.get("result", "none")
    return theirs.get("result") == "none" != found and int(found.split()[1]) >= time >= 0


ACTS: dict[str, Callable[[Log, dict[str, Any]], object]] = {
    "configure": _configure,
    "lead": _lead,
    "follow": lambda log, how: _result(log.append_as_follower(how["data"], how["epoch"])),
    "update high watermark": lambda log, how: log.update_high_watermark(how["offset"]),
    "raise start": lambda log, how: log.maybe_increment_log_start_offset(how["offset"]),
    "retain": lambda log, _: log.delete_old_segments(),
    "roll": _roll,
    "flush": lambda log, how: log.flush(force=how["force"]),
    "truncate": lambda log, how: log.truncate_to(how["offset"]),
    "truncate fully": lambda log, how: log.truncate_fully_and_start_at(how["offset"]),
    "assign epoch": _assign_epoch,
    "expire": lambda log, _: log.remove_expired_producers(),
    "end of epoch": _end_of_epoch,
    "find": _find,
    "read": _read,
}


def checksum(record: Record) -> int:
    """Sum up a record as ``KafkaLog.java`` does."""
    epoch = -1 if record.leader_epoch is None else record.leader_epoch
    data = struct.pack(">qqq", record.timestamp, int(record.timestamp_type), epoch)
    texts = [record.key, record.value]
    for name, value in record.headers:
        texts += [name.encode(), value]
    for text in texts:
        data += struct.pack(">q", -1 if text is None else len(text)) + (text or b"")
    return zlib.crc32(data)


def state_of(log: Log) -> dict[str, Any]:
    """Return offsets, epochs, producers and segments."""
    topic_id = log.topic_id
    text = None if topic_id is None else base64.urlsafe_b64encode(topic_id.bytes).decode()
    producers = [
        [
            entry.producer_id,
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.last_timestamp,
            -1 if entry.txn_first_offset is None else entry.txn_first_offset,
            [
                [
                    batch.first_sequence,
                    batch.last_sequence,
                    batch.first_offset,
                    batch.last_offset,
                    batch.timestamp,
                ]
                for batch in entry.batches
            ],
        ]
        for _, entry in sorted(log.producers.producers.items())
    ]
    return {
        "logStartOffset": log.log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "lastStableOffset": log.last_stable_offset,
        "recoveryPoint": log.recovery_point,
        "firstUnstableOffset": log.first_unstable_offset,
        "topicId": text and text.rstrip("="),
        "epochs": [list(entry) for entry in log.epochs.entries],
        "producers": producers,
        "segments": [[each.base_offset, each.size_bytes] for each in log.segments],
    }


def files_of(directory: Path, *, is_closed: bool) -> dict[str, object]:
    """Return what lies in a directory: snapshots by meaning, all else by the byte.

    Files that wait for deletion or replacement are left out: when they go is a matter of time.
    Of a log that was not closed the room after an index's entries is left out.
    """
    found: dict[str, object] = {}
    for path in directory.iterdir():
        data = path.read_bytes()
        if path.suffix in {".deleted", ".tmp"}:
            continue
        found[path.name] = data
        if path.suffix == ".snapshot":
            try:
                found[path.name] = sorted(unpack_snapshot(data))
            except CorruptSnapshot:
                continue
        elif not is_closed and path.suffix in {".index", ".timeindex", ".log"}:
            found[path.name] = data.rstrip(b"\0")
    return {name: data for name, data in found.items() if is_closed or data != b""}


def batches_of(directory: Path) -> list[tuple[Any, ...]]:
    """Return of each batch the file, the header, the records, and the bytes if they lie plain."""
    found = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        batches, _, error = walk(data, check_crc=True)
        assert error is None
        for index in range(len(batches)):
            header = batches.header(index)._asdict()
            raw = data[batches.position[index] : batches.end[index]]
            records = list(iterate(data, batches.slice(index, index + 1), control=True))
            if header["attributes"] & CODEC:
                del header["length"], header["crc"]
                raw = b""
            found.append((path.name, header, records, raw))
    return found
