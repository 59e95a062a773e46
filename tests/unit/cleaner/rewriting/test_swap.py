"""When a cleaned segment is swapped in, and what happens if it cannot be written."""

from __future__ import annotations

import errno
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.cleaning import CleanerHome, kept

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.rewriting.swap import swap_in
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import CleaningAborted, KafkaStorageError
from tidelog.log.segments import LogSegments
from tidelog.segment.segment import LogSegment
from tidelog.testing import ManualClock, ManualScheduler, build_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.scheduler import Handle, Scheduler
    from tidelog.log.log import Log

GROUPS = 3
EIO, ENOSPC = (OSError(code, "as planned") for code in (errno.EIO, errno.ENOSPC))


@pytest.fixture(params=["at once", "late"])
def how(request: pytest.FixtureRequest) -> str:
    """Run writes at once, or only when the cleaning waits for them."""
    name: str = request.param
    return name


@pytest.fixture
def home() -> CleanerHome:
    """A log whose segments are not grouped: each is a group of its own."""
    return CleanerHome(internal_segment_bytes=400)


FAR = 2**31 + 5


def add_segment_with_overflow(home: CleanerHome, log: Log) -> None:
    """Put a batch too far from its base offset into the last segment, as old Kafka did."""
    base = log.log_end_offset
    for offset in (base, base + 1):
        log.append_as_follower(
            build_batch([(0, b"k", b"v", ())], base_offset=offset, leader_epoch=0), 0
        )
    first = log.segments.active
    far = build_batch([(0, b"k", b"v", ())], base_offset=base + FAR, leader_epoch=0)
    log.append_as_follower(far, 0)
    log.roll()
    with closing(home.fs.open(first.path, "w")) as file:
        file.pwrite(far, first.size_bytes)
    first._size_bytes += len(far)
    second = log.segments.all[-2]
    log.segments.remove(second.base_offset)
    second.delete()
    log.update_high_watermark(log.log_end_offset)


@pytest.fixture
def log(home: CleanerHome) -> Iterator[Log]:
    """Three segments, each with a record that is dropped and one that is retained."""
    log = home.open()
    for number in range(GROUPS):
        home.append(log, ("same", number), (f"key {number}", "v" * 250))
        log.roll()
    yield log
    if not home.failures:
        log.close()


def scheduler(home: CleanerHome, how: str) -> Scheduler:
    return InlineScheduler() if how == "at once" else home.scheduler


def cleaned_offsets(log: Log) -> list[int]:
    return [offset for offset, _, _ in kept(log)]


def test_nothing_is_swapped_in_before_it_is_durable(home: CleanerHome, log: Log, how: str) -> None:
    """Each new segment is synced, then renamed, in the order of the log."""
    before = len(home.fs.operations)

    home.clean(log, scheduler=scheduler(home, how))

    seen = [
        (operation.name, operation.path[-len("0.log.cleaned") :])
        for operation in home.fs.operations[before:]
        if operation.path.endswith(".log.cleaned") and operation.name in {"sync", "rename"}
    ]
    assert seen == [
        (name, f"{2 * number}.log.cleaned")
        for number in range(GROUPS)
        for name in ("sync", "rename")
    ]


@pytest.mark.parametrize("number", range(GROUPS))
def test_a_failed_sync_swaps_nothing_in_and_takes_the_directory_offline(
    home: CleanerHome, log: Log, how: str, number: int
) -> None:
    """After it the content of the disk is unknown; segments swapped in before stay."""
    home.fs.fail("sync", f"{2 * number:020}.log.cleaned", EIO)

    with pytest.raises(KafkaStorageError):
        home.clean(log, scheduler=scheduler(home, how))

    assert home.failures != []
    assert home.files(".cleaned") == []
    with pytest.raises(KafkaStorageError):
        home.clean(log, scheduler=scheduler(home, how))


