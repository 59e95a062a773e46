"""Impossible offsets: a log opens without help whatever offsets its batches have."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.log_home import LogHome
from tests.machinery.scale import examples

import tidelog
from tidelog.codec.compression import Codec
from tidelog.codec.crc32c import crc32c
from tidelog.errors import CorruptMessage, DamagedLog, InvalidArgument
from tidelog.kernels.runtime import gate
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import filename_prefix_from_offset
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields

INT64_MAX = 2**63 - 1
NOW_MS = 1_700_000_000_000
ODD = st.sampled_from([-(2**63), -5, -1, 0, 1, 9, 2**31, 2**40, 2**62])
NEAR_THE_END = st.integers(0, 20).map(lambda below: INT64_MAX - below)
ANYWHERE = ODD | NEAR_THE_END
DELTAS = st.sampled_from([0, 0, 0, 1, 7, 2**31 - 1, -1, -(2**31)])


def stated(base_offset: int, last_delta: int) -> bytes:
    """Build a batch with a valid CRC and these offsets."""
    data = bytearray(build_batch([(NOW_MS, b"k", b"v", ())], leader_epoch=0))
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 23, last_delta)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def batch(count: int = 1, **fields: Unpack[BatchFields]) -> bytes:
    """Build a batch with this number of records."""
    return build_batch([(NOW_MS, b"k", b"v", ())] * count, **fields)


def log_from(base_offset: int, **settings: Any) -> tuple[LogHome, Log]:
    """Return a log that starts, and ends, at an offset."""
    home = LogHome(**settings)
    log = home.open()
    log.truncate_fully_and_start_at(base_offset)
    return home, log


@settings(max_examples=examples(150), deadline=None)
@given(
    segment_base=st.sampled_from([0, 0, 2**40]) | NEAR_THE_END,
    good=st.integers(0, 3),
    odd=st.lists(st.tuples(ANYWHERE, DELTAS), max_size=3),
    clean=st.booleans(),
    indexed=st.booleans(),
    interval=st.sampled_from([0, 4096]),
)
def test_a_log_opens_whatever_offsets_its_batches_state(
    segment_base: int,
    good: int,
    odd: list[tuple[int, int]],
    *,
    clean: bool,
    indexed: bool,
    interval: int,
) -> None:
    """It ends at a valid log end, keeps what is right before the damage, and opens again.

    It takes appends, at the latest after a recovery that may cut it.
    """
    home = LogHome(index_interval_bytes=interval)
    good = min(good, INT64_MAX - segment_base)
    parts = [stated(segment_base + number, 0) for number in range(good)]
    prefix = filename_prefix_from_offset(segment_base)
    home.write(f"{prefix}.log", b"".join([*parts, *(stated(*each) for each in odd)]))
    if indexed:
        home.write(f"{prefix}.index", b"")
        home.write(f"{prefix}.timeindex", b"")

    log = home.open(clean=clean)

    sure = max(good - 1, 0)  # the last good one may be one of two that disagree
    assert segment_base + sure <= log.log_end_offset <= INT64_MAX
    assert offsets_of(log)[:sure] == list(range(segment_base, segment_base + sure))
    if log.contradiction is not None:
        with pytest.raises(DamagedLog):
            log.append_as_leader(batch())
        log.close()
        log = home.open(clean=False, cuts_contradictions=True)
    end = log.log_end_offset
    if end < INT64_MAX:
        assert log.append_as_leader(batch()).first_offset == end
    log.close()
    assert home.open().log_end_offset == min(end + 1, INT64_MAX)


def offsets_of(log: Log) -> list[int]:
    """Return the offsets that a reader gets before an error, if there is one."""
    found: list[int] = []
    with suppress(CorruptMessage):
        found.extend(record.offset for record in log.records(isolation=Isolation.LOG_END))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(
    left=st.integers(0, 5),
    count=st.integers(1, 6),
    codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
    kept=st.sampled_from(["producer", "gzip"]),
    origin=st.sampled_from([AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.STAGED]),
    kernels=st.booleans(),
)
def test_an_append_ends_at_the_greatest_offset_or_changes_nothing(
    left: int, count: int, codec: Codec, kept: str, origin: AppendOrigin, *, kernels: bool
) -> None:
    """A leader assigns offsets up to 2**63 - 2; beyond that there is a typed error."""
    home, log = log_from(INT64_MAX - left, compression_type=kept)
    gate.force(kernels)
    try:
        before = {name: home.read(name) for name in home.files()}, log.epochs.entries
        data = batch(count, codec=codec)
        if count <= left:
            info = log.append_as_leader(data, 3, origin=origin)
            assert info.last_offset == INT64_MAX - left + count - 1
            assert log.log_end_offset == info.last_offset + 1
            return
        with pytest.raises(InvalidArgument):
            log.append_as_leader(data, 3, origin=origin)
        assert before == ({name: home.read(name) for name in home.files()}, log.epochs.entries)
        assert log.log_end_offset == INT64_MAX - left
    finally:
        gate.force(None)


@pytest.mark.parametrize("left", range(4))
def test_a_follower_ends_at_the_greatest_offset_or_changes_nothing(left: int) -> None:
    """No epoch is recorded and no segment rolled for a batch that cannot be appended."""
    home, log = log_from(0)
    data = batch(4, base_offset=INT64_MAX - 3 - left, leader_epoch=2)
    if left:
        assert log.append_as_follower(data, 2).last_offset == INT64_MAX - left
        log.close()
        assert home.open(clean=False).log_end_offset == INT64_MAX - left + 1
        return
    before = home.files()

    with pytest.raises(InvalidArgument):
        log.append_as_follower(data, 2)

    assert home.files() == before
    assert log.epochs.entries == ()


@pytest.mark.parametrize("is_clean", [True, False])
def test_one_such_log_does_not_stop_the_others(tmp_path: Path, *, is_clean: bool) -> None:
    """A directory with a log that has offset 2**63 - 1 opens; past the recovery point it is cut."""
    with tidelog.open(tmp_path) as logs:
        for topic in ("good", "bad"):
            logs.create_topic(topic)
            logs.append(topic, b"value")
    with (tmp_path / "bad-0" / f"{0:020d}.log").open("ab") as file:
        file.write(stated(INT64_MAX, 0))
    if not is_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
        (tmp_path / "recovery-point-offset-checkpoint").unlink()

    with tidelog.open(tmp_path) as logs:
        good = [each.value for each in logs.read("good", 0)]
        bad = next(iter(logs.read("bad", 0))).value
        assert logs.append("bad", b"after").offset == (2 if is_clean else 1)
        logs.append("good", b"after")

    assert (good, bad) == ([b"value"], b"value")
    assert len(list(tmp_path.glob("*.cut"))) == (0 if is_clean else 1)
