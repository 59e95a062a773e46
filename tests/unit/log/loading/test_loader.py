"""Opening a log after an orderly end and after every kind of crash."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.errors import InvalidTxnState, KafkaStorageError
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.log.loading.load_watch import LoadWatcher, Loss, RecoveryProgress
from tidelog.records.isolation import Isolation
from tidelog.testing import PowerCut, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.fields import ProducerFields

    from tidelog.records.builder import BatchFields
    from tidelog.testing.disk import Kept

NOW_MS = 1_700_000_000_000
FIRST = "00000000000000000000"
SECOND = "00000000000000000002"


def batch(value: bytes, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch of one record."""
    return build_batch([(NOW_MS, b"key", value, ())], **fields)


SIZE = len(batch(b"0"))
VALUES = [b"0", b"1", b"2", b"3", b"4"]


def home_of(values: list[bytes] = VALUES, *, close: bool = True, **settings: Any) -> LogHome:
    """Leave a log of one-record batches behind, two in each segment: bases 0, 2 and 4."""
    home = LogHome(
        internal_segment_bytes=2 * SIZE, index_interval_bytes=0, segment_index_bytes=120, **settings
    )
    log = home.open()
    for value in values:
        log.append_as_leader(batch(value))
    if close:
        log.close()
    else:
        home.restart()
    return home


def values_of(home: LogHome, **how: Any) -> list[bytes | None]:
    """Open the log as after a crash and return its values."""
    return [value for _, value in all_values(home.open(clean=False, **how))]


def test_a_closed_log_opens_as_it_was() -> None:
    """After a clean shutdown nothing is checked, and everything counts as flushed.

    Scenario: LogLoaderTest.testCleanShutdownFile
    """
    home = home_of()

    log = home.open()

    assert [value for _, value in all_values(log)] == VALUES
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (5, 5, 0)
    assert log.segments.base_offsets == [0, 2, 4]


def test_closing_and_opening_changes_no_file() -> None:
    """Indexes are trimmed on close, so that the files are the same each time."""
    home = home_of()
    before = {name: home.read(name) for name in home.files(".log") + home.files("index")}

    home.open().close()

    assert before == {name: home.read(name) for name in home.files(".log") + home.files("index")}


def test_a_new_directory_gets_one_empty_segment() -> None:
    """A log starts at its log start offset.

    Scenario: UnifiedLogTest.testLoadEmptyLog, UnifiedLogTest.testLogReinitializeAfterManualDelete
    """
    log = LogHome().open(log_start_offset=7)

    assert log.segments.base_offsets == [7]
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)


@pytest.mark.parametrize("kept", range(SIZE))
def test_a_torn_batch_at_the_end_is_cut(kept: int) -> None:
    """Whatever part of the last batch reached the disk goes."""
    home = home_of(close=False)
    name = "00000000000000000004.log"
    home.write(name, home.read(name)[:kept])

    assert values_of(home) == VALUES[:-1]
    assert home.read(name) == b""


def test_behind_a_bad_batch_nothing_counts() -> None:
    """The log ends at the first bad batch past the recovery point; later segments go.

    Scenario: LogLoaderTest.testCorruptLog
    """
    home = home_of(close=False)
    damaged = bytearray(home.read(f"{SECOND}.log"))
    damaged[SIZE + 30] ^= 1
    home.write(f"{SECOND}.log", damaged)

    assert values_of(home) == [b"0", b"1", b"2"]
    assert "00000000000000000004.log" not in home.files()


def test_behind_a_bad_batch_of_a_segment_without_index_the_log_goes_on() -> None:
    """Such a segment is recovered for its index's sake; no later one goes, as in Kafka."""
    home = home_of(close=False)
    damaged = bytearray(home.read(f"{FIRST}.log"))
    damaged[SIZE + 70] ^= 1
    home.write(f"{FIRST}.log", damaged)
    home.fs.delete(f"{home.directory}/{FIRST}.index")

    assert values_of(home) == [b"0", b"2", b"3", b"4"]


def test_below_the_recovery_point_nothing_is_looked_at() -> None:
    """What was flushed is believed."""
    home = home_of(close=False)
    damaged = bytearray(home.read(f"{FIRST}.log"))
    damaged[SIZE + 70] ^= 1
    home.write(f"{FIRST}.log", damaged)

    assert home.open(clean=False, recovery_point=4).log_end_offset == 5


