"""A record as JSON: the one form that every command prints and reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.codec.json_value import json_text, pack_json
from tidelog.errors import InvalidArgument
from tidelog.records.batch import TimestampType
from tidelog.records.json.json_record import (
    Encoding,
    bytes_from_text,
    has_members_of_a_record,
    record_as_json,
    record_from_json,
)
from tidelog.records.new_record import NewRecord
from tidelog.records.record import Record

if TYPE_CHECKING:
    from tidelog.records.record import Header

MEMBERS = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value"]


def make(
    key: bytes | None = b"k", value: bytes | None = b"v", headers: tuple[Header, ...] = ()
) -> Record:
    """Return a record at offset 7."""
    return Record(7, 5, TimestampType.CREATE_TIME, key, value, headers, 3, -1)


def test_the_members_stand_in_one_order() -> None:
    """The members have the documented order, in every command."""
    line = record_as_json("t", 2, make(headers=(("h", b"x"), ("n", None))), Encoding.UTF8)

    assert line == (
        '{"topic": "t", "partition": 2, "offset": 7, "timestamp": 5, "timestampType": "CreateTime",'
        ' "key": "k", "value": "v", "headers": [["h", "x"], ["n", null]], "leaderEpoch": 3}'
    )
    assert [*MEMBERS, "headers", "leaderEpoch"] == list(json.loads(line))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TimestampType.CREATE_TIME, "CreateTime"),
        (TimestampType.LOG_APPEND_TIME, "LogAppendTime"),
        (TimestampType.NO_TIMESTAMP_TYPE, "NoTimestampType"),
    ],
)
def test_timestamp_types_have_kafkas_names(kind: TimestampType, name: str) -> None:
    """Timestamp types are printed as Kafka's names, not as numbers."""
    line = record_as_json("t", 0, make()._replace(timestamp_type=kind), Encoding.UTF8)

    assert name == json.loads(line)["timestampType"]


def test_null_and_empty_text_are_distinct() -> None:
    """A null key, value or leader epoch stays null; an empty one stays empty."""
    found = json.loads(
        record_as_json("t", 0, make(None, b"")._replace(leader_epoch=None), Encoding.BASE64)
    )

    assert (found["key"], found["value"], found["leaderEpoch"]) == (None, "", None)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        (Encoding.UTF8, "ü\n\0☃"),
        (Encoding.BASE64, "w7wKAOKYgw=="),
        (Encoding.HEX, "c3bc0a00e29883"),
    ],
)
def test_bytes_are_text_in_the_chosen_encoding(encoding: Encoding, text: str) -> None:
    """A record is one line, whatever line breaks it contains."""
    line = record_as_json("t", 0, make(value="ü\n\0☃".encode()), encoding)

    assert "\n" not in line
    assert text == json.loads(line)["value"]


def test_what_is_not_utf8_is_base64_and_says_so() -> None:
    """Part by part: no byte is altered, and text stays text."""
    record = make(b"k", b"\x00\xff", (("a", b"ok"), ("b", b"\xc3"), ("n", None)))

    line = record_as_json("t", 0, record, Encoding.UTF8)

    found = json.loads(line)
    assert (found["key"], found["value"], found["valueEncoding"]) == ("k", "AP8=", "base64")
    assert "keyEncoding" not in found
    assert found["headers"] == [["a", "ok"], ["b", "ww==", "base64"], ["n", None]]
    assert list(found)[-1] == "valueEncoding"


