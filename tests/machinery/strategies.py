"""Hypothesis strategies for valid records and batches of magic 2.

Only this module of tidelog needs the ``hypothesis`` package.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from hypothesis import strategies as st

from tidelog.codec.compression import Codec
from tidelog.records.batch import BATCH_HEADER, NO_TIMESTAMP, TimestampType
from tidelog.records.builder import BatchSpec, build_batch

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from tidelog.records.builder import RecordFields

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_INT16_MAX: Final = 2**15 - 1


def seeds() -> SearchStrategy[int]:
    """Seeds for a ``CrashFileSystem`` or any ``random.Random``."""
    return st.integers(0, 2**32 - 1)


def timestamps() -> SearchStrategy[int]:
    """Timestamps in milliseconds since the Unix epoch: none (-1), usual ones and the largest."""
    usual = st.integers(1_600_000_000_000, 1_900_000_000_000)
    # One less than the largest, so that the delta to -1 fits in 64 bits.
    return st.just(NO_TIMESTAMP) | usual | st.integers(0, _INT64_MAX - 1)


def payloads(max_size: int = 64) -> SearchStrategy[bytes | None]:
    """Keys or values: null, empty, random bytes, or bytes that compress well."""
    few = st.binary(min_size=1, max_size=2)
    repeated = st.builds(lambda part, count: part * count, few, st.integers(1, max_size))
    return st.none() | st.binary(max_size=max_size) | repeated


def headers() -> SearchStrategy[list[tuple[str, bytes | None]]]:
    """Headers of a record; names can repeat, be empty and hold any text."""
    names = st.text(st.characters(codec="utf-8"), max_size=8)
    return st.lists(st.tuples(names, st.none() | st.binary(max_size=16)), max_size=3)


def records(
    *,
    keys: SearchStrategy[bytes | None] | None = None,
    times: SearchStrategy[int] | None = None,
) -> SearchStrategy[RecordFields]:
    """Records as ``build_batch`` takes them: (timestamp, key, value, headers).

    Args:
        keys: a strategy for keys, such as ``st.binary(min_size=1)`` for a compacted topic.
        times: a strategy for timestamps, such as ones that a leader accepts now.
    """
    return st.tuples(
        timestamps() if times is None else times,
        payloads() if keys is None else keys,
        payloads(),
        headers(),
    )


class BatchSample(NamedTuple):
    """A batch and its content; ``offsets`` has the offset of each record."""

    data: bytes
    spec: BatchSpec
    records: list[RecordFields]
    offsets: list[int]

    @property
    def end_offset(self) -> int:
        """The offset after the last one of the batch."""
        return self.spec.base_offset + BATCH_HEADER.unpack(self.data).last_offset_delta + 1


@st.composite
def produced_specs(draw: DrawFn) -> BatchSpec:
    """The header fields of a batch from a producer without idempotence."""
    return BatchSpec(codec=draw(st.sampled_from(Codec)))


@st.composite
def stored_specs(draw: DrawFn) -> BatchSpec:
    """The header fields of a batch in a log: any codec, epoch, producer, time; not control."""
    spec = BatchSpec(
        codec=draw(st.sampled_from(Codec)),
        leader_epoch=draw(st.integers(-1, 5) | st.integers(0, _INT32_MAX)),
        delete_horizon_ms=draw(st.none() | st.integers(0, _INT64_MAX)),
    )
    if draw(st.booleans()):
        append_ms = draw(st.integers(0, _INT64_MAX))
        appended = TimestampType.LOG_APPEND_TIME
        spec = replace(spec, timestamp_type=appended, max_timestamp=append_ms)
    if draw(st.booleans()):
        spec = replace(
            spec,
            producer_id=draw(st.integers(0, 3) | st.integers(0, _INT64_MAX)),
            producer_epoch=draw(st.integers(0, _INT16_MAX)),
            base_sequence=draw(st.integers(0, _INT32_MAX)),
            transactional=draw(st.booleans()),
        )
    return spec


@st.composite
def batch_samples(
    draw: DrawFn,
    specs: SearchStrategy[BatchSpec] | None = None,
    records: SearchStrategy[RecordFields] | None = None,
    *,
    base_offset: int = 0,
    max_records: int = 8,
    with_gaps: bool = True,
) -> BatchSample:
    """Valid batches with their records.

    Args:
        draw: supplied by hypothesis.
        specs: the header fields; ``stored_specs()`` if None.
        records: one record; ``records()`` if None.
        base_offset: first offset of the batch.
        max_records: maximum number of records; the minimum is one.
        with_gaps: whether offsets may be missing, as after compaction, even at the end.
    """
    spec = replace(draw(stored_specs() if specs is None else specs), base_offset=base_offset)
    chosen = draw(st.lists(_default(records), min_size=1, max_size=max_records))
    steps = st.integers(1, 3) if with_gaps else st.just(1)
    offsets = [base_offset]
    for _ in chosen[1:]:
        offsets.append(offsets[-1] + draw(steps))
    if with_gaps:
        spec = replace(spec, last_offset=offsets[-1] + draw(st.integers(0, 2)))
    return BatchSample(build_batch(chosen, spec, offsets=offsets), spec, chosen, offsets)


def batches(
    specs: SearchStrategy[BatchSpec] | None = None,
    records: SearchStrategy[RecordFields] | None = None,
    *,
    base_offset: int = 0,
    max_records: int = 8,
) -> SearchStrategy[bytes]:
    """Valid batches as a producer sends them, without gaps; arguments as ``batch_samples``."""
    chosen = produced_specs() if specs is None else specs
    samples = batch_samples(
        chosen, records, base_offset=base_offset, max_records=max_records, with_gaps=False
    )
    return samples.map(lambda sample: sample.data)


@st.composite
def stored_batches(
    draw: DrawFn,
    specs: SearchStrategy[BatchSpec] | None = None,
    records: SearchStrategy[RecordFields] | None = None,
    *,
    start_offset: int = 0,
    max_batches: int = 6,
    max_records: int = 8,
) -> list[BatchSample]:
    """Consecutive batches of a log: offsets increase, with and without gaps.

    Leader epochs never decrease. Arguments as ``batch_samples``; the list may be empty.
    """
    found: list[BatchSample] = []
    next_offset, least_epoch = start_offset, -1
    for _ in range(draw(st.integers(0, max_batches))):
        spec = draw(stored_specs() if specs is None else specs)
        least_epoch = max(least_epoch, spec.leader_epoch)
        sample = draw(
            batch_samples(
                st.just(replace(spec, leader_epoch=least_epoch)),
                records,
                base_offset=next_offset + draw(st.integers(0, 2)),
                max_records=max_records,
            )
        )
        found.append(sample)
        next_offset = sample.end_offset
    return found


def _default(chosen: SearchStrategy[RecordFields] | None) -> SearchStrategy[RecordFields]:
    """Return ``records()`` for None; here that name is shadowed by an argument."""
    return records() if chosen is None else chosen
