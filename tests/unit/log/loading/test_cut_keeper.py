"""What recovery cuts off a log is kept first, in cut files of the data directory."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import CorruptFile, KafkaStorageError
from tidelog.log.loading.cut_files import CutName, is_newer, read_content
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.log.topic_id import write_partition_metadata
from tidelog.readonly.missing.salvage import CutFile, find_cut_files
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.damage.past_damage import BadBytes
from tidelog.testing import PowerCut, build_batch

if TYPE_CHECKING:
    from tidelog.testing.crash_files import CrashFileSystem

FIRST, SECOND, THIRD = (f"{base:020d}.log" for base in (0, 2, 4))
FULL = OSError(errno.ENOSPC, "No space left on device")


def batch(value: bytes, base_offset: int = 0) -> bytes:
    """Make a batch of one record."""
    return build_batch([(1_700_000_000_000, b"key", value, ())], base_offset=base_offset)


SIZE = len(batch(b"0"))


def killed(*, preallocate: bool = False) -> LogHome:
    """Leave a log of five one-record batches, two in each segment, killed but durable."""
    home = LogHome(
        internal_segment_bytes=2 * SIZE,
        index_interval_bytes=0,
        segment_index_bytes=120,
        preallocate=preallocate,
    )
    log = home.open()
    for value in (b"0", b"1", b"2", b"3", b"4"):
        log.append_as_leader(batch(value))
    home.power_cut("all")
    return home


def damage(home: LogHome, name: str, at: int) -> None:
    """Flip one bit of a file, durably."""
    data = bytearray(home.read(name))
    data[at] ^= 1
    home.write(name, data)
    home.power_cut("all")


def recovered(home: LogHome, keep: KeepCuts = KeepCuts.IF_SPACE) -> list[bytes | None]:
    """Open the log as after a crash; return its values."""
    return [value for _, value in all_values(home.open(clean=False, keep_cuts=keep))]


def cuts(fs: CrashFileSystem) -> list[CutFile]:
    """Return the cut files of the data directory."""
    return find_cut_files(open_directory_read_only("/data", fs=fs))


def salvaged(fs: CrashFileSystem) -> list[bytes | None]:
    """Return the values of all records that can be read in cut files."""
    return [
        record.value
        for cut in cuts(fs)
        for found in cut.records(fs)
        if not isinstance(found, BadBytes | Exception)
        for record in found.records()
    ]


def test_a_cut_end_and_the_segments_behind_it_are_kept() -> None:
    """The end is copied and described; whole segments are renamed."""
    home = killed()
    before = home.read(SECOND)
    damage(home, SECOND, 30)

    assert recovered(home) == [b"0", b"1"]

    end, whole = cuts(home.fs)
    assert salvaged(home.fs) == [b"3", b"4"]
    described = end.content.description
    assert described is not None
    assert (described.topic, described.partition, described.file) == ("flights", 0, SECOND)
    assert (described.position, described.cut_bytes, described.from_offset) == (0, 2 * SIZE, 2)
    assert "CRC" in described.reason
    assert described.cut_at_ms == home.clock.now_ms()
    assert (whole.name.from_offset, whole.size_bytes) == (4, SIZE)
    assert before[SIZE:].rstrip(b"\0") in home.fs.read(end.path)
    assert not [name for name in home.files() if name.startswith(THIRD[:20])]


def test_zeros_at_the_end_take_no_space() -> None:
    """The unused part of a preallocated file is not copied; zeros alone make no cut file."""
    home = killed(preallocate=True)
    assert len(home.read(THIRD)) == 2 * SIZE
    assert recovered(home) == [b"0", b"1", b"2", b"3", b"4"]
    assert not cuts(home.fs)

    home = killed()
    home.write(THIRD, home.read(THIRD) + b"torn" + bytes(100_000))
    home.power_cut("all")
    recovered(home)

    (cut,) = cuts(home.fs)
    assert (cut.content.size_bytes, cut.size_bytes) == (4, 100_004)
    assert cut.stored_bytes < 1000


def test_nothing_behind_a_cut_end_is_copied() -> None:
    """However far in the segment it lies: the description is the end of the file."""
    home = killed()
    kept = batch(b"x" * 5_000, 4)
    home.write(THIRD, kept + b"torn" + bytes(100_000))
    home.power_cut("all")
    recovered(home)

    (cut,) = cuts(home.fs)
    assert cut.content.description is not None
    assert (cut.content.description.position, cut.content.size_bytes) == (len(kept), 4)


def test_some_zeros_at_the_end_of_a_whole_segment_stay() -> None:
    """A last batch may end in zeros, and until the description is there a crash must not take them.

    A segment of zeros alone is not kept.
    """
    home = killed()
    home.write(THIRD, home.read(THIRD) + bytes(3 << 20))
    damage(home, SECOND, 30)
    recovered(home)
    _, whole = cuts(home.fs)

    assert whole.content.description is not None
    assert whole.content.description.position == 0
    assert whole.content.description.cut_bytes == SIZE + (3 << 20)
    assert 0 < whole.stored_bytes - SIZE - (1 << 20) < 1000

    home = killed()
    home.write(THIRD, bytes(SIZE))
    damage(home, SECOND, 30)
    recovered(home)
    assert [cut.name.from_offset for cut in cuts(home.fs)] == [2]


def test_what_is_kept_is_logged_with_its_bytes(caplog: pytest.LogCaptureFixture) -> None:
    """Of the end of a segment those before its zeros; of a whole one all."""
    home = killed()
    damage(home, SECOND, SIZE + 30)

    assert recovered(home) == [b"0", b"1", b"2"]

    lines = [message for message in caplog.messages if message.startswith("cut-kept ")]
    assert [line.rpartition(" ")[2] for line in lines] == [f"bytes={SIZE - 1}", f"bytes={SIZE}"]
    assert salvaged(home.fs) == [b"4"]


def test_the_topics_id_is_in_name_and_description() -> None:
    """Another topic of the name may come later."""
    home = killed()
    home.open(clean=False).close()
    write_partition_metadata(home.fs, f"{home.directory}/partition.metadata", UUID(int=7))
    damage(home, SECOND, 30)
    recovered(home)

    end, whole = cuts(home.fs)
    for cut in (end, whole):
        assert cut.name.topic == format_uuid(UUID(int=7))
        assert cut.content.description is not None
        assert cut.content.description.topic_id == format_uuid(UUID(int=7))


def test_the_next_free_name_is_taken() -> None:
    """By a link and by a copy."""
    home = killed()
    damage(home, SECOND, 30)
    recovered(home)
    kept = {cut.path: home.fs.read(cut.path) for cut in cuts(home.fs)}

    again = killed()
    for path, data in kept.items():
        again.fs.write(path, data)
    damage(again, SECOND, 30)
    recovered(again)

    assert [(cut.name.from_offset, cut.name.number) for cut in cuts(again.fs)] == [
        (2, 1),
        (2, 2),
        (4, 1),
        (4, 2),
    ]
    assert {path: again.fs.read(path) for path in kept} == kept
    assert salvaged(again.fs) == [b"3", b"3", b"4", b"4"]


def test_a_disk_that_fails_while_a_cut_is_kept_stops_the_recovery() -> None:
    """Also where the log may be cut without space; the directory is offline."""
    for operation in ("pwrite", "link"):
        home = killed()
        damage(home, SECOND, 30)
        home.fs.fail(operation, ".cut", OSError(errno.EIO, "bad"))

        with pytest.raises(KafkaStorageError):
            recovered(home)

        assert [error.errno for error in home.failures] == [errno.EIO]


def test_no_part_of_a_copied_segment_stays_without_space() -> None:
    """Where there are no links, and the disk is full."""
    home = killed()
    damage(home, SECOND, 30)
    home.fs.fail("link", ".cut", OSError(errno.EPERM, "no links"))
    home.fs.fail("pwrite", f"{4:020d}.1.cut", FULL)

    assert recovered(home) == [b"0", b"1"]
    assert [cut.name.from_offset for cut in cuts(home.fs)] == [2]


def test_records_whose_offsets_go_back_twice_are_kept() -> None:
    """Kafka keeps them in the log, unless its index would go back; no reader could find them.

    Which of the batches is damaged is not known, so the first one that may be is cut, too.
    """
    home = killed()
    home.write(THIRD, home.read(THIRD) + batch(b"back", 4) + batch(b"more", 4))
    home.power_cut("all")

    assert recovered(home) == [b"0", b"1", b"2", b"3"]
    assert salvaged(home.fs) == [b"4", b"back", b"more"]


def test_without_space_nothing_is_cut_if_everything_is_to_be_kept() -> None:
    """The log does not load, its files are as before, and the directory is not offline."""
    home = killed()
    damage(home, SECOND, 30)
    before = {name: home.read(name) for name in (FIRST, SECOND, THIRD)}
    home.fs.fail("pwrite", ".cut", FULL)

    with pytest.raises(KafkaStorageError) as caught:
        recovered(home, KeepCuts.ALWAYS)

    assert caught.value.__cause__ is FULL
    assert before == {name: home.read(name) for name in before}
    assert not cuts(home.fs)
    assert not home.failures


def test_what_could_not_be_cut_is_not_kept_twice() -> None:
    """A full disk that has room for what is kept, but none to cut: the log has it still."""
    home = killed()
    home.write(THIRD, home.read(THIRD) + b"torn")
    home.power_cut("all")
    home.fs.fail("truncate", THIRD, FULL)

    with pytest.raises(KafkaStorageError):
        recovered(home, KeepCuts.ALWAYS)
    assert not cuts(home.fs)
    assert home.read(THIRD).endswith(b"torn")
    assert recovered(home, KeepCuts.ALWAYS) == [b"0", b"1", b"2", b"3", b"4"]

    assert [cut.name.number for cut in cuts(home.fs)] == [1]


def test_what_was_cut_stays_kept_when_a_later_segment_cannot_be_recovered() -> None:
    """Each segment without an index is recovered: the log lacks what was cut off the first."""
    home = killed()
    home.open().close()
    damage(home, SECOND, SIZE + 30)
    for name in (SECOND, THIRD):
        home.fs.delete(f"{home.directory}/{name.replace('.log', '.index')}")
    home.power_cut("all")
    home.fs.fail("pread", THIRD, OSError(errno.EIO, "bad"))

    with pytest.raises(KafkaStorageError):
        home.open(clean=True, keep_cuts=KeepCuts.ALWAYS)

    assert len(home.read(SECOND)) == SIZE
    assert [cut.name.from_offset for cut in cuts(home.fs)] == [3]


def test_without_space_a_service_cuts_as_kafka_does(caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be kept is logged, and no part of a cut file stays behind."""
    home = killed()
    damage(home, SECOND, 30)
    home.fs.fail("pwrite", ".cut", FULL, 10)
    home.fs.fail("link", ".cut", FULL, 10)

    assert recovered(home) == [b"0", b"1"]
    assert not cuts(home.fs)
    assert sum("cut-not-kept" in record.getMessage() for record in caplog.records) == 2