@pytest.mark.parametrize("number", range(GROUPS))
def test_a_full_disk_ends_the_cleaning_and_leaves_the_log_online(
    home: CleanerHome, log: Log, how: str, number: int
) -> None:
    """The groups before are cleaned; that one and those after it are unchanged."""
    home.fs.fail("pwrite", f"{2 * number:020}.log.cleaned", ENOSPC)

    with pytest.raises(KafkaStorageError):
        home.clean(log, scheduler=scheduler(home, how))

    assert home.failures == []
    assert home.files(".cleaned") == []
    left = [offset for offset in range(2 * GROUPS) if offset % 2 or offset >= 2 * number]
    assert cleaned_offsets(log) == left

    home.clean(log, scheduler=scheduler(home, how))

    assert cleaned_offsets(log) == [1, 3, 4, 5]


def test_an_abort_does_not_stop_the_swap_before(home: CleanerHome, log: Log, how: str) -> None:
    """The group before is copied already and is swapped in; nothing is left of the next one."""
    steps: list[int] = []

    def check() -> None:
        steps.append(1)
        if len(steps) == GROUPS + 3:  # each was read for the map; one is copied, and checked again
            raise CleaningAborted("requested")

    with pytest.raises(CleaningAborted):
        home.clean(log, check=check, scheduler=scheduler(home, how))

    assert cleaned_offsets(log) == [1, 2, 3, 4, 5]
    assert home.files(".cleaned") == []


def test_the_group_before_is_in_place_when_a_segment_is_split(
    home: CleanerHome, log: Log, how: str
) -> None:
    """No ``.cleaned`` file is left when the split renames its ``.swap`` files.

    After a crash such a file would mean that the ``.swap`` files above it are incomplete; they
    would be deleted, and with them all records of the segment.
    """
    add_segment_with_overflow(home, log)
    before = len(home.fs.operations)

    with pytest.raises(CleaningAborted, match="split"):
        home.clean(log, scheduler=scheduler(home, how))

    renamed = [
        operation.path[-len("0.log.cleaned") :]
        for operation in home.fs.operations[before:]
        if operation.path.endswith(".log.cleaned") and operation.name == "rename"
    ]
    assert renamed[:GROUPS] == [f"{2 * number}.log.cleaned" for number in range(GROUPS)]
    assert len(renamed) == GROUPS + 2


def test_an_abort_does_not_hide_a_disk_that_failed(home: CleanerHome, log: Log, how: str) -> None:
    """The disk error is reported to the log, which takes its directory offline."""
    home.fs.fail("pwrite", f"{0:020}.log.cleaned", EIO)
    steps: list[int] = []

    def check() -> None:
        steps.append(1)
        if len(steps) == GROUPS + 2:  # each was read for the map, one is copied, none is written
            raise CleaningAborted("requested")

    with pytest.raises(CleaningAborted):
        home.clean(log, check=check, scheduler=scheduler(home, how))

    assert home.failures != []
    assert home.files(".cleaned") == []


def test_nothing_is_left_with_the_scheduler(home: CleanerHome, log: Log) -> None:
    """After a cleaning only the deletions that it scheduled are pending."""
    home.clean(log)

    assert {name for name in home.scheduler.pending() if "cleaner" in name} == set()


@pytest.mark.parametrize("number", range(GROUPS))
def test_nothing_is_left_with_the_scheduler_after_an_error(
    home: CleanerHome, log: Log, number: int
) -> None:
    """The same holds after a failure, in the last group too."""
    home.fs.fail("sync", f"{2 * number:020}.log.cleaned", EIO)

    with pytest.raises(KafkaStorageError):
        home.clean(log)

    assert {name for name in home.scheduler.pending() if "cleaner" in name} == set()


class Interrupted(ManualScheduler):
    """Raises KeyboardInterrupt right after it has queued the task of a given number."""

    def __init__(self, clock: ManualClock, number: int) -> None:
        super().__init__(clock)
        self._until = number

    def schedule(self, *task: Any, **when: Any) -> Handle:
        handle = super().schedule(*task, **when)
        self._until -= 1
        if self._until == 0:
            raise KeyboardInterrupt
        return handle


