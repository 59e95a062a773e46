"""A log against a plain list."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidelog.log.reading import FetchIsolation
from tidelog.testing import build_batch
from tidelog.testing.logs import LogHome, all_values

NOW_MS = 1_700_000_000_000
VALUES = st.lists(st.binary(max_size=60), min_size=1, max_size=4)


class LogMachine(RuleBasedStateMachine):
    """Every operation is done to a log and to a list of (batch start, offset, value)."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[tuple[int, bytes]]] = []
        self.start = self.end = self.watermark = 0

    @initialize(
        segment_bytes=st.integers(250, 900), interval=st.integers(0, 200), seed=st.integers(0, 99)
    )
    def create(self, segment_bytes: int, interval: int, seed: int) -> None:
        """Begin with an empty log of small segments."""
        self.home = LogHome(
            seed,
            internal_segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=120,
            retention_bytes=600,
            retention_ms=-1,
        )
        self.log = self.home.open()

    @property
    def model(self) -> list[tuple[int, bytes]]:
        """Offset and value of each record that readers may see to the end."""
        records = [record for batch in self.batches for record in batch]
        return [record for record in records if record[0] >= self.start]

    @rule(values=VALUES, epoch=st.integers(0, 3))
    def append(self, values: list[bytes], epoch: int) -> None:
        """Append a batch as leader."""
        epoch = max(epoch, self.log.latest_epoch or 0)
        data = build_batch([(NOW_MS, None, value, ()) for value in values])
        info = self.log.append_as_leader(data, epoch)
        assert info.first_offset == self.end
        self.batches.append([(self.end + n, value) for n, value in enumerate(values)])
        self.end += len(values)

    @rule(values=VALUES, gap=st.integers(0, 3))
    def append_as_follower(self, values: list[bytes], gap: int) -> None:
        """Append a batch with a gap before it, as a follower."""
        base = self.end + gap
        epoch = self.log.latest_epoch or 0
        records = [(NOW_MS, None, value, ()) for value in values]
        self.log.append_as_follower(
            build_batch(records, base_offset=base, leader_epoch=epoch), epoch
        )
        self.batches.append([(base + n, value) for n, value in enumerate(values)])
        self.end = base + len(values)

    @rule()
    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        if self.log.segments.active.size_bytes:
            self.log.roll()

    @rule()
    def flush(self) -> None:
        """Flush."""
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule(to=st.floats(0, 1))
    def replicate(self, to: float) -> None:
        """Move the high watermark."""
        self.watermark = self.log.update_high_watermark(round(to * self.end))

    @precondition(lambda self: self.end > self.start)
    @rule(to=st.floats(0, 1))
    def truncate(self, to: float) -> None:
        """Cut the log; a batch that straddles the cut goes whole."""
        offset = round(to * self.end)
        self.log.truncate_to(offset)
        if offset < self.end:
            self.batches = [batch for batch in self.batches if batch[-1][0] < offset]
            self.end = offset
            self.start = min(self.start, offset)
            self.watermark = min(self.watermark, offset)

    @rule(to=st.floats(0, 1))
    def delete_records(self, to: float) -> None:
        """Raise the log start within the high watermark."""
        self.start = self.log.delete_records(
            self.start + round(to * max(self.watermark - self.start, 0))
        )

    @rule()
    def retain(self) -> None:
        """Delete old segments; the log start moves to a segment's base."""
        self.log.delete_old_segments()
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset
        self.watermark = self.log.high_watermark
        self.home.clock.advance(60_000)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        """Close and open again, in order or after a kill."""
        recovery_point = self.log.recovery_point
        if clean:
            self.log.close()
        else:
            self.home.restart()
        self.log = self.home.open(
            clean=clean, log_start_offset=self.start, recovery_point=recovery_point
        )
        # The end is where the records end: a cut inside a batch is forgotten.
        last = self.batches[-1][-1][0] + 1 if self.batches else 0
        self.end = max(last, self.log.segments.active.base_offset, self.start)
        self.watermark = self.log.update_high_watermark(self.watermark)

    @invariant()
    def holds_the_records(self) -> None:
        """The log holds what the list holds, at its offsets."""
        assert self.model == all_values(self.log)
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)

    @invariant()
    def shows_whole_batches_below_the_watermark(self) -> None:
        """A reader sees the batches that lie whole below the high watermark."""
        seen = all_values(self.log, FetchIsolation.HIGH_WATERMARK)
        whole = [batch for batch in self.batches if batch[-1][0] < self.log.high_watermark]
        shown = [record for batch in whole for record in batch if record[0] >= self.start]
        assert shown == seen

    @invariant()
    def reads_from_anywhere(self) -> None:
        """A read begins with the batch that holds the offset, or with the next one."""
        for offset in {self.start, (self.start + self.end) // 2, self.end}:
            expected = [record for record in self.model if record[0] >= offset]
            found = self.log.records(offset, isolation=FetchIsolation.LOG_END)
            assert expected == [(record.offset, record.value) for record in found]

    def teardown(self) -> None:
        """Close what is open, so that closing is tested too."""
        self.log.close()


LogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestLog = LogMachine.TestCase
