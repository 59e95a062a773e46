"""A disk that is full for a moment, while several files of a log are being changed."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.errors import KafkaStorageError
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.log.log import Log

VALUES = [b"%d" % number for number in range(6)]


def filled() -> tuple[LogHome, Log]:
    """Create a log with one batch of one record in each segment."""
    batches = [build_batch([(1, b"key", value, ())]) for value in VALUES]
    home = LogHome(internal_segment_bytes=len(batches[0]))
    log = home.open()
    for batch in batches:
        log.append_as_leader(batch)
    home.clock.advance(1)
    return home, log


def fail_once(home: LogHome, operation: str, path_suffix: str) -> None:
    """Make the disk full for the next operation of this name."""
    home.fs.fail(operation, path_suffix, OSError(errno.ENOSPC, "full"))


@pytest.mark.parametrize(
    ("operation", "path_suffix"), [("open", "0.log"), ("rename", ".index.deleted")]
)
def test_an_empty_segment_that_cannot_be_replaced_keeps_its_name(
    operation: str, path_suffix: str
) -> None:
    """Records appended after a failed roll are there after a restart."""
    home = LogHome()
    log = home.open()
    fail_once(home, operation, path_suffix)
    with pytest.raises(KafkaStorageError):
        log.roll()
    log.append_as_leader(build_batch([(1, b"key", b"value", ())]))
    log.close()

    assert all_values(home.open()) == [(0, b"value")]


def test_a_truncation_that_cannot_begin_changes_nothing() -> None:
    """Segments renamed before the one that cannot be renamed get their names back."""
    home, log = filled()
    fail_once(home, "rename", "4.log.deleted")
    with pytest.raises(KafkaStorageError):
        log.truncate_to(3)

    assert all_values(log) == list(enumerate(VALUES))
    assert home.files(".deleted") == []
    assert log.truncate_to(3)
    assert all_values(log) == list(enumerate(VALUES))[:3]


@pytest.mark.parametrize(
    ("operation", "path_suffix"), [("truncate", ".index"), ("sync_directory", "flights-0")]
)
def test_a_truncation_that_fails_lets_nothing_be_appended(operation: str, path_suffix: str) -> None:
    """It is half complete, so an append at the old end would leave a gap."""
    home, log = filled()
    fail_once(home, operation, path_suffix)
    with pytest.raises(KafkaStorageError):
        log.truncate_to(3)
    with pytest.raises(KafkaStorageError):
        log.append_as_leader(build_batch([(1, b"key", b"value", ())]))
    home.restart()

    reopened = home.open(clean=False)
    kept = reopened.log_end_offset
    assert kept >= 3
    assert all_values(reopened) == list(enumerate(VALUES))[:kept]


def cleaned(log: Log, count: int) -> None:
    """Replace the first ``count`` segments by one with the same batches."""
    old = list(log.segments)[:count]
    new = log.swap.new_cleaned_segment(old[0].base_offset)
    for segment in old:
        for piece in segment.file_records().pieces():
            batches = piece.batches_in_data
            data = piece.data[: int(batches.end[-1])].tobytes()
            new.append(int(batches.last_offset[-1]), data, batches)
    new.become_inactive()
    new.flush()
    log.swap.replace_segments([new], old)


def test_a_replacement_that_fails_is_not_tried_over_its_own_remains() -> None:
    """A second attempt would use the same names, and delete what the first had put in place."""
    home, log = filled()
    fail_once(home, "rename", "1.log.deleted")
    for count in (2, 1):
        with pytest.raises(KafkaStorageError):
            cleaned(log, count)
    home.restart()

    assert all_values(home.open(clean=False)) == list(enumerate(VALUES))
