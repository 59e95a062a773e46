"""Batches in a file."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.machinery.old_batches import build_old

from tidelog.records.builder import build_batch
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.decoding.record_columns import decode
from tidelog.records.file_records import FileRecords, FileSlice
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile

PATH = "/log/00000000000000000000.log"
SMALL = [build_batch([(i, b"key", b"value", ())], base_offset=i) for i in range(20)]
LARGE = build_batch([(0, None, b"x" * 5000, ())], base_offset=20)
LOG = b"".join(SMALL) + LARGE + build_old(1, [(5, b"k", b"v")], base_offset=21)

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def fs() -> CrashFileSystem:
    """A disk with an empty directory."""
    disk = CrashFileSystem(0)
    disk.make_directory("/log")
    return disk


def opened(fs: CrashFileSystem, data: bytes) -> FileRecords:
    fs.write(PATH, data)
    return FileRecords.open(fs, PATH)


@pytest.mark.parametrize("piece_bytes", [1, 100, 1000, 1 << 20])
def test_pieces_together_are_the_file(fs: CrashFileSystem, piece_bytes: int) -> None:
    """For any piece size, each batch comes once, with its position in the file and in the piece."""
    with opened(fs, LOG) as records:
        found = []
        for piece in records.pieces(piece_bytes):
            start = piece.data_position
            assert piece.data.tobytes() == LOG[start : start + len(piece.data)]
            found += piece.batches.position.tolist()
            decode(piece.data, piece.batches_in_data)

        assert found == [i * len(SMALL[0]) for i in range(21)] + [20 * len(SMALL[0]) + len(LARGE)]
        assert (records.trailing_bytes, records.error) == (0, None)


class Counted:
    """A file that keeps how many bytes each read had."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.reads: list[int] = []

    def pread(self, size: int, position: int) -> bytes:
        self.reads.append(size)
        return self._file.pread(size, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize(
    ("piece_bytes", "reads"),
    [
        (10 * len(SMALL[0]) + 61, 0),
        # The next header is not whole in the piece, or not in it at all.
        (10 * len(SMALL[0]) + 17, 1),
        (10 * len(SMALL[0]), 1),
    ],
)
@pytest.mark.parametrize("next_offset", [3, 10])
def test_the_header_after_a_piece_is_read_with_it_if_it_lies_in_it(
    fs: CrashFileSystem, piece_bytes: int, reads: int, next_offset: int
) -> None:
    """So that checking offsets costs no read of its own; it finds the same."""
    following = build_batch([(0, None, b"x" * 5000, ())], base_offset=next_offset)
    fs.write(PATH, b"".join(SMALL[:10]) + following)
    file = Counted(fs.open(PATH))
    records = FileRecords(cast("OpenFile", file), bounds=OffsetBounds())

    pieces = records.pieces(piece_bytes, check_crc=True)
    found = next(pieces).batches.base_offset.tolist()

    assert found == list(range(10))
    if next_offset == 10:
        assert len(file.reads) == reads
        assert [len(piece.batches) for piece in pieces] == [1]
        assert records.problem is None
    else:
        assert list(pieces) == []
        assert records.error is not None
        assert records.error.position == 10 * len(SMALL[0])


def test_pieces_begin_at_the_given_position(fs: CrashFileSystem) -> None:
    """Reading may start at any batch and end before the file does."""
    size = len(SMALL[0])
    fs.write(PATH, LOG)
    file = fs.open(PATH)
    records = FileRecords(file, 2 * size, 6 * size)

    offsets = [o for piece in records.pieces(size) for o in piece.batches.base_offset.tolist()]
    later = [o for piece in records.pieces(start=4 * size) for o in piece.batches.base_offset]

    assert (offsets, later) == ([2, 3, 4, 5], [4, 5])
    records.close()
    assert file.size() == len(LOG)  # a borrowed file stays open


@pytest.mark.parametrize("cut", [1, 10, 40, 70])
def test_a_torn_tail_is_counted(fs: CrashFileSystem, cut: int) -> None:
    """Bytes after the last whole batch are not an error."""
    data = b"".join(SMALL)[:-cut]
    with opened(fs, data) as records:
        count = sum(len(piece.batches) for piece in records.pieces(200))

        whole = len(data) // len(SMALL[0])
        assert (count, records.error) == (whole, None)
        assert records.trailing_bytes == len(data) - whole * len(SMALL[0])


def test_a_bad_batch_ends_the_records_with_file_and_byte(fs: CrashFileSystem) -> None:
    """Zeros, as in a preallocated file, are an error that comes after all batches before it."""
    start = len(SMALL[0]) * 2
    with opened(fs, SMALL[0] + SMALL[1] + bytes(1000)) as records:
        count = sum(len(piece.batches) for piece in records.pieces())

        assert count == 2
        assert records.error is not None
        assert (records.error.position, records.error.path) == (start, PATH)
        assert records.trailing_bytes == 1000


def test_a_wrong_crc_is_found_if_asked_for(fs: CrashFileSystem) -> None:
    """A flipped byte ends the records only if CRCs are checked."""
    size = len(SMALL[0])
    data = bytearray(LOG)
    data[3 * size + size - 1] ^= 1
    with opened(fs, bytes(data)) as records:
        seen = sum(len(piece.batches) for piece in records.pieces())
        checked = sum(len(piece.batches) for piece in records.pieces(check_crc=True))

        assert (seen, checked) == (22, 3)
        assert records.error is not None


def test_a_length_beyond_the_file_allocates_nothing(fs: CrashFileSystem) -> None:
    """A batch that claims two gigabytes in a small file is a torn tail."""
    claim = bytearray(LARGE)
    claim[8:12] = (2**31 - 1).to_bytes(4, "big")
    with opened(fs, SMALL[0] + bytes(claim)) as records:
        pieces = list(records.pieces(64))

        assert sum(len(piece.batches) for piece in pieces) == 1
        assert (records.error, records.trailing_bytes) == (None, len(LARGE))


def test_headers_come_with_their_positions(fs: CrashFileSystem) -> None:
    """Each batch's position and header are available to tools."""
    with opened(fs, LOG) as records:
        found = list(records.headers())

    assert [position for position, _ in found][:3] == [i * len(SMALL[0]) for i in range(3)]
    assert [header.base_offset for _, header in found] == list(range(22))
    assert found[-1][1].magic == 1


@pytest.mark.parametrize("data", [b"", b"x" * 17])
def test_a_file_too_short_for_a_batch_has_none(fs: CrashFileSystem, data: bytes) -> None:
    """Up to 17 bytes are a torn tail, whatever they contain."""
    with opened(fs, data) as records:
        assert list(records.pieces()) == []
        assert (records.error, records.trailing_bytes) == (None, len(data))


def test_a_slice_keeps_its_file_open(fs: CrashFileSystem) -> None:
    """A slice can be read after all other holders have closed the file."""
    fs.write(PATH, LOG)
    file = fs.open(PATH)
    part = FileSlice(file, 3, 10)
    file.close()
    fs.delete(PATH)

    with part:
        assert part.read() == LOG[3:13]

    part.close()  # closing twice has no effect
    with pytest.raises(OSError, match=r"."):
        part.read()


@pytest.mark.parametrize("left", [0, 10, 100, 3_000])
def test_a_file_that_is_cut_while_it_is_read_ends_there(fs: CrashFileSystem, left: int) -> None:
    """Reading ends at the truncation, and the batches before it are found."""
    fs.write(PATH, SMALL[0] + LARGE)
    with closing(fs.open(PATH, "w")) as file:
        records = FileRecords(file)
        file.truncate(len(SMALL[0]) + left)

        found = [piece.batches.count for piece in records.pieces(100)]

    assert found == [1]
    assert (records.error, records.next_position) == (None, len(SMALL[0]))
