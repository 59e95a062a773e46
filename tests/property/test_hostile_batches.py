"""Damaged and made-up bytes: a typed error or the right records, in bounded time and memory."""

from __future__ import annotations

import tracemalloc
import zlib
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tidelog.codec.compression import Codec, compress
from tidelog.codec.crc32c import crc32c
from tidelog.errors import InvalidArgument, InvalidRecord, KafkaError, MessageTooLarge
from tidelog.kernels.runtime import gate
from tidelog.records.batch import BATCH_HEADER, LOG_OVERHEAD, TimestampType
from tidelog.records.builder import build_batch, empty_batch, pack_batch
from tidelog.records.control import build_marker
from tidelog.records.file_records import FileRecords
from tidelog.records.memory import walk
from tidelog.records.record_columns import decode, decode_groups
from tidelog.records.validation.analyze import analyze
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.validate import LeaderPolicy, validate_for_leader
from tidelog.testing import CrashFileSystem
from tidelog.testing.old_batches import build_old

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.records.record import Record

NOW = 1_700_000_000_000
RECORDS = [
    (NOW, b"key", b"value", (("name", b"x"), ("", None))),
    (NOW - 300, None, None, ()),
    (NOW + 70_000, b"", b"v" * 40, ()),
]
OLD = [(NOW + i, b"key%d" % i, b"value" * i) for i in range(3)]
PRODUCER = {"producer_id": 9, "producer_epoch": 1, "base_sequence": 5, "transactional": True}
MARKER = build_marker(
    producer_id=1, producer_epoch=0, coordinator_epoch=3, is_commit=True, timestamp=5
)
KINDS: dict[str, bytes] = {
    **{
        f"v2 {codec.kafka_name}": build_batch(RECORDS, codec=codec, base_offset=9, **PRODUCER)
        for codec in Codec
    },
    "log append time": build_batch(
        RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=NOW
    ),
    "marker": MARKER,
    "empty": empty_batch(BATCH_HEADER.unpack(MARKER)),
    **{
        f"v{magic} {codec.kafka_name}": build_old(magic, OLD, base_offset=9, codec=codec)
        for magic in (0, 1)
        for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
    },
}
LIMIT = 1 << 20
V2_STAMPS = {*range(8), *range(12, 16)}
"""Bytes that the leader writes and no CRC covers: base offset and leader epoch."""
OLD_STAMPS = set(range(8))


@pytest.fixture(params=[False, True], ids=["plain", "kernels"])
def engine(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Force plain code or kernels for one test."""
    gate.force(request.param)
    yield request.param
    gate.force(None)


@pytest.fixture
def both_engines() -> Iterator[None]:
    """Let a test force one and the other, and undo it."""
    yield
    gate.force(None)


class Outcome(NamedTuple):
    """What came of reading: records of the good batches, and what was wrong behind them."""

    records: list[Record]
    error: str | None
    left_over: int


def read(data: bytes, *, check_crc: bool) -> Outcome:
    """Read as a consumer does; any error that is not typed is raised."""
    found = walk(data, check_crc=check_crc)
    records: list[Record] = []
    error = None if found.error is None else type(found.error).__name__
    try:
        for group in decode_groups(data, found.batches, limit=LIMIT, group_bytes=1):
            assert len(group) <= len(group.data)
            records += group.records()
    except KafkaError as refused:
        error = type(refused).__name__
    return Outcome(records, error, len(data) - found.next_position)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("kind", KINDS)
def test_every_prefix_is_torn_or_whole(kind: str) -> None:
    """A batch cut anywhere is a torn tail: no error, no record of it."""
    data = KINDS[kind]
    whole = read(data, check_crc=True)
    assert whole.error is None

    for end in range(len(data)):
        cut = read(data[:end], check_crc=True)
        assert cut.error is None
        assert cut.records == whole.records[: len(cut.records)]
        assert len(cut.records) < len(whole.records) or not whole.records
        assert cut.left_over > 0 or end == 0 or kind.endswith("none")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [0xFF, None])
def test_every_flipped_byte_is_found(kind: str, bits: int | None) -> None:
    """With CRCs checked, a flip outside the leader's stamps never gives a wrong record."""
    data = KINDS[kind]
    whole = read(data, check_crc=True)
    first_size = int.from_bytes(data[8:12], "big") + LOG_OVERHEAD
    stamps = V2_STAMPS if data[16] == 2 else OLD_STAMPS

    for at in range(first_size):
        if at in stamps:
            continue
        changed = bytearray(data)
        changed[at] ^= bits or 1 << at % 8
        found = read(bytes(changed), check_crc=True)
        is_refused = found.error is not None or found.left_over > 0
        assert is_refused or found.records == whole.records, (at, found)
        assert not is_refused or found.records == whole.records[: len(found.records)], (at, found)


def with_crc(data: bytearray) -> bytes:
    """Give a single batch the CRC of its bytes, so that the decoder gets to see them."""
    size = min(int.from_bytes(data[8:12], "big") + LOG_OVERHEAD, len(data))
    if len(data) > 16 and data[16] < 2:
        data[12:16] = zlib.crc32(data[16:size]).to_bytes(4, "big")
    elif len(data) >= BATCH_HEADER.size:
        data[17:21] = crc32c(memoryview(data)[21:size]).to_bytes(4, "big")
    return bytes(data)


def corrupted(rng: Random) -> bytes:
    """Make bytes that look like batches and are not, or only just."""
    data = bytearray(KINDS[rng.choice(list(KINDS))])
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data))
        way = rng.randrange(5)
        if way == 0:
            data[at] = rng.randrange(256)
        elif way == 1:
            data[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)))
        elif way == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 12))
        elif way == 3:
            del data[at : at + rng.randrange(1, 12)]
        else:
            data[at] ^= 1 << rng.randrange(8)
        if len(data) < 30:
            break
    if rng.random() < 0.5 and len(data) >= LOG_OVERHEAD:
        data[8:12] = (len(data) - LOG_OVERHEAD).to_bytes(4, "big")
    return with_crc(data) + rng.choice((b"", KINDS["v2 none"], rng.randbytes(20)))


