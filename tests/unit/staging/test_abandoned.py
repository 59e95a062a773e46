"""Which staged files a sweep takes for abandoned."""

from __future__ import annotations

from random import Random

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.errors import DirectoryNotShared, KafkaStorageError
from tidelog.staging.abandoned import abandoned_files
from tidelog.staging.journal import journal_name
from tidelog.staging.marker import (
    MAX_MARKER_BYTES,
    VISIT_NS,
    MarkerVisits,
    make_marker,
    visited_markers,
)
from tidelog.staging.staged_file import attempt_of, staged_name

HOUR_MS = 3_600_000


def home_with(*txns: str) -> tuple[DataHome, list[str]]:
    """Return a directory with a staged file of each id, and their names."""
    home = DataHome()
    home.fs.make_directory(home.path)
    names = [staged_name(txn, Random(seed)) for seed, txn in enumerate(txns)]
    for name in names:
        home.write(name, b"b" * (MAX_MARKER_BYTES + 1))
    return home, names


def abandoned(home: DataHome) -> set[str]:
    """Return what a sweep takes for abandoned that keeps files for an hour."""
    return abandoned_files(home.fs, home.path, home.clock.now_ms() - HOUR_MS)


def test_the_files_of_an_attempt_are_abandoned_together() -> None:
    """A job that still writes, or whose tasks still begin, keeps what its first tasks staged.

    Its marker may be that of another id, as for a stream. An earlier attempt of the id is over.
    """
    home, (other,) = home_with("x")
    marker = make_marker(home.fs, home.path, "markers", Random(7))
    first = staged_name("x", Random(8), attempt_of(marker))
    home.write(first, b"batches")
    home.clock.advance(HOUR_MS)
    MarkerVisits(home.fs, home.path, marker, home.clock)

    assert abandoned(home) == {other}
    home.clock.advance(HOUR_MS)
    assert abandoned(home) == {first, marker, other}


def test_nothing_is_abandoned_beside_a_journal_that_cannot_be_read() -> None:
    """It may name any file."""
    home, _ = home_with("x")
    home.clock.advance(HOUR_MS)
    home.write(journal_name("y"), b"{")

    assert abandoned(home) == set()


def test_a_task_visits_its_marker_again_while_rows_arrive() -> None:
    """But not at each row; it fails once the marker is gone: the job has ended without it."""
    home, _ = home_with()
    marker = make_marker(home.fs, home.path, "x", Random(7))
    path = f"{home.path}/{marker}"
    visits = MarkerVisits(home.fs, home.path, marker, home.clock, b"note")
    made_ms = home.fs.stat(path).mtime_ms

    home.clock.advance(VISIT_NS // 1_000_000 - 1)
    visits.visit_if_due()
    assert home.fs.stat(path).mtime_ms == made_ms
    home.clock.advance(1)
    visits.visit_if_due()
    assert home.fs.stat(path).mtime_ms == home.clock.now_ms()
    home.fs.delete(path)
    home.clock.advance(VISIT_NS // 1_000_000)
    with pytest.raises(DirectoryNotShared, match="the driver has ended the write of this task"):
        visits.visit_if_due()


def test_a_task_that_finds_the_disk_full_says_where() -> None:
    """Its visit is the first write of a task."""
    home, _ = home_with()
    marker = make_marker(home.fs, home.path, "x", Random(7))
    home.fs.set_free_bytes(0)

    with pytest.raises(KafkaStorageError, match=r"staging in /data failed: .*No space left"):
        MarkerVisits(home.fs, home.path, marker, home.clock)


def test_a_marker_is_smaller_than_a_file_with_batches() -> None:
    """By this it is recognized: no batch is as small."""
    home, _ = home_with("x")
    seen, unseen = (make_marker(home.fs, home.path, "x", Random(seed)) for seed in (7, 8))
    MarkerVisits(home.fs, home.path, seen, home.clock, b"note")

    assert visited_markers(home.fs, home.path, "x") == {seen: b"note", unseen: b""}
