"""A closed log refuses every change."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pytest
from tests.machinery.log_home import LogHome

from tidelog.config.log_config import LogConfig
from tidelog.errors import KafkaStorageError
from tidelog.log.log import Log
from tidelog.log.reading.readable import ReadableLog
from tidelog.log.segment_swap import SegmentSwap
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = (1_700_000_000_000, b"k", b"v", ())

CHANGES: Final[dict[str, Callable[[Log], object]]] = {
    "adopt_segment": lambda log: log.adopt_segment("/data/staged", []),
    "append_as_follower": lambda log: log.append_as_follower(
        build_batch([RECORD], base_offset=2, leader_epoch=0), 0
    ),
    "append_as_leader": lambda log: log.append_as_leader(build_batch([RECORD])),
    "append_records": lambda log: log.append_records([RECORD]),
    "assign_topic_id": lambda log: log.assign_topic_id(UUID(int=7)),
    "begin_epoch_after_loss": lambda log: log.begin_epoch_after_loss(),
    "write_unflushed_again": lambda log: log.write_unflushed_again(),
    "begin_epoch_with_append": lambda log: log.begin_epoch_with_append(7),
    "begin_epoch_of_copy": lambda log: log.begin_epoch_of_copy(),
    "delete_old_segments": lambda log: log.delete_old_segments(),
    "delete_records": lambda log: log.delete_records(1),
    "delete_archived": lambda log: log.delete_archived(1),
    "delete_segments_below_start": lambda log: log.delete_segments_below_start(),
    "drop_epoch_of_copy": lambda log: log.drop_epoch_of_copy(),
    "flush": lambda log: log.flush(),
    "flush_records": lambda log: log.flush_records(),
    "flush_closed": lambda log: log.flush_closed(1),
    "flush_up_to": lambda log: log.flush_up_to(1),
    "maybe_assign_epoch": lambda log: log.maybe_assign_epoch(9, 2),
    "maybe_increment_high_watermark": lambda log: log.maybe_increment_high_watermark(
        LogOffsetMetadata(2)
    ),
    "maybe_increment_log_start_offset": lambda log: log.maybe_increment_log_start_offset(1),
    "maybe_roll": lambda log: log.maybe_roll(),
    "maybe_roll_stable": lambda log: log.maybe_roll_stable(),
    "maybe_update_high_watermark": lambda log: log.maybe_update_high_watermark(2),
    "remove_expired_producers": lambda log: log.remove_expired_producers(),
    "rename_directory": lambda log: log.rename_directory("flights-1"),
    "retain": lambda log: log.retain(),
    "roll": lambda log: log.roll(),
    "start_verification": lambda log: log.start_verification(7, 0, 0, supports_epoch_bump=False),
    "truncate_fully_and_start_at": lambda log: log.truncate_fully_and_start_at(9),
    "make_snapshots": lambda log: log.make_snapshots([1]),
    "truncate_to": lambda log: log.truncate_to(1),
    "update_config": lambda log: log.update_config(LogConfig()),
    "update_high_watermark": lambda log: log.update_high_watermark(2),
    "swap.adopt_segment": lambda log: log.swap.adopt_segment(0, ".made"),
    "swap.delete_marks": lambda log: log.swap.delete_marks(),
    "swap.new_cleaned_segment": lambda log: log.swap.new_cleaned_segment(0),
    "swap.replace_segments": lambda log: log.swap.replace_segments([], []),
    "swap.split_segment": lambda log: log.swap.split_segment(log.segments.active),
}
ENDS: Final = {"close", "close_handlers", "delete", "open"}
"""The methods that open a log, or may be called once it is closed."""

HARMLESS: Final = {
    "add_listener",
    "archived_producers",
    "check_appendable",
    "check_delete_records",
    "note_archived",
    "pin",
    "prepare",
    "remove_listener",
    "report_to",
    "require_reopening",
    "try_lock",
    "unlock",
    "watch",
    "swap.delete_cleaned_segment",
}
"""They change nothing that a closed log holds, or clear up after an error."""


def methods(of: type, prefix: str = "") -> set[str]:
    """Name the public methods that a class defines itself."""
    return {
        f"{prefix}{name}"
        for name, value in vars(of).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, classmethod))
    }


def one_record() -> Log:
    """Return a log with one record that readers see not yet."""
    log = LogHome().open()
    log.append_as_leader(build_batch([RECORD]))
    return log


def test_every_method_that_changes_a_log_is_known_here() -> None:
    """The table above is complete: a new method has to be placed."""
    found = methods(Log) | methods(SegmentSwap, "swap.")

    assert found - ENDS - HARMLESS == set(CHANGES)
    assert not methods(ReadableLog) & methods(Log)
    assert len(CHANGES) == 39


@pytest.mark.parametrize("name", CHANGES)
def test_a_closed_log_refuses_every_change(name: str) -> None:
    """With KafkaStorageError that names it; nothing on the disk changes, and the disk is fine."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(build_batch([RECORD]))
    log.update_high_watermark(1)
    log.close()
    home.clock.advance(0)
    before = {file: home.read(file) for file in home.files()}

    with pytest.raises(KafkaStorageError, match="flights-0 is closed"):
        CHANGES[name](log)

    home.clock.advance(0)
    assert {file: home.read(file) for file in home.files()} == before
    assert home.failures == []


def test_a_task_that_is_under_way_when_the_log_closes_raises_nothing() -> None:
    """The check for expired producers may begin while the log is being closed."""
    log = one_record()
    log.close()

    log._remove_expired_producers()
