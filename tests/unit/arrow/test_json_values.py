"""JSON values of records as columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.arrow import json_schema, parse_json
from tidelog.errors import InvalidArgument

SCHEMA = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.list_(pa.float64())})


def table(*values: bytes | None) -> pa.Table:
    """Return rows with these values, numbered."""
    numbers = pa.array(range(len(values)), pa.int64())
    return pa.table({"offset": numbers, "value": pa.array(values, pa.binary())})


def test_members_become_columns_after_the_others() -> None:
    """Those that a row lacks are null; those that the schema lacks are left out."""
    rows = table(b'{"a": 1, "x": {}}', b'{"c": [1, 2.5], "b": "text"}', b"{}")

    parsed = parse_json(rows, SCHEMA)

    assert parsed.rows.schema == pa.schema([pa.field("offset", pa.int64()), *SCHEMA])
    assert parsed.rows.to_pylist() == [
        {"offset": 0, "a": 1, "b": None, "c": None},
        {"offset": 1, "a": None, "b": "text", "c": [1.0, 2.5]},
        {"offset": 2, "a": None, "b": None, "c": None},
    ]
    assert parsed.bad.num_rows == 0


def test_a_null_value_is_a_row_of_nulls() -> None:
    """A tombstone says something, too; so does JSON's null."""
    parsed = parse_json(table(None, b"null"), SCHEMA)

    assert parsed.rows.drop_columns("offset").to_pylist() == [dict.fromkeys(SCHEMA.names)] * 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "Invalid value."),
        (b"oops", "Invalid value."),
        (b'{"a": 1', "it ends before the JSON does"),
        (b'{"b": "te', "it ends before the JSON does"),
        (b'{"a": ', "it ends before the JSON does"),
        (b'{"a": {}}', "Column(/a) changed from number to object"),
        (b'{"x": ' * 1_000_000, "it is nested more than 200 levels deep"),
        (b'{"x":' + b"[" * 200 + b"]" * 200 + b"}", "it is nested more than 200 levels deep"),
        (b'{"a": 1}, "x": {"a": 2}', "it is not one JSON object"),
        (b'{"b": "\\\\"} , "x": [2]', "it is not one JSON object"),
        (b'null, "x": 2', "it is not one JSON object"),
        (b"[1]", "The value changed from object to array"),
        (b"5", "The value changed from object to number"),
        (b'{"a": "text"}', "Column(/a) changed from number to string"),
        (b'{"a": 1} {"a": 2}', "Missing a comma or '}' after an object member."),
        (b'{"a": 1}}\n{"i": 1, "v": {"a": 2}', "it is not one JSON object"),
        (b'{"b": "\xff"}', "it is not UTF-8"),
        (b'{"a": 1, "a": 2}', "Column(/a) was specified twice"),
        (b'{"a": 99999999999999999999}', "Failed to convert JSON to int64"),
    ],
)
def test_what_does_not_parse_is_kept_aside_with_the_reason(value: bytes, reason: str) -> None:
    """As it was; the rows before and after it are not touched."""
    rows = table(b'{"a": 0}', value, b'{"a": 2}')

    parsed = parse_json(rows, SCHEMA)

    assert parsed.rows["offset"].to_pylist() == [0, 2]
    assert parsed.rows["a"].to_pylist() == [0, 2]
    assert parsed.bad.schema == rows.schema.append(pa.field("reason", pa.string()))
    (bad,) = parsed.bad.to_pylist()
    assert (bad["offset"], bad["value"]) == (1, value)
    assert reason in bad["reason"]


BIG = 2**53 + 1
DOUBLE = pa.schema({"a": pa.float64()})


@pytest.mark.parametrize(
    ("digits", "kind"),
    [
        (BIG, pa.float64()),
        (-BIG, pa.float64()),
        (2**24 + 1, pa.float32()),
        (10**39, pa.float32()),
        pytest.param(int("1" * 400), pa.float64(), id="400 digits"),
    ],
)
def test_a_whole_number_that_would_be_rounded_is_kept_aside(digits: int, kind: pa.DataType) -> None:
    """Also one in a list or an object; an id that is off by one is another id."""
    nested = pa.struct({"b": pa.list_(kind)})
    schema = pa.schema({"a": kind, "n": nested})
    values = [b'{"a":1.5}', b'{"a":%d}' % digits, b'{"n":{"b":[1,%d]}}' % digits, b'{"a":2}']

    parsed = parse_json(table(*values, None), schema)

    assert parsed.rows["offset"].to_pylist() == [0, 3, 4]
    assert parsed.rows["a"].to_pylist() == [1.5, 2, None]
    assert parsed.bad["value"].to_pylist() == values[1:3]
    assert parsed.bad["reason"].to_pylist() == [
        f"Column({where}) of {kind} would round {digits}; a decimal128 in the schema would not"
        for where in ("/a", "/n/b/[]")
    ]


