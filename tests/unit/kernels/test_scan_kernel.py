"""The walk over batch headers, compared with the plain one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pytest

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels import rows
from tidelog.kernels.scan_kernel import walk_batches, walk_file
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.control import build_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidelog.records.builder import BatchFields

RECORD = (1_000, b"key", b"value", ())
ANY = rows.ANY_OFFSET, 0


def batch(offset: int = 0, count: int = 2, **fields: Unpack[BatchFields]) -> bytes:
    return build_batch([RECORD] * count, BatchSpec(base_offset=offset), **fields)


def walked(
    walk: Callable[..., Any],
    data: bytes,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    capacity: int = 4,
    bounds: tuple[int, int] = ANY,
) -> tuple[list[list[int]], int, int]:
    out = np.full((rows.BATCH_COLUMNS, capacity), -99, np.int64)
    stop = len(data) if end is None else end
    array = np.frombuffer(data, np.uint8)
    count, position, status = walk(array, start, stop, check_crc, *bounds, out)
    assert (out[:, count:] == -99).all()
    return out[:, :count].T.tolist(), position, status


def test_every_field_of_a_header_has_its_row(run: Callable[[Any], Any]) -> None:
    """Each row holds the header field of that name, with its sign."""
    data = batch(
        2**40,
        leader_epoch=7,
        producer_id=2**50,
        producer_epoch=3,
        base_sequence=2**31 - 5,
        transactional=True,
    )
    header = BATCH_HEADER.unpack(data)

    found, position, status = walked(run(walk_batches), b"pad" + data, start=3)

    assert (len(data) + 3, rows.OK) == (position, status)
    expected = [0] * rows.BATCH_COLUMNS
    expected[rows.POSITION], expected[rows.SIZE] = 3, len(data)
    expected[rows.BASE_OFFSET], expected[rows.LAST_OFFSET] = 2**40, 2**40 + 1
    expected[rows.LEADER_EPOCH], expected[rows.MAGIC] = 7, 2
    expected[rows.ATTRIBUTES], expected[rows.CRC] = header.attributes, header.crc
    expected[rows.BASE_TIMESTAMP], expected[rows.MAX_TIMESTAMP] = 1_000, 1_000
    expected[rows.PRODUCER_ID], expected[rows.PRODUCER_EPOCH] = 2**50, 3
    expected[rows.BASE_SEQUENCE], expected[rows.RECORDS_COUNT] = 2**31 - 5, 2
    assert found == [expected]


def test_absent_numbers_are_minus_one(run: Callable[[Any], Any]) -> None:
    """Fields of 16, 32 and 64 bits that mean "none" are -1."""
    found, _, _ = walked(run(walk_batches), batch())

    fields = (rows.LEADER_EPOCH, rows.PRODUCER_ID, rows.PRODUCER_EPOCH, rows.BASE_SEQUENCE)
    assert [found[0][field] for field in fields] == [-1, -1, -1, -1]


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 16, 17, 60, 61, 80])
def test_a_batch_cut_short_ends_the_walk(run: Callable[[Any], Any], cut: int) -> None:
    """Too few bytes for a whole batch are not an error: the walk returns their position."""
    whole = batch()

    found, position, status = walked(run(walk_batches), whole + batch(2)[:cut])

    assert (1, len(whole), rows.OK) == (len(found), position, status)


@pytest.mark.parametrize(
    ("at", "bytes_", "status"),
    [
        (8, (13).to_bytes(4, "big"), rows.BAD_LENGTH),
        (8, (-1).to_bytes(4, "big", signed=True), rows.BAD_LENGTH),
        (8, (48).to_bytes(4, "big"), rows.BAD_LENGTH),
        (16, b"\x03", rows.BAD_MAGIC),
        (16, b"\xff", rows.BAD_MAGIC),
        (16, b"\x00", rows.LEGACY),
        (16, b"\x01", rows.LEGACY),
        (30, b"\xaa", rows.BAD_CRC),
        (17, b"\xaa", rows.BAD_CRC),
    ],
)
def test_a_bad_batch_stops_the_walk_before_it(
    run: Callable[[Any], Any], at: int, bytes_: bytes, status: int
) -> None:
    """An invalid length, magic or CRC gives a status and the batch's position."""
    good, bad = batch(), bytearray(batch(2))
    bad[at : at + len(bytes_)] = bytes_

    found, position, got = walked(run(walk_batches), good + bytes(bad) + batch(4))

    assert (1, len(good), status) == (len(found), position, got)


