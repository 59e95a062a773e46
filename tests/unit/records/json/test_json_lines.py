"""Many records written as lines of JSON."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.kernels.json import json_text
from tidelog.records.batch import TimestampType
from tidelog.records.builder import build_batch
from tidelog.records.decoding.record_columns import RecordColumns, decode
from tidelog.records.json import json_lines
from tidelog.records.json.json_lines import JsonLines
from tidelog.records.json.json_record import TEXT_ENCODINGS, Encoding, record_as_json
from tidelog.records.memory import walk

RECORDS = [
    (1_700_000_000_000, b"k", b'say "hi"\\\n\x00\x7f', (("h", b"1"), ("", None))),
    (-1, None, None, ()),
    (5, b"", "é☃😀".encode() * 20, ()),
]

pytestmark = pytest.mark.usefixtures("engine")


def columns_of(data: bytes) -> RecordColumns:
    return decode(data, walk(data).batches)


def lines(columns: RecordColumns, encoding: Encoding = Encoding.UTF8) -> str:
    pieces = JsonLines("a.b_c-0", 12, encoding).pieces(columns)
    return b"".join(bytes(piece) for piece in pieces).decode()


def one_by_one(columns: RecordColumns, encoding: Encoding = Encoding.UTF8) -> str:
    found = [record_as_json("a.b_c-0", 12, record, encoding) for record in columns.records()]
    return "".join(f"{line}\n" for line in found)


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_lines_are_those_of_the_one_json_form(encoding: Encoding, codec: Codec) -> None:
    """In every encoding, for plain and compressed batches, with and without a leader epoch."""
    data = build_batch(RECORDS, codec=codec, base_offset=50, leader_epoch=2)
    data += build_batch(RECORDS, codec=codec, base_offset=53)

    columns = columns_of(data)

    assert lines(columns, encoding) == one_by_one(columns, encoding)
    assert lines(columns, encoding).count("\n") == 6


def test_each_timestamp_type_has_its_name() -> None:
    """CreateTime, LogAppendTime, and NoTimestampType for magic 0."""
    old = [(5, b"k", b"v")]
    data = build_old(0, old) + build_old(1, old)
    kind = TimestampType.LOG_APPEND_TIME
    data += build_batch(RECORDS, timestamp_type=kind, max_timestamp=9)

    columns = columns_of(data)

    assert lines(columns) == one_by_one(columns)
    names = ("NoTimestampType", "CreateTime", "LogAppendTime")
    assert [lines(columns).count(f'"{name}"') for name in names] == [1, 1, 3]


@pytest.mark.parametrize("encoding", Encoding)
def test_what_is_not_text_is_marked_and_the_rest_follows(encoding: Encoding) -> None:
    """Wherever it stands, however much of it there is, and whatever its neighbours are."""
    bad = (1, b"\xff", b"v", (("h", b"\xfe"), ("n", None)))
    mixed = [*RECORDS, bad, *RECORDS, *[bad] * 9, RECORDS[0], (1, b"k", b"\xff", ()), RECORDS[1]]
    columns = columns_of(build_batch(mixed))

    assert lines(columns, encoding) == one_by_one(columns, encoding)
    assert lines(columns, encoding).count("\n") == len(mixed)


def test_an_invalid_header_name_is_written_as_in_java() -> None:
    """Invalid bytes become U+FFFD, and the records after it are written too."""
    data = build_batch([(1, None, None, (("naïve", b"1"),)), (2, None, None, ())])
    data = data.replace("naïve".encode(), b"na\xff\xfeve")
    columns = columns_of(data)

    assert lines(columns) == one_by_one(columns)
    assert "na\ufffd\ufffdve" in lines(columns)


def test_a_record_larger_than_the_buffer_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is written however long its text is, and so are its neighbours."""
    monkeypatch.setattr(json_lines, "OUT_BYTES", 3_000)
    large = [(1, None, b"\x01" * size, ()) for size in (1, 700, 1, 400, 2_000, 1)]
    columns = columns_of(build_batch(large))

    assert lines(columns) == one_by_one(columns)


def test_the_kernel_knows_the_encodings_by_their_order() -> None:
    """The kernel's numbers are the order of ``TEXT_ENCODINGS``, from 0."""
    numbers = {"utf8": json_text.UTF8, "base64": json_text.BASE64, "hex": json_text.HEX}

    assert {name.value: number for number, name in enumerate(TEXT_ENCODINGS)} == numbers


def test_no_records_give_no_lines() -> None:
    """No records give no piece and no error."""
    columns = columns_of(build_batch(RECORDS)).select(np.zeros(3, np.bool_))

    assert list(JsonLines("t", 0, Encoding.UTF8).pieces(columns)) == []