def survive(count: int, seed: int) -> None:
    """Read made-up batches in both ways, which must agree, and as appends."""
    rng = Random(seed)
    for _ in range(count):
        data = corrupted(rng)
        outcomes = []
        for way in (False, True):
            gate.force(way)
            outcomes.append(read(data, check_crc=False))
        assert outcomes[0] == outcomes[1], data.hex()
        append(data)


def append(data: bytes) -> None:
    """Append as a client; what is accepted must read back with dense offsets."""
    options = {"leader_epoch": 3, "origin": AppendOrigin.CLIENT}
    try:
        analyzed = analyze(data, max_batch_bytes=None, are_offsets_given=False, **options)
        if not analyzed.valid_bytes:
            return
        config = LeaderPolicy(needs_keys=len(data) % 2 == 0)
        found = validate_for_leader(
            data, analyzed, config=config, first_offset=50, now_ms=NOW, **options
        )
    except (KafkaError, InvalidArgument):
        return
    stored = read(bytes(found.data), check_crc=True)
    assert (stored.error, stored.left_over) == (None, 0), data.hex()
    offsets = [record.offset for record in stored.records]
    assert offsets == list(range(50, found.next_offset)), data.hex()


@pytest.mark.usefixtures("both_engines")
@pytest.mark.parametrize("seed", range(4))
def test_made_up_batches_give_typed_errors(seed: int) -> None:
    """Whatever the bytes, kernels and plain code agree, and only typed errors come out."""
    survive(1000, seed)


@pytest.mark.slow
@pytest.mark.usefixtures("both_engines")
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_made_up_batches_give_typed_errors(seed: int) -> None:
    """Ten thousand corruptions for each seed."""
    survive(10_000, seed)


@pytest.mark.usefixtures("engine")
def test_made_up_files_end_at_the_first_bad_batch() -> None:
    """A file of anything is read to its end or to an error, in whatever pieces."""
    fs = CrashFileSystem(0)
    fs.make_directory("/log")
    rng = Random(7)
    for _ in range(100):
        data = b"".join(corrupted(rng) for _ in range(3))
        fs.write("/log/x.log", data)
        found = []
        for piece_bytes in (70, 1 << 20):
            with FileRecords.open(fs, "/log/x.log") as records:
                pieces = list(records.pieces(piece_bytes, check_crc=True))
                positions = [p for piece in pieces for p in piece.batches.position.tolist()]
                found.append((positions, records.trailing_bytes, str(records.error)))
        assert found[0] == found[1]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("codec", [c for c in Codec if c])
def test_a_bomb_takes_no_memory_to_speak_of(codec: Codec) -> None:
    """A small batch that decompresses to much more than allowed is refused on the way."""
    bomb = compress(codec, bytes(16 * LIMIT))
    header = BATCH_HEADER.unpack(KINDS[f"v2 {codec.kafka_name}"])
    data = pack_batch(header._replace(records_count=1), bomb)
    batches = walk(data, check_crc=True).batches

    peak = _peak_bytes(data, batches)

    assert peak < 6 * LIMIT


def _peak_bytes(data: bytes, batches: object) -> int:
    tracemalloc.start()
    try:
        with pytest.raises((MessageTooLarge, InvalidRecord)):
            decode(data, batches, limit=LIMIT)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("engine")
def test_a_count_takes_no_memory_by_itself() -> None:
    """Two thousand million records in a few bytes are refused before anything is made for them."""
    good = KINDS["v2 none"]
    header = BATCH_HEADER.unpack(good)._replace(records_count=2**31 - 1)
    data = pack_batch(header, good[BATCH_HEADER.size :])

    assert _peak_bytes(data, walk(data).batches) < LIMIT
