"""The segments of a directory that somebody else may be changing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.stored_log import BATCHES, SIZE, home_with, index, name_of

from tidelog.errors import KafkaStorageError
from tidelog.readonly.held_files import MAX_HELD_FILES, SnapshotOutdated
from tidelog.readonly.log_snapshot import MAX_LOOKS
from tidelog.readonly.partition_files import PartitionFiles, overlapping
from tidelog.readonly.read_files import ReadFiles

if TYPE_CHECKING:
    from tests.machinery.directory_home import DataHome

    from tidelog.env.files import OpenFile, OpenMode


def files_of(home: DataHome) -> PartitionFiles:
    """Take a snapshot of t-0 of a data directory."""
    return PartitionFiles("/data/t-0", ReadFiles(home.fs))


def bases(files: PartitionFiles) -> list[int]:
    return [segment.base_offset for segment in files.segments]


def test_segments_are_listed_in_order_and_nothing_else_is() -> None:
    """By base offset; what waits for deletion, indexes and strange names are not segments."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    for name in ("0.log.deleted", "00000000000000000000.index", "x.log", "partition.metadata"):
        home.write(f"t-0/{name}", b"")

    files = files_of(home)

    assert bases(files) == [0, 2]
    assert [segment.size_bytes for segment in files.segments] == [2 * SIZE, 4 * SIZE]


def test_a_listing_stays_as_it_was() -> None:
    """What comes later is seen only by who lists again."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    home.write(name_of(2), BATCHES[2])

    before = bases(files)
    files.renew()

    assert (before, bases(files)) == ([0], [0, 2])


def test_a_segment_is_opened_also_while_it_waits_for_deletion() -> None:
    """Retention renames it first."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    files.release()
    path = f"{home.path}/{name_of(0)}"
    home.fs.rename(path, f"{path}.deleted")

    found = files.segments[0].file.pread(2 * SIZE, 0)

    assert found == b"".join(BATCHES[:2])


def test_a_segment_under_no_name_is_gone() -> None:
    """The caller lists again, once."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    files.release()
    home.fs.delete(f"{home.path}/{name_of(0)}")

    with pytest.raises(SnapshotOutdated, match="was deleted"):
        files.segments[0].file.pread(1, 0)


def test_a_directory_that_is_gone_is_an_error() -> None:
    """It was there when it was listed first."""
    home = home_with(BATCHES[:1])
    files = files_of(home)
    home.fs.delete(f"{home.path}/{name_of(0)}")
    home.fs.delete_directory("/data/t-0")

    with pytest.raises(KafkaStorageError, match="was deleted while it was read"):
        files.renew()


def test_hints_are_read_once_until_they_are_forgotten() -> None:
    """An index may change under the reader's hands; what it took it keeps."""
    home = home_with(BATCHES[:4])
    home.write(name_of(0, ".index"), index((1, SIZE)))
    files = files_of(home)
    first = files.segments[0].hints
    home.write(name_of(0, ".index"), index((2, 2 * SIZE)))

    again = files.segments[0].hints
    files.release()
    renewed = files.segments[0].hints

    assert again is first
    assert (list(first.offsets), list(renewed.offsets)) == ([1], [2])


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 2, [0]), (1, 3, [0, 2]), (2, 4, [2]), (3, 9, [2, 4]), (5, 9, [4]), (2, 2, [])],
)
def test_a_range_lies_in_the_segments_that_may_hold_it(
    start: int, end: int, expected: list[int]
) -> None:
    """A segment reaches to the next one's base, the last one as far as you like."""
    files = files_of(home_with(BATCHES[:2], BATCHES[2:4], BATCHES[4:]))

    found = overlapping(files.segments, start, end)

    assert [segment.base_offset for segment in found] == expected


def test_what_is_appended_later_is_not_in_the_snapshot() -> None:
    """A file ends where it was measured."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    home.write(name_of(0), b"".join(BATCHES))

    file = files.segments[0].file

    assert (file.size(), len(file.pread(10 * SIZE, SIZE))) == (2 * SIZE, SIZE)


def test_a_file_that_was_cut_outdates_the_snapshot() -> None:
    """Whether it is still open or opened again."""
    home = home_with(BATCHES[:2])
    files = files_of(home)
    home.write(name_of(0), BATCHES[0])

    with pytest.raises(SnapshotOutdated, match=f"was cut to {SIZE} bytes"):
        files.segments[0].file.pread(2 * SIZE, 0)
    files.release()
    with pytest.raises(SnapshotOutdated, match="was cut or replaced"):
        files.segments[0].file.pread(SIZE, 0)


@pytest.mark.parametrize("name", ["5.log", "+5.log", "-0000000000000000005.log", "x.log"])
def test_a_name_that_no_segment_has_is_left_alone(name: str) -> None:
    """Base offsets are written with 20 digits."""
    home = home_with(BATCHES[:2])
    home.write(f"t-0/{name}", b"")

    assert bases(files_of(home)) == [0]


def test_a_replacement_counts_while_it_is_being_renamed() -> None:
    """Between the deletion of the old segments and its last rename it is all there is of them."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    home.write(name_of(0, ".log.swap"), b"".join(BATCHES[:4]))
    both = [segment.path for segment in files_of(home).segments]
    home.fs.delete(f"/data/{name_of(0)}")

    one = [segment.path for segment in files_of(home).segments]

    assert both == [f"/data/{name_of(0)}", f"/data/{name_of(2)}"]
    assert one == [f"/data/{name_of(0)}.swap", f"/data/{name_of(2)}"]


def test_a_snapshot_holds_no_more_files_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are opened again when they are read."""
    count = MAX_HELD_FILES + 10
    home = home_with(*([batch] for batch in [BATCHES[0]] * count))
    opened: list[str] = []

    class Counting:
        """Counts the files that are open."""

        def __getattr__(self, name: str) -> Any:
            return getattr(home.fs, name)

        def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
            file = home.fs.open(path, mode)
            opened.append(path)
            close = file.close

            def closing() -> None:
                close()
                if file.holders == 0:
                    opened.remove(path)

            monkeypatch.setattr(file, "close", closing)
            return file

    files = PartitionFiles("/data/t-0", ReadFiles(Counting()))
    held = len(opened)
    for segment in files.segments:
        assert segment.file.pread(SIZE, 0) == BATCHES[0]

    assert (len(files.segments), held, len(opened)) == (count, MAX_HELD_FILES, MAX_HELD_FILES)
    files.release()
    assert opened == []


def test_a_directory_that_never_stands_still_is_an_error() -> None:
    """After a number of attempts, with the last reason."""
    home = home_with(BATCHES[:2], BATCHES[2:])
    listings: list[str] = []

    class Restless:
        """Replaces a segment between any two listings."""

        def __getattr__(self, name: str) -> Any:
            return getattr(home.fs, name)

        def list(self, path: str) -> list[str]:
            listings.append(path)
            return [name for name in home.fs.list(path) if len(listings) % 2 or "2.log" in name]

    with pytest.raises(KafkaStorageError, match="deleted or replaced"):
        PartitionFiles("/data/t-0", ReadFiles(Restless()))
    assert len(listings) == 2 * MAX_LOOKS
