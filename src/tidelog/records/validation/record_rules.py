"""A leader's rules for single records, applied to all records of a batch at once.

Errors list every record that breaks a rule. Kafka: ``LogValidator.validateRecord``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import CorruptMessage, InvalidRecord, InvalidTimestamp
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.records.batch import INT64_MAX, INT64_MIN, NO_TIMESTAMP, BatchFlags, TimestampType
from tidelog.records.decoding.record_areas import decode_areas, decoding_work
from tidelog.records.validation.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from tidelog.records.array_rows import Bools, Bytes, Ints
    from tidelog.records.builder import RecordFields
    from tidelog.records.legacy import Expansion
    from tidelog.records.validation.policy import LeaderPolicy

_SHOWN_ERRORS: Final = 3
KEYLESS: Final = {
    True: "has no key, but the topic is compacted",
    False: "has no key, and the topic may be compacted, since its cleanup.policy is unknown: set it"
    " with tidelog alter TOPIC -o cleanup.policy=..., or start with --server-properties FILE",
}
"""Why a record without a key is refused, by whether the topic's ``cleanup.policy`` is known."""
NO_KEY: Final = {is_known: f"the record {reason}" for is_known, reason in KEYLESS.items()}
_APPEND_TIME: Final = "a producer must not set timestamp type LogAppendTime"


class RecordRules(NamedTuple):
    """The topic's rules for records at the time of an append.

    Timestamps in ms must be in ``[not_before_ms, not_after_ms]`` or -1. With ``use_append_time``
    the records' own timestamps do not matter. ``is_policy_known``: whether ``cleanup.policy`` is.
    """

    need_key: bool
    not_before_ms: int
    not_after_ms: int
    use_append_time: bool
    on_rejected: Callable[[Rejection, int], None]
    is_policy_known: bool = True

    @classmethod
    def of(
        cls, policy: LeaderPolicy, now_ms: int, on_rejected: Callable[[Rejection, int], None]
    ) -> Self:
        """Return a topic's rules for an append at ``now_ms``."""
        before_ms, after_ms = policy.timestamp_before_max_ms, policy.timestamp_after_max_ms
        return cls(
            policy.needs_keys,
            *time_limits(now_ms, before_ms, after_ms),
            policy.timestamp_type is TimestampType.LOG_APPEND_TIME,
            on_rejected,
            policy.is_policy_known,
        )

    @property
    def no_key(self) -> str:
        """The error text for a record without a key."""
        return NO_KEY[self.is_policy_known]

    def has_bad_time(self, timestamp: Ints, *, is_append_time: bool) -> Bools:
        """Return which timestamps break the rules, in a batch with or without append time."""
        if self.use_append_time:
            return np.full(timestamp.shape, is_append_time)
        is_out = (timestamp < self.not_before_ms) | (timestamp > self.not_after_ms)
        return np.where(timestamp == NO_TIMESTAMP, is_append_time, is_out)

    def time_reason(self, timestamp: int) -> str:
        """Return the error text for a timestamp that breaks the rules, naming the setting."""
        if self.use_append_time or timestamp == NO_TIMESTAMP:
            return _APPEND_TIME
        limits = f"[{self.not_before_ms}, {self.not_after_ms}]"
        side = "before" if timestamp < self.not_before_ms else "after"
        return f"timestamp {timestamp} is outside {limits} (message.timestamp.{side}.max.ms)"


class Summary(NamedTuple):
    """What ``check_area`` learns about the records of an accepted batch.

    ``max_timestamp`` is -1 without records; ``is_dense`` means that the offset deltas are 0, 1, 2
    and so on.
    """

    max_timestamp: int
    is_dense: bool


def time_limits(now_ms: int, before_max_ms: int, after_max_ms: int) -> tuple[int, int]:
    """Return the least and greatest timestamp allowed at ``now_ms``, both inclusive."""
    return max(now_ms - before_max_ms, INT64_MIN), min(now_ms + after_max_ms, INT64_MAX)


def check_area(data: Bytes, areas: Ints, rules: RecordRules) -> Summary:
    """Check all records of one record area of a v2 batch.

    Raises:
        InvalidRecord: the bytes do not hold the records that the header states, or records break
            rules; ``record_errors`` lists each of them.
        InvalidTimestamp: the same, if any record breaks the rules for timestamps.
    """
    if use_kernels(decoding_work(areas[rows.AREA_COUNT].item())):
        from tidelog.kernels.validate_kernel import validate_records  # noqa: PLC0415 - compiles then

        out = np.empty((rows.VALID_COLUMNS, 1), np.int64)
        limits = rules.need_key, rules.not_before_ms, rules.not_after_ms, rules.use_append_time
        status, _, _ = validate_records(data, areas, *limits, out)
        if status == rows.OK:
            greatest, is_dense = out.ravel().tolist()
            return Summary(greatest, bool(is_dense))
    # Plain code finds all invalid records and the reason for each.
    return _check_columns(decode_areas(data, areas, areas[rows.AREA_START]), areas, rules)


