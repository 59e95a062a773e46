"""Transactions of a segment that is split, as its offsets are too far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.machinery.log_home import LogHome, all_records
from tests.machinery.overflowed_segment import ABORTED, COMMITTED, FAR, OVERFLOWED, TXN_INDEX

from tidelog.records.isolation import Isolation
from tidelog.segment.txn_index import ABORTED_TXN, AbortedTxn

if TYPE_CHECKING:
    from tidelog.log.log import Log

FIRST: Final = "00000000000000000000"
OF_A_NEWER_VERSION: Final = ABORTED_TXN.pack(AbortedTxn(9 << 8, 7, 0, 1, 2))
OF_NO_TRANSACTION: Final = ABORTED_TXN.pack(AbortedTxn(0, 9, 1, 2, 2))


def home_of(*, index: bytes | None, offsets: bytes | None) -> LogHome:
    """Leave the segment of an old Kafka behind; None: it lacks this index."""
    home = LogHome()
    home.write(f"{FIRST}.log", OVERFLOWED)
    for suffix, content in (("txnindex", index), ("index", offsets)):
        if content is not None:
            home.write(f"{FIRST}.{suffix}", content)
    return home


def indexed(log: Log) -> list[tuple[int, ...]]:
    """Return producer, first and last offset of each entry in the log's transaction indexes."""
    log.update_high_watermark(log.log_end_offset)
    return [entry[1:4] for segment in log.segments for entry in segment.txn_index.all_aborted()]


def committed(log: Log) -> tuple[int, ...]:
    """Return the offsets that readers of committed records see."""
    return tuple(record.offset for record in all_records(log, Isolation.READ_COMMITTED))


@pytest.mark.parametrize("index", [TXN_INDEX, OF_A_NEWER_VERSION, OF_NO_TRANSACTION, None])
@pytest.mark.parametrize("clean", [True, False])
def test_opening_a_log_splits_its_transactions_too(index: bytes | None, *, clean: bool) -> None:
    """Each part has the aborted transactions whose markers it holds, and readers skip them."""
    home = home_of(index=index, offsets=None)

    log = home.open(clean=clean)

    assert log.segments.base_offsets == [0, FAR]
    assert indexed(log) == list(ABORTED)
    assert committed(log) == COMMITTED
    log.close()
    assert committed(opened_again(home)) == COMMITTED


def opened_again(home: LogHome) -> Log:
    """Open the log as after a clean shutdown, all of it visible."""
    log = home.open(recovery_point=FAR + 3)
    log.update_high_watermark(log.log_end_offset)
    return log


def test_an_index_that_cannot_be_read_is_made_again_for_the_parts() -> None:
    """It is not left out, although the parts have offset indexes of their own."""
    home = home_of(index=OF_A_NEWER_VERSION, offsets=b"")

    log = home.open()

    assert indexed(log) == list(ABORTED)
    assert committed(log) == COMMITTED


@pytest.mark.parametrize("recovery_point", [0, 2, FAR + 1])
def test_parts_below_the_recovery_point_keep_what_was_flushed(recovery_point: int) -> None:
    """They are not recovered, but take their entries from the index that was there."""
    home = home_of(index=TXN_INDEX, offsets=b"")

    log = home.open(clean=False, recovery_point=recovery_point)

    assert indexed(log) == list(ABORTED)
    assert committed(log) == COMMITTED


def test_an_open_log_splits_the_index_with_the_segment() -> None:
    """So the cleaner does not make aborted records visible."""
    home = home_of(index=TXN_INDEX, offsets=b"")
    log = opened_again(home)
    log.roll()
    assert log.segments.base_offsets == [0, FAR + 3]
    assert committed(log) == COMMITTED

    log.swap.split_segment(log.segments.all[0])

    assert log.segments.base_offsets == [0, FAR, FAR + 3]
    assert indexed(log) == list(ABORTED)
    assert committed(log) == COMMITTED
