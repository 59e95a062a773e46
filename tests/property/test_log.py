"""A log compared with a plain list of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.machinery.log_home import LogHome, all_values
from tests.machinery.scale import scaled
from tests.machinery.strategies import seeds

from tidelog.errors import InvalidTxnState, OutOfOrderSequenceNumber
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tests.conftest import Enumerated


NOW_MS = 1_700_000_000_000
VALUES = st.lists(st.binary(max_size=60), min_size=1, max_size=4)
PRODUCERS = st.integers(1, 2)
QUICK = settings(max_examples=scaled(25), stateful_step_count=25, deadline=None)
LONG = settings(
    max_examples=scaled(240),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
LEAST_STEPS = scaled(10_000)


class Batch(NamedTuple):
    """An appended batch: its records, or none if it is a marker."""

    base: int
    values: tuple[bytes, ...] = ()
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    is_commit: bool = False

    @property
    def last(self) -> int:
        """Its last offset."""
        return self.base + max(len(self.values), 1) - 1

    @property
    def is_marker(self) -> bool:
        """Whether it ends a transaction."""
        return not self.values

    @property
    def records(self) -> list[tuple[int, bytes]]:
        """Offset and value of each record."""
        return [(self.base + number, value) for number, value in enumerate(self.values)]


class Transaction(NamedTuple):
    """A transaction; ``marker`` is the offset of its end, None while it is open."""

    producer: int
    first: int
    marker: int | None = None
    is_commit: bool = False


def transactions(batches: list[Batch]) -> list[Transaction]:
    """Return all transactions among the batches."""
    found: list[Transaction] = []
    begun: dict[int, int] = {}
    for batch in batches:
        if batch.is_marker:
            if batch.producer in begun:
                first = begun.pop(batch.producer)
                found.append(Transaction(batch.producer, first, batch.base, batch.is_commit))
        elif batch.is_transactional:
            begun.setdefault(batch.producer, batch.base)
    return found + [Transaction(producer, first) for producer, first in begun.items()]


class LogMachine(RuleBasedStateMachine):
    """Every operation is applied to a log and to a list of batches."""

    steps = 0
    descriptors: ClassVar[int] = 1000
    evictions: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        self.start = self.end = self.watermark = 0
        self.is_broken = False

    @initialize(segment_bytes=st.integers(250, 900), interval=st.integers(0, 200), seed=seeds())
    def create(self, segment_bytes: int, interval: int, seed: int) -> None:
        """Start with an empty log of small segments."""
        self.home = LogHome(
            seed,
            internal_segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=120,
            retention_bytes=600,
            retention_ms=-1,
        )
        self.home.fs.descriptors.limit = self.descriptors
        self.log = self.home.open()

    # What the list says

    def shown(self, batches: list[Batch]) -> list[tuple[int, bytes]]:
        """Offset and value of each record that a reader sees from the log start on."""
        records = [record for batch in batches for record in batch.records]
        return [record for record in records if record[0] >= self.start]

    @property
    def transactions(self) -> list[Transaction]:
        return transactions(self.batches)

    @property
    def unstable(self) -> list[int]:
        """First offsets of transactions that are open, or whose marker is not replicated."""
        return [
            txn.first
            for txn in self.transactions
            if txn.marker is None or txn.marker >= self.log.high_watermark
        ]

    def last_of(self, producer: int) -> Batch | None:
        """The last data batch of a producer, even if it is below the log start."""
        own = [b for b in self.batches if b.producer == producer and not b.is_marker]
        return own[-1] if own else None

    def known_last(self, producer: int) -> Batch | None:
        """The same if it is above the log start, in which case the log must know it."""
        last = self.last_of(producer)
        return last if last is not None and last.base >= self.start else None

    def is_open(self, producer: int) -> bool:
        return any(t.producer == producer and t.marker is None for t in self.transactions)

    def next_batch(self, producer: int, values: list[bytes], *, transactional: bool) -> Batch:
        """The batch that a well-behaved producer sends next.

        A log that reads its producers again may know only the marker of one whose data is below the
        log start, and takes no sequence but 0 then: such a producer begins an epoch.
        """
        last = self.last_of(producer)
        if last is None:
            epoch, sequence = 0, 0
        elif last.base < self.start:
            epoch, sequence = last.epoch + 1, 0
        else:
            epoch, sequence = last.epoch, last.sequence + len(last.values)
        return Batch(self.end, tuple(values), producer, epoch, sequence, transactional)

    # Appends

    @staticmethod
    def built(batch: Batch) -> bytes:
        return build_batch(
            [(NOW_MS, None, value, ()) for value in batch.values],
            producer_id=batch.producer,
            producer_epoch=batch.epoch,
            base_sequence=batch.sequence,
            transactional=batch.is_transactional,
        )

    def add(self, batch: Batch, guard: int = 0) -> None:
        """Append a batch to both."""
        epoch = self.log.latest_epoch or 0
        info = self.log.append_as_leader(self.built(batch), epoch, verification_guard=guard)
        assert (info.first_offset, info.last_offset) == (batch.base, batch.last)
        assert not info.is_duplicate
        self.batches.append(batch)
        self.end = batch.last + 1

    @rule(values=VALUES, epoch=st.integers(0, 3))
    def append(self, values: list[bytes], epoch: int) -> None:
        """Append a plain batch as leader, possibly of a new epoch."""
        self.log.maybe_assign_epoch(max(epoch, self.log.latest_epoch or 0), self.end)
        self.add(Batch(self.end, tuple(values)))

    @rule(values=VALUES, gap=st.integers(0, 3))
    def append_as_follower(self, values: list[bytes], gap: int) -> None:
        """Append a batch after a gap, as a follower."""
        base, epoch = self.end + gap, self.log.latest_epoch or 0
        records = [(NOW_MS, None, value, ()) for value in values]
        data = build_batch(records, base_offset=base, leader_epoch=epoch)
        self.log.append_as_follower(data, epoch)
        self.batches.append(Batch(base, tuple(values)))
        self.end = base + len(values)

    @rule(values=VALUES, producer=PRODUCERS, bumps=st.booleans())
    def append_idempotent(self, values: list[bytes], producer: int, *, bumps: bool) -> None:
        """A producer continues, or starts a new epoch; not within a transaction."""
        batch = self.next_batch(producer, values, transactional=False)
        if self.is_open(producer):
            with pytest.raises(InvalidTxnState):
                self.log.append_as_leader(self.built(batch), self.log.latest_epoch or 0)
            return
        if bumps:
            batch = batch._replace(epoch=batch.epoch + 1, sequence=0)
        self.add(batch)

    @rule(producer=PRODUCERS)
    def repeat(self, producer: int) -> None:
        """A producer's last batch, sent again, is recognized and not written."""
        last = self.known_last(producer)
        if last is not None:
            info = self.log.append_as_leader(self.built(last), self.log.latest_epoch or 0)
            assert info.is_duplicate
            assert (info.first_offset, info.last_offset) == (last.base, last.last)

    @rule(producer=PRODUCERS, values=VALUES, skipped=st.integers(1, 9))
    def leave_out(self, producer: int, values: list[bytes], skipped: int) -> None:
        """A gap in the sequence is rejected, and nothing is written."""
        if self.known_last(producer) is None:
            return
        batch = self.next_batch(producer, values, transactional=self.is_open(producer))
        late = batch._replace(sequence=batch.sequence + skipped)
        with pytest.raises(OutOfOrderSequenceNumber):
            self.log.append_as_leader(self.built(late), self.log.latest_epoch or 0)

    @rule(producer=PRODUCERS, values=VALUES)
    def append_in_transaction(self, producer: int, values: list[bytes]) -> None:
        """A transaction begins, once verified with its coordinator, or continues."""
        batch = self.next_batch(producer, values, transactional=True)
        if not self.is_open(producer):
            with pytest.raises(InvalidTxnState):
                self.log.append_as_leader(self.built(batch), self.log.latest_epoch or 0)
        guard = self.log.start_verification(
            producer, batch.sequence, batch.epoch, supports_epoch_bump=False
        )
        self.add(batch, guard)

    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end_transaction(self, producer: int, *, is_commit: bool) -> None:
        """A marker ends a transaction, or has none to end."""
        last = self.last_of(producer)
        epoch = 0 if last is None else last.epoch
        marker = build_marker(
            producer_id=producer,
            producer_epoch=epoch,
            coordinator_epoch=0,
            is_commit=is_commit,
            timestamp=NOW_MS,
        )
        origin, leader_epoch = AppendOrigin.COORDINATOR, self.log.latest_epoch or 0
        self.log.append_as_leader(marker, leader_epoch, origin=origin, transaction_version=0)
        self.batches.append(Batch(self.end, (), producer, epoch, is_commit=is_commit))
        self.end += 1

    # Files and offsets

    @rule()
    def roll(self) -> None:
        """Roll, unless the active segment is empty."""
        if self.log.segments.active.size_bytes:
            self.log.roll()

    @rule()
    def run_tasks(self) -> None:
        """Let the scheduler flush rolled segments and delete renamed files."""
        self.home.clock.advance(60_000)

    @rule()
    def flush(self) -> None:
        """Flush."""
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule(to=st.floats(0, 1))
    def replicate(self, to: float) -> None:
        """Move the high watermark, forward only."""
        self.watermark = self.log.update_high_watermark(max(round(to * self.end), self.watermark))

    @precondition(lambda self: self.end > self.start)
    @rule(to=st.floats(0, 1))
    def truncate(self, to: float) -> None:
        """Truncate the log; a batch that straddles the offset is removed whole.

        Markers of transactions that the log start has passed are kept: their start is unknown.
        """
        cut_by_start = [
            txn.marker + 1
            for txn in self.transactions
            if txn.marker is not None and txn.first < self.start <= txn.marker
        ]
        offset = max(round(to * self.end), *cut_by_start, 0)
        self.log.truncate_to(offset)
        if offset < self.end:
            self.batches = [batch for batch in self.batches if batch.last < offset]
            self.end = offset
            self.start = min(self.start, offset)
            self.watermark = min(self.watermark, offset)

    @rule(to=st.floats(0, 1))
    def delete_records(self, to: float) -> None:
        """Raise the log start offset, up to the last stable offset."""
        stable = min([*self.unstable, self.watermark])
        before = self.start + round(to * max(stable - self.start, 0))
        self.start = self.log.delete_records(before)

    @precondition(lambda self: not self.unstable)
    @rule()
    def retain(self) -> None:
        """Delete old segments; the log start moves to a segment's base offset."""
        self.log.delete_old_segments()
        assert self.start <= self.log.log_start_offset <= self.watermark
        self.start = self.log.log_start_offset

    # Ends

    @rule(clean=st.booleans())
    def reopen(self, *, clean: bool) -> None:
        """Close and reopen, cleanly or after a kill: nothing is lost."""
        recovery_point = self.log.recovery_point
        if clean:
            self.log.close()
        else:
            self.home.restart()
        self._open(clean=clean, recovery_point=recovery_point)

    @rule()
    def cut_power(self) -> None:
        """Lose some or all unflushed data: what remains is a prefix of the log.

        Segments before the last roll are flushed; tests/crash has the moment before.
        """
        self.log.flush_up_to(self.log.segments.active.base_offset)
        recovery_point = self.log.recovery_point
        self.is_broken = True
        self.home.power_cut()
        flushed = [b for b in self.batches if b.last < recovery_point]
        log = self.home.open(
            clean=False, log_start_offset=self.start, recovery_point=recovery_point
        )
        end = log.log_end_offset
        log.close()
        self.batches = [batch for batch in self.batches if batch.last < max(end, self.start)]
        assert self.shown(flushed) == self.shown(self.batches)[: len(self.shown(flushed))]
        self.is_broken = False
        self._open(clean=True, recovery_point=recovery_point)

    def _open(self, *, clean: bool, recovery_point: int) -> None:
        self.log = self.home.open(
            clean=clean, log_start_offset=self.start, recovery_point=recovery_point
        )
        # The log ends where the records end: a truncation inside a batch is not remembered.
        last = self.batches[-1].last + 1 if self.batches else 0
        self.end = max(last, self.log.segments.active.base_offset, self.start)
        self.watermark = self.log.update_high_watermark(self.watermark)

    # What holds after each

    @invariant()
    def holds_the_records(self) -> None:
        """The log has the same batches as the list, at the same offsets."""
        type(self).steps += 1
        assert self.shown(self.batches) == all_values(self.log)
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)

    @invariant()
    def shows_whole_batches_below_the_watermark(self) -> None:
        """A reader sees the batches that are entirely below the high watermark."""
        seen = all_values(self.log, Isolation.READ_UNCOMMITTED)
        assert self.shown([b for b in self.batches if b.last < self.log.high_watermark]) == seen

    @invariant()
    def shows_committed_records(self) -> None:
        """A read_committed reader sees nothing undecided and nothing aborted.

        Whether a marker that the log has but the high watermark does not cover counts as open
        depends, as in Kafka, on what was replayed when the log was opened.
        """
        stable, watermark = self.log.last_stable_offset, self.log.high_watermark
        begun = [txn.first for txn in self.transactions if txn.marker is None]
        assert max(min([*self.unstable, watermark]), self.start) <= stable
        assert stable <= max(min([*begun, watermark]), self.start)
        aborted = [t for t in self.transactions if t.marker is not None and not t.is_commit]
        kept = [
            batch
            for batch in self.batches
            if batch.last < stable
            and not any(
                batch.is_transactional
                and t.producer == batch.producer
                and t.first <= batch.base < (t.marker or 0)
                for t in aborted
            )
        ]
        assert self.shown(kept) == all_values(self.log, Isolation.READ_COMMITTED)

    @invariant()
    def reads_from_anywhere(self) -> None:
        """A read starts with the batch that contains the offset, or with the next one."""
        for offset in {self.start, (self.start + self.end) // 2, self.end}:
            expected = [r for r in self.shown(self.batches) if r[0] >= offset]
            found = self.log.records(offset, isolation=Isolation.LOG_END)
            assert expected == [(record.offset, record.value) for record in found]

    @invariant()
    def places_its_offsets(self) -> None:
        """Batches before the place of an offset end below it, those from there on do not."""
        taken = self.log.offset_snapshot()
        assert [place.offset for place in taken] == [
            self.start,
            self.log.last_stable_offset,
            self.log.high_watermark,
            self.end,
        ]
        middle = self.log.offset_metadata((self.start + self.end) // 2)
        batches = [
            ((segment.base_offset, position), last)
            for segment in self.log.segments
            for piece in segment.file_records().pieces()
            for position, last in zip(
                (piece.batches.position).tolist(), piece.batches.last_offset.tolist(), strict=True
            )
        ]
        for place in (*taken, middle):
            below = [at for at, last in batches if last < place.offset]
            above = [at for at, last in batches if last >= place.offset]
            found = (place.segment_base_offset, place.position)
            assert all(at < found for at in below)
            assert all(at >= found for at in above)

    @invariant()
    def knows_the_producers(self) -> None:
        """Sequence, epoch and open transaction of each producer are those of its last batch."""
        for producer in (1, 2):
            last = self.known_last(producer)
            if last is not None:
                known = self.log.producers.producers[producer]
                expected = last.sequence + len(last.values) - 1
                assert (known.last_sequence, known.producer_epoch) == (expected, last.epoch)
                assert (known.txn_first_offset is not None) == self.is_open(producer)

    def teardown(self) -> None:
        """Close whatever is open, so that closing is tested too."""
        if hasattr(self, "log"):
            if not self.is_broken:
                self.log.close()
            type(self).evictions += self.home.fs.descriptors.evictions


def test_a_log_is_a_list(enumerated: Enumerated) -> None:
    """After any operations in any order, it has the content of a plain list of batches.

    Scenario: UnifiedLogTest.testAppendAndReadWithSequentialOffsets, UnifiedLogTest.testLogRolls
    """
    before = LogMachine.steps

    run_state_machine_as_test(LogMachine, settings=QUICK)

    enumerated("steps", LogMachine.steps - before, at_least=100)


class CrampedLogMachine(LogMachine):
    """The same where only one file may be open."""

    descriptors = 1


def test_a_log_is_a_list_where_only_one_file_may_be_open(enumerated: Enumerated) -> None:
    """Its files are closed between any two uses; that shows in nothing, a power cut included."""
    run_state_machine_as_test(CrampedLogMachine, settings=QUICK)

    enumerated("evictions", CrampedLogMachine.evictions, at_least=101)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_log_is_a_list_over_ten_thousand_steps(enumerated: Enumerated) -> None:
    """The same holds over a long run."""
    before = LogMachine.steps

    run_state_machine_as_test(LogMachine, settings=LONG)

    enumerated("steps", LogMachine.steps - before, at_least=LEAST_STEPS)
