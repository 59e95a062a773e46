"""Any history with cleanings at any point, compared with what readers saw before."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.machinery.cleaning import CleanerHome, batch_headers, last_values
from tests.machinery.scale import examples

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.stats import DropCause
from tidelog.codec.compression import Codec
from tidelog.env.scheduler import InlineScheduler, ThreadScheduler
from tidelog.kernels.runtime import gate
from tidelog.readonly.read_only_log import open_read_only
from tidelog.readonly.snapshot_log import answer_at_once

if TYPE_CHECKING:
    from tidelog.cleaner.cleaner import CleaningResult
    from tidelog.cleaner.rewriting.filter_result import DroppedRecords, ExplainedDrop
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.log import Log

RETENTION_MS = 1000
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b""])
VALUES = st.none() | st.binary(max_size=30)
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.ZSTD, Codec.LZ4])
PRODUCERS = st.integers(1, 3)
HISTORIES = settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), RECORDS, CODECS),
        st.tuples(st.just("idempotent"), PRODUCERS, RECORDS),
        st.tuples(st.just("transactional"), PRODUCERS, RECORDS),
        st.tuples(st.just("end"), PRODUCERS, st.booleans()),
        st.tuples(st.just("roll"), st.none(), st.none()),
        st.tuples(st.just("wait"), st.integers(0, 2 * RETENTION_MS), st.none()),
        st.tuples(st.just("clean"), st.integers(2, 30), st.none()),
    ),
    max_size=40,
)


pytestmark = pytest.mark.usefixtures("engine")


class History:
    """Plays steps on a log, cleans at some of them, and compares what readers see."""

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self.scheduler = scheduler
        self.home = CleanerHome(delete_retention_ms=RETENTION_MS, internal_segment_bytes=600)
        self.log = self.home.open()
        self.dirty = 0
        self.open_transactions: set[int] = set()
        self.producers = {n: self.home.producer(self.log, n) for n in range(1, 4)}

    def play(self, step: tuple[str, Any, Any]) -> None:
        kind, one, two = step
        if kind == "plain":
            self.home.append(self.log, *one, codec=two)
        elif kind in {"idempotent", "transactional"}:
            # A producer with an open transaction sends nothing else.
            is_open = kind == "transactional" or one in self.open_transactions
            self.producers[one].send(*two, transactional=is_open)
            if is_open:
                self.open_transactions.add(one)
        elif kind == "end" and one in self.open_transactions:
            self.producers[one].end(commit=two)
            self.open_transactions.discard(one)
        elif kind == "roll" and self.log.segments.active.size_bytes:
            self.log.roll()
        elif kind == "wait":
            self.home.clock.advance(one)
        elif kind == "clean":
            self.clean(keys=one)

    def clean(self, keys: int) -> None:
        """Clean the log with a map for ``keys`` keys; check that readers see the same."""
        from tidelog.cleaner.pick import examine

        before = self.seen()
        offsets = {offset for offset, _, _ in self.records()}
        found = examine(self.log, self.dirty, self.home.clock.now_ms())
        cleaned = self.home.clean(
            self.log,
            first_dirty=found.offsets.first_dirty_offset,
            end=found.offsets.first_uncleanable_offset,
            map_bytes=24 * keys,
            scheduler=self.scheduler,
        )
        self.dirty = cleaned.end_offset
        assert before == self.seen()
        assert {offset for offset, _, _ in self.records()} <= offsets

    def records(self) -> list[tuple[int, str | None, str | None]]:
        return [(r.offset, repr(r.key), repr(r.value)) for r in self.log.records()]

    def seen(self) -> tuple[Any, ...]:
        """Return everything that a cleaning must not change."""
        return last_values(self.log), self.log.log_end_offset, self.log.producers.producers


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_a_cleaning_changes_nothing_a_reader_ends_up_with(steps: list[Any]) -> None:
    """The last committed value of each key, the log end and the producers do not change."""
    history = History()
    with history.log:
        for step in steps:
            history.play(step)
        history.clean(keys=100)
    history.home.clock.advance(60_000)


@HISTORIES
@given(steps=STEPS)
def test_a_cleaned_log_recovers_to_the_same_state(steps: list[Any]) -> None:
    """Recovered without snapshots and indexes, a cleaned log has the same producers and records."""
    history = History()
    with history.log:
        for step in steps:
            history.play(step)
        history.clean(keys=100)
        values, end, producers = history.seen()
        records = history.records()
        history.log.flush(force=True)
    home = history.home
    home.clock.advance(60_000)
    for name in home.files():
        if not name.endswith((".log", ".metadata", "-checkpoint")):
            home.fs.delete(f"{home.directory}/{name}")

    with home.open(clean=False) as log:
        recovered = last_values(log), log.log_end_offset
        history.log = log
        again = history.records()
        kept_producers = {
            n: (entry.last_sequence, entry.producer_epoch, entry.last_data_offset)
            for n, entry in log.producers.producers.items()
        }

    assert recovered == (values, end)
    assert records == again
    assert kept_producers == {
        n: (entry.last_sequence, entry.producer_epoch, entry.last_data_offset)
        for n, entry in producers.items()
    }


@HISTORIES
@given(steps=STEPS)
def test_cleaning_again_at_the_same_time_changes_no_record(steps: list[Any]) -> None:
    """A second cleaning drops no record more, and a third one not even a header."""
    history = History()
    with history.log as log:
        for step in steps:
            history.play(step)
        if log.segments.active.size_bytes:
            log.roll()
        seen = []
        for _ in range(3):
            history.dirty = 0
            history.clean(keys=100)
            seen.append((kept_bytes(log), list(batch_headers(log))))
    history.home.clock.advance(60_000)

    assert seen[0][0] == seen[1][0]
    assert seen[1] == seen[2]


def kept_bytes(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in log.records()]


@HISTORIES
@given(steps=STEPS)
def test_a_plan_names_the_records_that_a_cleaning_drops(steps: list[Any]) -> None:
    """The offsets that the plan reports are missing after the cleaning; it writes nothing."""
    history = History()
    with history.log as log:
        for step in steps:
            history.play(step)
        if log.segments.active.size_bytes and not history.open_transactions:
            log.roll()
        end = min(log.segments.active.base_offset, log.last_stable_offset)
        end = max((b for b in log.segments.base_offsets if b <= end), default=0)

        before, named, files = keys_of(log), set(), history.home.files()
        explained: list[ExplainedDrop] = []

        def explain(dropped: DroppedRecords) -> None:
            named.update(dropped.offsets.tolist())
            explained.extend(dropped.explained())

        planned = history.home.cleaner().plan(
            log,
            OffsetsToClean(0, end),
            history.home.clock.now_ms(),
            explain,
        )
        assert (before, files) == (keys_of(log), history.home.files())
        assert named == {one.offset for one in explained if one.cause is not DropCause.EMPTY}
        assert explained == sorted(explained, key=lambda one: one.offset)
        assert planned.stats.dropped == Counter(one.cause for one in explained)
        assert supersessions(explained) == expected_supersessions(explained, before, end)

        # A log that begins at its first segment needs no checkpoint to be read.
        is_whole = log.log_start_offset <= log.segments.first_base_offset
        from_files = plan_of_files(history, log, end) if is_whole else planned
        cleaned = history.home.clean(log, end=end)

        assert from_files.end_offset == planned.end_offset
        assert counts(from_files.stats) == counts(planned.stats)
        assert named == before.keys() - keys_of(log).keys()
        assert planned.end_offset == cleaned.end_offset
        assert planned.stats.dropped == cleaned.stats.dropped
        assert sum(planned.stats.dropped.values()) >= len(named)
        assert planned.stats.bytes_written == cleaned.stats.bytes_written
    history.home.clock.advance(60_000)


def keys_of(log: Log) -> dict[int, bytes | None]:
    """Return the keys of all records in the files, markers included, by offset."""
    from tests.machinery.record_values import iterate

    return {
        record.offset: record.key
        for segment in log.segments
        for piece in segment.file_records().pieces()
        for record in iterate(piece.data, piece.batches_in_data, control=True)
    }


def supersessions(explained: list[ExplainedDrop]) -> dict[int, tuple[bytes | None, int | None]]:
    """Return key and last offset of the records that a later one supersedes."""
    assert {one.superseded_by for one in explained if one.cause is not DropCause.SUPERSEDED} <= {
        None
    }
    return {
        one.offset: (one.key, one.superseded_by)
        for one in explained
        if one.cause is DropCause.SUPERSEDED
    }


def expected_supersessions(
    explained: list[ExplainedDrop], before: dict[int, bytes | None], end: int
) -> dict[int, tuple[bytes | None, int | None]]:
    """Return the same, found out from all keys that are not of aborted transactions or markers."""
    others = {DropCause.ABORTED, DropCause.MARKER}
    left_out = {one.offset for one in explained if one.cause in others}
    last = {key: at for at, key in sorted(before.items()) if at < end and at not in left_out}
    found = [one.offset for one in explained if one.cause is DropCause.SUPERSEDED]
    return {offset: (before[offset], last[before[offset]]) for offset in found}


def plan_of_files(history: History, log: Log, end: int) -> CleaningResult:
    """Plan the same cleaning from a snapshot of the log's files."""
    home, cleanable = history.home, OffsetsToClean(0, end)
    return answer_at_once(
        lambda: open_read_only(log.directory, fs=home.fs),
        log.config,
        home.clock,
        lambda read: home.cleaner().plan(read, cleanable, home.clock.now_ms(), lambda _: None),
    )