def test_the_crc_is_checked_only_on_request(run: Callable[[Any], Any]) -> None:
    """Without the check, a batch with a wrong CRC is found like any other."""
    bad = bytearray(batch())
    bad[-1] ^= 1

    found, _, status = walked(run(walk_batches), bytes(bad), check_crc=False)

    assert (len(found), status) == (1, rows.OK)


def test_a_full_array_stops_the_walk_to_go_on_from_there(run: Callable[[Any], Any]) -> None:
    """FULL comes with the position of the first batch without a column."""
    data = b"".join(batch(2 * i) for i in range(5))
    size = len(batch())

    first, position, status = walked(run(walk_batches), data)
    rest, _, last = walked(run(walk_batches), data, start=position)

    assert (4, 4 * size, rows.FULL) == (len(first), position, status)
    assert ([row[rows.BASE_OFFSET] for row in rest], last) == ([8], rows.OK)


def test_bytes_behind_the_end_are_not_read(run: Callable[[Any], Any]) -> None:
    """The given end counts, not the buffer's."""
    data = batch() + batch(2)

    found, position, _ = walked(run(walk_batches), data, end=len(data) - 1)

    assert (1, len(data) // 2) == (len(found), position)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (6, 5), (0, 1_000)])
def test_bounds_outside_the_data_are_refused(
    run: Callable[[Any], Any], start: int, end: int
) -> None:
    """Positions outside the data give BAD_ARGUMENT."""
    found = walked(run(walk_batches), batch(), start=start, end=end)

    assert ([], start, rows.BAD_ARGUMENT) == found


def test_an_array_with_too_few_rows_is_refused(run: Callable[[Any], Any]) -> None:
    """The output must have every row."""
    data = np.frombuffer(batch(), np.uint8)

    found = run(walk_batches)(data, 0, data.size, True, *ANY, np.zeros((13, 4), np.int64))

    assert found == (0, 0, rows.BAD_ARGUMENT)


class InFile:
    """What ``walk_file`` finds in the bytes of a file."""

    def __init__(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.file = SYSTEM_FILES.open(str(path))
        self.size = len(data)
        self.controls = np.full(200, 99, np.uint8)

    def walk(
        self,
        walk: Callable[..., Any],
        *,
        start: int = 0,
        stop: int | None = None,
        buffer: int = 150,
        capacity: int = 16,
        bounds: tuple[int, int] = ANY,
    ) -> tuple[list[list[int]], int, bytes]:
        """Return the batches, where the walk ended, and the bytes of the control batches."""
        reads = self.file.native_reads()
        assert reads is not None
        out = np.full((rows.BATCH_COLUMNS, capacity), -99, np.int64)
        space = np.zeros(buffer, np.uint8)
        where = start, self.size if stop is None else stop, self.size
        count, position, used = walk(*reads, *where, *bounds, space, self.controls, out)
        assert (self.controls[used:] == 99).all()
        return out[:, :count].T.tolist(), position, self.controls[:used].tobytes()


@pytest.fixture
def in_file(tmp_path: Path) -> Iterator[Callable[[bytes], InFile]]:
    """Write bytes to a file; all files are closed at the end."""
    opened: list[InFile] = []

    def make(data: bytes) -> InFile:
        opened.append(InFile(tmp_path / str(len(opened)), data))
        return opened[-1]

    yield make
    for one in opened:
        one.file.close()


def marker(offset: int) -> bytes:
    return build_marker(
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=1,
        is_commit=False,
        timestamp=0,
        base_offset=offset,
    )


@pytest.mark.parametrize("buffer", [91, 150, 200, 4_096])
def test_a_file_is_walked_as_its_bytes_are(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile], buffer: int
) -> None:
    """The result does not depend on the buffer size if a batch fits; positions are the file's."""
    data = b"".join(batch(2 * i) for i in range(12))
    assert len(batch()) == 91

    found = in_file(data).walk(run(walk_file), buffer=buffer)

    assert walked(walk_batches, data, capacity=16)[:2] == found[:2]


def test_a_walk_through_a_file_begins_anywhere(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile]
) -> None:
    """The walk may begin at the first byte of any batch."""
    data = b"".join(batch(2 * i) for i in range(5))
    start = 3 * len(batch())

    found, position, _ = in_file(data).walk(run(walk_file), start=start)

    assert [row[rows.POSITION] for row in found] == [start, start + len(batch())]
    assert position == len(data)


