"""What must hold of the batches of a .log file, one by one and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.old_batches import build_old

from tidelog.explain.verify.findings import Finding, damage
from tidelog.explain.verify.verify_batches import BatchChecks, search_behind
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.file_records import FileRecords
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile

PATH = "/data/t-0/00000000000000000000.log"
INT64_MAX = 2**63 - 1


def batch(*offsets: int, timestamps: list[int] | None = None) -> bytes:
    """Make a batch of records with these offsets, from the first one on."""
    times = timestamps or [10] * len(offsets)
    records = [(time, b"k", b"value", ()) for time in times]
    return build_batch(records, base_offset=offsets[0], offsets=offsets)


def changed(data: bytes, **fields: int) -> bytes:
    """Return the batch with other header fields and the right CRC."""
    header = BATCH_HEADER.unpack(data)._replace(**fields)
    return pack_batch(header, data[BATCH_HEADER.size :])


def file_of(data: bytes) -> OpenFile:
    """Lay bytes on a fake disk."""
    fs = CrashFileSystem()
    fs.make_directory("/data/t-0")
    fs.write(PATH, data)
    return fs.open(PATH)


def checked(
    *parts: bytes, base_offset: int = 0, end_offset: int = INT64_MAX
) -> tuple[BatchChecks, list[tuple[str, int | None, str]]]:
    """Check a segment of these batches; return severity, byte and words of what was found."""
    checks = BatchChecks(PATH, base_offset)
    file, bounds = file_of(b"".join(parts)), OffsetBounds(base_offset, end_offset)
    rows: list[Finding] = []
    records = FileRecords(file, bounds=bounds)
    for piece in records.pieces(check_crc=True):
        rows += checks.feed(piece)
    if records.error is not None:
        rows.append(damage(PATH, records.next_position, records.error.reason, ""))
        rows += search_behind(file, records, bounds, checks, checks.feed)
    assert {row.path for row in rows} <= {PATH}
    return checks, [(row.severity.value, row.byte, row.what) for row in rows]


def told(*parts: bytes, **how: int) -> list[tuple[int | None, str]]:
    """Return byte and words of the damage of a segment."""
    _, found = checked(*parts, **how)
    assert {severity for severity, _, _ in found} <= {"damage"}
    return [(byte, what) for _, byte, what in found]


GOOD = batch(0, 1, 2)
SIZE = len(GOOD)


def test_sound_batches_have_no_findings() -> None:
    """Of any format, with and without gaps, which are counted."""
    checks, found = checked(
        GOOD, batch(3), batch(7, 9), build_old(1, [(5, b"k", b"v")], base_offset=10)
    )

    assert found == []
    assert (checks.next_offset, checks.gaps) == (11, 3)
    assert checks.first_gap == SIZE + len(batch(3))


@pytest.mark.parametrize("second", [2, 0, 1])
def test_batches_must_not_overlap(second: int) -> None:
    """Each begins at or above the end of the one before; one of the two is damaged."""
    ((byte, what), *others) = told(GOOD, batch(second), batch(3))

    assert (byte, "0 to 2" in what or f"{second} to {second}" in what) in {(0, True), (SIZE, True)}
    assert not others


def test_of_two_batches_that_overlap_the_damaged_one_is_named() -> None:
    """The others are counted, also those after it."""
    moved = changed(batch(3), base_offset=3 + 8)
    checks, found = checked(GOOD, moved, batch(4), batch(5))

    assert [(byte, what.split(";")[0]) for _, byte, what in found] == [
        (SIZE, "batch has impossible offsets 11 to 11")
    ]
    assert (checks.records, checks.next_offset) == (5, 6)


def test_a_batch_must_not_begin_below_its_segment() -> None:
    """The first one is measured by the segment's base offset."""
    assert told(GOOD, base_offset=1) == [
        (0, "batch has impossible offsets 0 to 2; it needs 1 or above")
    ]


