"""Readers that come to offsets that no segment holds: none passes over them in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.lost_segment import lose_a_segment

import tidelog
from tidelog import arrow
from tidelog.errors import DataLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    Read = Callable[[Path], Iterator[int]]


def read(path: Path, **where: Any) -> Iterator[int]:
    """Yield offsets as the owner of the directory reads them."""
    with tidelog.open(path, log_cleaner_enable=False) as logs:
        for record in logs.read("t", **where):
            yield record.offset


def follow(path: Path) -> Iterator[int]:
    """Yield them as the owner follows the topic."""
    with tidelog.open(path, log_cleaner_enable=False) as logs:
        for record in logs.follow("t", idle_ms=0):
            yield record.offset


def read_beside(path: Path) -> Iterator[int]:
    """Yield them as a program that only reads does."""
    return (record.offset for record in tidelog.open_directory_read_only(path).read("t"))


def follow_beside(path: Path) -> Iterator[int]:
    """Yield them as such a program follows the topic."""
    beside = tidelog.open_directory_read_only(path)
    return (record.offset for record in beside.follow("t", idle_ms=0))


def follow_tables(path: Path) -> Iterator[int]:
    """Yield them as record batches come."""
    for batch in arrow.follow(path, "t", columns=["offset"], idle_ms=0):
        yield from batch["offset"].to_pylist()


READS = read, follow, read_beside, follow_beside, follow_tables


@pytest.mark.parametrize("offsets", READS)
def test_the_other_records_come_first(tmp_path: Path, offsets: Read) -> None:
    """Then the error, with the offsets that are lost."""
    lose_a_segment(tmp_path)
    found: list[int] = []

    with pytest.raises(DataLoss, match=r"^t-0 has no offsets \[1, 2\): no segment holds them"):
        found.extend(offsets(tmp_path))
    assert found == [0, 2, 3]


@pytest.mark.parametrize("offsets", READS)
def test_compaction_may_leave_no_record_of_a_segment(tmp_path: Path, offsets: Read) -> None:
    """Nothing is lost then."""
    lose_a_segment(tmp_path, "compact")

    assert list(offsets(tmp_path)) == [0, 2, 3]


@pytest.mark.parametrize("offsets", [read, read_beside])
def test_other_partitions_come_first_too(tmp_path: Path, offsets: Read) -> None:
    """What one partition has lost keeps no record of another from being read."""
    lose_a_segment(tmp_path)
    with tidelog.open(tmp_path, log_cleaner_enable=False) as logs:
        logs.create_partitions("t", 2)
        logs.append("t", b"4", key=b"k", partition=1)
    found: list[int] = []

    with pytest.raises(DataLoss):
        found.extend(offsets(tmp_path))
    assert found == [0, 2, 3, 0]


@pytest.mark.parametrize("where", [{"start_offset": 2}, {"last": 2}])
def test_a_read_behind_them_misses_nothing(tmp_path: Path, where: dict[str, int]) -> None:
    """It does not come to them."""
    lose_a_segment(tmp_path)

    assert list(read(tmp_path, **where)) == [2, 3]


@pytest.mark.parametrize("end", [2, 4])
def test_a_read_that_begins_or_ends_at_them_comes_to_them(tmp_path: Path, end: int) -> None:
    """Like a follower that has read up to there, or a reader of committed records only."""
    lose_a_segment(tmp_path)
    beside = tidelog.open_directory_read_only(tmp_path)

    with beside.open("t", 0) as log:
        assert [record.offset for record in log.records(1, end)] == [*range(2, end)]
        assert log.holes == [(1, 2)]
    with pytest.raises(DataLoss):
        list(beside.read("t", start_offset=1))
    with pytest.raises(DataLoss):
        list(beside.follow("t", start_offset=1, idle_ms=0))
    with pytest.raises(DataLoss):
        arrow.read_table(tmp_path, "t", start_offsets=1, end_offsets=end)


def test_a_follower_goes_on_after_the_error(tmp_path: Path) -> None:
    """Each loss is reported once."""
    lose_a_segment(tmp_path)
    follower = tidelog.open_directory_read_only(tmp_path).follower("t", 0)

    with pytest.raises(DataLoss):
        list(follower.columns())
    with tidelog.open(tmp_path, log_cleaner_enable=False) as logs:
        logs.append("t", b"4", key=b"k")
        logs.flush()
        assert [int(found.offset[0]) for found in follower.columns()] == [4]


def test_a_group_reads_on_and_the_loss_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Kafka's consumers do: its positions move over what nobody can read."""
    lose_a_segment(tmp_path)
    with (
        tidelog.open(tmp_path, log_cleaner_enable=False) as logs,
        logs.reader("t", group="g") as reader,
    ):
        assert [record.offset for record in reader.read()] == [0, 2, 3]

    warning = f"offset-gap directory={tmp_path}/t-0 start_offset=1 end_offset=2"
    assert caplog.messages.count(warning) == 1