@pytest.mark.parametrize(("stop", "count"), [(1, 1), (91, 1), (92, 2), (181, 2), (182, 2)])
def test_a_batch_that_begins_in_the_range_may_end_behind_it(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile], stop: int, count: int
) -> None:
    """The walk ends after that batch or at ``stop``, however much the buffer holds."""
    data = b"".join(batch(2 * i) for i in range(5))

    found, position, _ = in_file(data).walk(run(walk_file), stop=stop, buffer=400)

    assert (count, 91 * count) == (len(found), position)


@pytest.mark.parametrize(
    ("at", "bytes_"), [(8, b"\xff"), (16, b"\x03"), (16, b"\x00"), (30, b"\xaa")]
)
def test_an_invalid_batch_ends_the_walk_through_a_file(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile], at: int, bytes_: bytes
) -> None:
    """Invalid lengths, magics and CRCs, and old formats, end the walk at their position."""
    good, bad = batch(), bytearray(batch(2))
    bad[at : at + 1] = bytes_

    found, position, _ = in_file(good + bytes(bad) + batch(4)).walk(run(walk_file))

    assert (1, len(good)) == (len(found), position)


def test_a_batch_larger_than_the_buffer_ends_the_walk_through_a_file(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile]
) -> None:
    """A batch that does not fit in the buffer is left to the caller."""
    data = batch() + batch(2, count=40) + batch(42)

    found, position, _ = in_file(data).walk(run(walk_file))

    assert (1, len(batch())) == (len(found), position)


def test_the_bytes_of_control_batches_are_kept_as_far_as_there_is_room(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile]
) -> None:
    """The walk ends before the first control batch without room, to be resumed there."""
    data = batch() + marker(2) + marker(3) + batch(4) + marker(6) + batch(7)
    file = in_file(data)
    assert 2 * len(marker(2)) < len(file.controls) < 3 * len(marker(2))

    found, position, controls = file.walk(run(walk_file))
    file.controls[:] = 99
    rest, end, more = file.walk(run(walk_file), start=position)

    assert controls == marker(2) + marker(3)
    assert more == marker(6)
    assert [row[rows.BASE_OFFSET] for row in found + rest] == [0, 2, 3, 4, 6, 7]
    assert end == len(data)


def test_full_columns_end_the_walk_through_a_file(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile]
) -> None:
    """The walk can be resumed where the columns were full."""
    data = b"".join(batch(2 * i) for i in range(5))

    found, position, _ = in_file(data).walk(run(walk_file), capacity=3)

    assert (3, 3 * len(batch())) == (len(found), position)


def test_a_file_that_cannot_be_read_ends_the_walk_where_it_begins(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile]
) -> None:
    """A read error ends the walk; the caller gets the error when it reads there."""
    file = in_file(batch() + batch(2))
    reads = file.file.native_reads()
    assert reads is not None
    out = np.zeros((rows.BATCH_COLUMNS, 4), np.int64)
    space = np.zeros(150, np.uint8)

    end = run(walk_file)(reads.pread, -1, 0, 1, file.size, *ANY, space, file.controls, out)

    assert end == (0, 0, 0)


@pytest.mark.parametrize(("start", "stop"), [(-1, 90), (0, 92), (200, 300)])
def test_a_walk_outside_of_what_may_be_read_finds_nothing(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile], start: int, stop: int
) -> None:
    """A negative size, which C would take as a huge one, is never requested."""
    found, position, _ = in_file(batch()).walk(run(walk_file), start=start, stop=stop)

    assert ([], start) == (found, position)


@pytest.mark.parametrize(("buffer", "shape"), [(0, rows.BATCH_COLUMNS), (150, 3)])
def test_a_walk_without_room_finds_nothing(
    run: Callable[[Any], Any], in_file: Callable[[bytes], InFile], buffer: int, shape: int
) -> None:
    """Nothing is written to buffers or columns that have no room."""
    file = in_file(batch())
    reads = file.file.native_reads()
    assert reads is not None
    out, space = np.zeros((shape, 4), np.int64), np.zeros(buffer, np.uint8)

    end = run(walk_file)(*reads, 0, 1, file.size, *ANY, space, file.controls, out)

    assert end == (0, 0, 0)
