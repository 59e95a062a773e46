"""Damaged and odd directories, opened here and by Kafka's own log: what each makes of them.

Cases are made from seeds. ``RECOVERY_SEED=5000 SCALE=10 pytest -m compat`` on this file tries
2000 others than those of every run.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.compat.two_logs import (
    KafkaLog,
    OwnLog,
    checksum,
    files_of,
    finds_later,
    is_same_answer,
    opening,
)
from tests.machinery.damage import bases
from tests.machinery.odd_logs import StoredLog
from tests.machinery.recovery_case import CHANGED_S, RecoveryCase, make_case
from tests.machinery.scale import scaled

import tidelog
from tidelog.errors import TidelogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.compat.two_logs import Answer, OneLog
    from tests.conftest import Enumerated

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


def use(log: OneLog, case: RecoveryCase, directory: Path) -> dict[str, Any]:
    """Open the directory and use the log as the case says; return what it answered."""
    how = opening(
        directory,
        case.log.settings,
        case.log.now_ms,
        is_clean=case.is_clean,
        log_start_offset=case.log_start_offset,
        recovery_point=case.recovery_point,
        verifies=True,
    )
    answer = log.ask("open", **how)
    if "error" in answer:
        return answer
    opened = answer["state"]
    asked = log.ask("update high watermark", offset=case.high_watermark)["state"]
    end = opened["logEndOffset"]
    found = {
        **log.ask("update high watermark", offset=end)["state"],
        "recoveryPoint": opened["recoveryPoint"],
        "checkpointedHighWatermark": asked["highWatermark"],
        "checkpointedStableOffset": asked["lastStableOffset"],
        "uncommitted": log.ask("consume", isolation="HIGH_WATERMARK"),
        "committed": log.ask("consume", isolation="TXN_COMMITTED"),
        "found": [log.ask("find", time=time) for time in case.times],
    }
    del found["firstUnstableOffset"]
    found["appended"] = [append(log, batch, found["epochs"]) for batch in case.append]
    ends = [("flush", {"force": True}), ("close", {})] if case.closes else [("crash", {})]
    errors = [answer["error"] for act, how in ends if "error" in (answer := log.ask(act, **how))]
    return found | ({"closeError": errors[0]} if errors else {})


def append(log: OneLog, batch: bytes, epochs: list[list[int]]) -> Answer:
    """Append a batch as a leader of the latest epoch."""
    epoch = epochs[-1][0] if epochs else 0
    return log.ask("lead", data=batch, epoch=epoch, origin="CLIENT", transactionVersion=-1)


def lay(case: RecoveryCase, directory: Path) -> Path:
    """Write the files of a case; they all were changed at the same time."""
    directory.mkdir(parents=True)
    for name, data in case.files.items():
        (directory / name).write_bytes(data)
        os.utime(directory / name, (CHANGED_S, CHANGED_S))
    return directory


def files_left(directory: Path, case: RecoveryCase) -> dict[str, object]:
    """Return the files to compare; epochs are compared by meaning, as Kafka writes them again."""
    found = files_of(directory, is_closed=case.closes)
    found.pop("leader-epoch-checkpoint", None)
    return found


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
    if name in {"found", "appended"}:
        return all(map(is_same_answer, theirs, ours))
    if name in {"uncommitted", "committed"}:
        return is_same_answer(theirs, ours)
    if name == "producers":
        # A start here remembers more of what each has written last.
        ours = [
            [*about, batches[-len(known) :] if known else batches]
            for (*about, batches), (*_, known) in zip(ours, theirs, strict=False)
        ] + ours[len(theirs) :]
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
    return any("error" in each for each in outcome.here.get("appended", []))


def meets_damage(outcome: Outcome) -> bool:
    """Whether a consumer or a lookup meets damage on one of both sides."""
    sides = outcome.kafka, outcome.here
    if any("error" in side.get("uncommitted", {}) for side in sides):
        return True
    return any("error" in found for side in sides for found in side.get("found", []))


def finds_later_records(outcome: Outcome) -> bool:
    """Whether lookups differ only where ours find a record and Kafka's do not."""
    sides = outcome.kafka["found"], outcome.here["found"]
    return all(
        is_same_answer(theirs, ours) or finds_later(time, theirs, ours)
        for time, theirs, ours in zip(outcome.case.times, *sides, strict=True)
    )


