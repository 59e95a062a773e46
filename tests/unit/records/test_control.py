"""Control records: transaction markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.codec.compression import Codec
from tidelog.errors import CorruptMessage, InvalidArgument, InvalidRecord
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, empty_batch, pack_batch
from tidelog.records.control import (
    ControlType,
    EndTxnMarker,
    build_marker,
    control_type,
    first_record,
    parse_marker,
    read_marker,
)

if TYPE_CHECKING:
    from collections.abc import Callable

COMMIT = build_marker(
    producer_id=42,
    producer_epoch=1,
    coordinator_epoch=9,
    is_commit=True,
    timestamp=1000,
    base_offset=7,
    leader_epoch=3,
)
GOLDEN = bytes.fromhex(
    "0000000000000007 00000042 00000003 02 74452339 0030 00000000 00000000000003e8"
    "00000000000003e8 000000000000002a 0001 ffffffff 00000001 20000000080000"
    "00010c00000000000900"
)


def test_a_marker_is_kafkas_to_the_byte() -> None:
    """The golden vector: 78 bytes."""
    assert COMMIT == GOLDEN


def test_a_marker_reads_as_it_was_written() -> None:
    """Timestamp, type and coordinator epoch are restored from any position in a buffer."""
    assert read_marker(b"xxx" + COMMIT, 3) == (1000, EndTxnMarker(True, 9))


def test_a_marker_is_read_whatever_follows_it() -> None:
    """As in Kafka, only the first record is read, so a batch that states two has a marker too."""
    header = BATCH_HEADER.unpack(COMMIT)._replace(records_count=2)

    assert read_marker(pack_batch(header, COMMIT[BATCH_HEADER.size :]), 0) == (
        1000,
        EndTxnMarker(True, 9),
    )


def outcome(read: Callable[[bytes, int], object], data: bytes) -> object:
    """Return what a marker reads as, or its error."""
    try:
        return read(data, 0)
    except (InvalidArgument, InvalidRecord, CorruptMessage) as error:
        return type(error), str(error)


def read_as_any_batch(data: bytes, position: int) -> tuple[int, EndTxnMarker]:
    """Return a marker by the way that reads any batch."""
    record = first_record(data, position)
    if record is None:
        raise InvalidRecord("a control batch has no record", position)
    return record.timestamp, parse_marker(record.key, record.value)


def test_a_marker_of_the_usual_bytes_reads_as_any_batch() -> None:
    """With each bit flipped, cut at each byte, and with something behind it."""
    cases = [COMMIT, COMMIT + COMMIT, *(COMMIT[:end] for end in range(len(COMMIT)))]
    for bit in range(8 * len(COMMIT)):
        flipped = bytearray(COMMIT)
        flipped[bit // 8] ^= 1 << bit % 8
        cases += [bytes(flipped), bytes(flipped) + COMMIT]

    found = [outcome(read_marker, data) for data in cases]
    assert found == [outcome(read_as_any_batch, data) for data in cases]


def test_a_compressed_marker_is_read_too() -> None:
    """Brokers write markers uncompressed, but a compressed one means the same."""
    value = [(5, b"\0\0\0\0", b"\0\0\0\0\0\x02", ())]
    data = build_batch(
        value, codec=Codec.LZ4, producer_id=1, producer_epoch=0, transactional=True, control=True
    )

    assert read_marker(data, 0) == (5, EndTxnMarker(False, 2))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("0000 0000", ControlType.ABORT),
        ("0000 0001", ControlType.COMMIT),
        ("0000 0006", ControlType.KRAFT_VOTERS),
        ("0000 0007", ControlType.UNKNOWN),
        ("0000 ffff", ControlType.UNKNOWN),
        ("0005 0001 99", ControlType.COMMIT),
    ],
)
def test_the_key_names_the_type(key: str, expected: ControlType) -> None:
    """Unknown types, later versions and longer keys are not errors."""
    assert control_type(bytes.fromhex(key)) is expected


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_bad_key_is_invalid(key: bytes | None) -> None:
    """A key shorter than four bytes or of a negative version is invalid."""
    with pytest.raises(InvalidRecord):
        control_type(key)


def test_a_later_value_is_read_as_the_first_version() -> None:
    """Versions above 0 and bytes after the epoch are ignored."""
    assert parse_marker(b"\0\0\0\1", b"\0\7\0\0\0\5rest") == EndTxnMarker(True, 5)


def test_a_negative_version_of_the_value_is_invalid() -> None:
    """A value of a negative version is invalid."""
    with pytest.raises(InvalidRecord):
        parse_marker(b"\0\0\0\1", b"\xff\xff\0\0\0\5")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\2", b"\0" * 6),
        (b"\0\0\0c", b""),
    ],
)
def test_another_control_record_is_not_damage(key: bytes, value: bytes | None) -> None:
    """A short value or another type is InvalidArgument: Kafka does not start on such a log."""
    with pytest.raises(InvalidArgument):
        parse_marker(key, value)


@pytest.mark.parametrize("data", [empty_batch(BATCH_HEADER.unpack(COMMIT)), COMMIT[:-1]])
def test_a_batch_without_a_record_has_no_marker(data: bytes) -> None:
    """An emptied or truncated batch is an error."""
    with pytest.raises(InvalidRecord):
        read_marker(data, 0)
