"""Dumps of ``.log`` files. They are compared with Kafka's own dumps in tests/golden."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis.strategies import lists
from tests.machinery.directory_home import DataHome, record
from tests.machinery.strategies import records

from tidelog.cli.terminal import json_line, print_lines, printable_json
from tidelog.codec.compression import Codec
from tidelog.errors import CorruptMessage
from tidelog.explain.dump_log import dump_log
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.json.json_record import Encoding

if TYPE_CHECKING:
    from tidelog.explain.dump_log import Text
    from tidelog.records.builder import RecordFields

    Row = dict[str, Any]

PATH = f"/data/t-0/{0:020d}.log"
FIRST = build_batch([(5, b"k", b"v", [("h", b"x")]), (9, None, None, [])], leader_epoch=3)
SECOND = build_batch([record(b"w")], base_offset=2, codec=Codec.LZ4)


def dump(data: bytes, **how: Any) -> list[Row]:
    """Dump a segment of these bytes."""
    home = DataHome()
    home.write(PATH.removeprefix("/data/"), data)
    return [as_row(row) for row in dump_log(home.fs, PATH, **how)]


def as_row(row: Row | Text) -> Row:
    """Return a row, also of its JSON."""
    if isinstance(row, dict):
        return row
    parsed: Row = json.loads("".join(row))
    return parsed


def test_a_row_is_a_batch_header() -> None:
    """It has the position in the file, whether the CRC matches, and Kafka's field names."""
    assert dump(FIRST + SECOND)[0] == {
        "position": 0,
        "size": len(FIRST),
        "baseOffset": 0,
        "lastOffset": 1,
        "count": 2,
        "magic": 2,
        "compression": "none",
        "timestampType": "CreateTime",
        "maxTimestamp": 9,
        "producerId": -1,
        "producerEpoch": -1,
        "baseSequence": -1,
        "lastSequence": -1,
        "leaderEpoch": 3,
        "transactional": False,
        "control": False,
        "controlType": None,
        "deleteHorizonMs": None,
        "crc": BATCH_HEADER.unpack(FIRST).crc,
        "valid": True,
    }


def test_records_follow_their_batch() -> None:
    """They are yielded on request, with sizes (-1: null) and contents."""
    rows = dump(FIRST + SECOND, records=True)

    assert ["position" in row for row in rows] == [True, False, False, True, False]
    assert rows[1] == {
        "offset": 0,
        "timestamp": 5,
        "timestampType": "CreateTime",
        "keySize": 1,
        "valueSize": 1,
        "sequence": -1,
        "key": "k",
        "value": "v",
        "headers": [["h", "x"]],
    }
    assert tuple(rows[2][name] for name in ("keySize", "valueSize", "key", "value")) == (
        -1,
        -1,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("start", "end", "positions"),
    [(0, None, [0, 1]), (1, None, [0, 1]), (2, None, [1]), (0, 2, [0]), (3, None, []), (0, 0, [])],
)
def test_a_range_chooses_batches(start: int, end: int | None, positions: list[int]) -> None:
    """Each batch with an offset in the range is shown whole."""
    rows = dump(FIRST + SECOND, start_offset=start, end_offset=end)

    assert [[0, len(FIRST)][number] for number in positions] == [row["position"] for row in rows]


def test_a_batch_with_a_wrong_checksum_is_shown_as_invalid() -> None:
    """Its header is shown, its records are not; the batches after it are shown."""
    bad = FIRST[:-1] + b"\1"

    rows = dump(bad + SECOND, records=True)

    assert [row["valid"] for row in rows if "valid" in row] == [False, True]
    assert [row["value"] for row in rows if "value" in row] == ["w"]


def test_a_batch_that_cannot_be_decoded_has_an_error() -> None:
    """It is in the batch's row if records are requested, although the CRC matches."""
    bad = pack_batch(BATCH_HEADER.unpack(SECOND), b"this is no LZ4")

    rows = dump(bad + SECOND, records=True)

    assert [row["valid"] for row in rows if "valid" in row] == [True, True]
    assert ["error" in row for row in rows] == [True, False, False]


