"""The staged files of one task: few and long runs, and files of their own for large partitions."""

from __future__ import annotations

import errno
import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome, record

from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.records.batch import INT32_MAX, INT64_MAX
from tidelog.records.builder import build_batch
from tidelog.records.memory import walk
from tidelog.staging import staged_folder
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.staged_run import RunLimits, StagedRun, check_run
from tidelog.testing.crash_files import CrashFile

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH = build_batch([record(b"v" * 20)])
SIZE = len(BATCH)


def home() -> DataHome:
    """Return an empty data directory."""
    made = DataHome()
    made.fs.make_directory(made.path)
    return made


def writer(home: DataHome, **how: Any) -> BundleWriter:
    """Return a writer of staged files."""
    return BundleWriter(LocalFolder(home.fs, home.path), "x", rng=Random(1), **how)


def where(runs: Sequence[StagedRun]) -> list[tuple[int, str, int, int, int]]:
    """Return partition, file (a letter for each), position, batches and records of each run."""
    names = list(dict.fromkeys(run.name for run in runs))
    letters = {name: "abcdefgh"[number] for number, name in enumerate(names)}
    return [
        (run.partition, letters[run.name], run.position, run.size_bytes // SIZE, run.records)
        for run in runs
    ]


def test_small_data_makes_one_file_and_one_sync() -> None:
    """Whatever the number of partitions and the order of their batches."""
    at = home()
    traced = at.fs.trace()
    bundle = writer(at)
    for number in (2, 0, 1, 0):
        bundle.append("t", number, BATCH, segment_bytes=100 * SIZE)
    runs = bundle.finish()

    assert where(runs) == [(0, "a", 0, 2, 2), (1, "a", 2 * SIZE, 1, 1), (2, "a", 3 * SIZE, 1, 1)]
    assert len([one for one in traced if one.name in {"sync", "sync_directory"}]) == 1


def test_the_disk_begins_to_write_while_a_task_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is announced once, when there is enough of them; the sync has the rest."""
    started = []

    def note(_file: CrashFile, size: int, position: int) -> None:
        started.append((position, size))

    monkeypatch.setattr(CrashFile, "start_writeback", note)
    monkeypatch.setattr(staged_folder, "WRITEBACK_BYTES", 2 * SIZE)
    bundle = writer(home(), buffer_bytes=SIZE)
    for _ in range(5):
        bundle.append("t", 0, BATCH)
    bundle.finish()

    assert started == [(0, 2 * SIZE), (2 * SIZE, 2 * SIZE)]


def test_a_partition_with_an_eighth_of_a_segment_gets_files_of_its_own() -> None:
    """Of at most ``segment.bytes``, after the runs that were written before."""
    at = home()
    bundle = writer(at, buffer_bytes=SIZE)
    for number in range(13):
        bundle.append("t", 0, BATCH, segment_bytes=5 * SIZE if number else 17 * SIZE)
    bundle.append("t", 1, BATCH, segment_bytes=100 * SIZE)
    runs = bundle.finish()

    assert where(runs) == [
        (0, "a", 0, 1, 1),
        (0, "b", 0, 5, 5),
        (0, "c", 0, 5, 5),
        (1, "a", SIZE, 1, 1),
        (0, "d", 0, 2, 2),
    ]
    for run in runs:
        check_run(at.fs, at.path, run, RunLimits(SIZE, needs_keys=False, is_stamped=False))


def test_batches_of_one_call_are_spread_over_files() -> None:
    """A file is never larger than a segment, unless one batch is."""
    at = home()
    bundle = writer(at)
    bundle.append("t", 0, BATCH * 7, segment_bytes=3 * SIZE + 1)
    bundle.append("t", 1, BATCH * 2, segment_bytes=SIZE - 1)

    assert [(run.partition, run.size_bytes // SIZE) for run in bundle.finish()] == [
        *((0, 3), (0, 3), (1, 1), (0, 1), (1, 1)),
    ]


def test_a_partition_with_much_of_a_full_buffer_gets_files_of_its_own() -> None:
    """Before it has what a log adopts, since it is likely to get that; but not at the end."""
    large = build_batch([record(bytes(1 << 20))])
    full, last = writer(home(), buffer_bytes=4 << 20), writer(home(), buffer_bytes=16 << 20)
    for bundle in (full, last):
        for number in (0, 1, 0, 0, 0, 1):
            bundle.append("t", number, large, segment_bytes=1 << 30)

    shared, rest, own = full.finish()
    assert [(run.partition, run.records) for run in (shared, rest, own)] == [(1, 1), (1, 1), (0, 4)]
    assert shared.name == rest.name != own.name
    assert len({run.name for run in last.finish()}) == 1


def test_abandoned_files_are_removed() -> None:
    """All of them, also those that were finished."""
    at = home()
    bundle = writer(at, buffer_bytes=SIZE)
    for number in range(12):
        bundle.append("t", number % 2, BATCH, segment_bytes=4 * SIZE if number % 2 else None)
    bundle.finish()
    assert len(at.files()) == 3
    bundle.abandon()
    bundle.abandon()

    assert at.files() == []


def test_a_write_that_fails_is_the_end_of_all_that_was_staged() -> None:
    """The error has the disk's as its cause; the files are gone, and nothing is taken any more."""
    at = home()
    bundle = writer(at, buffer_bytes=SIZE)
    bundle.append("t", 0, BATCH, segment_bytes=SIZE)
    full = OSError(errno.ENOSPC, "full")
    at.fs.fail("pwrite", ".staged", full)
    with pytest.raises(KafkaStorageError, match=r"staging in /data failed: .*full") as raised:
        bundle.append("t", 1, BATCH)

    assert raised.value.__cause__ is full
    assert at.files() == []
    for use in (bundle.check, bundle.finish, lambda: bundle.append("t", 1, BATCH)):
        with pytest.raises(KafkaStorageError, match=r"failed before: .*full") as again:
            use()
        assert again.value.__cause__ is full
    assert at.files() == []


def test_files_that_cannot_be_removed_do_not_hide_an_error() -> None:
    """The others are removed; a sweep finds what is left."""
    at = home()
    bundle = writer(at, buffer_bytes=SIZE)
    for number in range(3):
        bundle.append("t", number, BATCH, segment_bytes=SIZE)
    at.fs.fail("delete", ".staged", OSError(errno.EIO, "broken"))
    bundle.abandon()

    assert len(at.files()) == 1


def test_what_is_not_whole_batches_is_refused() -> None:
    """Before a byte of it is written."""
    at = home()
    bundle = writer(at)
    bundle.append("t", 3, BATCH + b"more")
    with pytest.raises(InvalidArgument, match="not whole batches for t-3"):
        bundle.finish()
    with pytest.raises(KafkaStorageError, match="not whole batches for t-3"):
        bundle.finish()

    assert at.files() == []


def test_copies_keep_their_offsets() -> None:
    """The entry names them, and its digest covers them."""
    at = home()
    bundle = writer(at, keeps_offsets=True, buffer_bytes=1)
    batches = [build_batch([record(b"v")], base_offset=offset, leader_epoch=3) for offset in (5, 9)]
    for batch in batches:
        bundle.append("t", 0, batch)
    first, last = bundle.finish()

    assert (first.first_offset, first.next_offset) == (5, 6)
    assert (last.first_offset, last.next_offset) == (9, 10)
    assert (first.keeps_offsets, first.digest == last.digest) == (True, False)
    assert StagedRun.from_json(first.as_json()) == first
    path = os.path.join(at.path, first.name)
    assert walk(at.fs.read(path)).batches.base_offset.tolist() == [5, 9]


@pytest.mark.parametrize("segment_bytes", [None, 1000])
def test_copies_far_apart_are_runs_of_their_own(segment_bytes: int | None) -> None:
    """A segment counts offsets in 31 bits, and a compacted log may have larger gaps."""
    at = home()
    bundle = writer(at, keeps_offsets=True)
    offsets = [0, 5, INT32_MAX - 1, INT32_MAX, 9 << 31, INT64_MAX - 1]
    for offset in offsets:
        bundle.append(
            "t",
            0,
            build_batch([record(b"v")], base_offset=offset, leader_epoch=3),
            segment_bytes=segment_bytes,
        )
    runs = bundle.finish()

    limits = RunLimits(1000, needs_keys=False, is_stamped=False)
    assert [(run.first_offset, run.next_offset) for run in runs] == [
        (0, INT32_MAX),
        (INT32_MAX, INT32_MAX + 1),
        *((offset, offset + 1) for offset in offsets[4:]),
    ]
    for run in runs:
        check_run(at.fs, at.path, run, limits)