def test_rebuilt_indexes_equal_the_first_ones() -> None:
    """Recovery gives an index entry to the batches that the appends gave one to.

    Scenario: LogLoaderTest.testIndexRebuild
    """
    home = home_of()
    before = {name: home.read(name) for name in home.files("index")}
    for name in before:
        home.fs.delete(f"{home.directory}/{name}")

    home.open(clean=False).close()

    assert before == {name: home.read(name) for name in home.files("index")}


def test_an_index_without_its_log_goes() -> None:
    """Orphaned index files are deleted.

    Scenario: LogLoaderTest.testBogusIndexSegmentsAreRemoved
    """
    home = home_of()
    home.write("00000000000000000077.index", b"12345678")

    home.open()

    assert "00000000000000000077.index" not in home.files()


def test_leftovers_of_deletion_and_cleaning_go() -> None:
    """``.deleted`` and ``.cleaned`` files never were, or no longer are, part of the log.

    Scenario: LogLoaderTest.testOpenDeletesObsoleteFiles,
    LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase1
    """
    home = home_of()
    home.write(f"{FIRST}.log.cleaned", b"half")
    home.write("00000000000000000000.index.deleted", b"")
    home.write("00000000000000000000-0000000000.checkpoint.deleted", b"KRaft's")

    home.open()

    assert home.files(".cleaned") == []
    assert home.files(".deleted") == ["00000000000000000000-0000000000.checkpoint.deleted"]


def test_a_complete_swap_is_finished() -> None:
    """New segments named ``.swap`` take the place of all old files in their range.

    Scenario: LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase3,
    LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase4
    """
    home = home_of()
    home.write(f"{FIRST}.log.swap", batch(b"new", base_offset=0, leader_epoch=0, last_offset=3))

    assert values_of(home) == [b"new", b"4"]
    assert home.files(".swap") == []
    assert f"{SECOND}.log" not in home.files()


def test_an_incomplete_swap_is_undone() -> None:
    """A ``.swap`` at or above the lowest ``.cleaned`` offset was not complete: old files stay.

    Scenario: LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase2
    """
    home = home_of()
    home.write(f"{SECOND}.log.swap", batch(b"new", base_offset=2, leader_epoch=0))
    home.write(f"{FIRST}.log.cleaned", batch(b"new", leader_epoch=0))

    assert values_of(home) == VALUES
    assert home.files(".swap") + home.files(".cleaned") == []


FOREIGN = (
    *("foo.log", "5.log", "+5.log", "x.deleted", "notes.swap", "notes.cleaned", "foo.index"),
    *("7.index", "foo.snapshot", "3.snapshot", "1.txt", "1.log.deleted"),
)


