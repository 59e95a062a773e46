"""What a task reads of its ranges while another process changes the log."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.stored_log import BATCHES, flipped, home_with, name_of

from tidelog.codec.compression import Codec
from tidelog.errors import CorruptMessage, DataLoss
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import pack_batch
from tidelog.records.decoding.record_columns import decode_groups
from tidelog.spark.options.source_options import ReadOptions, TopicChoice
from tidelog.spark.read.live_batches import RangeReader
from tidelog.spark.read.read_plan import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machinery.directory_home import DataHome

ID = "AAAAAAAAAAAAAAAAAAAAAg"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAw"


def reader(home: DataHome, **options: Any) -> RangeReader:
    return RangeReader(home.fs, ReadOptions(("/data",), TopicChoice(topics=("t",)), **options))


def offsets(reading: RangeReader, start: int, end: int, topic_id: str | None = None) -> list[int]:
    return list(each_offset(reading, start, end, topic_id))


def each_offset(
    reading: RangeReader, start: int, end: int, topic_id: str | None = None
) -> Iterator[int]:
    part = OffsetRange("t", 0, start, end, 0, topic_id)
    for piece in reading.read(part):
        for group in decode_groups(piece.data, piece.batches_in_data):
            yield from (offset for offset in group.offset.tolist() if start <= offset < end)


def test_a_range_is_read() -> None:
    """All records of a range are read, across segments, and no others."""
    home = home_with(BATCHES[:3], BATCHES[3:])

    assert offsets(reader(home), 1, 5) == [1, 2, 3, 4]


def test_segments_deleted_since_planning_are_a_data_loss() -> None:
    """If retention deleted its first offsets, a task fails, or warns and reads the rest."""
    home = home_with(BATCHES[:3], BATCHES[3:])
    home.fs.delete(f"{home.path}/{name_of(0)}")

    with pytest.raises(DataLoss, match=r"no offsets \[1, 3\): retention"):
        offsets(reader(home), 1, 6)
    assert offsets(reader(home, fail_on_data_loss=False), 1, 6) == [3, 4, 5]
    assert offsets(reader(home, fail_on_data_loss=False), 0, 2) == []


def test_lost_offsets_of_an_old_plan_name_the_remedy() -> None:
    """Spark keeps the plan of a DataFrame; a stream has none, so its error names none."""
    home = home_with(BATCHES[:3], BATCHES[3:])
    home.fs.delete(f"{home.path}/{name_of(0)}")

    with pytest.raises(DataLoss, match=r"call load\(\) again"):
        offsets(reader(home), 1, 6)
    with pytest.raises(DataLoss, match="; set failOnDataLoss=false"):
        offsets(reader(home, is_stream=True), 1, 6)


def test_segments_deleted_while_a_task_reads_are_read_to_their_end() -> None:
    """The task has opened them: retention takes away their names only."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    reading = each_offset(reader(home), 0, 6)
    first = [next(reading), next(reading)]
    for base in (0, 2):
        home.fs.delete(f"{home.path}/{name_of(base)}")

    assert [*first, *reading] == [0, 1, 2, 3, 4, 5]


def test_segments_that_are_gone_when_a_task_reopens_its_log_are_a_data_loss() -> None:
    """As it does after a disk error; they are reported as those deleted before."""
    for is_strict in (True, False):
        home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
        reading = each_offset(reader(home, fail_on_data_loss=is_strict), 0, 6)
        first = [next(reading), next(reading)]
        for base in (0, 2):
            home.fs.delete(f"{home.path}/{name_of(base)}")
        home.fs.fail("pread", name_of(2), OSError(errno.EIO, "bad disk"))

        if is_strict:
            with pytest.raises(DataLoss, match=r"no offsets \[2, 4\)"):
                list(reading)
        else:
            assert [*first, *reading] == [0, 1, 4, 5]


def test_a_log_truncated_since_planning_is_a_data_loss() -> None:
    """Planned offsets beyond the current log end offset are reported."""
    home = home_with(BATCHES[:3])

    with pytest.raises(DataLoss, match=r"no offsets \[3, 5\): the log ends at 3"):
        offsets(reader(home), 1, 5)
    assert offsets(reader(home, fail_on_data_loss=False), 1, 5) == [1, 2]


def test_a_deleted_topic_is_a_data_loss() -> None:
    """A missing partition directory is reported; so is a new topic of the same name."""
    home = home_with(BATCHES)
    home.write("t-0/partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}")

    with pytest.raises(DataLoss, match="deleted and recreated"):
        offsets(reader(home), 1, 5, ID)
    assert offsets(reader(home), 1, 3, OTHER_ID) == [1, 2]
    assert offsets(reader(home, fail_on_data_loss=False), 1, 5, ID) == []
    home.fs.rename(f"{home.path}/t-0", f"{home.path}/u-0")
    with pytest.raises(DataLoss, match="its directory is gone"):
        offsets(reader(home), 1, 5)


def test_damage_is_an_error_even_if_data_loss_is_accepted() -> None:
    """A corrupt batch is an error after all records before it, whatever ``failOnDataLoss``."""
    home = home_with([BATCHES[0], flipped(BATCHES[1])], BATCHES[2:])
    reading = each_offset(reader(home, fail_on_data_loss=False), 0, 5)

    assert next(reading) == 0
    with pytest.raises(CorruptMessage):
        next(reading)


def test_checksums_need_not_be_verified() -> None:
    """Without ``verifyChecksums`` a batch with a wrong checksum is read."""
    home = home_with([BATCHES[0], flipped(BATCHES[1], at=-4)], BATCHES[2:])

    assert offsets(reader(home, verify_checksums=False), 0, 3) == [0, 1, 2]


def test_damage_is_skipped_on_request(caplog: pytest.LogCaptureFixture) -> None:
    """``skipDamage`` reads on after it; a warning names file, bytes and offsets."""
    home = home_with([BATCHES[0], flipped(BATCHES[1], at=-4)], BATCHES[2:])

    assert offsets(reader(home, skip_damage=True), 0, 3) == [0, 2]
    assert "offset 1" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("verify_checksums", [True, False])
def test_a_batch_that_does_not_decode_is_skipped_on_request(
    caplog: pytest.LogCaptureFixture, *, verify_checksums: bool
) -> None:
    """Its CRC is right; the batches around it are read, and the warning is that of other damage."""
    header = BATCH_HEADER.unpack(BATCHES[1])._replace(attributes=int(Codec.ZSTD))
    undecodable = pack_batch(header, BATCHES[1][BATCH_HEADER.size :])
    home = home_with([BATCHES[0], undecodable, *BATCHES[2:]])

    skipping = reader(home, skip_damage=True, verify_checksums=verify_checksums)

    assert offsets(skipping, 0, 6) == [0, 2, 3, 4, 5]
    (warning,) = [each.getMessage() for each in caplog.records]
    assert "offset 1: a batch does not decode" in warning
    with pytest.raises(CorruptMessage):
        offsets(reader(home), 0, 6)