def counts(stats: CleanerStats) -> dict[str, Any]:
    """Return what was counted, without times."""
    return {name: value for name, value in asdict(stats).items() if not name.endswith("_ns")}


@HISTORIES
@given(steps=STEPS)
def test_kernels_and_plain_code_leave_the_same_files(steps: list[Any]) -> None:
    """For any history, every file of the log is the same, byte by byte."""
    left = []
    for with_kernels in (True, False):
        gate.force(with_kernels)
        left.append(files_left_by(History(), steps))

    assert left[0] == left[1]


@HISTORIES
@given(steps=STEPS)
def test_the_files_do_not_depend_on_the_thread_that_writes(steps: list[Any]) -> None:
    """Background writers, the cleaning itself at once, or at the end: same names, same bytes."""
    threads = ThreadScheduler(2)
    threads.start()
    try:
        left = [files_left_by(History(how), steps) for how in (None, InlineScheduler(), threads)]
    finally:
        threads.shutdown()

    assert left[0] == left[1] == left[2]


def files_left_by(history: History, steps: list[Any]) -> dict[str, bytes]:
    """Play the steps, then clean twice; return all files with their bytes."""
    with history.log:
        for step in steps:
            history.play(step)
        history.clean(keys=3)
        history.clean(keys=100)
    home = history.home
    home.clock.advance(60_000)
    return {name: home.read(name) for name in home.files()}