@pytest.mark.parametrize("number", range(1, 2 * GROUPS))
def test_no_job_outlives_an_interrupted_cleaning(home: CleanerHome, log: Log, number: int) -> None:
    """Nothing is written to a deleted segment, nor swapped in while the log is being closed."""
    scheduler = Interrupted(home.clock, number)

    with pytest.raises(KeyboardInterrupt):
        home.clean(log, scheduler=scheduler)
    after, offsets = home.files(".log"), cleaned_offsets(log)
    home.clock.advance(0)

    assert home.files(".cleaned") == []
    assert (home.files(".log"), cleaned_offsets(log)) == (after, offsets)
    assert home.failures == []


@pytest.mark.parametrize(
    ("operation", "first", "second"), [("pwrite", ENOSPC, EIO), ("sync", EIO, ENOSPC)]
)
def test_a_deletion_that_fails_hides_no_error_and_takes_the_log_offline(
    home: CleanerHome, log: Log, how: str, operation: str, first: OSError, second: OSError
) -> None:
    """A split beside the remaining ``.cleaned`` file could lose records in a crash."""
    path = f"{0:020}.log.cleaned"
    home.fs.fail(operation, path, first)
    # The first deletion is that of a leftover of an earlier cleaning.
    home.fs.fail("delete", path, second, skipped=1)

    with pytest.raises(KafkaStorageError, match=rf"cleaning failed .*\[Errno {first.errno}\]"):
        home.clean(log, scheduler=scheduler(home, how))

    assert home.files(".log.cleaned") == [path]
    assert {error.errno for error in home.failures} == {EIO.errno}
    with pytest.raises(KafkaStorageError, match="offline"):
        home.append(log, ("key", "value"))


def test_readers_see_old_segments_or_new_ones(
    home: CleanerHome, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take no lock: at no moment are there segments whose offsets overlap."""
    before = kept(log), log.count_records(), log.size_bytes
    seen = [before]
    rename = LogSegment.change_suffix

    def looked_at(segment: LogSegment, old: str, new: str) -> None:
        seen.append((kept(log), log.count_records(), log.size_bytes))
        rename(segment, old, new)
        seen.append((kept(log), log.count_records(), log.size_bytes))

    monkeypatch.setattr(LogSegment, "change_suffix", looked_at)
    config = replace(log.config, internal_segment_bytes=100_000)
    to_clean = OffsetsToClean(0, log.segments.active.base_offset)
    home.cleaner().clean(log, to_clean, home.clock.now_ms(), config)

    after = kept(log), log.count_records(), log.size_bytes
    assert len(seen) > 2 * GROUPS
    assert [each for each in seen if each not in (before, after)] == []
    assert before != after == seen[-1]


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("starts_anew", [False, True])
def test_a_truncation_takes_all_segments_out_at_once(
    log: Log, monkeypatch: pytest.MonkeyPatch, starts_anew: bool, offset: int
) -> None:
    """Readers that take no lock see no hole in the log, nor two segments of the same offsets."""
    before, seen = log.segments.base_offsets, [log.segments.base_offsets]

    def assign(segments: LogSegments, name: str, value: tuple[LogSegment, ...]) -> None:
        segments.__dict__[name] = value
        seen.append(segments.base_offsets)

    monkeypatch.setattr(LogSegments, "__setattr__", assign)
    if starts_anew:
        log.truncate_fully_and_start_at(offset)
    else:
        log.truncate_to(offset)

    assert seen == [before, log.segments.base_offsets]


def test_a_segment_that_is_not_swapped_in_is_closed(home: CleanerHome, log: Log) -> None:
    """Its files, which the next start deletes or swaps in, do not stay open."""
    new = log.swap.new_cleaned_segment(0)
    group = log.segments.all[:1]
    home.fs.fail("sync_directory", home.directory, EIO)

    with pytest.raises(KafkaStorageError, match="replacing segments failed"):
        swap_in(log, new, group, 1, lambda _: None)

    assert new._is_closed


def test_a_refused_segment_is_closed(log: Log) -> None:
    """Its files, which the next start deletes, do not stay open."""
    new = log.swap.new_cleaned_segment(0)
    group = log.segments.all[:1]
    log.close()

    with pytest.raises(KafkaStorageError, match="closed"):
        swap_in(log, new, group, 1, lambda _: None)

    assert new._is_closed