@pytest.mark.parametrize("tail", [b"\0" * 100, FIRST[:30], b"\xff" * 100])
def test_bytes_that_are_not_a_batch_are_an_error_after_the_rows_before(tail: bytes) -> None:
    """The error has the path and the position."""
    home = DataHome()
    home.write(PATH.removeprefix("/data/"), FIRST + tail)
    rows = dump_log(home.fs, PATH)

    assert as_row(next(rows))["position"] == 0
    with pytest.raises(CorruptMessage) as caught:
        list(rows)
    assert (len(FIRST), PATH) == (caught.value.position, caught.value.path)


def test_bytes_that_are_not_text_are_marked() -> None:
    """As in every command: base64 unless another encoding is chosen, and the row says which."""
    data = build_batch([record(b"\xff")])

    found = [dump(data, records=True, encoding=encoding)[1] for encoding in Encoding]

    assert [(row["value"], row["valueEncoding"]) for row in found] == [
        ("/w==", "base64"),
        ("/w==", "base64"),
        ("ff", "hex"),
        ("/w==", "base64"),
    ]


def test_an_unknown_codec_is_named_by_its_number() -> None:
    """A header with an unknown codec is shown."""
    header = BATCH_HEADER.unpack(FIRST)._replace(attributes=6)

    assert dump(pack_batch(header, FIRST[61:]))[0]["compression"] == "unknown (6)"


def test_a_control_batch_shows_its_type() -> None:
    """The batch has the number in its key, and the record the name."""
    key = b"\0\0" + b"\0\1"
    value = b"\0\0" + b"\0\0\0\7"
    marker = build_batch(
        [(5, key, value, [])], control=True, transactional=True, producer_id=9, producer_epoch=0
    )

    rows = dump(marker, records=True)

    assert (rows[0]["control"], rows[0]["controlType"]) == (True, 1)
    assert (rows[1]["controlType"], rows[1]["coordinatorEpoch"]) == ("COMMIT", 7)
    assert dump(marker)[0]["controlType"] == 1


@given(lists(records(), min_size=1, max_size=5))
def test_a_record_as_text_is_its_row(content: list[RecordFields]) -> None:
    """The command prints the same, whether a record is written by the template or not."""
    data = build_batch(content)
    rows = dump(data, records=True)
    home = DataHome()
    home.write(PATH.removeprefix("/data/"), data)
    found = list(dump_log(home.fs, PATH, records=True, as_text=True))

    texts = [row if isinstance(row, str) else json_line(row) for row in found]

    assert [printable_json(text) for text in texts] == [json_line(row) for row in rows]
    assert any(isinstance(row, str) for row in found) == any(is_plain(one) for one in content)


@pytest.mark.parametrize("value", [b"\0", "\u4e2d".encode(), b"\xff"])
def test_a_large_value_is_printed_in_pieces(
    value: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its line, of which an escape may have six signs for a byte, is never there as a whole."""
    data = build_batch([(5, b"k", value * (3 << 20), [])])
    home = DataHome()
    home.write(PATH.removeprefix("/data/"), data)
    batch, record = dump_log(home.fs, PATH, records=True, as_text=True)
    rows = (batch, record)
    print_lines(
        json_line(row) if isinstance(row, dict) else map(printable_json, row) for row in rows
    )

    assert not isinstance(record, str)
    assert isinstance(record, dict) == (value == b"\xff")
    assert capsys.readouterr().out.splitlines() == list(map(json_line, dump(data, records=True)))


def is_plain(content: RecordFields) -> bool:
    """Return whether a record has no headers, and is text."""
    _, key, value, headers = content
    try:
        return not headers and bool((key or b"").decode() + (value or b"").decode() + "x")
    except UnicodeDecodeError:
        return False
