"""Long random histories of one log, step by step in Kafka's own log and in ours.

After each step results, offsets, epochs, producers and segments are compared, now and then all
records and files, and after each close all files by the byte.

Wherever Kafka's log does something else, as ``docs/differences.md`` says, a rule here knows when
and what, and makes both equal again; or the history does not go there; or, where Kafka's log has
broken, it ends. Tests of their own show these differences.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.compat.log_steps import Writer, batch_at, has_all_aborted
from tests.compat.two_logs import (
    OwnLog,
    batches_of,
    files_of,
    finds_later,
    is_same_answer,
    opening,
)

from tidelog.records.batch import MAGIC_V2
from tidelog.records.isolation import Isolation
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from tests.compat.log_steps import Step
    from tests.compat.two_logs import Answer, KafkaLog

    from tidelog.log.log import Log

CHANGED_S: Final = 1_690_000_000
"""Modification time of the first segment's file while the log is cleaned, in seconds."""
UNSTABLE: Final = frozenset({"firstUnstableOffset", "lastStableOffset"})
BREAKS: Final = (
    "Attempt to append to a full index",
    "Attempt to append to a full time index",
    "newPosition > limit",
    "Empty batches are only supported for magic v2 and above",
)
"""How errors begin with which Kafka refuses what we do: an index has no room for an append or at a
start, since ``segment.index.bytes`` is small or sank; a cleaning leaves nothing of old formats."""