def check_records(
    records: Sequence[RecordFields],
    policy: LeaderPolicy,
    now_ms: int,
    on_rejected: Callable[[Rejection, int], None],
) -> None:
    """Check records that are not in a batch yet by the topic's rules; errors as ``check_area``.

    They come from this process, so only the topic's rules can be broken.
    """
    before_max_ms, after_max_ms = policy.timestamp_before_max_ms, policy.timestamp_after_max_ms
    least, greatest, needs_key = now_ms - before_max_ms, now_ms + after_max_ms, policy.needs_keys
    for timestamp, key, _, _ in records:
        if (key is None and needs_key) or not least <= timestamp <= greatest:
            break
    else:
        return
    rules = RecordRules.of(policy, now_ms, on_rejected)
    # One record may be at fault: all are looked at, in the way of ``check_area``.
    timestamps = np.array([record[0] for record in records], np.int64)
    has_no_key = np.array([record[1] is None for record in records])
    _check_rules(timestamps, has_no_key, rules, is_append_time=False)


def _check_columns(found: Ints, areas: Ints, rules: RecordRules) -> Summary:
    timestamp = found[rows.TIMESTAMP]
    is_append_time = bool(areas[rows.AREA_ATTRIBUTES].item() & BatchFlags.LOG_APPEND_TIME)
    _check_rules(timestamp, found[rows.KEY_SIZE] < 0, rules, is_append_time=is_append_time)
    deltas = found[rows.OFFSET] - areas[rows.AREA_BASE_OFFSET].item()
    is_dense = bool((deltas == np.arange(deltas.size)).all())
    return Summary(int(timestamp.max(initial=NO_TIMESTAMP)), is_dense)


def _check_rules(
    timestamp: Ints, has_no_key: Bools, rules: RecordRules, *, is_append_time: bool
) -> None:
    """Raise with every record that breaks a rule."""
    no_key = has_no_key & rules.need_key
    bad_time = rules.has_bad_time(timestamp, is_append_time=is_append_time)
    is_bad = no_key | bad_time
    if is_bad.any():
        errors = tuple(
            (index, rules.no_key if no_key[index] else rules.time_reason(int(timestamp[index])))
            for index in np.flatnonzero(is_bad).tolist()
        )
        _reject(errors, rules, keyless=int(no_key.sum()), is_time=bool((bad_time & ~no_key).any()))


def check_legacy(found: Expansion, magic: int, rules: RecordRules) -> None:
    """Check the records of one batch of ``magic`` 0 or 1, expanded with ``check_inner``.

    Raises as ``check_area``, and CorruptMessage for a wrong CRC of an inner record.
    """
    errors: list[tuple[int, str]] = []
    keyless, is_time = 0, False
    for index, record in enumerate(found.records):
        if record.magic != magic:
            rules.on_rejected(Rejection.INVALID_MAGIC_NUMBER, 1)
            errors.append((index, f"the record has magic {record.magic}, its batch {magic}"))
            continue
        if not record.crc_matches:
            rules.on_rejected(Rejection.INVALID_MESSAGE_CRC, 1)
            raise CorruptMessage(f"the CRC of inner record {index} is wrong")
        if rules.need_key and record.key_size < 0:
            keyless += 1
            errors.append((index, rules.no_key))
            continue
        is_appended = record.timestamp_type is TimestampType.LOG_APPEND_TIME
        times = np.array([record.timestamp], np.int64)
        if rules.has_bad_time(times, is_append_time=is_appended).item():
            is_time = True
            errors.append((index, rules.time_reason(record.timestamp)))
    if errors:
        _reject(tuple(errors), rules, keyless=keyless, is_time=is_time)


def _reject(
    errors: tuple[tuple[int, str], ...], rules: RecordRules, *, keyless: int, is_time: bool
) -> None:
    if keyless:
        rules.on_rejected(Rejection.NO_KEY_COMPACTED_TOPIC, keyless)
    shown = "; ".join(f"record {index}: {reason}" for index, reason in errors[:_SHOWN_ERRORS])
    reason = f"{len(errors)} invalid record{'s' * (len(errors) > 1)}: {shown}"
    if is_time:
        raise InvalidTimestamp(reason, errors)
    raise InvalidRecord(reason, record_errors=errors)