@pytest.mark.parametrize("clean", [True, False])
def test_files_with_other_names_are_left_alone(
    clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """They are not segments, a warning names those that look like one, and the log opens."""
    home = home_of()
    for name in FOREIGN:
        home.write(name, b"theirs")
    home.write(f"{FIRST}.log.swap", home.read(f"{FIRST}.log"))

    log = home.open(clean=clean)

    assert log.segments.base_offsets == [0, 2, 4]
    assert [value for _, value in all_values(log)] == VALUES
    assert [name for name in FOREIGN if home.read(name) != b"theirs"] == []
    warned = [record.getMessage() for record in caplog.records if "foreign-file" in record.msg]
    assert sorted(warned) == sorted(
        f"foreign-file-ignored path={home.directory}/{name}" for name in FOREIGN if name != "1.txt"
    )


@pytest.mark.parametrize("name", [f"{9:020}.log.deleted", f"{9:020}.index", f"{9:020}.snapshot"])
def test_a_directory_with_the_name_of_a_file_is_left_alone(name: str) -> None:
    """Opening deletes leftover files, never a directory, and the log opens."""
    home = home_of()
    home.fs.make_directory(f"{home.directory}/{name}")

    log = home.open(clean=False)

    assert [value for _, value in all_values(log)] == VALUES
    assert home.fs.stat(f"{home.directory}/{name}").is_directory
    assert home.failures == []


def test_a_directory_in_the_place_of_a_segment_is_an_error_of_this_log() -> None:
    """It says nothing about the disk: the error names the path, and no directory goes offline."""
    home = home_of()
    home.fs.make_directory(f"{home.directory}/{9:020}.log")

    with pytest.raises(KafkaStorageError, match=f"{9:020}.log"):
        home.open(clean=False)

    assert home.failures == []


def test_a_segment_half_renamed_to_swap_is_undone() -> None:
    """A swap file with a ``.cleaned`` file of the same segment is not complete either."""
    home = home_of()
    home.write(f"{FIRST}.log.swap", batch(b"new", leader_epoch=0))
    home.write(f"{FIRST}.index.cleaned", b"")

    assert values_of(home) == VALUES


def test_swap_names_partly_dropped_are_dropped_wholly() -> None:
    """Without a ``.log.swap`` no old file is deleted; the rest is just renamed.

    Scenario: LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase5
    """
    home = home_of()
    index = home.read(f"{FIRST}.timeindex")
    home.fs.rename(
        f"{home.directory}/{FIRST}.timeindex", f"{home.directory}/{FIRST}.timeindex.swap"
    )

    assert values_of(home) == VALUES
    assert home.read(f"{FIRST}.timeindex")[: len(index)] == index


def test_a_log_that_ends_below_its_start_is_emptied() -> None:
    """When all that survived lies below the log start, the log continues there, empty.

    Scenario: LogLoaderTest.testLogEndLessThanStartAfterReopen
    """
    home = home_of()

    log = home.open(clean=False, log_start_offset=9)

    assert log.segments.base_offsets == [9]
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (9, 9, ())


def test_a_recovery_point_beyond_the_end_is_cut() -> None:
    """What was lost was not flushed after all."""
    log = home_of(close=False).open(clean=False, recovery_point=99)

    assert log.recovery_point == log.log_end_offset == 5


def test_stale_epochs_are_dropped_at_both_ends() -> None:
    """Entries beyond the log's end go, and the first begins at the log start."""
    home = home_of()
    home.write("leader-epoch-checkpoint", b"0\n3\n0 0\n1 3\n4 5\n")

    log = home.open(log_start_offset=2)

    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 2), (1, 3)]


def test_an_epoch_that_begins_at_the_end_is_kept_on_request() -> None:
    """It has no record yet. What begins beyond the end is of records that are lost."""
    home = home_of()
    home.write("leader-epoch-checkpoint", b"0\n3\n0 0\n7 5\n9 6\n")

    log = home.open(keeps_epoch_at_end=True)

    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0), (7, 5)]


def test_stray_snapshots_go_but_for_the_last() -> None:
    """A snapshot belongs to a segment, or to the end of the log.

    Scenario: LogLoaderTest.testLoadingLogKeepsLargestStrayProducerStateSnapshot
    """
    home = home_of()
    for offset in (1, 3):
        home.write(f"{offset:020d}.snapshot", home.read(f"{SECOND}.snapshot"))

    home.open()

    assert [int(name[:20]) for name in home.files(".snapshot")] == [2, 4, 5]


def test_recovery_leaves_a_snapshot_at_each_base_but_the_first() -> None:
    """Producer state is kept where a later recovery may begin."""
    home = home_of(close=False)
    for name in home.files(".snapshot"):
        home.fs.delete(f"{home.directory}/{name}")

    home.open(clean=False)

    assert [int(name[:20]) for name in home.files(".snapshot")] == [2, 4, 5]


def test_a_log_that_is_refused_stays_as_it_is() -> None:
    """Recovery writes nothing before every batch was accepted: no index, no epoch, no file."""
    home = LogHome()
    data = batch(
        b"0", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True, leader_epoch=3
    ) + batch(b"1", producer_id=1, producer_epoch=0, base_sequence=1, base_offset=1, leader_epoch=3)
    home.write(f"{FIRST}.log", data)
    home.write(f"{FIRST}.txnindex", b"as it was")

    with pytest.raises(InvalidTxnState):
        home.open(clean=False)

    assert home.files() == [f"{FIRST}.log", f"{FIRST}.txnindex"]
    assert home.read(f"{FIRST}.log") == data
    assert home.read(f"{FIRST}.txnindex") == b"as it was"


class Notes(LoadWatcher):
    """Keeps what is reported to it."""

    def __init__(self) -> None:
        self.progress: list[tuple[int, int]] = []
        self.losses: list[tuple[int, int, int, bool, bytes]] = []

    def progressed(self, progress: RecoveryProgress) -> None:
        self.progress.append((progress.done_bytes, progress.total_bytes))

    def losing(self, loss: Loss) -> None:
        first = loss.file.pread(8, loss.position)
        place = loss.base_offset, loss.position, loss.end
        self.losses.append((*place, loss.is_segment, first))


