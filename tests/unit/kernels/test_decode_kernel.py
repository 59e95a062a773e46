"""Records decoded to rows, compared with the rules for one record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.kernels import rows
from tidelog.kernels.decode_kernel import decode_records

if TYPE_CHECKING:
    from collections.abc import Callable

ONE_HEADER = b"\x02\x02h\x02x"


def decoded(
    decode: Callable[..., Any], data: Any, areas: Any, capacity: int = 8
) -> tuple[list[list[int]], tuple[int, ...]]:
    out = np.full((rows.RECORD_COLUMNS, capacity), -99, np.int64)
    count, *rest = decode(data, areas, out)
    assert (out[:, count:] == -99).all()
    return out[:, :count].T.tolist(), tuple(rest)


def test_every_part_of_a_record_has_its_row(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """Rows hold offset, timestamp, the positions of key, value and headers, and the area."""
    first = record(0, 0, b"key", b"value", ONE_HEADER)
    second = record(-5, 300, None, b"")
    data, areas = areas_of([(1, first), (1, second)], base_offset=100, base_timestamp=1_000)

    found, rest = decoded(run(decode_records), data, areas)

    key_at = first.index(b"key")
    value_at = first.index(b"value")
    headers_at = value_at + 6
    # Length, attributes, one byte of time, two of offset, the null key's length; empty value.
    null_key_at = len(first) + 1 + 1 + 1 + 2 + 1
    assert found == [
        [100, 1_000, key_at, 3, value_at, 5, headers_at, 1, 0],
        [400, 995, null_key_at, -1, null_key_at + 1, 0, null_key_at + 2, 0, 1],
    ]
    assert rest == (rows.OK, 2, 0)


def test_append_time_is_every_record_s_time(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """With LogAppendTime every record has the batch's greatest timestamp, whatever its delta."""
    data, areas = areas_of(
        [(2, record(1) + record(2, 1))], attributes=rows.LOG_APPEND_TIME, max_timestamp=77
    )

    found, _ = decoded(run(decode_records), data, areas)

    assert [row[rows.TIMESTAMP] for row in found] == [77, 77]


def test_sums_wrap_as_java_s_do(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """A base plus a delta beyond 64 bits wraps around."""
    far = {"base_offset": 2**63 - 1, "base_timestamp": 2**63 - 1}
    data, areas = areas_of([(1, record(2**62, 1))], **far)

    found, _ = decoded(run(decode_records), data, areas)

    assert found[0][:2] == [-(2**63), -(2**62) - 1]


def framed(body: bytes) -> bytes:
    """Put a one-byte length in front of a record's body."""
    return bytes([2 * len(body)]) + body


def bad_cases(record: Callable[..., bytes]) -> dict[str, tuple[int, bytes]]:
    """Return areas of one record that each break one rule, and the rule."""
    too_long = b"\xff" * 5 + b"\x01"
    return {
        "length beyond the area": (rows.BAD_RECORD_LENGTH, record(length_error=1)),
        "negative length": (rows.BAD_RECORD_LENGTH, b"\x01"),
        "length cut short": (rows.BAD_VARINT, b"\x80"),
        "length of six bytes": (rows.BAD_VARINT, too_long + record()),
        "empty record": (rows.BAD_VARINT, framed(b"")),
        "timestamp cut short": (rows.BAD_VARINT, framed(b"\0\x80")),
        "timestamp of eleven bytes": (rows.BAD_VARINT, framed(b"\0" + b"\xff" * 5 + too_long)),
        "offset of six bytes": (rows.BAD_VARINT, framed(b"\0\0" + too_long + b"\1\1\0")),
        "key length of six bytes": (rows.BAD_VARINT, framed(b"\0\0\0" + too_long + b"\1\0")),
        "key beyond the record": (rows.BAD_KEY_LENGTH, framed(b"\0\0\0\x08kv\0")),
        "value beyond the record": (rows.BAD_VALUE_LENGTH, framed(b"\0\0\0\1\x08vv\0")),
        "no headers count": (rows.BAD_VARINT, framed(b"\0\0\0\1\1")),
        "negative headers count": (rows.BAD_HEADERS_COUNT, record(headers=b"\1")),
        "headers count beyond the record": (rows.BAD_HEADERS_COUNT, record(headers=b"\x7e")),
        "header without a name": (rows.BAD_HEADER, record(headers=b"\2\1\1")),
        "header name beyond the record": (rows.BAD_HEADER, record(headers=b"\2\x7eh")),
        "header value beyond the record": (rows.BAD_HEADER, record(headers=b"\2\2h\x7e")),
        "bytes after the headers": (rows.BAD_RECORD_END, record(headers=b"\0\0")),
    }


CASES = list(bad_cases(lambda **_: b""))


@pytest.mark.parametrize("case", CASES)
def test_each_malformed_record_has_its_status(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    case: str,
) -> None:
    """Each rule has its status; the position is returned, and earlier records are in the output."""
    status, bad = bad_cases(record)[case]
    good = record()
    data, areas = areas_of([(1, good), (2, good + bad)])

    found, rest = decoded(run(decode_records), data, areas)

    assert (2, (status, 1, 2 * len(good))) == (len(found), rest)


@pytest.mark.parametrize(
    ("count", "status"),
    [(-1, rows.BAD_COUNT), (3, rows.MISSING_RECORDS), (1, rows.BYTES_LEFT_OVER)],
)
def test_the_count_must_be_the_records_there(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    count: int,
    status: int,
) -> None:
    """A count that is negative, too great or too small is an error of its own."""
    data, areas = areas_of([(count, record() * 2)])

    _, rest = decoded(run(decode_records), data, areas)

    assert status == rest[0]


def test_a_batch_that_states_no_records_is_not_read(
    run: Callable[[Any], Any], areas_of: Callable[..., Any]
) -> None:
    """With a count of 0 nothing is read and bytes after it are not noticed, as in Kafka."""
    data, areas = areas_of([(0, b"whatever")])

    assert decoded(run(decode_records), data, areas) == ([], (rows.OK, 1, 0))


def test_a_full_array_stops_before_an_area(
    run: Callable[[Any], Any], record: Callable[..., bytes], areas_of: Callable[..., Any]
) -> None:
    """An area that does not fit entirely is left for the next call."""
    data, areas = areas_of([(5, record() * 5), (4, record() * 4)])

    found, rest = decoded(run(decode_records), data, areas)

    assert (5, (rows.FULL, 1, 5 * len(record()))) == (len(found), rest)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 2), (0, 99)])
def test_an_area_outside_the_data_is_refused(
    run: Callable[[Any], Any],
    record: Callable[..., bytes],
    areas_of: Callable[..., Any],
    start: int,
    end: int,
) -> None:
    """An area outside the data is never read."""
    data, areas = areas_of([(1, record())])
    areas[: rows.AREA_END + 1, 0] = start, end

    assert ([], (rows.BAD_ARGUMENT, 0, start)) == decoded(run(decode_records), data, areas)
