"""Damaged and odd directories, opened here and by Kafka's own log: what each makes of them.

Cases are made from seeds. ``RECOVERY_SEED=5000 SCALE=10 pytest -m compat`` on this file tries
2000 others than those of every run.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import struct
import subprocess
import traceback
import zlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.config.log_config import LogConfig
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptSnapshot, TidelogError
from tidelog.log.log import Log
from tidelog.log.producers.producer_snapshot import unpack_snapshot
from tidelog.records.isolation import Isolation
from tidelog.testing import ManualClock
from tidelog.testing.damage import bases
from tidelog.testing.odd_logs import StoredLog
from tidelog.testing.recovery_case import CHANGED_S, RecoveryCase, make_case
from tidelog.testing.scale import scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.compat.conftest import Java
    from tests.conftest import Enumerated

    from tidelog.log.offset_lookup import TimestampedOffset
    from tidelog.records.record import Record

pytestmark = [pytest.mark.compat, pytest.mark.slow]

GOLDEN = Path(__file__).parents[1] / "golden" / "data"
LARGEST_BYTES = 400_000
FIRST_SEED = int(os.environ.get("RECOVERY_SEED", "0"))
CASES = scaled(200)
BLOCKS = 8
SMALL_INDEXES = {"segment.index.bytes": "65536"}


@cache
def stored_logs() -> list[StoredLog]:
    """Return the smaller logs of the golden data, healthy, damaged and recovered."""
    found = []
    for folder in sorted(GOLDEN.rglob("*-[0-9]*")):
        is_log = folder.is_dir() and not {"expected", "dump"}.intersection(folder.parts)
        if not is_log or folder.name.startswith("__"):
            continue
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        if 0 < sum(map(len, files.values())) < LARGEST_BYTES:
            case = next(up for up in folder.parents if (up / "case.json").exists())
            about = json.loads((case / "case.json").read_text("utf-8"))
            settings = about.get("topic configs", {}).get(folder.name.rpartition("-")[0], {})
            origin = folder.relative_to(GOLDEN).as_posix()
            settings = {**SMALL_INDEXES, **settings}
            found.append(StoredLog(origin, folder.name, files, about["takenAtMs"], settings))
    return found


class Opener:
    """Kafka's log in a Java of its own: it opens one directory after the other."""

    def __init__(self, java: Java) -> None:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        command = java.command("LogOpener")
        self._process = subprocess.Popen(
            [command[0], quiet, *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def open(self, case: RecoveryCase, directory: Path) -> dict[str, Any]:
        """Open the directory and use the log as the case says; return what it answered."""
        asked = {
            "directory": str(directory),
            "config": case.log.settings,
            "now": case.log.now_ms,
            "isClean": case.is_clean,
            "recoveryPoint": case.recovery_point,
            "logStartOffset": case.log_start_offset,
            "highWatermark": case.high_watermark,
            "times": case.times,
            "append": [base64.b64encode(batch).decode() for batch in case.append],
            "closes": case.closes,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def stop(self) -> None:
        """End the Java."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def opener(java: Java) -> Iterator[Opener]:
    """One Java for all cases of a worker."""
    made = Opener(java)
    yield made
    made.stop()


def checksum(record: Record) -> int:
    """Sum up a record as ``LogOpener`` does."""
    epoch = -1 if record.leader_epoch is None else record.leader_epoch
    data = struct.pack(">qqq", record.timestamp, int(record.timestamp_type), epoch)
    texts = [record.key, record.value]
    for name, value in record.headers:
        texts += [name.encode(), value]
    for text in texts:
        data += struct.pack(">q", -1 if text is None else len(text)) + (text or b"")
    return zlib.crc32(data)


def open_here(case: RecoveryCase, directory: Path) -> dict[str, Any]:
    """Do what ``LogOpener`` does, with our log."""
    answer: dict[str, Any] = {}
    try:
        log = Log.open(
            str(directory),
            fs=SYSTEM_FILES,
            clock=ManualClock(case.log.now_ms),
            scheduler=InlineScheduler(),
            rng=Random(0),
            config=LogConfig.parse(case.log.settings),
            log_start_offset=case.log_start_offset,
            recovery_point=case.recovery_point,
            clean_shutdown=case.is_clean,
        )
    except TidelogError as error:
        return {"error": type(error).__name__, "errorMessage": traceback.format_exc()}
    tell_offsets(log, case, answer)
    tell_state(log, answer)
    answer["uncommitted"] = consume(log, Isolation.READ_UNCOMMITTED)
    answer["committed"] = consume(log, Isolation.READ_COMMITTED)
    answer["found"] = [find(log, time) for time in case.times]
    answer["appended"] = [append(log, batch) for batch in case.append]
    if case.closes:
        log.flush(force=True)
        log.close()
    else:
        log.close_handlers()
    return answer


def tell_offsets(log: Log, case: RecoveryCase, answer: dict[str, Any]) -> None:
    """Note the offsets, with the high watermark of the checkpoint and with the log's end."""
    answer["logStartOffset"] = log.log_start_offset
    answer["recoveryPoint"] = log.recovery_point
    answer["logEndOffset"] = log.log_end_offset
    topic_id = log.topic_id
    text = None if topic_id is None else base64.urlsafe_b64encode(topic_id.bytes).decode()
    answer["topicId"] = text and text.rstrip("=")
    log.update_high_watermark(case.high_watermark)
    answer["checkpointedHighWatermark"] = log.high_watermark
    answer["checkpointedStableOffset"] = log.last_stable_offset
    log.update_high_watermark(log.log_end_offset)
    answer["highWatermark"] = log.high_watermark
    answer["lastStableOffset"] = log.last_stable_offset


def tell_state(log: Log, answer: dict[str, Any]) -> None:
    """Note epochs, producers and segments."""
    answer["epochs"] = [list(entry) for entry in log.epochs.entries]
    answer["producers"] = [
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
    answer["segments"] = [[each.base_offset, each.size_bytes] for each in log.segments]


def consume(log: Log, isolation: Isolation) -> dict[str, Any]:
    """Read all records, up to an error."""
    records: list[list[int]] = []
    try:
        records.extend([each.offset, checksum(each)] for each in log.records(isolation=isolation))
    except TidelogError as error:
        return {"records": records, "error": type(error).__name__}
    return {"records": records}


def find(log: Log, time: int) -> str:
    """Look a time up."""
    try:
        found: TimestampedOffset | None = log.fetch_offset_by_timestamp(time)
    except TidelogError as error:
        return f"error {type(error).__name__}"
    if found is None:
        return "none"
    epoch = "null" if found.leader_epoch is None else found.leader_epoch
    return f"{found.offset} {found.timestamp} {epoch}"


def append(log: Log, batch: bytes) -> str:
    """Append a batch as a leader; return its last offset, or the error."""
    try:
        return str(log.append_as_leader(batch, log.latest_epoch or 0).last_offset)
    except TidelogError as error:
        return type(error).__name__


def lay(case: RecoveryCase, directory: Path) -> Path:
    """Write the files of a case; they all were changed at the same time."""
    directory.mkdir(parents=True)
    for name, data in case.files.items():
        (directory / name).write_bytes(data)
        os.utime(directory / name, (CHANGED_S, CHANGED_S))
    return directory


def files_of(directory: Path, *, is_closed: bool) -> dict[str, object]:
    """Return what lies in a directory: snapshots by meaning, all else by the byte.

    Files that wait for deletion or replacement are left out: when they go is a matter of time. The
    epochs are compared by meaning elsewhere, since Kafka writes the file anew at each start.
    Of a log that was not closed the room behind an index's entries is left out.
    """
    found: dict[str, object] = {}
    for path in directory.iterdir():
        data = path.read_bytes()
        if path.suffix in {".deleted", ".tmp"} or path.name == "leader-epoch-checkpoint":
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


@dataclass(frozen=True)
class Outcome:
    """One case, and what Kafka and we made of it; ``events`` are our log lines."""

    case: RecoveryCase
    kafka: dict[str, Any]
    here: dict[str, Any]
    kafka_files: dict[str, object]
    files: dict[str, object]
    events: list[str]

    @property
    def differences(self) -> list[str]:
        """Name what differs, with both values."""
        if "error" in self.kafka or "error" in self.here:
            errors = [side.get("error") for side in (self.kafka, self.here)]
            return [] if all(errors) else [f"error: {errors} {self.here.get('errorMessage', '')}"]
        found = []
        for name, theirs in self.kafka.items():
            if name.endswith("Message"):
                continue
            ours = self.here.get(name)
            if not same(name, theirs, ours):
                found.append(f"{name}: {theirs} != {ours}"[:400])
        for name in sorted(self.kafka_files.keys() | self.files.keys()):
            if self.kafka_files.get(name) != self.files.get(name):
                sides = self.kafka_files.get(name), self.files.get(name)
                found.append(f"file {name}: {sides}"[:400])
        return found


def same(name: str, theirs: Any, ours: Any) -> bool:
    """Compare one answer; errors count as equal whatever they are called."""
    if name in {"uncommitted", "committed"}:
        return theirs["records"] == ours["records"] and ("error" in theirs) == ("error" in ours)
    if name == "found":
        pairs = zip(theirs, ours, strict=True)
        return all(one == two or ("error" in one and "error" in two) for one, two in pairs)
    if name == "appended":
        pairs = zip(theirs, ours, strict=True)
        return all(one == two or not (one.isdigit() or two.isdigit()) for one, two in pairs)
    return bool(theirs == ours)


def says(*words: str) -> Callable[[Outcome], bool]:
    """Make a rule: one of our log lines begins with one of the words."""
    return lambda outcome: any(line.startswith(words) for line in outcome.events)


def refused(*texts: str) -> Callable[[Outcome], bool]:
    """Make a rule: Kafka gives up with one of these messages, and we do not."""

    def applies(outcome: Outcome) -> bool:
        message = outcome.kafka.get("errorMessage") or ""
        return "error" in outcome.kafka and message.startswith(texts)

    return applies


def only(*names: str) -> Callable[[Outcome], bool]:
    """Make a rule: nothing differs but what begins with these names."""
    return lambda outcome: all(each.startswith(names) for each in outcome.differences)


def has_damaged(*kinds: str) -> Callable[[Outcome], bool]:
    """Make a rule: the damage mentions one of these words."""
    return lambda outcome: any(kind in what for what in outcome.case.done for kind in kinds)


def both(*rules: Callable[[Outcome], bool]) -> Callable[[Outcome], bool]:
    """Make a rule of several that must all hold."""
    return lambda outcome: all(rule(outcome) for rule in rules)


def append_fails(outcome: Outcome) -> bool:
    """Whether an append was refused."""
    return not all(each.isdigit() for each in outcome.here.get("appended", []))


def meets_damage(outcome: Outcome) -> bool:
    """Whether a consumer or a lookup meets damage on one of both sides."""
    sides = outcome.kafka, outcome.here
    if any("error" in side.get("uncommitted", {}) for side in sides):
        return True
    return any("error" in found for side in sides for found in side.get("found", []))


WANTED: dict[str, Callable[[Outcome], bool]] = {
    "an unfinished end of a log that was shut down cleanly is cut off": says("clean-log-cut"),
    "offsets that cannot be are damage": lambda outcome: outcome.case.has_odd_offsets,
    "a magic that nobody reads is damage": lambda outcome: any(
        "has magic" in line for line in outcome.events
    ),
    "an index larger than its greatest size stops Kafka": refused("newPosition > limit"),
    "zeros behind the entries of an index are room": has_damaged("zeros", "zero ", "swap"),
    "the last stable offset stays within the log, and where it was asked for": only(
        "lastStableOffset", "checkpointedStableOffset"
    ),
    "damaged batches are opened in another order by a lookup": both(only("found"), meets_damage),
    "an append that fails leaves nothing in the file": both(only("file "), append_fails),
    "a transaction index of an unknown version stops Kafka": refused("Unexpected aborted"),
    "a file whose name is not an offset stops Kafka, and is left alone": both(
        lambda outcome: outcome.kafka.get("error") == "NumberFormatException",
        has_damaged("odd name"),
    ),
    "an index that is garbage leads lookups, and readers of committed records, elsewhere": both(
        only("found", "committed"), has_damaged("index", "swap")
    ),
}
"""What may differ from Kafka, each as ``docs/differences.md`` says and gives the reason for."""


def run(case: RecoveryCase, opener: Opener, folder: Path) -> Outcome:
    """Let Kafka and us open the same files."""
    theirs, ours = (lay(case, folder / side / case.log.name) for side in ("kafka", "here"))
    events: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            events.append(record.getMessage())

    handler = Handler()
    logger = logging.getLogger("tidelog")
    logger.addHandler(handler)
    try:
        here = open_here(case, ours)
    finally:
        logger.removeHandler(handler)
    kafka = opener.open(case, theirs)
    outcome = Outcome(
        case,
        kafka,
        here,
        files_of(theirs, is_closed=case.closes),
        files_of(ours, is_closed=case.closes),
        events,
    )
    shutil.rmtree(folder)
    return outcome


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_damaged_log_ends_as_kafkas_own_recovery_leaves_it(
    block: int, opener: Opener, tmp_path: Path, enumerated: Enumerated
) -> None:
    """Records, offsets, lookups, epochs, producers and files are equal, or the reason is known."""
    unexpected = []
    seeds = range(FIRST_SEED + block, FIRST_SEED + CASES, BLOCKS)
    enumerated("damaged logs", len(seeds), at_least=1)
    for seed in seeds:
        case = make_case(seed, stored_logs())
        outcome = run(case, opener, tmp_path / str(seed))
        if outcome.differences and not any(rule(outcome) for rule in WANTED.values()):
            unexpected.append("\n  ".join([str(case), *outcome.differences]))

    assert not unexpected, "\n".join(unexpected)


def as_after_a_crash(case: RecoveryCase) -> RecoveryCase:
    """Return the case such that all segments are checked, and nothing is appended."""
    first = min(bases(case.files), default=0)
    return replace(
        case, append=[], times=[], is_clean=False, recovery_point=0, log_start_offset=first
    )


def read_without_opening(directory: Path) -> tuple[list[list[int]], Exception | None]:
    """Return the records that a read-only open shows, and the error behind them."""
    records: list[list[int]] = []
    try:
        with tidelog.open_read_only(directory) as log:
            records.extend([each.offset, checksum(each)] for each in log.records())
    except TidelogError as error:
        return records, error
    return records, None


def test_whoever_only_reads_a_damaged_log_sees_what_recovery_will_keep(
    opener: Opener, tmp_path: Path, enumerated: Enumerated
) -> None:
    """All records before the damage, as Kafka's recovery of the same directory leaves them.

    Only where it continues behind a gap it made (a bad batch in a segment without an index) there
    are fewer, and an error.
    """
    compared = 0
    for seed in range(FIRST_SEED, FIRST_SEED + CASES):
        case = as_after_a_crash(make_case(seed, stored_logs()))
        is_left_half = any(what.startswith(("leave", "odd", "metadata")) for what in case.done)
        if is_left_half or case.has_odd_offsets:
            continue
        theirs, ours = (lay(case, tmp_path / str(seed) / side / case.log.name) for side in "ab")
        kafka = opener.open(case, theirs)
        if "error" in kafka or "error" in kafka["uncommitted"]:
            continue

        records, error = read_without_opening(ours)

        kept = kafka["uncommitted"]["records"]
        goes_on = error is not None and ".index" in str(case)
        assert records == (kept[: len(records)] if goes_on else kept), f"{case}: {error}"
        compared += 1
    enumerated("damaged logs", compared, at_least=max(CASES // 4, 1))