def test_what_is_cut_is_told_before_it_goes() -> None:
    """A watcher hears of bad bytes, and of segments after them, while they can be read."""
    home = home_of(close=False)
    data = bytearray(home.read(f"{SECOND}.log"))
    data[SIZE + 30] ^= 1
    home.write(f"{SECOND}.log", bytes(data))
    notes = Notes()

    home.open(clean=False, watcher=notes)

    third, fifth = (offset.to_bytes(8, "big") for offset in (3, 4))
    assert notes.losses == [
        (2, SIZE, 2 * SIZE, False, third),
        (4, 0, SIZE, True, fifth),
    ]


def test_progress_is_told_in_bytes() -> None:
    """Each piece and each segment that was checked counts; at the end all bytes are done."""
    home = home_of(close=False)
    notes = Notes()

    home.open(clean=False, watcher=notes)

    assert {total for _, total in notes.progress} == {5 * SIZE}
    done = [done for done, _ in notes.progress]
    assert done == sorted(done)
    assert done[-1] == 5 * SIZE


def test_a_plain_batch_inside_a_transaction_stops_the_start() -> None:
    """No Kafka writes such a log, and Kafka gives up on it too."""
    home = LogHome()
    fields: ProducerFields = {"producer_id": 42, "producer_epoch": 0}
    home.write(
        f"{FIRST}.log",
        batch(b"txn", leader_epoch=0, base_sequence=0, transactional=True, **fields)
        + batch(b"plain", leader_epoch=0, base_offset=1, base_sequence=1, **fields),
    )

    with pytest.raises(InvalidTxnState):
        home.open(clean=False)


def test_offsets_too_far_apart_split_their_segment() -> None:
    """A segment that an old Kafka let grow beyond 32 bits of offsets becomes several.

    Scenario: LogLoaderTest.testOverCompactedLogRecovery,
    LogLoaderTest.testRecoveryOfSegmentWithOffsetOverflow, UnifiedLogTest.testSplitOnOffsetOverflow
    """
    home = LogHome()
    far = 2**31 + 5
    parts = [
        batch(b"near", leader_epoch=0),
        batch(b"far", base_offset=far, leader_epoch=0),
        batch(b"next", base_offset=far + 1, leader_epoch=0),
    ]
    home.write(f"{FIRST}.log", b"".join(parts))

    log = home.open(clean=False)

    assert log.segments.base_offsets == [0, far]
    assert all_values(log) == [(0, b"near"), (far, b"far"), (far + 1, b"next")]


def test_a_directory_to_be_deleted_is_not_recovered() -> None:
    """A ``-delete`` directory opens with whatever it holds, only to be deleted.

    Scenario: UnifiedLogTest.testLoadPartitionDirWithNoSegmentsShouldNotThrow
    """
    home = LogHome()
    home.directory = "/data/flights-0.0123456789abcdef0123456789abcdef-delete"
    home.fs.make_directory(home.directory)
    home.write(f"{FIRST}.log", b"rubbish")
    log = home.open(clean=False)

    log.delete()

    assert not home.fs.exists(home.directory)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-7],
        lambda data: data + data[:30],
        lambda data: data + bytes(500),
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    ],
    ids=["torn", "half a header", "zeros", "flipped"],
)
def test_a_torn_end_is_cut_after_a_clean_shutdown_too(damage: Callable[[bytes], bytes]) -> None:
    """Nothing is appended after bytes that are not a batch, even after a clean shutdown."""
    home = LogHome()
    with home.open() as log:
        log.append_as_leader(batch(b"kept"))
        log.append_as_leader(batch(b"hurt"))
    name = home.files(".log")[0]
    home.write(name, damage(home.read(name)))

    with home.open() as log:
        log.append_as_leader(batch(b"new"))
        values = [value for _, value in all_values(log)]

    assert values in ([b"kept", b"new"], [b"kept", b"hurt", b"new"])


def restated(home: LogHome, number: int, offset: int) -> None:
    """Let the ``number``-th batch of the active segment state another offset: no CRC covers it."""
    name = home.files(".log")[-1]
    data = home.read(name)
    at = number * SIZE
    home.write(name, data[:at] + offset.to_bytes(8, "big", signed=True) + data[at + 8 :])


