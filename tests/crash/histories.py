"""Long random histories of one log whose disk fails in many ways, held against a model.

A step is something that a program, the cleaner or the scheduler does to a log. A fault may hit any
step, and any opening: an error of one or several operations of the disk, a disk that is full for a
while, a power cut. After each step the log holds what the model holds before the step or after it,
and after it if the step returned; after a power cut a prefix of that, down to the recovery point,
or prefixes of segments that were not flushed yet, as in Kafka. After a failed sync the machine is
restarted, as nobody can know what the disk has kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.crash.random_faults import CUTS, plant
from tests.machinery.cleaning import CleanerHome, batch_headers
from tests.machinery.log_home import all_records

from tidelog.cleaner.pick import examine
from tidelog.errors import KafkaStorageError
from tidelog.records.isolation import Isolation
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Value = tuple[int, bytes | None, bytes | None]
"""Offset, key and value of a record."""

KEYS: Final = 9
TRANSACTIONAL: Final = (3, 4)
TRIES: Final = 4
"""Openings in a row that faults may hit."""


_offset: Final = itemgetter(0)


class Batch(NamedTuple):
    """A batch in the model; ``commits`` is that of a marker, None for data."""

    base: int
    last: int
    records: tuple[Value, ...]
    producer_id: int = -1
    is_transactional: bool = False
    commits: bool | None = None


@dataclass(frozen=True)
class Held:
    """What a log holds, by the model; ``end`` is exclusive.

    Not ``is_whole``: a power cut has left out batches in between, so that transactions lack parts.
    """

    batches: tuple[Batch, ...] = ()
    start: int = 0
    end: int = 0
    is_whole: bool = True

    def plus(self, batch: Batch) -> Held:
        """Return this with one batch more."""
        return replace(self, batches=(*self.batches, batch), end=batch.last + 1)

    def cut_to(self, offset: int) -> Held:
        """Return this truncated."""
        batches = tuple(batch for batch in self.batches if batch.last < offset)
        return Held(batches, min(self.start, offset), offset, self.is_whole)

    def only(self, offsets: set[int], lasts: set[int]) -> Held:
        """Return this with what compaction has left: records at ``offsets``, and all markers."""
        batches = (
            batch._replace(records=tuple(each for each in batch.records if each[0] in offsets))
            for batch in self.batches
            if batch.last in lasts or batch.commits is not None
        )
        return replace(self, batches=tuple(batches))

    def records(self, start: int) -> list[Value]:
        """Return the records from ``start`` on."""
        return [each for batch in self.batches for each in batch.records if each[0] >= start]

    @property
    def open_transactions(self) -> list[int]:
        """The producers whose last transactional batch no marker has followed."""
        ended = {batch.producer_id: batch.commits is not None for batch in self.batches}
        return [each for each in TRANSACTIONAL if not ended.get(each, True)]

    def outcomes(self) -> list[tuple[Batch, bool | None]]:
        """Return the data batches, with how their transactions ended; None: they are open."""
        found: list[tuple[Batch, bool | None]] = []
        fate: dict[int, bool | None] = {}
        for batch in reversed(self.batches):
            if batch.commits is not None:
                fate[batch.producer_id] = batch.commits
            else:
                ended = fate.get(batch.producer_id) if batch.is_transactional else True
                found.append((batch, ended))
        return found[::-1]

    def committed(self) -> list[Value]:
        """Return what a read_committed reader sees."""
        found = self.outcomes()
        stable = min((batch.base for batch, ended in found if ended is None), default=self.end)
        seen = [batch for batch, ended in found if ended and batch.last < stable]
        return [each for batch in seen for each in batch.records]

    def removable(self) -> set[int]:
        """Return the offsets whose records compaction may drop."""
        offsets: set[int] = set()
        last: dict[bytes | None, int] = {}
        for batch, ended in self.outcomes():
            if ended is False:
                offsets.update(each[0] for each in batch.records)
            elif ended:
                for offset, key, value in batch.records:
                    offsets.update([last[key]] if key in last else [])
                    offsets.update([offset] if value is None else [])
                    last[key] = offset
        return offsets


class How(NamedTuple):
    """How what is found may differ from a model: offsets below ``durable`` are all there.

    None: so are all others. The start may have moved to the end of a segment, at most to
    ``deleted_to``; after a power cut each of the segments before that may be missing, and those
    from there on as far as they are not durable. Or records are compacted.
    """

    durable: int | None = None
    deleted_to: int = 0
    is_cleaned: bool = False


class Act(NamedTuple):
    """One step: ``after`` is what the log holds if it succeeds."""

    name: str
    run: Callable[[], object]
    after: Held
    how: How = How()


class Seen(NamedTuple):
    """What readers find in the log; ``bases`` has those of segments.

    ``lasts`` has the last offsets of batches.
    """

    start: int
    end: int
    records: list[Value]
    bases: list[int]
    lasts: set[int]

    @property
    def offsets(self) -> set[int]:
        """The offsets of the records."""
        return {each[0] for each in self.records}


def without_lost_ends(held: Held, seen: Seen, how: How, *, is_compacted: bool) -> Held | None:
    """Return this without batches that a power cut took off the ends of segments.

    None: batches are missing that are durable, or have others after them in their segment. A batch
    that only ends above ``durable`` need not be: the log start was raised into it.
    """
    assert how.durable is not None
    is_cut = False
    left = []
    for batch in held.batches:
        is_there = batch.last in seen.lasts
        if is_there and is_cut and batch.base not in seen.bases:
            return None
        # Compaction may have dropped a marker.
        if is_there or batch.last < seen.start or (is_compacted and batch.commits is not None):
            left.append(batch)
            is_cut = is_cut and not is_there
        elif how.deleted_to <= batch.last < how.durable:
            return None
        else:
            is_cut = True
    is_whole = held.is_whole and len(left) == len(held.batches)
    return replace(held, batches=tuple(left), is_whole=is_whole)


def matched(held: Held, seen: Seen, how: How, *, is_compacted: bool) -> Held | None:
    """Return what of ``held`` the log holds; None if it holds something else."""
    least = held.end if how.durable is None else min(held.end, how.durable)
    if is_compacted:
        # The offsets of what compaction has dropped are no longer counted after a restart.
        there = (each[0] for each in held.records(held.start) if each[0] < least)
        least = max(there, default=held.start - 1) + 1
    if not least <= seen.end <= held.end:
        return None
    latest_start = max(held.start, how.deleted_to)
    if how.durable is not None and how.durable <= latest_start and seen.start == seen.bases[0]:
        latest_start = seen.end  # the segments from there on need not be durable
    if not held.start <= seen.start <= latest_start:
        return None
    whole = tuple(batch for batch in held.batches if batch.last < seen.end)
    found: Held | None = Held(whole, seen.start, seen.end, held.is_whole)
    assert found is not None
    if how.is_cleaned:
        missing = {each[0] for each in found.records(seen.start)} - seen.offsets
        lost = missing - held.removable()
        if lost and (how.durable is None or min(lost) < how.durable):
            return None
        found = found.only(seen.offsets, seen.lasts)
    elif how.durable is not None:
        found = without_lost_ends(found, seen, how, is_compacted=is_compacted)
    return found if found and found.records(seen.start) == seen.records else None


def _difference(seen: Seen, allowed: Iterable[Held], how: How) -> str:
    """Return what is found, and what each model has instead."""
    found = set(seen.records)
    models = [
        f"[{held.start}, {held.end}) without {sorted(found.difference(records), key=_offset)}"
        f" and with {sorted(records.difference(found), key=_offset)}"
        for held in allowed
        for records in [set(held.records(seen.start))]
    ]
    return f"[{seen.start}, {seen.end}) is none of {models} by {how}"


class History:
    """One log on a fake machine, and the model of it. ``events`` lists what has happened."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.events: list[tuple[object, ...]] = []
        self.is_compacted = rng.random() < 0.4
        settings: dict[str, Any] = {
            "internal_segment_bytes": rng.choice([250, 400, 900, 3000]),
            "index_interval_bytes": rng.choice([0, 50, 200]),
            "segment_index_bytes": rng.choice([120, 240, 1000]),
            "retention_bytes": rng.choice([-1, 600, 1500]),
            "cleanup_policy": ("compact",) if self.is_compacted else ("delete",),
            "file_delete_delay_ms": rng.choice([0, 1000]),
            "preallocate": rng.random() < 0.2,
            "flush_messages": rng.choice([2**63 - 1] * 3 + [3]),
        }
        self.home = CleanerHome(seed, **settings)
        self.held = Held()
        self.unsettled: tuple[Held, ...] = ()
        self.recovery_point = 0
        self.faults = 0
        self.log = self.home.open()

    # What happens

    def step(self) -> None:
        """Do one thing, perhaps with a fault; the log then holds what it may."""
        rng, log = self.rng, self.log
        acts = self.acts()
        name = rng.choices(list(acts), [weight for weight, _ in acts.values()])[0]
        act = acts[name][1]()
        if act is None:
            return
        before, self.recovery_point = self.held, log.recovery_point
        fault = self.plant()
        self.events.append((act.name, fault))
        truncated = act.after.end if act.name == "truncate" else self.recovery_point
        safe = min(self.recovery_point, truncated)
        try:
            act.run()
        except PowerCut:
            self.cut_power(safe, (act.after, before), act.how)
        except (KafkaStorageError, OSError) as error:
            self.expect(act.name, fault, error)
            self.refused(act, before, safe)
        else:
            self.home.fs.mend()
            if act.name in {"close", "kill"}:
                self.open([act.after], act.how, clean=act.name == "close")
            elif log.is_offline:  # a task failed
                self.restart(safe, (act.after, before), act.how)
            else:
                self.check([act.after], act.how)
            if act.name in {"append", "marker", "truncate", "close"}:
                self.unsettled = ()

    def refused(self, act: Act, before: Held, safe: int) -> None:
        """Continue after an error: nothing has changed, or the log has to be opened again."""
        self.home.fs.mend()
        log = self.log
        if not (log.is_offline or act.name == "close"):
            self.check([before], act.how)
            return
        how = act.how._replace(durable=act.after.end) if act.name == "truncate" else act.how
        self.restart(safe, (before, act.after), how)
        if act.name == "truncate":
            self.unsettled = (*self.unsettled, before)

    def restart(self, safe: int, candidates: tuple[Held, ...], how: How) -> None:
        """Open a log that is offline again, in a new process or, if a sync failed, machine."""
        self.recovery_point = safe
        self.log.close_handlers()
        if self.home.fs.has_lost_bytes:
            self.cut_power(safe, candidates, how)
        else:
            self.home.restart()
            self.open(list(candidates), how, clean=False)

    def cut_power(self, safe: int, candidates: tuple[Held, ...], how: How) -> None:
        """Cut the power; a prefix is left, at least to the recovery point."""
        self.home.power_cut(self.rng.choice(CUTS))
        self.home.fs.mend()
        self.recovery_point = safe
        durable = safe if how.durable is None else min(safe, how.durable)
        allowed = [*candidates, *self.unsettled]
        self.unsettled = ()
        self.open(allowed, how._replace(durable=durable), clean=False)

    def open(self, allowed: list[Held], how: How, *, clean: bool) -> None:
        """Open the log, with a fault now and then, until it opens; compare it."""
        start = min(held.start for held in allowed)
        for attempt in range(2 * TRIES):
            fault = self.plant(attempt < TRIES)
            self.events.append(("open", fault))
            try:
                self.log = self.home.open(
                    clean=clean, log_start_offset=start, recovery_point=self.recovery_point
                )
            except PowerCut:
                self.home.power_cut(self.rng.choice(CUTS))
                self.home.fs.mend()
                durable = self.recovery_point
                least = durable if how.durable is None else min(durable, how.durable)
                how, clean = how._replace(durable=least), False
                allowed, self.unsettled = [*allowed, *self.unsettled], ()
            except (KafkaStorageError, OSError) as error:
                self.expect("opening", fault, error)
                self.home.fs.mend()
                self.home.restart()
                clean = False
                if self.home.fs.has_lost_bytes:
                    self.home.power_cut(self.rng.choice(CUTS))
                    how = how._replace(durable=min(self.recovery_point, how.durable or 1 << 62))
                    allowed, self.unsettled = [*allowed, *self.unsettled], ()
            else:
                break
        self.home.fs.mend()
        if self.log.contradiction is not None:
            assert how.durable is not None, self.log.contradiction
            self.recover(start)
        self.check(allowed, how)

    def recover(self, start: int) -> None:
        """Cut off a torn batch whose offset is not the one it had, as an operator does."""
        self.log.close_handlers()
        self.home.restart()
        point = self.recovery_point
        self.log = self.home.open(
            clean=False, log_start_offset=start, recovery_point=point, cuts_contradictions=True
        )

    # What is compared

    def check(self, allowed: Iterable[Held], how: How) -> None:
        """Assert that the log holds what one of the models does, and adopt that."""
        log = self.log
        log.update_high_watermark(log.log_end_offset)
        records = [(each.offset, each.key, each.value) for each in all_records(log)]
        ends = log.log_start_offset, log.log_end_offset
        lasts = {each.base_offset + each.last_offset_delta for each in batch_headers(log)}
        seen = Seen(*ends, records, log.segments.base_offsets, lasts)
        found = [matched(held, seen, how, is_compacted=self.is_compacted) for held in allowed]
        held = next((each for each in found if each is not None), None)
        assert held is not None, _difference(seen, allowed, how)
        self.held = held
        if self.is_compacted or held.start or not held.is_whole:
            return
        committed = all_records(log, Isolation.READ_COMMITTED)
        assert [(each.offset, each.key, each.value) for each in committed] == held.committed()
        data = [each for each in held.batches if each.producer_id >= 0 and each.commits is None]
        last = {each.producer_id: each.last for each in data}
        known = log.producers.producers
        assert {each: known[each].last_data_offset for each in last} == last

    # Faults

    @staticmethod
    def expect(name: str, fault: object, error: Exception) -> None:
        """Assert that a refusal has a cause."""
        assert fault is not None, f"{name} was refused without a fault: {error!r}"

    def plant(self, is_wanted: bool = True) -> object:  # noqa: FBT002 - a condition
        """Let something fail soon, or nothing; return what."""
        fault = plant(self.rng, self.home.fs) if is_wanted else None
        self.faults += fault is not None
        return fault

    # Acts

    def acts(self) -> dict[str, tuple[int, Callable[[], Act | None]]]:
        """Return the acts with their weights; an act is None where it has no sense."""
        return {
            "append": (45, self.append),
            "marker": (10, self.marker),
            "roll": (5, self.roll),
            "flush": (6, self.flush),
            "delete": (4, self.delete_records),
            "retain": (4, self.retain),
            "truncate": (6, self.truncate),
            "clean": (6, self.clean),
            "tasks": (5, self.run_tasks),
            "close": (6, self.close),
            "kill": (3, self.kill),
        }

    def append(self) -> Act:
        """Append a batch, perhaps of a producer."""
        rng, log, end = self.rng, self.log, self.held.end
        pairs = [
            (b"k%d" % rng.randrange(KEYS), b"%d.%d" % (len(self.events), n))
            for n in range(rng.choice([1, 1, 2, 4]))
        ]
        written = [(key, value if rng.random() < 0.85 else None) for key, value in pairs]
        producer = rng.choice([-1, -1, 1, 2, *TRANSACTIONAL])
        fields: dict[str, Any] = {}
        if producer >= 0:
            known = log.producers.last_entry(producer)
            sequence = 0 if known is None else known.last_sequence + 1
            fields = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "transactional": producer in TRANSACTIONAL,
            }
        records = tuple((end + n, *pair) for n, pair in enumerate(written))
        batch = Batch(end, end + len(records) - 1, records, producer, producer in TRANSACTIONAL)
        return Act(
            "append", lambda: self.home.append(log, *written, **fields), self.held.plus(batch)
        )

    def marker(self) -> Act | None:
        """End a transaction that is open."""
        rng, log, end = self.rng, self.log, self.held.end
        waiting = [each for each in self.held.open_transactions if each in log.producers.producers]
        if not waiting:
            return None
        producer, commits = rng.choice(waiting), rng.random() < 0.5
        marker = Batch(end, end, (), producer, is_transactional=True, commits=commits)
        end_it = self.home.end_transaction
        return Act("marker", lambda: end_it(log, producer, commit=commits), self.held.plus(marker))

    def roll(self) -> Act | None:
        """Start a new segment."""
        log = self.log
        return Act("roll", log.roll, self.held) if log.segments.active.size_bytes else None

    def flush(self) -> Act:
        """Make all durable."""
        force = self.rng.random() < 0.5
        return Act("flush", lambda: self.log.flush(force=force), self.held)

    def delete_records(self) -> Act | None:
        """Raise the log's start."""
        if self.is_compacted or self.log.last_stable_offset <= self.held.start:
            return None
        offset = self.rng.randint(self.held.start, self.log.last_stable_offset)
        after = replace(self.held, start=offset)
        return Act("delete", lambda: self.log.delete_records(offset), after)

    def retain(self) -> Act | None:
        """Delete segments by size."""
        if self.is_compacted:
            return None
        how = How(deleted_to=self._retained_from())
        return Act("retain", self.log.delete_old_segments, self.held, how)

    def _retained_from(self) -> int:
        """Return the base offset of the first segment that a deletion by size keeps."""
        segments, limit = list(self.log.segments), self.home.config.retention_bytes
        excess = sum(segment.size_bytes for segment in segments) - limit if limit >= 0 else -1
        for segment in segments:
            excess -= segment.size_bytes
            if excess < 0:
                return segment.base_offset
        return self.log.log_end_offset

    def truncate(self) -> Act | None:
        """Cut at the start of one of the last batches that have records."""
        bases = [each.base for each in self.held.batches if each.base >= self.held.start]
        if not bases:
            return None
        offset = self.rng.choice(bases[-6:])
        after = self.held.cut_to(offset)
        return Act("truncate", lambda: self.log.truncate_to(offset), after)

    def clean(self) -> Act | None:
        """Compact what may be compacted."""
        if not self.is_compacted:
            return None
        home, log = self.home, self.log
        slots = self.rng.choice([8, 100])

        def run() -> None:
            with log.watch("looking at what is dirty"):
                found = examine(log, None, home.clock.now_ms())
            if not found.offsets.is_empty:
                home.cleaner(map_bytes=24 * slots).clean(log, found.offsets, home.clock.now_ms())

        return Act("clean", run, self.held, How(is_cleaned=True))

    def run_tasks(self) -> Act:
        """Let time pass, so that background tasks run."""
        ms = self.rng.choice([0, 1000, 60_000])
        return Act("tasks", lambda: self.home.clock.advance(ms), self.held)

    def close(self) -> Act:
        """Close the log, as a program that ends."""

        def run() -> None:
            self.log.flush(force=True)
            self.log.close()
            self.recovery_point = self.log.recovery_point

        return Act("close", run, self.held)

    def kill(self) -> Act:
        """End the process."""
        return Act("kill", self.home.restart, self.held)