def test_a_row_in_a_chosen_encoding_says_which() -> None:
    """So that it is read again as what it is, whatever the reader assumes."""
    record = make(None, b"v", (("a", b"ok"), ("n", None)))

    found = json.loads(record_as_json("t", 0, record, Encoding.HEX))

    assert (found["keyEncoding"], found["valueEncoding"]) == ("hex", "hex")
    assert found["headers"] == [["a", "6f6b", "hex"], ["n", None]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{}", NewRecord(None, None)),
        ('{"value": null}', NewRecord(None, None)),
        ('{"key": "", "value": "ü\\n"}', NewRecord(b"", "ü\n".encode())),
        ('{"value":"a","timestamp":-1,"partition":0}', NewRecord(None, b"a", (), -1, 0)),
        ('{"timestamp":9223372036854775807}', NewRecord(None, None, (), 2**63 - 1)),
        ('{"headers":[["h","x"],["h",null]]}', NewRecord(None, None, (("h", b"x"), ("h", None)))),
        ('{"headers":[["",""]]}', NewRecord(None, None, (("", b""),))),
        ('{"value": "AP8=", "valueEncoding": "base64"}', NewRecord(None, b"\0\xff")),
        ('{"key": "00ff", "keyEncoding": "hex", "value": "a"}', NewRecord(b"\0\xff", b"a")),
        (
            '{"value": {"ü": [1, 2.5]}, "valueEncoding": "json"}',
            NewRecord(None, '{"ü":[1,2.5]}'.encode()),
        ),
        ('{"value": "a", "valueEncoding": "json"}', NewRecord(None, b'"a"')),
        ('{"value": "null"}', NewRecord(None, b"null")),
        ('{"value": null, "valueEncoding": "json"}', NewRecord(None, None)),
        ('{"value": "a", "valueEncoding": null}', NewRecord(None, b"a")),
        ('{"headers":[["h","ww==","base64"]]}', NewRecord(None, None, (("h", b"\xc3"),))),
        ('{"timestamp": "1970-01-01T00:00:01"}', NewRecord(None, None, (), 1000)),
        ('{"headers":null,"timestamp":null,"partition":null}', NewRecord(None, None)),
        (' {"value" : "a"} \r\n', NewRecord(None, b"a")),
    ],
)
def test_a_line_is_a_record_to_append(line: str, expected: NewRecord) -> None:
    """Every member may be omitted."""
    assert expected == record_from_json(line, Encoding.UTF8)
    assert expected == record_from_json(line.encode(), Encoding.UTF8)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "not JSON"),
        ("hello", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"offsets": 1, "value": "a"}', "unknown member offsets; a record has key, value,"),
        ('{"value": 5}', "value is not a string or null"),
        ('{"key": {"a": 1}}', "key is not a string or null"),
        ('{"value": "\\ud800"}', "value is not valid utf8"),
        ('{"timestamp": "noon"}', "noon: not a valid time"),
        ('{"timestamp": "1h"}', "1h: use a number or a date here"),
        ('{"timestamp": "-5"}', "timestamp -5 is not an integer"),
        ('{"valueEncoding": "rot13"}', "encoding 'rot13' is not one of utf8, base64, hex"),
        ('{"value": "ü", "valueEncoding": "hex"}', "the value is not valid hex"),
        ('{"keyEncoding": "json"}', "encoding 'json' is not one of utf8, base64, hex"),
        ('{"headers": [["a", "b", "json"]]}', "encoding 'json' is not one of utf8, base64, hex"),
        ('{"value": NaN, "valueEncoding": "json"}', "the value cannot be written as JSON"),
        ('{"value": [1e999], "valueEncoding": "json"}', "the value cannot be written as JSON"),
        ('{"value": ["\\ud800"], "valueEncoding": "json"}', "the value cannot be written as JSON"),
        ('{"headers": [["a", "b", 1]]}', "encoding 1 is not one of"),
        ('{"headers": [["a", "b", "hex", "c"]]}', "a header is not a list of name and value"),
        ('{"timestamp": 1.5}', "timestamp 1.5 is not an integer"),
        ('{"timestamp": true}', "timestamp True is not an integer"),
        ('{"timestamp": -2}', "timestamp -2 is not an integer"),
        ('{"timestamp": 9223372036854775808}', "timestamp 9223372036854775808 is not an integer"),
        ('{"partition": -1}', "partition -1 is not an integer"),
        ('{"partition": 2147483648}', "partition 2147483648 is not an integer"),
        ('{"headers": {}}', "headers is not a list"),
        ('{"headers": [["a"]]}', "a header is not a list of name and value"),
        ('{"headers": [[null, "a"]]}', "a header is not a list of name and value"),
        ('{"headers": [["a", 1]]}', "header 'a' is not a string or null"),
        ('{"headers": [["\\udfff", null]]}', "name of a header is not valid utf8"),
    ],
)
def test_an_invalid_line_is_rejected_with_the_reason(line: str | bytes, why: str) -> None:
    """Nothing is guessed: numbers are not strings, and unknown members are errors."""
    with pytest.raises(InvalidArgument, match=why):
        record_from_json(line, Encoding.UTF8)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("a", Encoding.BASE64), ("YQ==\n", Encoding.BASE64), ("ü", Encoding.BASE64),
     ("abc", Encoding.HEX), ("zz", Encoding.HEX)],
)  # fmt: skip
def test_text_that_is_not_so_encoded_is_refused(text: str, encoding: Encoding) -> None:
    """Decoding is strict, so that what is read is what was meant."""
    with pytest.raises(InvalidArgument, match=f"the value is not valid {encoding}"):
        bytes_from_text(text, encoding, "value")


@given(
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=20) | st.sampled_from([b"[1, 2]", b" null", b"1e999"]),
    headers=st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), st.none() | st.binary()),
        max_size=3,
    ),
    encoding=st.sampled_from(Encoding),
)
def test_what_is_printed_can_be_appended(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    encoding: Encoding,
) -> None:
    """Whatever the bytes are and however they were printed, a reader need not know how."""
    line = record_as_json("t", 4, make(key, value, tuple(headers)), encoding)

    text = json_text(value) if encoding is Encoding.JSON else None
    expected = value if text is None else pack_json(json.loads(text))
    # Keys and headers that are plain text have no encoding in their line.
    for assumed in Encoding:
        is_said = encoding in {Encoding.BASE64, Encoding.HEX}
        read = record_from_json(line, assumed if is_said else encoding)
        assert NewRecord(key, expected, tuple(headers), 5, 4) == read


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"key": "a"}', True),
        ('{"value": 5}', True),
        ("{}", False),
        ('{"value": "a", "user": 1}', False),
        ('"value"', False),
        ('{"value"', False),
        ("", False),
    ],
)
def test_a_record_is_recognized_by_its_members(line: str, *, expected: bool) -> None:
    """An object with only a record's members counts as a record, even if its values are invalid."""
    assert expected is has_members_of_a_record(line)
