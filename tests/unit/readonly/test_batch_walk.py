"""The batches of a range, while the files may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.stored_log import BATCHES, SIZE, flipped, home_with, name_of

from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.readonly.batch_walk import walk_range
from tidelog.readonly.partition_files import PartitionFiles
from tidelog.readonly.read_files import ReadFiles

if TYPE_CHECKING:
    from tests.machinery.directory_home import DataHome

    from tidelog.env.files import FileSystem, OpenFile, OpenMode


def files_of(home: DataHome) -> PartitionFiles:
    """Take a snapshot of t-0 of a data directory."""
    return PartitionFiles("/data/t-0", ReadFiles(home.fs))


def walked(
    files: PartitionFiles,
    start: int,
    end: int,
    *,
    log_end: int = 6,
    found: list[int] | None = None,
) -> list[int]:
    """Return the base offsets of the batches of a range; ``found`` has those before an error."""
    found = [] if found is None else found
    for piece in walk_range(files, start, end, log_end_offset=log_end, check_crc=True):
        found += piece.batches.base_offset.tolist()
    return found


@pytest.mark.parametrize("start", range(7))
def test_a_range_gives_its_batches_and_no_others(start: int) -> None:
    """Over the borders of segments."""
    files = files_of(home_with(BATCHES[:2], BATCHES[2:5], BATCHES[5:]))

    for end in range(start, 7):
        assert walked(files, start, end) == list(range(start, end))


def test_each_piece_comes_with_its_file() -> None:
    """So that what is wrong in it can be named."""
    files = files_of(home_with(BATCHES[:2], BATCHES[2:]))

    pieces = walk_range(files, 0, 6, log_end_offset=6, check_crc=True)

    assert [piece.path for piece in pieces] == [f"/data/{name_of(base)}" for base in (0, 2)]


def test_a_segment_that_was_merged_into_another_is_found_there() -> None:
    """A cleaner puts one segment in the place of two while the reader is at the first."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    files = files_of(home)
    pieces = walk_range(files, 0, 6, log_end_offset=6, check_crc=True)
    found = next(pieces).batches.base_offset.tolist()
    home.fs.delete(f"/data/{name_of(2)}")
    home.write(name_of(0), b"".join(BATCHES[:4]))

    for piece in pieces:
        found += piece.batches.base_offset.tolist()

    assert found == list(range(6))


def test_retention_that_overtakes_the_reader_is_out_of_range() -> None:
    """The error says where the log begins now."""
    home = home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:])
    files = files_of(home)
    files.release()
    for base in (0, 2):
        home.fs.delete(f"/data/{name_of(base)}")

    with pytest.raises(OffsetOutOfRange, match=r"^t-0: ") as raised:
        walked(files, 1, 6)

    assert (raised.value.requested, raised.value.log_start_offset) == (1, 4)


class Vanishing:
    """Lists files that are gone when they are opened a second time."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._opened: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        if path in self._opened:
            raise FileNotFoundError(path)
        self._opened.add(path)
        return self._fs.open(path, mode)


def test_a_segment_that_goes_away_again_is_an_error() -> None:
    """A listing that names what cannot be opened is tried some times, not for ever."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    files = PartitionFiles("/data/t-0", ReadFiles(Vanishing(home.fs)))
    files.release()

    with pytest.raises(KafkaStorageError, match="changed during each of"):
        walked(files, 0, 6)


def test_damage_is_told_after_the_batches_before_it() -> None:
    """With file and byte; it was read twice."""
    files = files_of(home_with([*BATCHES[:3], flipped(BATCHES[3])], BATCHES[4:]))
    found: list[int] = []

    with pytest.raises(CorruptMessage) as raised:
        walked(files, 0, 6, found=found)

    assert found == [0, 1, 2]
    assert (raised.value.path, raised.value.position) == (f"/data/{name_of(0)}", 3 * SIZE)


def test_what_follows_the_logs_end_is_not_looked_at() -> None:
    """It was judged when the end was found."""
    files = files_of(home_with(BATCHES[:4], tail=b"unfinished, or damage"))

    assert walked(files, 0, 9, log_end=4) == [0, 1, 2, 3]


def test_offsets_that_go_back_are_damage() -> None:
    """No CRC covers a base offset; a reader must not take such records for others."""
    back = (1).to_bytes(8, "big") + BATCHES[3][8:]
    files = files_of(home_with([*BATCHES[:3], back, BATCHES[4]]))

    with pytest.raises(CorruptMessage, match="impossible offsets 1 to 1"):
        walked(files, 0, 6)
