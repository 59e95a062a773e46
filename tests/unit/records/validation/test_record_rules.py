"""A leader's rules for single records."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.config.log_config import LogConfig
from tidelog.errors import CorruptMessage, InvalidRecord, InvalidTimestamp
from tidelog.records.batch import TimestampType
from tidelog.records.builder import build_batch
from tidelog.records.decoding.record_areas import area_of
from tidelog.records.legacy import Expansion, LegacyRecord
from tidelog.records.memory import walk
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.records.validation.record_rules import (
    NO_KEY,
    RecordRules,
    Summary,
    check_area,
    check_legacy,
    check_records,
    time_limits,
)
from tidelog.records.validation.rejection import Rejection, ignore_rejections

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Note = Callable[[Rejection, int], None]

NO_KEYS = Rejection.NO_KEY_COMPACTED_TOPIC
OUTSIDE_BEFORE = "timestamp 9 is outside [10, 20] (message.timestamp.before.max.ms)"
OUTSIDE_AFTER = "timestamp 21 is outside [10, 20] (message.timestamp.after.max.ms)"
APPEND_TIME = "a producer must not set timestamp type LogAppendTime"


def rules_of(
    *,
    need_key: bool = False,
    use_append_time: bool = False,
    on_rejected: Callable[[Rejection, int], None] = ignore_rejections,
) -> RecordRules:
    return RecordRules(need_key, 10, 20, use_append_time, on_rejected)


def check(records: Sequence[tuple[int, bytes | None]], rules: RecordRules, **spec: Any) -> Summary:
    """Check one batch of these timestamps and keys, after 7 other bytes."""
    batch = build_batch([(time, key, b"v", ()) for time, key in records], **spec)
    row = walk(batch).batches.row(0)
    area = area_of(row)
    area[:2] += 7
    return check_area(np.frombuffer(bytes(7) + batch, np.uint8), area, rules)


def old(timestamp: int = 15, key_size: int = 1, **fields: Any) -> LegacyRecord:
    """Return a record of magic 1; a key of size -1 is null."""
    record = LegacyRecord(0, 1, 0, 0, timestamp, TimestampType.CREATE_TIME, 0, key_size, 0, 0)
    return record._replace(**fields)


def check_old(rules: RecordRules, *records: LegacyRecord) -> None:
    check_legacy(Expansion(memoryview(b""), list(records)), 1, rules)


@pytest.mark.parametrize(
    ("now", "before", "after", "expected"),
    [
        (1000, 10, 20, (990, 1020)),
        (1000, 2**63 - 1, 0, (1001 - 2**63, 1000)),
        (2**62, 2**63 - 1, 2**63 - 1, (2**62 - 2**63 + 1, 2**63 - 1)),
        (-5, 2**63 - 1, 0, (-(2**63), -5)),
    ],
)
def test_limits_stay_within_64_bits(
    now: int, before: int, after: int, expected: tuple[int, int]
) -> None:
    """Limits are clamped to the range of timestamps."""
    assert time_limits(now, before, after) == expected


@pytest.mark.parametrize(
    ("use_append_time", "is_append_time", "expected"),
    [
        (False, False, [False, True, True, False]),
        (False, True, [True, True, True, False]),
        (True, False, [False, False, False, False]),
        (True, True, [True, True, True, True]),
    ],
)
def test_a_timestamp_is_checked_by_topic_and_batch(
    use_append_time: bool, is_append_time: bool, expected: list[bool]
) -> None:
    """With CreateTime, limits apply; without a timestamp or with LogAppendTime, the type."""
    rules = RecordRules(False, 10, 20, use_append_time, ignore_rejections)
    timestamps = np.array([-1, 9, 21, 15])

    found = rules.has_bad_time(timestamps, is_append_time=is_append_time)

    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("use_append_time", "timestamp", "reason"),
    [
        (False, 9, OUTSIDE_BEFORE),
        (False, 21, OUTSIDE_AFTER),
        (False, -1, APPEND_TIME),
        (True, 15, APPEND_TIME),
    ],
)
def test_the_reason_names_timestamp_range_and_setting(
    use_append_time: bool, timestamp: int, reason: str
) -> None:
    """A type that the producer must not set has no range."""
    assert rules_of(use_append_time=use_append_time).time_reason(timestamp) == reason


@pytest.mark.usefixtures("engine")
def test_an_accepted_batch_has_its_greatest_timestamp() -> None:
    """Limits are inclusive; no timestamp and an empty key are accepted; without records it is -1.

    The base offset of the batch does not matter.
    """
    rules = rules_of(need_key=True)

    found = check([(10, b"k"), (20, b""), (-1, b"k")], rules, base_offset=50)

    assert found == Summary(max_timestamp=20, is_dense=True)
    assert check([(-1, b"k")], rules) == Summary(-1, is_dense=True)
    assert check([(15, None)], rules_of()) == Summary(15, is_dense=True)


@pytest.mark.usefixtures("engine")
def test_each_invalid_record_of_a_batch_has_its_reason() -> None:
    """A missing key is named before the timestamp; three are shown; keyless ones are counted."""
    counted: list[tuple[Rejection, int]] = []
    rules = rules_of(need_key=True, on_rejected=lambda *a: counted.append(a))

    with pytest.raises(InvalidTimestamp) as raised:
        check([(9, None), (15, b"k"), (9, b"k"), (21, b"k"), (15, None)], rules)

    errors = ((0, NO_KEY[True]), (2, OUTSIDE_BEFORE), (3, OUTSIDE_AFTER), (4, NO_KEY[True]))
    assert raised.value.record_errors == errors
    shown = "; ".join(f"record {index}: {reason}" for index, reason in errors[:3])
    assert str(raised.value) == f"4 invalid records: {shown}"
    assert counted == [(NO_KEYS, 2)]


@pytest.mark.usefixtures("engine")
def test_a_keyless_record_is_not_invalid_for_its_timestamp_too() -> None:
    """Kafka checks the key first, and clients must see InvalidRecord."""
    with pytest.raises(InvalidRecord) as raised:
        check([(9, None), (15, b"k")], rules_of(need_key=True))

    assert raised.value.record_errors == ((0, NO_KEY[True]),)
    assert str(raised.value) == f"1 invalid record: record 0: {NO_KEY[True]}"


@pytest.mark.usefixtures("engine")
def test_where_the_policy_is_unknown_the_error_names_the_cure() -> None:
    """The topic may be compacted; for old records too."""
    rules = RecordRules.of(
        LeaderPolicy.of(LogConfig().without(["cleanup.policy"])), 15, ignore_rejections
    )

    with pytest.raises(InvalidRecord) as raised:
        check([(15, None), (15, b"k")], rules)
    with pytest.raises(InvalidRecord) as raised_old:
        check_old(rules, old(key_size=-1))

    assert raised.value.record_errors == raised_old.value.record_errors == ((0, NO_KEY[False]),)
    assert "tidelog alter TOPIC -o cleanup.policy=" in str(raised.value)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("use_append_time", [False, True])
def test_a_batch_must_not_claim_append_time(use_append_time: bool) -> None:
    """Neither for a topic with append time, nor without a timestamp."""
    rules = rules_of(use_append_time=use_append_time)
    kind = TimestampType.LOG_APPEND_TIME

    with pytest.raises(InvalidTimestamp) as raised:
        check([(15, b"k")], rules, timestamp_type=kind, max_timestamp=-1)

    assert raised.value.record_errors == ((0, APPEND_TIME),)


def test_valid_old_records_are_accepted() -> None:
    """Keys matter only if they are needed, and an empty one is a key; limits are inclusive."""
    check_old(rules_of(need_key=True), old(10, key_size=0), old(20), old(-1))
    check_old(rules_of(), old(key_size=-1))


def test_each_invalid_old_record_has_its_reason() -> None:
    """One rule is named for each record, in the order magic, key, timestamp."""
    counted: list[tuple[Rejection, int]] = []
    rules = rules_of(need_key=True, on_rejected=lambda *a: counted.append(a))
    appended = old(-1, timestamp_type=TimestampType.LOG_APPEND_TIME)
    mixed, keyless = old(9, magic=0, key_size=-1, crc_matches=False), old(9, key_size=-1)

    with pytest.raises(InvalidTimestamp) as raised:
        check_old(rules, mixed, keyless, keyless, old(), old(9), appended)

    magic = "the record has magic 0, its batch 1"
    assert raised.value.record_errors == (
        (0, magic),
        (1, NO_KEY[True]),
        (2, NO_KEY[True]),
        (4, OUTSIDE_BEFORE),
        (5, APPEND_TIME),
    )
    shown = f"record 0: {magic}; record 1: {NO_KEY[True]}; record 2: {NO_KEY[True]}"
    assert str(raised.value) == f"5 invalid records: {shown}"
    assert counted == [(Rejection.INVALID_MAGIC_NUMBER, 1), (NO_KEYS, 2)]


def test_an_old_record_without_a_bad_timestamp_is_an_invalid_record() -> None:
    """Magic and key are no matter of timestamps; without keyless records none is counted."""
    counted: list[tuple[Rejection, int]] = []
    rules = rules_of(need_key=True, on_rejected=lambda *a: counted.append(a))

    with pytest.raises(InvalidRecord) as raised:
        check_old(rules, old(9, magic=0))

    assert str(raised.value).startswith("1 invalid record: record 0: ")
    assert counted == [(Rejection.INVALID_MAGIC_NUMBER, 1)]


def test_two_invalid_records_are_in_the_plural() -> None:
    """One is not."""
    with pytest.raises(InvalidRecord, match=r"^2 invalid records: "):
        check_old(rules_of(need_key=True), old(key_size=-1), old(key_size=-1))


def test_a_wrong_checksum_of_an_old_record_is_counted_once() -> None:
    """The check ends there, whatever rules other records break."""
    counted: list[tuple[Rejection, int]] = []
    rules = rules_of(need_key=True, on_rejected=lambda *a: counted.append(a))

    with pytest.raises(CorruptMessage, match="inner record 1"):
        check_old(rules, old(9), old(crc_matches=False), old(key_size=-1))

    assert counted == [(Rejection.INVALID_MESSAGE_CRC, 1)]


def outcome(act: Callable[[Note], object]) -> list[object]:
    """Return the rejections that were counted, and the error with the records it names."""
    seen: list[object] = []
    try:
        act(lambda kind, count: seen.append((kind, count)))
    except (InvalidRecord, InvalidTimestamp) as error:
        seen += [type(error), str(error), error.record_errors]
    return seen


@pytest.mark.parametrize("kind", [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])
@pytest.mark.parametrize("needs_keys", [False, True])
def test_records_of_this_process_are_held_to_the_rules_of_a_batch(
    needs_keys: bool, kind: TimestampType
) -> None:
    """Before they are in one, with the same errors, whatever two of them are."""
    policy = LeaderPolicy(
        needs_keys=needs_keys,
        timestamp_type=kind,
        timestamp_before_max_ms=5,
        timestamp_after_max_ms=5,
    )
    rules = {"need_key": needs_keys, "use_append_time": kind is TimestampType.LOG_APPEND_TIME}
    seen: list[list[object]] = []
    for pair in product(product((9, 10, 15, 20, 21), (None, b"k")), repeat=2):
        fields = [(time, key, b"v", ()) for time, key in pair]

        def as_batch(note: Note, pair: Any = pair) -> None:
            check(pair, rules_of(**rules, on_rejected=note))

        def as_records(note: Note, fields: Any = fields) -> None:
            check_records(fields, policy, 15, note)

        found = outcome(as_records)
        assert found == outcome(as_batch)
        seen.append(found)

    is_lenient = not needs_keys and kind is TimestampType.LOG_APPEND_TIME
    assert any(seen) != is_lenient