def test_numbers_that_are_not_rounded_stay() -> None:
    """Exact ones, those with an exponent or a fraction, and those that the schema lacks."""
    values = [b'{"a":%d}' % (2**60), b'{"a":1e300}', b'{"a":9007199254740993.5}', b'{"a":NaN}']
    parsed = parse_json(table(*values, b'{"a":1e20,"b":%d}' % BIG), DOUBLE)

    assert (parsed.rows.num_rows, parsed.bad.num_rows) == (5, 0)


def test_decimals_hold_large_whole_numbers_beside_fractions() -> None:
    """As the reason of a bad row says."""
    schema = pa.schema({"a": pa.decimal128(38, 6)})
    parsed = parse_json(table(b'{"a":%d}' % BIG, b'{"a":1.5}'), schema)

    assert parsed.rows["a"].to_pylist() == [BIG, 1.5]


def test_an_inferred_double_rounds_no_whole_number() -> None:
    """A column of whole numbers alone is int64; a fraction, or 65 bits, make it double."""
    whole = parse_json(table(b'{"a":%d}' % BIG))
    mixed = parse_json(table(b'{"a":%d}' % BIG, b'{"a":0.5}', b'{"a":%d}' % (2**64 + 1)))

    assert whole.rows["a"].to_pylist() == [BIG]
    assert mixed.rows["offset"].to_pylist() == [1]
    assert mixed.bad["offset"].to_pylist() == [0, 2]


def test_a_value_of_many_levels_is_looked_at() -> None:
    """It may have a number that would be rounded."""
    deep = b'{"a":%d,"b":%b%b}' % (2**53 + 1, b"[" * 199, b"]" * 199)
    parsed = parse_json(table(b'{"a":1}', deep), DOUBLE)

    assert parsed.rows["offset"].to_pylist() == [0]
    assert "would round" in parsed.bad["reason"].to_pylist()[0]


def test_the_columns_of_deep_objects_are_found() -> None:
    """JSON with too many levels is a bad row: it would overflow the stack of PyArrow's parser."""
    deep = [
        b'{"b":' + b'[{"c":' * n + b'"2026-11-30T01:00:00Z"' + b"}]" * n + b"}" for n in (99, 10**5)
    ]
    schema = json_schema(table(b'{"a": 1}', *deep))

    assert schema.names == ["a", "b"]
    assert str(schema.field("b").type).count("list") == 99


