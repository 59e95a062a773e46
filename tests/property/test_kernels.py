"""Compiled kernels, the same kernels in Python, and plain code agree on any bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.machinery.kernels import as_python
from tests.machinery.scale import examples
from tests.machinery.strategies import batches, produced_specs, records, stored_specs

from tidelog.cleaner.keys.key_table import KeyTable
from tidelog.errors import InvalidRecord, TidelogError
from tidelog.kernels import rows
from tidelog.kernels.accept_kernel import accept_batches
from tidelog.kernels.compaction import key_rows as keys
from tidelog.kernels.decode_kernel import decode_records
from tidelog.kernels.encode_kernel import cut_batches, write_batches
from tidelog.kernels.gather import gather
from tidelog.kernels.runtime import gate
from tidelog.kernels.scan_kernel import walk_batches
from tidelog.kernels.survey import plan_index_entries, survey_batches
from tidelog.kernels.validate_kernel import validate_records
from tidelog.records.batch_columns import BatchColumns, survey
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.decoding.record_areas import areas_of
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk
from tidelog.records.record import scan_record
from tidelog.records.validation.analyze import analyze
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.records.validation.validate import validate_for_leader
from tidelog.segment.indexing import IndexState, plan_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.records.builder import RecordFields

PLAIN_SPECS = st.just(BatchSpec())
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(autouse=True, scope="module")
def _plain_records() -> Iterator[None]:
    """Make plain code the reference."""
    gate.force(False)
    yield
    gate.force(None)


def array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of ``whole``, some of them changed, removed or inserted."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 4))
        data[at : at + removed] = draw(st.binary(max_size=4))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


ANY = rows.ANY_OFFSET, 0


def several(specs: st.SearchStrategy[BatchSpec]) -> st.SearchStrategy[bytes]:
    return st.lists(batches(specs, max_records=4), max_size=3).map(b"".join)


@settings(max_examples=examples(150), deadline=None)
@given(damaged(several(stored_specs())), st.booleans())
def test_a_walk_sees_what_plain_code_sees(data: bytes, check_crc: bool) -> None:
    """Headers, the position where it ends, and whether that is an error are the same."""
    found = []
    for kernel in (walk_batches, as_python(walk_batches)):
        out = np.zeros((rows.BATCH_COLUMNS, 8), np.int64)
        count, position, status = kernel(array(data), 0, len(data), check_crc, *ANY, out)
        found.append((out[:, :count].tolist(), position, status))

    compiled, python = found
    plain = walk(data, check_crc=check_crc)
    assert compiled == python
    if compiled[2] != rows.LEGACY:
        assert plain.batches.array.tolist() == compiled[0]
        assert (plain.next_position, plain.error is not None) == (compiled[1], compiled[2] < 0)


@settings(max_examples=examples(200), deadline=None)
@given(
    damaged(batches(PLAIN_SPECS | produced_specs(), max_records=4)),
    st.booleans(),
    st.just(-(2**63)) | INT64,
    st.just(2**63 - 1) | INT64,
)
def test_what_is_accepted_at_once_plain_code_takes_as_it_is(
    data: bytes, need_key: bool, not_before_ms: int, not_after_ms: int
) -> None:
    """The fast path never accepts, or leaves different, what the slow path would not."""
    found = []
    for kernel in (accept_batches, as_python(accept_batches)):
        out = np.zeros((rows.BATCH_COLUMNS, 1), np.int64)
        is_accepted = kernel(array(data), False, need_key, not_before_ms, not_after_ms, out)
        found.append((is_accepted, out.tolist() if is_accepted else None))

    now = 0
    policy = LeaderPolicy(
        needs_keys=need_key,
        timestamp_before_max_ms=now - not_before_ms,
        timestamp_after_max_ms=not_after_ms - now,
    )
    origin = AppendOrigin.CLIENT
    kept = None
    try:
        seen = analyze(
            data,
            max_batch_bytes=None,
            require_offsets_monotonic=False,
            origin=origin,
            leader_epoch=3,
        )
        if len(seen.batches):
            kept = validate_for_leader(
                data,
                seen,
                config=policy,
                first_offset=0,
                now_ms=now,
                origin=origin,
                leader_epoch=3,
            )
    except TidelogError:
        pass
    compiled, python = found
    assert compiled == python
    if compiled[0]:
        assert kept is not None
        assert (kept.data[16:], len(kept.data)) == (data[16:], len(data))
    elif kept is not None and kept.data[16:] == data[16:] and len(kept.data) == len(data):
        assert seen.source_codec or seen.batches.is_log_append_time.any()


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.lists(INT64, min_size=14, max_size=14), min_size=1, max_size=6), st.data())
def test_surveys_and_plans_are_those_of_plain_code(
    made: list[list[int]], data: st.DataObject
) -> None:
    """This holds for any headers; plans use sizes and positions possible in a file."""
    table = np.array(made, np.int64).T.copy()
    table[rows.MAGIC] &= 3
    table[rows.ATTRIBUTES] &= 0x7FFF
    table[rows.SIZE] &= 0xFF
    position, passed, interval = (data.draw(st.integers(0, 400)) for _ in range(3))
    state = IndexState(passed, data.draw(INT64), data.draw(INT64))
    found = []
    for look, plan in (
        (survey_batches, plan_index_entries),
        (as_python(survey_batches), as_python(plan_index_entries)),
    ):
        seen, entries = np.zeros(rows.SURVEY_COLUMNS, np.int64), table[: rows.ENTRY_COLUMNS].copy()
        look(table, seen)
        count, *after = plan(table, position, *state, interval, entries)
        found.append((seen.tolist(), entries[:, :count].tolist(), after))

    plain = plan_entries(state, BatchColumns(table), position, interval)

    expected = list(survey(BatchColumns(table))), [part.tolist() for part in plain[:4]]
    assert found[0] == found[1] == (*expected, list(plain.after))


def plain_rows(data: bytes, area: list[int], index: int) -> tuple[list[list[int]], bool]:
    """Return the rows of the valid records of an area, and whether all of it is valid."""
    at, end, count, base_offset, base_timestamp, max_timestamp, attributes = area
    found: list[list[int]] = []
    try:
        for _ in range(count):
            span = scan_record(memoryview(data), at, end)
            offset, timestamp = base_offset + span.offset_delta, base_timestamp
            timestamp += span.timestamp_delta
            wrapped = [(n + 2**63) % 2**64 - 2**63 for n in (offset, timestamp)]
            if attributes & rows.LOG_APPEND_TIME:
                wrapped[1] = max_timestamp
            found.append([*wrapped, *span[2:8], index])
            at = span.next_position
    except InvalidRecord:
        return found, False
    return found, count == 0 or (count > 0 and at == end)


@st.composite
def damaged_areas(draw: st.DrawFn) -> tuple[bytes, Any]:
    """Record areas, damaged or not, with counts and bases that may be wrong."""
    data, areas = bytearray(), []
    for _ in range(draw(st.integers(0, 3))):
        whole = draw(batches(PLAIN_SPECS, max_records=4))
        count = int.from_bytes(whole[57:61], "big")
        area = draw(damaged(st.just(whole[rows.HEADER_BYTES :])))
        count = draw(st.just(count) | st.integers(-1, 6) | st.just(2**31 - 1))
        start = len(data)
        data += area
        bases = draw(st.tuples(INT64, INT64, INT64, st.sampled_from([0, rows.LOG_APPEND_TIME])))
        areas.append((start, len(data), count, *bases))
    table = np.array(areas, np.int64).reshape(-1, rows.AREA_COLUMNS).T.copy()
    return bytes(data), table


@settings(max_examples=examples(150), deadline=None)
@given(damaged_areas())
def test_records_are_decoded_as_one_at_a_time(case: tuple[bytes, Any]) -> None:
    """The rows before the first bad record, and the area of that record, are the same."""
    data, areas = case
    found = []
    for kernel in (decode_records, as_python(decode_records)):
        out = np.zeros((rows.RECORD_COLUMNS, len(data) // 7), np.int64)
        count, status, area, position = kernel(array(data), areas, out)
        found.append((out[:, :count].T.tolist(), status, area, position))

    expected: list[list[int]] = []
    stopped = areas.shape[1]
    for index, area in enumerate(areas.T.tolist()):
        good, is_whole = plain_rows(data, area, index)
        expected += good
        if not is_whole:
            stopped = index
            break

    compiled, python = found
    assert compiled == python
    assert (expected, stopped) == (compiled[0], compiled[2])
    assert (compiled[1] == rows.OK) == (stopped == areas.shape[1])


@settings(max_examples=examples(100), deadline=None)
@given(damaged_areas(), st.booleans(), INT64, INT64, st.booleans())
def test_records_are_validated_as_decoded_rows_are(
    case: tuple[bytes, Any],
    need_key: bool,
    not_before_ms: int,
    not_after_ms: int,
    use_append_time: bool,
) -> None:
    """Areas pass if all their rows follow the rules; their summaries are those of the rows."""
    data, areas = case
    rules = (need_key, not_before_ms, not_after_ms, use_append_time)
    found = []
    for kernel in (validate_records, as_python(validate_records)):
        out = np.zeros((rows.VALID_COLUMNS, areas.shape[1]), np.int64)
        status, area, _ = kernel(array(data), areas, *rules, out)
        found.append((status, area, out[:, :area].T.tolist()))

    summaries: list[list[int]] = []
    for index, area in enumerate(areas.T.tolist()):
        good, is_whole = plain_rows(data, area, index)
        is_append_time = bool(area[rows.AREA_ATTRIBUTES] & rows.LOG_APPEND_TIME)
        for row in good:
            unchecked = use_append_time or row[rows.TIMESTAMP] == -1
            in_limits = not_before_ms <= row[rows.TIMESTAMP] <= not_after_ms
            is_whole &= not is_append_time if unchecked else in_limits
            is_whole &= row[rows.KEY_SIZE] >= 0 or not need_key
        if not is_whole:
            break
        base = area[rows.AREA_BASE_OFFSET]
        dense = [(row[rows.OFFSET] - base) % 2**64 for row in good] == list(range(len(good)))
        summaries.append([max([-1, *(row[rows.TIMESTAMP] for row in good)]), dense])

    compiled, python = found
    assert compiled == python
    assert (len(summaries), summaries) == compiled[1:]
    assert (compiled[0] == rows.OK) == (len(summaries) == areas.shape[1])


@settings(max_examples=examples(100), deadline=None)
@given(
    st.binary(max_size=80),
    st.lists(st.tuples(st.integers(-2, 90), st.integers(-2, 90)) | st.tuples(INT64, INT64)),
    st.integers(0, 200),
)
def test_slices_are_gathered_as_python_slices_them(
    data: bytes, slices: list[tuple[int, int]], room: int
) -> None:
    """Any positions and sizes give the same bytes or an error, and never bytes from elsewhere."""
    at, size = (np.array([part[i] for part in slices], np.int64) for i in (0, 1))
    found = []
    for kernel in (gather, as_python(gather)):
        offsets, valid = np.zeros(len(slices) + 1, np.int32), np.zeros(len(slices), np.uint8)
        out = np.zeros(room, np.uint8)
        nulls = kernel(array(data), at, size, offsets, out, valid)
        end = int(offsets[-1]) if nulls >= 0 else 0
        found.append((nulls, offsets.tolist(), valid.tolist(), out[:end].tobytes()))

    compiled, python = found
    wanted = [(a, s) for a, s in slices if s >= 0]
    inside = all(a >= 0 and a + s <= len(data) for a, s in wanted)
    assert compiled == python
    assert (compiled[0] >= 0) == (inside and sum(s for _, s in wanted) <= room)
    if compiled[0] >= 0:
        assert b"".join(data[a : a + s] for a, s in wanted) == compiled[3]


def area_with_a_bad_header() -> tuple[bytes, Any]:
    """Return a record whose only header states a value longer than the record."""
    area = build_batch([(0, b"k", b"v", [("h", None)])])[rows.HEADER_BYTES : -1] + b"\x7e"
    return area, np.array([[0], [len(area)], [1], [0], [0], [0], [0]], np.int64)


@settings(max_examples=examples(150), deadline=None)
@given(damaged_areas(), st.booleans())
@example(area_with_a_bad_header(), False)
def test_the_cleaner_finds_the_same_keys(case: tuple[bytes, Any], keyed_only: bool) -> None:
    """Plain code and the kernel refuse the same areas, with damage in headers, too."""
    data, areas = case
    actions = np.full(areas.shape[1], keys.FILTER, np.int64)
    found: list[Any] = []
    for with_kernels in (False, True):
        table = KeyTable(with_kernels=with_kernels)
        try:
            table.walk(array(data), areas, actions, keyed_only=keyed_only)
        except InvalidRecord:
            found.append(None)
        else:
            found.append(table.rows[: keys.LATEST, : table.count].tolist())

    assert found[0] == found[1]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(records(), max_size=12), st.integers(0, 400), st.data())
def test_records_are_encoded_as_one_at_a_time(
    chosen: list[RecordFields], batch_bytes: int, drawn: st.DataObject
) -> None:
    """Any records, split anywhere, give the batches that the builder makes of them."""
    source = build_batch(chosen)
    table = decode(source, walk(source).batches).array
    picked = drawn.draw(st.lists(st.integers(0, max(len(chosen) - 1, 0)), max_size=12))
    picked = picked if chosen else []
    found = []
    for cut_up, write_out in (
        (cut_batches, write_batches),
        (as_python(cut_batches), as_python(write_batches)),
    ):
        cut = np.zeros((rows.BATCH_COLUMNS, len(picked)), np.int64)
        order = np.array(picked, np.int64)
        count, size, *_ = cut_up(array(source), table, order, batch_bytes, 10, cut)
        cut = cut[:, :count].copy()
        out = np.zeros(size, np.uint8)
        data = array(source)
        status = write_out(data, data, data, table, order, cut, True, out)
        assert status == (rows.OK, len(picked))
        found.append((cut.tolist(), out.tobytes()))

    compiled, python = found
    expected, done = [], 0
    for records_count in compiled[0][rows.RECORDS_COUNT]:
        part = [chosen[row] for row in picked[done : done + records_count]]
        expected.append(build_batch(part, BatchSpec(base_offset=10 + done)))
        done += records_count
    assert compiled == python
    assert (len(picked), b"".join(expected)) == (done, compiled[1])
    assert walk(compiled[1]).batches.array.tolist() == compiled[0]


@settings(max_examples=examples(50), deadline=None)
@given(several(produced_specs()))
def test_areas_of_sound_batches_pass(data: bytes) -> None:
    """The validator accepts what the builder makes."""
    found = walk(data).batches
    plain = [index for index, codec in enumerate(found.attributes & 7) if codec == 0]
    areas = np.ascontiguousarray(areas_of(found)[:, plain])
    out = np.zeros((rows.VALID_COLUMNS, len(plain)), np.int64)

    status, *_ = validate_records(array(data), areas, False, -1, 2**63 - 1, False, out)

    assert status == rows.OK