@pytest.mark.parametrize("offset", [-1, 0, 2**63 - 1])
def test_a_last_batch_of_impossible_offset_stays_after_a_clean_stop(
    offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    """No log can end at such a number: it ends after as many offsets as the batch has."""
    home = LogHome()
    with home.open() as log:
        for value in VALUES:
            log.append_as_leader(batch(value))
    restated(home, 4, offset)

    with home.open() as log:
        appended = log.append_as_leader(batch(b"5"))
        values = [record.value for record in islice(log.records(isolation=Isolation.LOG_END), 4)]

    assert values == VALUES[:4]
    assert appended.first_offset == 5
    assert f"clean-log-damaged path=/data/flights-0/{FIRST}.log position={4 * SIZE}" in caplog.text


def test_the_checkpoint_says_where_a_clean_log_ends() -> None:
    """Where the last batch is damaged, compaction may have left a gap before it."""
    home = LogHome()
    with home.open() as log:
        for value in VALUES:
            log.append_as_leader(batch(value))
    restated(home, 4, -1)

    with home.open(recovery_point=9) as log:
        assert log.log_end_offset == 9


@pytest.mark.parametrize("offset", [-1, 1, 2**63 - 1])
def test_recovery_cuts_impossible_offsets_and_tells(offset: int) -> None:
    """What is lost is said before it goes, with the offsets that the batch states."""
    home = home_of(close=False)
    restated(home, 0, offset)
    notes = Notes()

    log = home.open(clean=False, watcher=notes, cuts_contradictions=True)

    assert log.log_end_offset == 4
    assert notes.losses == [(4, 0, SIZE, False, offset.to_bytes(8, "big", signed=True))]


def test_damage_that_hides_the_end_of_a_clean_log_is_a_storage_error() -> None:
    """Good batches may lie after it, so nothing is cut; ``recover`` may cut it."""
    home = LogHome()
    with home.open() as log:
        for value in VALUES:
            log.append_as_leader(batch(value))
    name = home.files(".log")[0]
    data = home.read(name)
    home.write(name, data[: 2 * SIZE + 8] + b"\x80" + data[2 * SIZE + 9 :])
    before = {name: home.read(name) for name in home.files()}

    with pytest.raises(KafkaStorageError, match=f"at byte {2 * SIZE} of .*recovery of flights-0"):
        home.open()

    assert before == {name: home.read(name) for name in home.files()}
    assert values_of(home) == VALUES[:2]


@pytest.mark.parametrize("kept", ["all", "none", "any", None])
@pytest.mark.parametrize("keep_cuts", [KeepCuts.IF_SPACE, KeepCuts.NEVER])
def test_a_power_cut_while_a_log_is_cut_leaves_no_hole(
    kept: Kept | None, keep_cuts: KeepCuts
) -> None:
    """The segments after a bad batch are durably deleted before the batch is truncated."""
    values = [b"%d" % number for number in range(7)]
    for operations in range(300):
        home = home_of(values)
        damaged = bytearray(home.read(f"{SECOND}.log"))
        damaged[SIZE + 30] ^= 1
        home.write(f"{SECOND}.log", damaged)
        home.power_cut("all")
        home.fs.crash_after(operations)
        try:
            home.open(clean=False, keep_cuts=keep_cuts)
            is_done = True
        except (PowerCut, KafkaStorageError):
            is_done = False
        home.power_cut(kept)

        assert values_of(home, keep_cuts=keep_cuts) == values[:3], operations
        if is_done:
            break
    assert is_done
    assert operations > 15


@pytest.mark.parametrize("records", [0, 1])
def test_a_closed_log_that_ends_with_an_empty_segment_is_in_order(
    records: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its index files come with its first record: nothing is lost."""
    home = LogHome()
    log = home.open()
    for _ in range(records):
        log.append_as_leader(build_batch([(-1, None, b"v", ())]))
        log.roll()
    log.close()
    assert f"{records:020d}.index" not in home.files()

    with caplog.at_level(logging.WARNING):
        log = home.open(recovery_point=records)

    assert caplog.records == []
    assert log.log_end_offset == records


def test_a_segment_with_records_that_lost_its_index_is_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And an empty one before others."""
    home = LogHome()
    log = home.open()
    for _ in range(3):
        log.append_as_leader(build_batch([(-1, None, b"v", ())]))
        log.roll()
    log.close()
    for number in (0, 1):
        home.fs.delete(f"{home.directory}/{number:020d}.index")
    home.write(f"{0:020d}.log", b"")

    home.open(recovery_point=3)

    found = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert [message.rpartition("/")[2] for message in found] == [f"{0:020d}.log", f"{1:020d}.log"]