def test_a_batch_must_not_reach_into_the_next_segment() -> None:
    """Lookups would find the next segment first."""
    assert told(GOOD, batch(3, 4), end_offset=4) == [
        (SIZE, "batch has impossible offsets 3 to 4; it needs from 3 to 3")
    ]


def test_offsets_that_cannot_be_are_told() -> None:
    """Negative, backwards, or so high that the log's end is no number."""
    low, high = changed(batch(0), base_offset=-7), changed(batch(0), base_offset=INT64_MAX)
    back = changed(batch(5), last_offset_delta=-2)

    for data, offsets in ((low, "-7 to -7"), (high, f"{INT64_MAX} to"), (back, "5 to 3")):
        ((byte, what),) = told(data)
        assert (byte, f"impossible offsets {offsets}" in what) == (0, True)


def test_what_follows_an_impossible_offset_is_still_checked() -> None:
    """By the last sound batch before it."""
    high = changed(batch(0), base_offset=INT64_MAX)

    found = told(GOOD, high, batch(3), changed(batch(4), base_offset=-7), batch(5))

    assert [byte for byte, _ in found] == [SIZE, SIZE + len(high) + len(batch(3))]


@pytest.mark.parametrize("count", [-1, 4])
def test_a_batch_has_no_more_records_than_offsets(count: int) -> None:
    """Nor fewer than none."""
    assert (0, "a batch says it has more records than offsets (base offset 0)") in told(
        changed(GOOD, records_count=count)
    )


def test_records_that_do_not_read_are_told_with_their_batch() -> None:
    """The others of the piece are looked at all the same."""
    bad = changed(batch(3, 4), records_count=1)
    rows = told(GOOD, bad, batch(5))

    assert [byte for byte, what in rows if "records of a batch cannot" in what] == [SIZE]


def test_a_records_offset_lies_in_its_batch() -> None:
    """A last offset below that of the last record misleads readers that skip by batch."""
    short = changed(batch(0, 3), last_offset_delta=2)

    assert (0, "a record's offset lies outside its batch (base offset 0)") in told(short)


def test_a_record_is_not_later_than_its_batch_says() -> None:
    """Lookups by time pass over the batch."""
    late = changed(batch(0, 1, timestamps=[10, 20]), max_timestamp=10)

    ((byte, what),) = told(late)

    assert (byte, what.split(":")[0]) == (0, "a record is later than its batch says")


def flipped(data: bytes) -> bytes:
    """Return the batch with a wrong CRC."""
    return data[:-1] + bytes([data[-1] ^ 1])


def test_good_batches_behind_a_bad_one_are_found() -> None:
    """Each bad batch is passed over where it says that it ends, and further ones are reported."""
    bad = flipped(GOOD)
    checks, found = checked(bad, batch(3), flipped(batch(4)), batch(5))

    assert checks.records == 2
    assert [(byte, what) for _, byte, what in found] == [
        (0, "the CRC of a batch is wrong"),
        (SIZE + len(batch(3)), "the CRC of a batch is wrong"),
    ]


def test_a_damaged_magic_does_not_hide_what_follows() -> None:
    """The length of that batch is believed as that of one with another damage."""
    of_magic = bytearray(batch(3))
    of_magic[16] = 9
    checks, found = checked(GOOD, bytes(of_magic), batch(4), flipped(batch(5)), batch(6))

    damaged = [SIZE, SIZE + len(batch(3)) + len(batch(4))]
    assert [(severity, byte) for severity, byte, _ in found] == [("damage", at) for at in damaged]
    assert (checks.records, checks.next_offset) == (5, 7)


@pytest.mark.parametrize("size", [18, 500])
def test_bytes_that_tell_no_size_end_the_search(size: int) -> None:
    """How many were not looked at is said."""
    _, found = checked(b"\xff" * size)

    assert found[1:] == [("unusual", 0, f"{size} bytes from here on were not looked at")]