WANTED: dict[str, Callable[[Outcome], bool]] = {
    "an unfinished end of a log that was shut down cleanly is cut off": says("clean-log-cut"),
    "offsets that cannot be are damage": lambda outcome: outcome.case.has_odd_offsets,
    "a magic that nobody reads is damage": lambda outcome: any(
        "has magic" in line for line in outcome.events
    ),
    "an index larger than its greatest size stops Kafka": refused("newPosition > limit"),
    "zeros after the entries of an index are room": has_damaged("zeros", "zero ", "swap"),
    "the last stable offset stays within the log, and where it was asked for": only(
        "lastStableOffset", "checkpointedStableOffset"
    ),
    "damaged batches are opened in another order by a lookup": both(only("found"), meets_damage),
    "a lookup by time continues in the segments after the first that reaches it": both(
        only("found"), finds_later_records
    ),
    "an append that fails leaves nothing in the file": both(only("file "), append_fails),
    "an index of the last segment that points to nothing is made again": lambda outcome: any(
        line.startswith("index-corrupt") and "points to nothing" in line for line in outcome.events
    ),
    "a transaction index of an unknown version stops Kafka": refused("Unexpected aborted"),
    "a file whose name is not an offset stops Kafka, and is left alone": both(
        lambda outcome: outcome.kafka.get("error") == "NumberFormatException",
        has_damaged("odd name"),
    ),
    "an index that is garbage leads lookups, and readers of committed records, elsewhere": both(
        only("found", "committed"), has_damaged("index", "swap")
    ),
}
"""What may differ from Kafka, as ``docs/differences.md`` and ``docs/architecture.md`` say."""


def run(case: RecoveryCase, kafka_log: KafkaLog, folder: Path) -> Outcome:
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
        here = use(OwnLog(), case, ours)
    finally:
        logger.removeHandler(handler)
    kafka = use(kafka_log, case, theirs)
    outcome = Outcome(
        case,
        kafka,
        here,
        files_left(theirs, case),
        files_left(ours, case),
        events,
    )
    shutil.rmtree(folder)
    return outcome


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_damaged_log_ends_as_kafkas_own_recovery_leaves_it(
    block: int, kafka_log: KafkaLog, tmp_path: Path, enumerated: Enumerated
) -> None:
    """Records, offsets, lookups, epochs, producers and files are equal, or the reason is known."""
    unexpected = []
    seeds = range(FIRST_SEED + block, FIRST_SEED + CASES, BLOCKS)
    enumerated("damaged logs", len(seeds), at_least=1)
    for seed in seeds:
        case = make_case(seed, stored_logs())
        outcome = run(case, kafka_log, tmp_path / str(seed))
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
    """Return the records that a read-only open shows, and the error after them."""
    records: list[list[int]] = []
    try:
        with tidelog.open_read_only(directory) as log:
            records.extend([each.offset, checksum(each)] for each in log.records())
    except TidelogError as error:
        return records, error
    return records, None


def test_whoever_only_reads_a_damaged_log_sees_what_recovery_will_keep(
    kafka_log: KafkaLog, tmp_path: Path, enumerated: Enumerated
) -> None:
    """All records before the damage, as Kafka's recovery of the same directory leaves them.

    Only where it continues after a gap it made (a bad batch in a segment without an index) there
    are fewer, and an error.
    """
    compared = 0
    for seed in range(FIRST_SEED, FIRST_SEED + CASES):
        case = as_after_a_crash(make_case(seed, stored_logs()))
        is_left_half = any(what.startswith(("leave", "odd", "metadata")) for what in case.done)
        if is_left_half or case.has_odd_offsets:
            continue
        theirs, ours = (lay(case, tmp_path / str(seed) / side / case.log.name) for side in "ab")
        kafka = use(kafka_log, case, theirs)
        if "error" in kafka or "error" in kafka["uncommitted"]:
            continue

        records, error = read_without_opening(ours)

        kept = kafka["uncommitted"]["result"]
        goes_on = error is not None and ".index" in str(case)
        assert records == (kept[: len(records)] if goes_on else kept), f"{case}: {error}"
        compared += 1
    enumerated("damaged logs", compared, at_least=max(CASES // 4, 1))