def test_where_there_are_no_links_a_whole_segment_is_copied() -> None:
    """Some file systems have none, and a partition's directory may lie on another disk."""
    home = killed()
    damage(home, SECOND, 30)
    home.fs.fail("link", ".cut", OSError(errno.EXDEV, "Invalid cross-device link"))

    assert recovered(home) == [b"0", b"1"]
    assert salvaged(home.fs) == [b"3", b"4"]
    assert cuts(home.fs)[-1].content.description is not None


def test_nothing_is_kept_on_request() -> None:
    """As Kafka does; so it is with the copy of a partition that moves."""
    home = killed()
    damage(home, SECOND, 30)

    assert recovered(home, KeepCuts.NEVER) == [b"0", b"1"]
    assert not cuts(home.fs)


def test_each_recovery_makes_files_of_its_own() -> None:
    """A cut file is never replaced."""
    home = killed()
    for number in (1, 2):
        home.write(THIRD, home.read(THIRD) + b"torn%d" % number)
        home.power_cut("all")
        recovered(home)
        home.power_cut("all")

    assert [cut.name.number for cut in cuts(home.fs)] == [1, 2]
    assert b"torn1" in home.fs.read(cuts(home.fs)[0].path)


def test_a_power_cut_at_any_operation_loses_nothing_readable() -> None:
    """Whatever the disk has lost, each readable record is in the log or in a cut file."""
    tried = 0
    for operations in range(200):
        home = killed()
        damage(home, SECOND, 30)
        home.fs.crash_after(operations)
        try:
            recovered(home)
            is_done = True
        except (PowerCut, KafkaStorageError):
            is_done = False
        home.power_cut("none" if operations % 2 else None)
        found = [*recovered(home), *salvaged(home.fs)]
        assert {b"0", b"1", b"3", b"4"} <= set(found), operations
        tried += 1
        if is_done:
            break
    assert is_done
    assert tried > 15


