"""Batches in a buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.records import memory
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.builder import build_batch
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.fields import SequenceFields


RECORDS = [(1000 + i, b"key", b"value", ()) for i in range(3)]
PRODUCER: SequenceFields = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 2**31 - 2}
FIRST = build_batch(RECORDS, base_offset=100, leader_epoch=4)
SECOND = build_batch(RECORDS, base_offset=103, codec=Codec.ZSTD, transactional=True, **PRODUCER)
BOTH = FIRST + SECOND

pytestmark = pytest.mark.usefixtures("engine")


def flipped(data: bytes, at: int, bits: int = 0xFF) -> bytes:
    changed = bytearray(data)
    changed[at] ^= bits
    return bytes(changed)


@pytest.mark.parametrize(
    "ask",
    [
        len,
        lambda batches: batches.row(0),
        lambda batches: batches.row(-1),
        lambda batches: (batches.first_offset, batches.next_offset),
        lambda batches: (batches.has_transactional(), batches.slice(0, 1).has_transactional()),
        lambda batches: batches.next_position,
        lambda batches: batches.slice(1).row(0),
        lambda batches: len(batches.slice(2)),
        lambda batches: (batches.move(7), batches.row(1))[1],
        lambda batches: batches.header(1),
        lambda batches: batches.shifted(3).row(1),
    ],
)
def test_rows_answer_as_arrays_do(ask: Callable[[BatchColumns], object]) -> None:
    """Plain code finds rows, kernels an array; a question has one answer, however often asked."""
    found = walk(BOTH).batches
    in_rows = BatchColumns.of_rows([found.row(0), found.row(1)])
    in_array = BatchColumns(found.array.copy())

    assert ask(in_array) == ask(in_rows)
    assert in_array.array.tolist() == in_rows.array.tolist()
    assert ask(in_array) == ask(in_rows)


def test_columns_hold_every_field_of_every_header() -> None:
    """A walk returns the header fields of all batches, and their positions."""
    batches = walk(BOTH).batches

    assert [BATCH_HEADER.unpack(FIRST), BATCH_HEADER.unpack(SECOND)] == [
        batches.header(index) for index in range(2)
    ]
    assert batches.position.tolist() == [0, len(FIRST)]
    assert batches.end.tolist() == [len(FIRST), len(BOTH)]
    assert batches.last_offset.tolist() == [102, 105]
    assert batches.last_sequence.tolist() == [-1, 0]
    assert batches.codec.tolist() == [0, 4]
    assert batches.is_transactional.tolist() == [False, True]
    assert batches.is_control.tolist() == [False, False]
    assert batches.has_delete_horizon.tolist() == [False, False]


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_cut_batch_is_a_torn_tail(in_memory: bool) -> None:
    """An incomplete last batch ends the walk without an error, wherever it is cut."""
    for end in range(len(FIRST), len(BOTH)):
        found = walk(BOTH[:end], in_memory=in_memory)

        assert (len(found.batches), found.next_position, found.error) == (1, len(FIRST), None)


def test_an_impossible_length_is_corruption() -> None:
    """A length below 14 is an error at the batch's position."""
    found = walk(FIRST + bytes(12) + bytes(5))

    assert found.error is not None
    assert (found.error.position, found.next_position) == (len(FIRST), len(FIRST))


def test_zeros_shorter_than_a_prefix_are_a_torn_tail_in_files_only() -> None:
    """12 to 17 bytes of zeros are corruption in memory, and a torn tail in a file."""
    zeros = bytes(13)

    assert walk(zeros).error is not None
    assert walk(zeros, in_memory=False).error is None