@dataclass
class Both:
    """The answers of both to one act."""

    act: str
    how: dict[str, Any]
    theirs: Answer
    ours: Answer

    @property
    def states(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Our state, and Kafka's."""
        return self.ours.get("state", {}), self.theirs.get("state", {})

    @property
    def differing(self) -> set[str]:
        """The names of the parts of the state that differ; ``answer`` if that does."""
        ours, theirs = self.states
        names = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
        if any("taskErrors" in side for side in (self.ours, self.theirs)):
            names.add("taskErrors")
        is_same = is_same_answer(self.theirs, self.ours)
        has_same_code = self.theirs.get("errorCode") == self.ours.get("errorCode")
        return names if is_same and has_same_code else names | {"answer"}

    def differences(self, but: Collection[str] = ()) -> list[str]:
        """Return what differs, Kafka's first; leave out the names in ``but``."""
        return [f"{name}: {self._of(name)}" for name in sorted(self.differing.difference(but))]

    def _of(self, name: str) -> str:
        if name == "answer":
            keys = "result", "error", "errorCode", "errorMessage"
            said = [{key: side.get(key) for key in keys} for side in (self.theirs, self.ours)]
            return f"{said[0]} != {said[1]}"
        ours, theirs = (self.ours, self.theirs) if name == "taskErrors" else self.states
        return f"{theirs.get(name)} != {ours.get(name)}"


class LogHistory:
    """One log in Kafka and here; ``events`` lists what has happened.

    ``is_over``: Kafka's log has broken, or holds from now on what ours does not, as intended.
    """

    def __init__(self, seed: int, kafka: KafkaLog, folder: Path) -> None:
        self.events: list[Step] = []
        self.is_over = False
        self._writer = Writer(seed)
        self._kafka = kafka
        self._own = OwnLog()
        self._folder = folder
        self._places = [folder / side / "flights-0" for side in ("kafka", "here")]

    @property
    def log(self) -> Log:
        """Our log, which is open."""
        return self._own.opened

    def run(self, steps: int) -> list[str]:
        """Take steps until something differs; return what, nothing if none did."""
        try:
            return self._run(steps)
        finally:
            self._own.stop()
            shutil.rmtree(self._folder)

    def _run(self, steps: int) -> list[str]:
        differences = self._open(0, 0, is_clean=True)
        for _ in range(steps):
            if not differences and not self.is_over:
                differences = self._step(*self._writer.next(self.log))
        if not differences and not self.is_over:
            ends_cleaned = self._writer.kind.has_codecs
            differences = self._end_cleaned() if ends_cleaned else self._close("close")
        return differences

    def _step(self, act: str, how: dict[str, Any]) -> list[str]:
        if act in {"close", "crash"}:
            return self._reopen(act)
        if act == "clean":
            self._set_times()
        if act == "truncate":
            # Else Kafka forgets the greatest timestamp of a segment that a start has loaded.
            self._kafka.ask("read timestamps")
        had_producers = bool(self.log.producers.producers)
        both = self._both(act, how)
        # Without producers Kafka replays nothing after a truncation.
        is_unlike = act == "truncate" and not had_producers and "producers" in both.differing
        self.is_over = is_unlike or _has_broken(both)
        if self.is_over:
            return []
        self._writer.note(act, how, both.ours)
        differences = self._unwanted(both)
        if act in {"clean", "truncate", "retain", "roll"}:
            differences = differences or self._differing_files(is_closed=False)
        if differences and _has_filled_map(both):
            # The time of tombstones behind what the map holds begins with the next cleaning; in
            # Kafka it begins now, and takes bytes.
            self.is_over = True
            return self._both("consume", {"isolation": "LOG_END"}).differences(but=["segments"])
        return differences

    def _reopen(self, act: str) -> list[str]:
        log = self.log
        start, point, watermark = log.log_start_offset, log.recovery_point, log.high_watermark
        differences = self._close(act) or self._open(start, point, is_clean=act == "close")
        if differences or self.is_over:
            return differences
        return self._both("update high watermark", {"offset": watermark}).differences()

    def _open(self, start: int, point: int, *, is_clean: bool) -> list[str]:
        writer = self._writer
        how = opening(
            self._places[0],
            writer.config,
            writer.now_ms,
            is_clean=is_clean,
            log_start_offset=start,
            recovery_point=point,
            expiration_ms=writer.expiration_ms,
        )
        both = self._both("open", how)
        self.is_over = _has_broken(both)
        return [] if self.is_over else self._unwanted(both)

    def _close(self, act: str) -> list[str]:
        if act == "close":
            self._both("flush", {"force": True})  # as a broker does
        differences = self._both(act, {}).differences()
        return differences or self._differing_files(is_closed=act == "close")

    def _end_cleaned(self) -> list[str]:
        """Clean a log with compressed batches; compare all that is left except compressed bytes."""
        self._both("roll", {})
        self._both("update high watermark", {"offset": self.log.log_end_offset})
        if not has_all_aborted(self.log):
            return self._close("close")
        self._set_times()
        cleaned = self._both("clean", {"checkpoint": None, "mapBytes": 24_000})
        self.is_over = _has_broken(cleaned)
        if self.is_over:
            return []
        bases = [[base for base, _ in state.pop("segments")] for state in cleaned.states]
        differences = cleaned.differences(but=["recoveryPoint"])
        if bases[0] != bases[1]:
            differences.append(f"segments: {bases[1]} != {bases[0]}")
        differences += self._both("close", {}).differences()
        theirs, ours = (batches_of(place) for place in self._places)
        return differences + ([] if theirs == ours else [f"batches: {theirs} != {ours}"])

    def _both(self, act: str, how: dict[str, Any]) -> Both:
        self.events.append((act, how))
        places = [{"directory": str(place)} if act == "open" else {} for place in self._places]
        theirs = self._kafka.ask(act, **how | places[0])
        both = Both(act, how, theirs, self._own.ask(act, **how | places[1]))
        self._allow_start_of_a_batch(both)
        return both

    def _differing_files(self, *, is_closed: bool) -> list[str]:
        """Compare the files; an index that is open may have old entries after its own."""
        theirs, ours = (files_of(place, is_closed=is_closed) for place in self._places)
        names = theirs.keys() | ours.keys()
        if not is_closed:
            names = {name for name in names if not name.endswith("index") or "txn" in name}
        return [
            f"file {name}: {theirs.get(name)!r} != {ours.get(name)!r}"
            for name in sorted(names)
            if theirs.get(name) != ours.get(name)
        ]

    def _set_times(self) -> None:
        """Give the files of a segment the same time of change on both sides."""
        for number, segment in enumerate(self.log.segments):
            changed_s = CHANGED_S + 10 * number
            for place in self._places:
                os.utime(place / f"{segment.base_offset:020d}.log", (changed_s, changed_s))

    # Differences that are wanted

    def _unwanted(self, both: Both) -> list[str]:
        """Return what differs, except what is wanted; that ends here: both are equal again."""
        wanted: set[str] = set()
        if both.act == "truncate" and both.ours.get("result") is True:
            # Else Kafka would take ended transactions for open ones at the next append.
            self._kafka.ask("update high watermark", offset=self.log.high_watermark)
            wanted |= UNSTABLE
        for name in WANTED.keys() & both.differing:
            wanted.update(WANTED[name](self, both))
        if not wanted:
            return both.differences()
        return both.differences(but=wanted) or self._both("look", {}).differences()

    def _allow_start_of_a_batch(self, both: Both) -> None:
        """Take Kafka's first unstable offset for ours where no batch begins with ours.

        In Kafka it is the start of the batch that has the offset, or of the next one after a gap.
        """
        ours, theirs = both.states
        offset, other = (state.get("firstUnstableOffset") for state in (ours, theirs))
        if offset is None or other in {offset, None} or other != batch_at(self.log, offset):
            return
        watermark = theirs["highWatermark"]
        theirs["firstUnstableOffset"] = offset
        if theirs["lastStableOffset"] == min(other, watermark):
            theirs["lastStableOffset"] = min(offset, watermark)

    def epochs_of_a_refused_append(self, both: Both) -> Collection[str]:
        """A refused append leaves the epochs as they were; in Kafka those of its batches stay."""
        if both.act not in {"lead", "follow"} or "error" not in both.ours:
            return ()
        epochs, end = self.log.epochs, self.log.log_end_offset
        batches = walk(both.how["data"]).batches
        for header in map(batches.header, range(len(batches))):
            if both.act == "lead":
                epochs.assign(both.how["epoch"], end)
            elif header.magic < MAGIC_V2:
                epochs.clear_and_flush()
            elif header.leader_epoch <= both.how["epoch"]:
                epochs.assign(header.leader_epoch, header.base_offset)
        return {"epochs"}

    def recalled_batches(self, both: Both) -> Collection[str]:
        """A start remembers five batches of a producer, where Kafka knows the last one only."""
        if both.act != "open":
            return ()
        producers = self.log.producers
        for number, *_, known in both.theirs["state"]["producers"]:
            entry = producers.last_entry(number)
            if entry is not None and len(entry.batches) > len(known) > 0:
                producers.remember(number, entry.batches[-len(known) :])
        return {"producers"}

    def recovery_point_above(self, both: Both) -> Collection[str]:
        """A cleaning first makes all durable; and the recovery point is not below the log start."""
        ours, theirs = both.states
        point = ours["recoveryPoint"]
        is_end = both.act == "clean" and point == ours["logEndOffset"]
        if not is_end and not theirs["recoveryPoint"] < point == ours["logStartOffset"]:
            return ()
        self._both("flush", {"force": False})
        return {"recoveryPoint"}

    def high_watermark_in_a_gap(self, both: Both) -> Collection[str]:
        """Kafka moves a high watermark in a gap of offsets to the next batch when it is read."""
        ours, theirs = both.states
        offset = ours["highWatermark"]
        if not offset < theirs["highWatermark"] == batch_at(self.log, offset):
            return ()
        self._both("update high watermark", {"offset": ours["logEndOffset"]})
        return {"highWatermark", "lastStableOffset"}

    def another_answer(self, both: Both) -> Collection[str]:
        """A lookup by time that Kafka ends at one segment, or a read."""
        if both.act == "find" and finds_later(both.how["time"], both.theirs, both.ours):
            return {"answer"}
        return self.aborted_after_what_is_read(both)

    def aborted_after_what_is_read(self, both: Both) -> Collection[str]:
        """Kafka may name aborted transactions that begin after the records that are read.

        And it says of a read without records whether the next batch was too large for it.
        """
        if both.act != "read" or "error" in both.theirs or "error" in both.ours:
            return ()
        (size, *theirs, more), (_, *ours, aborted) = both.theirs["result"], both.ours["result"]
        if size == both.ours["result"][0] == 0:
            return {"answer"}
        with self.log.read(both.how["offset"], size, isolation=Isolation.LOG_END) as found:
            last = int(walk(found.read(), in_memory=False).batches.last_offset[-1])
        is_later = all(first > last for producer, first in more if [producer, first] not in aborted)
        return {"answer"} if theirs == ours and is_later else ()


WANTED: Final[dict[str, Callable[[LogHistory, Both], Collection[str]]]] = {
    "epochs": LogHistory.epochs_of_a_refused_append,
    "producers": LogHistory.recalled_batches,
    "recoveryPoint": LogHistory.recovery_point_above,
    "highWatermark": LogHistory.high_watermark_in_a_gap,
    "answer": LogHistory.another_answer,
}
"""By what differs in the answer: the rules that return the names of what is wanted to differ."""


def _has_filled_map(both: Both) -> bool:
    """Whether a cleaning ended below what can be cleaned."""
    if both.act != "clean" or "error" in both.ours or len(both.ours["result"]) < 4:
        return False
    end, state = both.ours["result"][3], both.states[0]
    limit: int = min(state["lastStableOffset"], state["segments"][-1][0])
    return bool(end < limit)


def _has_broken(both: Both) -> bool:
    """Whether Kafka's log lacks room in an index, or has a segment above its end."""
    if "error" not in both.theirs:
        return False
    if both.theirs["errorMessage"].startswith(BREAKS):
        return "error" not in both.ours
    state = both.theirs.get("state")
    return state is not None and state["segments"][-1][0] > state["logEndOffset"]
