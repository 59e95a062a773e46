"""A log whose files are closed between any two uses, as others need their descriptors."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.errors import KafkaStorageError
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.fields import SequenceFields

    from tidelog.log.log import Log

NOW_MS = 1_700_000_000_000
LACKS = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


def batch(value: bytes) -> bytes:
    """Make a batch of one record."""
    return build_batch([(NOW_MS, b"key", value, ())])


def cramped_log() -> tuple[LogHome, Log]:
    """Return a log of one-record batches, two in each segment, of which one file may be open."""
    home = LogHome(internal_segment_bytes=2 * len(batch(b"0")), index_interval_bytes=0)
    home.fs.descriptors.limit = 1
    log = home.open()
    for value in (b"0", b"1", b"2"):
        log.append_as_leader(batch(value))
    return home, log


ACTS: dict[str, Callable[[Log], object]] = {
    "read": all_values,
    "append": lambda log: log.append_as_leader(batch(b"3")),
    "flush": lambda log: log.flush(),
    "roll": lambda log: log.roll(),
}


@pytest.mark.parametrize("code", LACKS)
@pytest.mark.parametrize("name", ACTS)
def test_a_lack_of_descriptors_refuses_an_act_and_changes_nothing(name: str, code: int) -> None:
    """The directory stays online, and the same succeeds once there are some."""
    home, log = cramped_log()
    log.offset_snapshot()
    home.fs.descriptors.evict(100)
    home.fs.fail("open", "", OSError(code, "too many"), 1)
    before = log.log_end_offset

    with pytest.raises(KafkaStorageError) as raised:
        ACTS[name](log)
    assert (raised.value.code.retriable, home.failures) == (True, [])
    assert log.log_end_offset == before

    ACTS[name](log)
    log.append_as_leader(batch(b"4"))
    assert [value for _, value in all_values(log)][:3] == [b"0", b"1", b"2"]
    log.close()
    assert [value for _, value in all_values(home.open())][-1] == b"4"


@pytest.mark.parametrize("operation", ["open", "pwrite"])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
def test_an_abort_marker_is_not_in_the_log_without_its_index_entry(
    operation: str, code: int
) -> None:
    """A marker without its entry among the aborted transactions would show what was aborted.

    So the append is refused as a whole, and succeeds when it is repeated.
    """
    home = LogHome()
    log = home.open()
    records = [(NOW_MS, b"key", b"value", ())]
    of_producer: SequenceFields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_follower(
        build_batch(records, leader_epoch=0, transactional=True, **of_producer), 0
    )
    marker = build_marker(
        producer_id=7, producer_epoch=0, coordinator_epoch=0, is_commit=False, timestamp=NOW_MS
    )
    home.fs.fail(operation, ".txnindex", OSError(code, "no"))
    before = home.read(f"{0:020d}.log")

    with pytest.raises(KafkaStorageError):
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)

    assert home.failures == []
    assert log.log_end_offset == 1
    assert home.read(f"{0:020d}.log") == before
    log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2
    log.close()
    reopened = home.open()
    assert reopened.log_end_offset == 2
    assert [txn.first_offset for txn in reopened.collect_aborted_transactions(0, 2)] == [0]


def test_a_slice_is_read_after_its_segment_was_renamed_and_deleted() -> None:
    """What a reader holds keeps its descriptor, whatever else is opened."""
    home, log = cramped_log()
    log.update_high_watermark(3)
    with log.read(0) as held:
        before = held.read()
        log.rename_directory("flights-0.00000000000000000000000000000000-delete")
        others = all_values(log)
        log.delete()

        assert held.read() == before
        assert len(before) > 100
    assert len(others) == 3
    assert home.fs.descriptors.evictions > 5