@pytest.mark.parametrize("magic", [3, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("in_memory", [True, False])
def test_an_unknown_magic_is_corruption(magic: int, in_memory: bool) -> None:
    """Magics other than 0, 1 and 2 are an error."""
    bad = bytearray(SECOND)
    bad[16] = magic

    found = walk(FIRST + bytes(bad), in_memory=in_memory)

    assert found.error is not None
    assert len(found.batches) == 1


def test_the_magic_of_a_cut_batch_matters_in_memory_only() -> None:
    """In a file an incomplete batch is torn, whatever its magic."""
    bad = flipped(SECOND, 16)[:-1]

    assert walk(bad).error is not None
    assert walk(bad, in_memory=False).error is None


def test_a_batch_too_short_for_its_header_is_corruption() -> None:
    """A batch of magic 2 has at least 61 bytes."""
    bad = bytearray(FIRST)
    bad[8:12] = (48).to_bytes(4, "big")

    assert walk(bytes(bad)).error is not None


def test_a_wrong_crc_is_found_if_asked_for() -> None:
    """With ``check_crc`` the walk stops at a batch whose CRC does not match."""
    bad = flipped(BOTH, len(BOTH) - 1)

    assert walk(bad).error is None
    found = walk(bad, check_crc=True)
    assert found.error is not None
    assert (found.error.position, len(found.batches)) == (len(FIRST), 1)


def test_the_crc_leaves_out_offset_and_epoch() -> None:
    """Base offset and leader epoch may change without a new CRC."""
    changed = bytearray(FIRST)
    changed[0:8] = (77).to_bytes(8, "big")
    changed[12:16] = (5).to_bytes(4, "big")

    assert walk(bytes(changed), check_crc=True).error is None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_batches_stand_in_the_same_columns(magic: int, codec: Codec) -> None:
    """A batch of magic 0 or 1 has last offset, timestamp and count where they are known."""
    old = build_old(magic, [(5, b"k", b"v"), (7, None, b"")], base_offset=20, codec=codec)

    found = walk(FIRST + old + SECOND, check_crc=True)

    assert found.error is None
    batches = found.batches.select(found.batches.magic < 2)
    is_wrapped = codec is Codec.GZIP
    assert batches.last_offset.tolist() == ([21] if is_wrapped else [20, 21])
    assert batches.base_offset.tolist() == batches.last_offset.tolist()
    assert batches.records_count.tolist() == ([-1] if is_wrapped else [1, 1])
    times = [-1, -1] if magic == 0 else [5, 7]
    assert batches.max_timestamp.tolist() == (times[1:] if is_wrapped else times)
    assert set(batches.leader_epoch.tolist() + batches.producer_id.tolist()) == {-1}
    assert batches.codec.tolist() == ([1] if is_wrapped else [0, 0])


def test_a_wrong_crc_of_an_old_batch_is_found() -> None:
    """The CRC-32 of magic 0 and 1 is checked."""
    old = build_old(1, [(5, b"k", b"v")])

    assert walk(flipped(old, len(old) - 1), check_crc=True).error is not None


def test_many_batches_are_walked_in_one_go() -> None:
    """More batches than estimated at first are found, in order."""
    found = walk(FIRST * 3000, check_crc=True)

    assert (len(found.batches), found.next_position) == (3000, 3000 * len(FIRST))
    assert (np.diff(found.batches.position) == len(FIRST)).all()


def test_a_walk_begins_and_ends_at_the_given_positions() -> None:
    """Positions are relative to the buffer, whichever part of it is walked."""
    found = walk(b"xxx" + BOTH + b"yyy", 3, 3 + len(FIRST))

    assert (found.batches.position.tolist(), found.next_position) == ([3], 3 + len(FIRST))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_walked(kind: type) -> None:
    """Any bytes-like object is accepted, arrays too."""
    expected = walk(BOTH).batches.array

    assert np.array_equal(expected, walk(kind(BOTH)).batches.array)
    assert np.array_equal(expected, walk(np.frombuffer(BOTH, np.uint8)).batches.array)


def test_an_empty_buffer_has_no_batches() -> None:
    """An empty buffer has no batches and no error."""
    assert walk(b"")[1:] == (0, None)
    assert len(BatchColumns.joined([])) == 0


def test_columns_are_cut_chosen_and_moved() -> None:
    """Slices and selections keep all fields of a batch; a shift changes positions only."""
    batches = walk(BOTH).batches

    assert batches.slice(1).base_offset.tolist() == [103]
    assert batches.select(batches.codec == 0).base_offset.tolist() == [100]
    assert batches.shifted(1000).position.tolist() == [1000, 1000 + len(FIRST)]
    assert BatchColumns.joined([batches, batches]).base_offset.tolist() == [100, 103, 100, 103]


@pytest.mark.parametrize("check_crc", [False, True])
def test_kernels_are_loaded_for_many_batches_not_for_many_bytes(
    monkeypatch: pytest.MonkeyPatch, check_crc: bool
) -> None:
    """A plain walk reads headers and at most computes CRCs, for batches of any size."""
    work: list[int] = []

    def use_kernels(work_bytes: int) -> bool:
        work.append(work_bytes)
        return False

    monkeypatch.setattr(memory, "use_kernels", use_kernels)
    large = build_batch([(1, None, bytes(16_000), ())])

    assert len(walk(large * 1000, check_crc=check_crc).batches) == 1000
    assert len(walk(FIRST * 1000, check_crc=check_crc).batches) == 1000
    assert 0 < work[1] <= work[0] < 100_000


@pytest.mark.parametrize("data", [b"", b"short", bytes(11), b"\xff" * 12])
def test_a_walk_over_what_has_no_length_finds_nothing(data: bytes) -> None:
    """Where a batch's length would be, there are no or odd bytes."""
    assert len(walk(data, in_memory=False).batches) == 0
