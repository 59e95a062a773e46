"""Recovery of a segment: what is kept, what is truncated, and the resulting indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.segment.conftest import offset_entries

from tidelog.errors import CorruptMessage, InvalidRecord, SegmentOffsetOverflow
from tidelog.records.batch import BATCH_HEADER, INT32_MAX
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.segment.checked_batches import PART_BYTES
from tidelog.segment.segment_recovery import (
    USUAL_CHECK,
    Check,
    ContradictedOffsets,
    Looked,
    Treatment,
    look_through,
)
from tidelog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from tests.machinery.fields import MarkerFields
    from tests.unit.segment.conftest import Room

    from tidelog.records.batch_columns import BatchColumns
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.segment_recovery import Cut

INT64_MAX = 2**63 - 1


class Observer:
    """Records what it observes; reports the given aborted transactions."""

    def __init__(self, aborted: Sequence[AbortedTxn] = ()) -> None:
        self.aborted = list(aborted)
        self.seen: list[tuple[int, int]] = []

    def observe(
        self,
        batches: BatchColumns,
        data: NDArray[np.uint8],
        aborted: Callable[[AbortedTxn], object],
    ) -> None:
        """Unpack the control batches too, to check that positions and bytes match."""
        for index in range(len(batches)):
            header = batches.header(index)
            if batches.is_control[index]:
                header = BATCH_HEADER.unpack(data, int(batches.position[index]))
            self.seen.append((header.base_offset, int(batches.last_offset[index])))
        for txn in self.aborted:
            aborted(txn)


def write(room: Room, *parts: bytes, base_offset: int = 0, **config: Any) -> LogSegment:
    room.fs.write(room.path(f"{base_offset:020d}.log"), b"".join(parts))
    return room.segment(base_offset, **config)


def files(room: Room) -> dict[str, bytes]:
    return {name: room.fs.read(room.path(name)) for name in room.names()}


def large_batch(offset: int, kibibytes: int) -> bytes:
    return build_batch([(offset % 1000, None, bytes(kibibytes << 10), ())], base_offset=offset)


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_rebuilt_indexes_equal_the_original_ones(room: Room) -> None:
    """They are rebuilt byte for byte from the .log file alone."""
    segment = room.segment(0, index_interval_bytes=300)
    for offset in range(50):
        room.append(segment, [offset], [offset * 7 % 20])
    segment.close()
    expected = files(room)
    for name in expected:
        if not name.endswith(".log"):
            room.fs.delete(room.path(name))

    cut = room.segment(0, index_interval_bytes=300).recover()

    assert cut == 0
    assert files(room) == expected


def test_the_previous_content_of_the_indexes_is_ignored(room: Room) -> None:
    """Recovery trusts only the records.

    Scenario: LogLoaderTest.testCorruptIndexRebuild, LogSegmentTest.testRecoveryFixesCorruptIndex,
    LogSegmentTest.testRecoveryFixesCorruptTimeIndex
    """
    batch = room.batch([0], [5])
    for kind in ("index", "timeindex", "txnindex"):
        room.fs.write(room.path(f"{0:020d}.{kind}"), b"\x01" * 100)

    write(room, batch).recover()

    found = files(room)
    assert [len(found[f"{0:020d}.{kind}"]) for kind in ("index", "timeindex")] == [0, 12]
    assert found[f"{0:020d}.txnindex"] == b""


@pytest.mark.parametrize(
    "damage",
    [
        lambda last: flip(last, len(last) - 1),
        lambda last: flip(last, 17),
        lambda last: last[:-1],
        lambda last: last[:30],
        lambda last: last[:5],
        lambda last: bytes(len(last)),
        lambda last: last + b"\0" * 200,
        lambda last: last + b"garbage that begins no batch",
    ],
    ids=["body", "crc", "torn", "torn-header", "few", "zeroed", "zero-tail", "garbage"],
)
def test_the_file_is_truncated_at_the_first_bad_batch(
    room: Room, damage: Callable[[bytes], bytes]
) -> None:
    """Valid batches before it are kept; the number of truncated bytes is returned.

    Scenario: LogSegmentTest.testRecoveryWithCorruptMessage
    """
    good, last = room.batch([0, 1], [10, 20]), room.batch([2], [30])
    damaged = damage(last)
    kept = good + last if damaged.startswith(last) else good
    segment = write(room, good, damaged)

    cut = segment.recover()

    assert cut == len(good + damaged) - len(kept)
    assert room.fs.read(segment.path) == kept
    assert segment.size_bytes == len(kept)
    assert segment.largest_so_far() == ((30, 2) if kept != good else (20, 1))


def test_valid_batches_after_a_bad_one_are_truncated_too(room: Room) -> None:
    """There must be no unknown gap in the offsets."""
    batches = [room.batch([i]) for i in range(5)]
    batches[1] = flip(batches[1], 100)
    segment = write(room, *batches)

    segment.recover()

    assert segment.read_next_offset() == 1


def test_a_segment_whose_first_batch_is_bad_is_emptied(room: Room) -> None:
    """It is kept, with 0 bytes."""
    segment = write(room, flip(room.batch([0], [5]), 80))
    cuts: list[Cut] = []

    segment.recover(on_cut=cuts.append)

    assert [cut.next_offset for cut in cuts] == [0]
    assert (segment.size_bytes, segment.max_timestamp, segment.read_next_offset()) == (0, -1, 0)


def test_the_unused_part_of_a_preallocated_file_is_truncated(room: Room) -> None:
    """After a crash it consists of zeros after the last batch."""
    batch = room.batch([0])
    segment = write(room, batch, bytes(5_000))

    assert segment.recover() == 5_000
    assert room.fs.read(segment.path) == batch


def test_appends_continue_after_recovery(room: Room) -> None:
    """They need the indexes at their full size."""
    segment = write(room, room.batch([0]), b"torn", index_interval_bytes=100)
    segment.recover()

    segment.resize_indexes()
    room.append(segment, [1], [5])
    room.append(segment, [2], [6])

    assert segment.read_next_offset() == 3
    assert segment.offset_index.last_offset == 2


def test_an_offset_that_does_not_fit_is_reported_not_truncated(room: Room) -> None:
    """The loader splits the segment, and nothing is lost."""
    segment = write(room, room.batch([0]), room.batch([2**31]))
    before = segment.size_bytes

    with pytest.raises(SegmentOffsetOverflow):
        segment.recover()

    assert room.fs.stat(segment.path).size_bytes == before


def treated(segment: LogSegment, *, keeps: bool = False, **how: Any) -> Check:
    """Return how to check a segment whose contradiction is to be cut, or kept."""
    with pytest.raises(ContradictedOffsets) as caught:
        segment.recover(how=Check(**how))
    return Check(**how, treatment=Treatment(caught.value.contradiction, keeps))


@pytest.mark.parametrize("interval", [0, 4096])
def test_the_segment_is_cut_where_offsets_decrease(room: Room, interval: int) -> None:
    """Such a batch is bad even if no index shows it, because its CRC does not cover the offset."""
    parts = [room.batch([i]) for i in (5, 6, 3, 4)]
    segment = write(room, *parts, index_interval_bytes=interval)
    observer = Observer()
    cuts: list[Cut] = []

    assert segment.recover(observer, cuts.append, treated(segment)) == len(parts[2] + parts[3])
    assert segment.read_next_offset() == 7
    assert observer.seen == [(5, 5), (6, 6)]
    assert [cut.next_offset for cut in cuts] == [7]


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1, 9])
def test_the_segment_is_cut_at_an_impossible_offset(room: Room, offset: int) -> None:
    """Negative, below the base offset, or so large that no log end would fit after it."""
    base = 2**63 - 9 if offset == INT64_MAX else 10
    good, bad = room.batch([base]), room.batch([offset])
    cuts: list[Cut] = []

    segment = write(room, good, bad, room.batch([base + 1]), base_offset=base)

    assert segment.recover(None, cuts.append, treated(segment)) == 2 * len(good)
    assert segment.read_next_offset() == base + 1
    assert [(cut.position, str(offset) in cut.reason) for cut in cuts] == [(len(good), True)]
    assert cuts[0].next_offset == base + 1


@pytest.mark.parametrize("end_offset", [8, 9])
def test_offsets_end_where_the_next_segment_begins(room: Room, end_offset: int) -> None:
    """The name of its file is right, whatever a batch states."""
    segment = write(room, *(room.batch([i]) for i in (5, 7, 8)))

    if end_offset == 9:
        assert segment.recover(how=Check(end_offset)) == 0
        return
    found = treated(segment, end_offset=end_offset).treatment

    assert found is not None
    assert found.contradiction.damaged == (2 * len(room.batch([0])),)


def test_nothing_is_changed_before_it_is_said_what_becomes_of_a_contradiction(room: Room) -> None:
    """The rest of the log decides, which a segment does not know."""
    segment = write(room, *(room.batch([i]) for i in (5, 6, 3, 7)), index_interval_bytes=0)
    before = files(room)

    treated(segment)

    assert files(room) == before


def test_a_kept_batch_is_left_out_of_the_indexes(room: Room) -> None:
    """And of what is observed: the others are where they were, and are found."""
    offsets = [5, 6, 300, 8, 9]
    parts = [room.batch([i], [90 + i]) for i in offsets]
    segment = write(room, *parts, index_interval_bytes=0)
    observer = Observer()

    assert segment.recover(observer, None, treated(segment, keeps=True)) == 0

    size = len(parts[0])
    entries = offset_entries(segment.offset_index)
    assert observer.seen == [(5, 5), (6, 6), (8, 8), (9, 9)]
    assert entries == [(6, size), (8, 3 * size), (9, 4 * size)]
    assert segment.largest_so_far() == (99, 9)
    assert room.fs.read(segment.path) == b"".join(parts)


def test_bytes_that_are_left_out_count_for_the_distance_of_index_entries(room: Room) -> None:
    """Entries are where they would be if the batch were sound, or one batch later."""
    parts = [room.batch([i]) for i in (0, 1, 700, 3, 4, 5)]
    segment = write(room, *parts, index_interval_bytes=2 * len(parts[0]) - 1)

    segment.recover(None, None, treated(segment, keeps=True))

    entries = offset_entries(segment.offset_index)
    assert entries == [(3, 3 * len(parts[0])), (5, 5 * len(parts[0]))]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_nothing_is_kept_after_the_part_in_which_the_segment_ends(
    room: Room, is_damaged: bool
) -> None:
    """A large file is checked in parts: those after an impossible offset are valid, and truncated.

    Without such an offset all parts are kept.
    """
    offsets = [4, 5, 3 if is_damaged else 6, *range(7, 25)]
    parts = [large_batch(offset, 1 << 10) for offset in offsets]
    assert len(b"".join(parts)) > PART_BYTES + (4 << 20)
    segment = write(room, *parts)

    cut = segment.recover(how=treated(segment) if is_damaged else USUAL_CHECK)

    assert cut == (len(b"".join(parts[2:])) if is_damaged else 0)
    assert segment.read_next_offset() == (6 if is_damaged else 25)


@pytest.mark.parametrize("refused_or_impossible", ["refused", "impossible"])
def test_the_indexes_hold_exactly_the_batches_that_are_kept(
    room: Room, refused_or_impossible: str
) -> None:
    """Those of a segment that ends there without damage, from the first batch on."""

    class Refusing(Observer):
        def observe(
            self,
            batches: BatchColumns,
            data: NDArray[np.uint8],
            aborted: Callable[[AbortedTxn], object],
        ) -> None:
            super().observe(batches, data, aborted)
            raise InvalidRecord("no marker", int(batches.position[2]))

    parts = [room.batch([offset], [90 - offset]) for offset in (5, 6, 7)]
    is_refused = refused_or_impossible == "refused"
    behind = [room.batch([offset], [95]) for offset in ([8, 9] if is_refused else [3, 8])]
    segment = write(room, *parts, *behind, index_interval_bytes=0)
    how = USUAL_CHECK if is_refused else treated(segment)
    segment.recover(Refusing() if is_refused else None, None, how)
    segment.close()
    found = files(room)

    for name in found:
        room.fs.delete(room.path(name))
    segment = write(room, *parts, index_interval_bytes=0)
    segment.recover()
    segment.close()

    assert found == files(room)
    assert len(found[f"{0:020d}.index"]) == 2 * 8


def test_offsets_far_ahead_must_increase_from_piece_to_piece(room: Room) -> None:
    """Where one is lower than the last before it, the segment cannot be split: all are damage."""
    far = 2**40
    offsets = [0, far, far + 5, far + 10, far + 7, far + 20]
    parts = [large_batch(offset, 300) for offset in offsets]

    segment = write(room, *parts)

    assert segment.recover(how=treated(segment)) == len(b"".join(parts[1:]))
    assert segment.read_next_offset() == 1


def test_an_offset_far_ahead_is_damage_if_the_next_one_is_lower(room: Room) -> None:
    """In segments of old Kafka versions, which are split, offsets increase."""
    parts = [room.batch([i]) for i in (0, 2**40, 2)]

    segment = write(room, *parts)
    found = treated(segment).treatment

    assert found is not None
    assert found.contradiction.damaged == (len(parts[0]),)
    assert found.contradiction.is_explained


def test_an_offset_far_ahead_counts_up_to_the_next_bad_crc(room: Room) -> None:
    """What follows a batch with a wrong CRC says nothing about the offsets before it."""
    lower = room.batch([1])
    segment = write(room, room.batch([0]), room.batch([2**31]), flip(lower, len(lower) - 1))

    with pytest.raises(SegmentOffsetOverflow):
        segment.recover()


def test_only_a_segment_that_is_cut_is_logged(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """A warning means that something was lost."""
    write(room, room.batch([0])).recover()
    assert "segment-truncated" not in caplog.text

    write(room, flip(room.batch([10]), 100), base_offset=10).recover()
    assert "segment-truncated" in caplog.text


def test_recovery_continues_when_the_index_is_full(room: Room) -> None:
    """A lower segment.index.bytes than before must not prevent a log from opening."""
    parts = [room.batch([i], [i]) for i in range(20)]
    segment = write(room, *parts, index_interval_bytes=0, segment_index_bytes=40)

    assert segment.recover() == 0
    assert segment.offset_index.entry_count == 5
    assert segment.time_index.last_entry == (19, 19)


def test_old_formats_are_indexed_by_their_last_offsets(room: Room) -> None:
    """A compressed set counts as one batch; records of magic 1 have timestamps.

    Scenario: LogLoaderTest.testRebuildTimeIndexForOldMessages
    """
    parts = [room.legacy(0, 7), room.legacy_set([1, 2, 3], 9), room.batch([4], [8])]
    segment = write(room, *parts, index_interval_bytes=0)

    segment.recover()

    entries = offset_entries(segment.offset_index)
    assert entries == [(3, len(parts[0])), (4, len(parts[0] + parts[1]))]
    assert segment.largest_so_far() == (9, 3)


def test_an_observer_receives_every_valid_batch_in_order(room: Room) -> None:
    """This holds across all pieces of a large file, and excludes truncated batches."""
    count = 2_000
    parts = [room.batch(range(i * 10, i * 10 + 10)) for i in range(count)]
    assert len(b"".join(parts)) > 2 << 20
    observer = Observer()

    write(room, *parts, b"torn").recover(observer)

    assert observer.seen == [(i * 10, i * 10 + 9) for i in range(count)]


def test_aborted_transactions_are_added_to_their_index(room: Room) -> None:
    """They are those that the observer reports.

    Scenario: LogSegmentTest.testRecoverTransactionIndex
    """
    aborted = AbortedTxn(0, 7, 0, 1, 2)
    marker: MarkerFields = {
        "producer_id": 7,
        "producer_epoch": 0,
        "coordinator_epoch": 0,
        "is_commit": False,
    }
    parts = [room.batch([0]), build_marker(**marker, base_offset=1, timestamp=5)]
    segment = write(room, *parts)

    segment.recover(Observer([aborted]))

    assert segment.txn_index.all_aborted() == [aborted]


@pytest.mark.parametrize("kind", [CorruptMessage, InvalidRecord])
def test_recovery_ends_after_a_batch_that_the_observer_cannot_read(
    room: Room, kind: type[CorruptMessage | InvalidRecord]
) -> None:
    """As in Kafka the batch is kept, since it was counted before the observer received it."""

    class Refusing(Observer):
        def observe(
            self,
            batches: BatchColumns,
            data: NDArray[np.uint8],
            aborted: Callable[[AbortedTxn], object],
        ) -> None:
            super().observe(batches, data, aborted)
            raise kind("no marker", int(batches.position[1]))

    parts = [room.batch([i], [9 - i]) for i in range(4)]
    segment = write(room, *parts)
    txn = AbortedTxn(0, 7, 0, 0, 1)

    cut = segment.recover(Refusing([txn]))

    assert cut == len(parts[2] + parts[3])
    assert segment.read_next_offset() == 2
    assert segment.largest_so_far() == (9, 0)
    assert segment.txn_index.all_aborted() == [txn]


def test_an_error_without_a_position_is_raised(room: Room) -> None:
    """It does not concern a batch, so nothing is truncated and no file changes."""

    class Failing(Observer):
        def observe(
            self,
            batches: BatchColumns,
            data: NDArray[np.uint8],
            aborted: Callable[[AbortedTxn], object],
        ) -> None:
            super().observe(batches, data, aborted)
            raise InvalidRecord("somewhere")

    segment = write(room, room.batch([0]), b"torn")
    before = files(room)

    with pytest.raises(InvalidRecord):
        segment.recover(Failing())

    assert files(room) == before


def test_offsets_that_fall_between_two_pieces_contradict_each_other(room: Room) -> None:
    """The last batch of the one before counts, and not its first."""
    # A piece has three of them or four.
    for lower in (3, 4):
        offsets = [5 * at - 8 * (at == lower) for at in range(7)]
        parts = [large_batch(offset, 5000) for offset in offsets]
        segment = write(room, *parts)

        found = treated(segment).treatment

        assert found is not None
        assert found.contradiction.damaged[-1] == lower * len(parts[0])


def test_a_piece_of_which_nothing_is_kept_is_passed(room: Room) -> None:
    """Its bytes stay, and the batches after it are indexed."""
    # The first one is as large as a piece.
    parts = [large_batch(700, 17 << 10), *(large_batch(offset, 1) for offset in (1, 2, 3))]
    segment = write(room, *parts)
    observer = Observer()

    assert segment.recover(observer, None, treated(segment, keeps=True)) == 0
    assert observer.seen == [(1, 1), (2, 2), (3, 3)]
    assert segment.read_next_offset() == 4


def test_an_entry_comes_no_earlier_for_bytes_that_are_left_out(room: Room) -> None:
    """It is where it would be if the batch were sound."""
    parts = [room.batch([i]) for i in (0, 1, 700, 3, 4, 5, 6, 7)]
    segment = write(room, *parts, index_interval_bytes=4 * len(parts[0]) - 1)

    segment.recover(None, None, treated(segment, keeps=True))

    entries = offset_entries(segment.offset_index)
    assert entries == [(4, 4 * len(parts[0]))]


def test_nothing_is_observed_after_what_the_observer_refuses(room: Room) -> None:
    """However much of the file is left."""
    calls = 0

    class Refusing(Observer):
        def observe(
            self,
            batches: BatchColumns,
            data: NDArray[np.uint8],  # noqa: ARG002 - an override
            aborted: Callable[[AbortedTxn], object],  # noqa: ARG002 - an override
        ) -> None:
            nonlocal calls
            calls += 1
            raise CorruptMessage("no marker", int(batches.position[0]))

    segment = write(room, *(large_batch(offset, 5000) for offset in range(7)))

    segment.recover(Refusing())

    assert (calls, segment.read_next_offset()) == (1, 1)


@pytest.mark.parametrize(
    ("offsets", "first_far"),
    [
        ([], None),
        ([10, 11], None),
        ([10, 10 + INT32_MAX], None),
        ([10, 11 + INT32_MAX], 11 + INT32_MAX),
        ([10, 2**40, 2**41], 2**40),
    ],
)
def test_a_look_finds_the_first_offset_that_does_not_fit_and_the_end(
    room: Room, offsets: list[int], first_far: int | None
) -> None:
    """An index holds int32s above the base offset."""
    parts = [room.batch([offset]) for offset in offsets]
    segment = write(room, *parts, base_offset=10)

    looked = look_through(segment.view(), USUAL_CHECK)

    assert looked == Looked(None, first_far, len(b"".join(parts)))