def test_a_file_without_a_description_is_known_by_its_name() -> None:
    """A crash may leave one, between the renaming of a segment and the description."""
    home = killed()
    damage(home, SECOND, 30)
    home.fs.fail("pwrite", ".cut", FULL, 10, skipped=2)
    recovered(home)

    whole = cuts(home.fs)[-1]
    assert whole.content.description is None
    assert (whole.topic, whole.name.from_offset) == ("flights", 4)
    assert salvaged(home.fs)[-1] == b"4"


def test_a_file_of_a_newer_release_is_refused() -> None:
    """Its version is read first; nothing else in it is."""
    home = killed()
    damage(home, THIRD, 30)
    recovered(home)
    (cut,) = cuts(home.fs)
    data = bytearray(home.fs.read(cut.path))
    assert not is_newer(home.fs, cut.path)

    data[-9] = 2
    home.fs.write(cut.path, data)

    (newer,) = cuts(home.fs)
    assert is_newer(home.fs, cut.path)
    assert "this release reads up to 1" in str(newer.error)
    with pytest.raises(KafkaStorageError):
        list(newer.batches(home.fs))


@pytest.mark.parametrize("at", [-13, -16, -20])
def test_a_damaged_description_is_an_error(at: int) -> None:
    """Its size and its content are checked as those of any file."""
    home = killed()
    damage(home, THIRD, 30)
    recovered(home)
    (cut,) = cuts(home.fs)
    data = bytearray(home.fs.read(cut.path))
    data[at] ^= 0x40
    home.fs.write(cut.path, data)

    file = home.fs.open(cut.path)
    with pytest.raises(CorruptFile):
        read_content(file)


@pytest.mark.parametrize(
    "name",
    [
        "tidelog.lAoDPA8hRWOxoBzlqr3pHg-0.00000000000000000089.1.cut",
        f"tidelog.{'0f' * 16}-12.{7:020d}.10.cut",
    ],
)
def test_a_name_says_what_was_cut(name: str) -> None:
    """Topic id or hash of the name, partition, offset and a number."""
    assert str(CutName.parse(name)) == name


@pytest.mark.parametrize("name", ["tidelog.topics.json", "tidelog.x-0.1.1.cut", f"{FIRST}.cut"])
def test_other_names_are_not_those_of_cut_files(name: str) -> None:
    """They are left alone."""
    assert CutName.parse(name) is None
