"""Every state that a crash may leave of a log: it opens by itself, and keeps what it promised.

Each operation of a log is stopped before and after each of its writes, truncations, renames,
deletions and syncs. What was not synced by then is kept, lost, or kept in part and torn. Each
state on the disk that differs from those before is opened and looked at.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Unpack

import pytest
from tests.crash.power_cuts import Outcome, outcomes
from tests.machinery.log_home import LogHome, all_values
from tests.machinery.scale import scaled

from tidelog.codec.checkpoint_file import (
    read_checkpoint,
    read_leader_epochs,
    write_checkpoint,
)
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import PowerCut, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.conftest import Enumerated

    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields

NOW_MS = 1_700_000_000_000
SETTINGS = {
    "internal_segment_bytes": 400,
    "index_interval_bytes": 0,
    "segment_index_bytes": 80,
    "retention_bytes": 900,
    "retention_ms": -1,
    "file_delete_delay_ms": 1_000,
}
CHECKPOINT = f"{LogHome.data_directory}/recovery-point-offset-checkpoint"
FEW, MANY = 1, scaled(40)
"""Seeds tried for each moment, in the fast run and in the long one."""


@dataclass
class Story:
    """What was done to a log, as its owner knows it."""

    home: LogHome
    appended: dict[int, bytes] = field(default_factory=dict)
    """Each offset that was ever given, with the value last written there."""
    replaced: list[dict[int, bytes]] = field(default_factory=list)
    """What was appended before each truncation."""
    flushed: int = 0
    """Records below it are durable."""
    start: int = 0
    """The log may begin anywhere up to here; from there on nothing may miss."""
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def append(self, log: Log, value: bytes, **fields: Unpack[BatchFields]) -> None:
        """Append a record of idempotent producer 1, or as ``fields`` say."""
        if not fields:
            known = log.producers.last_entry(1)
            sequence = 0 if known is None else known.last_sequence + 1
            fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence}
        self.appended[log.log_end_offset] = value
        data = build_batch([(NOW_MS, b"k", value, ())], **fields)
        log.append_as_leader(data, log.latest_epoch or 0)

    def flush(self, log: Log) -> None:
        """Flush, and take note of it once it is done."""
        log.flush()
        self.flushed = log.recovery_point

    def tick(self, log: Log, ms: int = 0) -> None:
        """Let background tasks run that are due."""
        self.home.clock.advance(ms)
        self.flushed = log.recovery_point


def prepared(seed: int) -> tuple[Story, Log]:
    """Return a log of three segments, all flushed, and two records that are not."""
    story = Story(LogHome(seed, **SETTINGS))
    log = story.home.open()
    for number in range(9):
        story.append(log, b"value-%d" % number)
        story.tick(log)
    story.flush(log)
    for number in range(9, 11):
        story.append(log, b"value-%d" % number)
    log.update_high_watermark(9)
    return story, log


def append(story: Story, log: Log) -> None:
    """Plain records, records of a transaction, its marker, and a flush between."""
    story.append(log, b"plain", producer_id=-1)
    guard = log.start_verification(2, 0, 0, supports_epoch_bump=False)
    data = build_batch(
        [(NOW_MS, b"k", b"txn", ())],
        producer_id=2,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    story.appended[log.log_end_offset] = b"txn"
    log.append_as_leader(data, verification_guard=guard)
    marker = build_marker(
        producer_id=2, producer_epoch=0, coordinator_epoch=0, is_commit=False, timestamp=NOW_MS
    )
    log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)
    story.flush(log)
    story.append(log, b"last", producer_id=-1)


def roll(story: Story, log: Log) -> None:
    """Begin a new segment, append to it, let the task flush what came before."""
    log.roll()
    story.append(log, b"after the roll")
    story.tick(log)
    log.roll()
    story.tick(log)


def truncate(story: Story, log: Log) -> None:
    """Cut into an older segment, then write something else there, and flush that."""
    story.replaced.append(dict(story.appended))
    story.appended = {o: v for o, v in story.appended.items() if o < 4}
    story.flushed = min(story.flushed, 4)
    log.truncate_to(4)
    for number in range(4):
        story.append(log, b"other-%d" % number)
        story.tick(log)
    story.flush(log)


def truncate_fully(story: Story, log: Log) -> None:
    """Begin again at an offset inside the log."""
    story.replaced.append(dict(story.appended))
    story.appended, story.flushed, story.start = {}, 0, 20
    log.truncate_fully_and_start_at(20)
    story.append(log, b"again")
    story.flush(log)


def retain(story: Story, log: Log) -> None:
    """Delete old segments, later their files, and more by the log start offset."""
    story.start = 9
    log.delete_old_segments()
    log.delete_records(8)
    log.delete_old_segments()
    story.tick(log, 2_000)
    story.append(log, b"after retention")
    story.flush(log)


def snapshot(story: Story, log: Log) -> None:
    """Close, which keeps producer state, open as after a clean end, and append."""
    log.close()
    story.flushed = log.log_end_offset
    log = story.home.open(recovery_point=story.flushed)
    story.append(log, b"next")
    log.close()
    story.flushed = log.log_end_offset


def checkpoint(story: Story, log: Log) -> None:
    """Begin leader epochs, and write a checkpoint of the data directory again and again."""
    for number in range(3):
        story.epochs.append((number + 1, log.log_end_offset))
        log.maybe_assign_epoch(number + 1, log.log_end_offset)
        story.append(log, b"of epoch %d" % number)
        story.flush(log)
        write_checkpoint(story.home.fs, CHECKPOINT, {("flights", 0): story.flushed})


ACTS: dict[str, Callable[[Story, Log], None]] = {
    act.__name__: act
    for act in (append, roll, truncate, truncate_fully, retain, snapshot, checkpoint)
}


def contents(home: LogHome) -> str:
    """Digest all files of the log, so that a state is looked at once."""
    found = sha256()
    for name in home.files():
        found.update(f"{name}:".encode() + home.read(name) + b";")
    return found.hexdigest()


def crashed(act: Callable[[Story, Log], None], seeds: int) -> Iterator[tuple[Story, Outcome]]:
    """Yield each state that a crash during ``act``, or right after it, may leave."""
    story, log = prepared(0)
    before = len(story.home.fs.operations)
    act(story, log)
    count = len(story.home.fs.operations) - before
    for operations in range(count + 1):
        story, log = prepared(operations)
        story.home.fs.crash_after(operations)
        with suppress(PowerCut):
            act(story, log)
        for outcome in outcomes(seeds):
            home = story.home.copied(outcome.seed)
            home.power_cut(outcome.kept)
            yield replace(story, home=home), outcome


def check(story: Story, outcome: Outcome) -> None:
    """Open the log; nothing flushed is lost, nothing is there that was never written."""
    home = story.home
    log = home.open(clean=False, recovery_point=story.flushed)
    survivors = dict(all_values(log))
    histories = [story.appended, *story.replaced]
    assert any(survivors.items() <= history.items() for history in histories)
    wanted = {o: v for o, v in story.appended.items() if story.start <= o < story.flushed}
    assert wanted.items() <= survivors.items()
    if outcome.kept == "all":
        # The last may have been under way; an offset is noted before its record is written.
        acknowledged = [offset for offset in story.appended if offset >= story.start][:-1]
        assert set(acknowledged) <= set(survivors)
    offsets = [o for o in survivors if o >= story.start]
    markers = 1 + len(offsets)
    assert not offsets or offsets[-1] - offsets[0] < len(offsets) + markers
    check_state(log, survivors)
    check_checkpoints(story, log)
    check_goes_on(story, log)


def check_state(log: Log, survivors: Mapping[int, bytes | None]) -> None:
    """Producers and offsets are those of the records that are there."""
    known = log.producers.producers
    if 1 in known and known[1].last_data_offset >= 0:
        assert known[1].last_data_offset < log.log_end_offset
        assert known[1].last_data_offset in survivors or log.log_start_offset > 0
    log.update_high_watermark(log.log_end_offset)
    committed = dict(all_values(log, Isolation.READ_COMMITTED))
    assert committed.items() <= survivors.items()
    for segment in log.segments:
        entries = segment.offset_index.entries()
        assert (entries.filled_values < max(segment.size_bytes, 1)).all()


def check_checkpoints(story: Story, log: Log) -> None:
    """A checkpoint is there as it was, or as it was to be, never in part."""
    points = read_checkpoint(story.home.fs, CHECKPOINT)
    assert all(0 <= offset <= story.flushed for offset in points.values())
    epochs = read_leader_epochs(story.home.fs, f"{LogHome.directory}/leader-epoch-checkpoint")
    assert {tuple(entry) for entry in epochs} <= {(0, o) for o in range(25)} | set(story.epochs)
    durable = [entry for entry in story.epochs[:-1] if entry[1] < log.log_end_offset]
    assert set(durable) <= {tuple(entry) for entry in log.epochs.entries}


def check_goes_on(story: Story, log: Log) -> None:
    """Appends continue, and a clean end leaves everything in order."""
    before = all_values(log)
    log.append_records([(NOW_MS, b"k", b"after", ())])
    end = log.log_end_offset
    log.close()
    again = story.home.open(recovery_point=end)
    assert all_values(again) == [*before, (end - 1, b"after")]
    again.close()


def enumerate_states(act: Callable[[Story, Log], None], seeds: int) -> tuple[int, int]:
    """Check each different state; return how many there were, and how many crashes."""
    seen: set[tuple[str, int]] = set()
    crashes = 0
    for story, outcome in crashed(act, seeds):
        crashes += 1
        state = contents(story.home), story.flushed
        if state not in seen:
            seen.add(state)
            check(story, outcome)
    return len(seen), crashes


@pytest.mark.parametrize("name", ACTS)
def test_a_crash_at_any_moment_is_recovered_from(name: str, enumerated: Enumerated) -> None:
    """Of each operation, with a few ways in which unsynced data is kept or lost."""
    states, crashes = enumerate_states(ACTS[name], FEW)

    enumerated("crashes", crashes, at_least=states + 1)
    enumerated("different states", states, at_least=11)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ACTS)
def test_a_crash_at_any_moment_is_recovered_from_in_every_way(
    name: str, enumerated: Enumerated
) -> None:
    """The same with many ways; the number of states is printed."""
    states, crashes = enumerate_states(ACTS[name], MANY)

    enumerated("crashes", crashes, at_least=states)
    enumerated("different states", states, at_least=100)