def objects() -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of the members of the schema, and others."""
    text = st.text(st.characters(codec="utf-8"), max_size=5)
    return st.fixed_dictionaries(
        {},
        optional={
            "a": st.none() | st.integers(-(2**63), 2**63 - 1),
            "b": st.none() | text,
            "c": st.none() | st.lists(st.integers(-1000, 1000).map(float), max_size=3),
            "d": st.none() | text | st.lists(st.integers(), max_size=2),
        },
    )


BAD = (
    b"",
    b"oops",
    b"[]",
    b'{"a":"x"}',
    b'{"b":1}',
    b'{"c":[[]]}',
    b"{}{}",
    b'{"a":1},',
    b'"',
    b"{",
)


@settings(max_examples=60)
@given(st.lists(objects() | st.sampled_from(BAD) | st.none(), max_size=40))
def test_each_row_is_parsed_as_if_it_were_alone(
    given_rows: list[dict[str, Any] | bytes | None],
) -> None:
    """However good and bad ones follow one another."""
    values = [
        json.dumps(one, ensure_ascii=False).encode() if isinstance(one, dict) else one
        for one in given_rows
    ]
    expected = [
        {"offset": at} | {name: None if one is None else one.get(name) for name in SCHEMA.names}
        for at, one in enumerate(given_rows)
        if not isinstance(one, bytes)
    ]

    parsed = parse_json(table(*values), SCHEMA)

    assert parsed.rows.to_pylist() == expected
    assert parsed.bad["value"].to_pylist() == [one for one in given_rows if isinstance(one, bytes)]


@pytest.mark.parametrize("size", [*range((1 << 20) - 32, (1 << 20) + 2), 3_000_000])
def test_a_value_as_large_as_a_block_is_parsed(size: int) -> None:
    """PyArrow reads blocks, which must hold whole lines."""
    texts = ["small", "x" * size, "last"]
    values = [json.dumps({"b": text}).encode() for text in texts]

    assert parse_json(table(*values), SCHEMA).rows["b"].to_pylist() == texts


def test_a_schema_is_inferred_from_what_parses() -> None:
    """A number beside a fraction is a double; of two types that exclude each other the first."""
    rows = table(b'{"n": 1, "t": "x"}', b"oops", None, b'{"n": 1.5}', b'{"t": 5, "m": [true]}')

    schema = json_schema(rows)
    parsed = parse_json(rows)

    assert schema == pa.schema({"n": pa.float64(), "t": pa.string(), "m": pa.list_(pa.bool_())})
    assert parsed.rows["n"].to_pylist() == [1.0, None, 1.5]
    assert parsed.bad["offset"].to_pylist() == [1, 4]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"column": "nothing"}, "no column nothing; there are offset, value"),
        ({"column": "offset"}, "of type int64"),
        ({"schema": pa.schema({})}, "has no column"),
        ({"schema": pa.schema([("a", pa.int64()), ("a", pa.int64())])}, "names a column twice"),
        ({"schema": {"a": int}}, "not of the form pa.schema"),
    ],
)
def test_what_cannot_be_done_is_said(how: dict[str, Any], reason: str) -> None:
    """With the columns that there are."""
    with pytest.raises(InvalidArgument, match=reason):
        parse_json(table(b"{}"), **{"schema": SCHEMA} | how)


def test_members_named_as_columns_get_a_prefix() -> None:
    """Without one the error names all of them, and what to do."""
    rows = table(b'{"offset": 5, "key": "k", "a": 1}').append_column("key", pa.array([b"K"]))

    with pytest.raises(InvalidArgument, match="of the rows: offset, key; give a prefix="):
        parse_json(rows)

    assert parse_json(rows, prefix="v_").rows.to_pylist() == [
        {"offset": 0, "key": b"K", "v_offset": 5, "v_key": "k", "v_a": 1}
    ]


def test_readers_are_refused() -> None:
    """A schema is inferred from all rows, and those of a reader come once."""
    with pytest.raises(InvalidArgument, match=r"RecordBatchReader is neither .* call read_all\(\)"):
        parse_json(table(b"{}").to_reader())


def test_all_rows_are_inferred_from() -> None:
    """Members that come late are columns, and what was whole numbers is double."""
    first = [b'{"n": 1}'] * 10_001
    rows = table(*first, b'{"n": 1.5, "late": "x"}')

    parsed = parse_json(rows)

    assert parsed.bad.num_rows == 0
    assert parsed.rows.slice(10_000).to_pylist() == [
        {"offset": 10_000, "n": 1.0, "late": None},
        {"offset": 10_001, "n": 1.5, "late": "x"},
    ]


TIMES = {
    "in UTC": ["2026-11-05T00:00:00Z", "2026-11-05T00:00Z"],
    "with an offset": ["2026-11-05T02:00:00+02:00", "2026-11-04 22:00:00-0200"],
    "without a zone": ["2026-11-05T00:00:00", "2026-11-05"],
    "mixed": ["2026-11-05T00:00:00Z", "2026-11-05"],
    "one no time": ["2026-11-05T00:00:00Z", "soon"],
}
ZONES = {"in UTC": "UTC", "with an offset": "UTC", "without a zone": None}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("kind", TIMES)
def test_times_keep_their_zone(kind: str, apart: bool) -> None:
    """As UTC; a mix of times with and without one stays text. Also within lists and objects."""
    texts = TIMES[kind]
    values = [json.dumps({"t": t, "o": {"l": [{"t": t}, None]}}).encode() for t in texts]
    between = [b"oops", None, b"{}"] if apart else []

    rows = parse_json(table(values[0], *between, values[1])).rows

    expected = pa.timestamp("s", ZONES[kind]) if kind in ZONES else pa.string()
    assert rows.schema.field("t").type == expected
    if not apart or kind != "one no time":
        assert rows.schema.field("o").type.field("l").type.value_type.field("t").type == expected
    midnight = datetime(2026, 11, 5, tzinfo=UTC)
    if expected != pa.string():
        times = [one and one.replace(tzinfo=UTC) for one in rows["t"].to_pylist()]
        assert [one for one in times if one] == [midnight, midnight]
    else:
        assert [one for one in rows["t"].to_pylist() if one] == texts


def test_rows_with_a_column_of_reasons_are_refused() -> None:
    """Bad rows would have two columns of that name."""
    rows = table(b"oops").append_column("reason", pa.array(["given"]))

    with pytest.raises(InvalidArgument, match="a column reason"):
        parse_json(rows, SCHEMA)


def test_no_object_gives_no_schema() -> None:
    """Neither do objects without members."""
    with pytest.raises(InvalidArgument, match="no value of column value is a JSON object"):
        json_schema(table(b"oops", None, b"{}", b"5"))
