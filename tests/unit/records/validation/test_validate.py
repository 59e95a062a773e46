"""What a leader accepts."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.machinery.old_batches import build_entry, build_old
from tests.machinery.record_values import iterate

from tidelog.codec.compression import Codec, compress
from tidelog.config.log_config import LogConfig
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    InvalidRecord,
    InvalidTimestamp,
)
from tidelog.records.batch import BATCH_HEADER, TimestampType
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.control import build_marker, read_marker
from tidelog.records.memory import walk
from tidelog.records.record import Record, write_record
from tidelog.records.validation.analyze import analyze
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.policy import LeaderPolicy
from tidelog.records.validation.rejection import Rejection
from tidelog.records.validation.validate import ValidatedRecords, validate_for_leader

if TYPE_CHECKING:
    from tests.machinery.fields import SequenceFields

    from tidelog.codec.layout import Buffer


NOW = 1_700_000_000_000
HOUR = 3_600_000
CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
CLIENT, STAGED = AppendOrigin.CLIENT, AppendOrigin.STAGED
RECORDS = [(NOW + i % 3, b"key%d" % i, b"value", (("h", b"x"),)) for i in range(10)]
OLD = [(NOW + 5, b"a", b"1"), (NOW, b"b", None)]
PRODUCER: SequenceFields = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 4}

pytestmark = pytest.mark.usefixtures("engine")


def accepted(
    data: Buffer, policy: LeaderPolicy | LogConfig | None = None, **changes: Any
) -> ValidatedRecords:
    origin = changes.pop("origin", CLIENT)
    analyzed = analyze(
        data, origin=origin, leader_epoch=6, max_batch_bytes=None, require_offsets_monotonic=False
    )
    options = {"first_offset": 100, "leader_epoch": 6, "now_ms": NOW, "origin": origin}
    config = LeaderPolicy() if policy is None else policy
    return validate_for_leader(data, analyzed, config=config, **{**options, **changes})


def stored(found: ValidatedRecords) -> list[Record]:
    """Read the validated batches, after checking that they are whole and as described."""
    again = walk(found.data, check_crc=True)
    assert again.error is None
    assert np.array_equal(again.batches.array, found.batches.array)
    assert set(again.batches.leader_epoch.tolist()) <= {6}
    return list(iterate(found.data, again.batches))


def repacked(data: bytes, **fields: int) -> bytes:
    header = BATCH_HEADER.unpack(data)._replace(**fields)
    return pack_batch(header, data[BATCH_HEADER.size :])


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", [None, *Codec])
@pytest.mark.parametrize("kind", [CREATE, APPEND])
def test_records_get_offsets_and_keep_all_else(
    source: Codec, target: Codec | None, kind: TimestampType
) -> None:
    """Offsets follow the log's end; codec and timestamps follow the topic; all else is unchanged.

    Scenario: LogValidatorTest.checkCompressed, LogValidatorTest.checkLogAppendTimeNonCompressed,
    LogValidatorTest.checkLogAppendTimeWithRecompression,
    LogValidatorTest.checkLogAppendTimeWithoutRecompression, LogValidatorTest.checkNonCompressed,
    LogValidatorTest.checkRecompression, LogValidatorTest.testDifferentCodecCausesRecompression,
    LogValidatorTest.testRelativeOffsetAssignmentCompressedV2,
    LogValidatorTest.testRelativeOffsetAssignmentNonCompressedV2
    """
    data = build_batch(RECORDS, codec=source, transactional=True, **PRODUCER)

    found = accepted(data, LeaderPolicy(codec=target, timestamp_type=kind))

    records = stored(found)
    times = [NOW] * 10 if kind is APPEND else [record[0] for record in RECORDS]
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in records] == [
        (100 + i, times[i], kind) for i in range(10)
    ]
    assert [(r.key, r.value, r.headers) for r in records] == [record[1:] for record in RECORDS]
    assert [r.sequence for r in records] == list(range(4, 14))
    assert found.batches.is_transactional.all()
    assert found.batches.codec.item() == (source if target is None else target)
    assert found.next_offset == 110
    assert found.max_timestamp == (NOW if kind is APPEND else NOW + 2)
    assert found.log_append_time == (NOW if kind is APPEND else -1)
    assert found.are_sizes_changed == (target not in {None, source})


def test_another_level_does_not_recompress() -> None:
    """If the codec is already the topic's, its level matters only for batches that are rebuilt.

    Scenario: LogValidatorTest.testDifferentLevelDoesNotCauseRecompression
    """
    data = build_batch(RECORDS, codec=Codec.GZIP, level=1)

    found = accepted(data, LeaderPolicy(codec=Codec.GZIP, level=9))

    assert bytes(found.data)[BATCH_HEADER.size :] == data[BATCH_HEADER.size :]
    assert not found.are_sizes_changed


def test_the_callers_bytes_stay_as_they_are() -> None:
    """Batches are changed in a copy."""
    data = bytearray(build_batch(RECORDS))
    before = bytes(data)

    accepted(data)

    assert bytes(data) == before


def test_a_bytearray_of_staged_batches_is_stamped_in_place() -> None:
    """The log owns such a bytearray; other bytes, and one with bytes after it, are copied."""
    staged = build_batch(RECORDS) * 2
    buffer = bytearray(staged)
    longer = bytearray(staged + b"more")

    found = accepted(buffer, origin=STAGED)
    others = accepted(staged, origin=STAGED), accepted(longer, origin=STAGED)

    assert found.data is buffer
    assert [other.data for other in others] == [buffer, buffer]
    assert longer == staged + b"more"


def test_an_unchanged_timestamp_keeps_the_crc() -> None:
    """The CRC does not cover offset and epoch."""
    data = build_batch(RECORDS)

    assert BATCH_HEADER.unpack(accepted(data).data).crc == BATCH_HEADER.unpack(data).crc


def test_a_wrong_greatest_timestamp_is_corrected() -> None:
    """The leader computes it from the records, not from the header."""
    data = repacked(build_batch(RECORDS), max_timestamp=5)

    found = accepted(data)

    assert found.max_timestamp == found.batches.max_timestamp.item() == NOW + 2
    stored(found)


@pytest.mark.parametrize(
    "fields",
    [
        {"last_offset_delta": -1},
        {"last_offset_delta": 20},
        {"records_count": 0},
        {"records_count": 0, "last_offset_delta": -1},
        {"records_count": -5, "last_offset_delta": -6},
        {"attributes": 0x20},
        {"producer_id": 3},
        {"producer_id": 0},
    ],
    ids=str,
)
def test_a_client_batch_that_contradicts_itself_is_invalid(fields: dict[str, int]) -> None:
    """Count and offsets must agree, without control bit; a producer must have a sequence.

    Scenario: LogValidatorTest.checkInvalidSequence,
    LogValidatorTest.testBatchWithoutRecordsNotAllowed,
    LogValidatorTest.testInconsistentCountAndOffset,
    LogValidatorTest.testNonIncreasingOffsetRecordBatchHasMetricsLogged
    """
    seen: list[tuple[Rejection, int]] = []
    data = repacked(build_batch(RECORDS), **fields)

    with pytest.raises(InvalidRecord):
        accepted(data, on_rejected=lambda *a: seen.append(a))

    assert seen == [(Rejection.INVALID_OFFSET_OR_SEQUENCE, 1)]


def test_a_producers_first_batch_has_sequence_0() -> None:
    """One record of the producer with the least id."""
    data = build_batch(RECORDS[:1], producer_id=0, producer_epoch=0, base_sequence=0)

    assert [record.sequence for record in stored(accepted(data))] == [0]


def test_an_append_without_batches_is_refused() -> None:
    """The caller has to leave it out."""
    with pytest.raises(InvalidArgument, match="0 batches"):
        accepted(b"")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_count_that_is_not_the_records_is_invalid(codec: Codec) -> None:
    """A batch whose count differs from the records it holds is rejected.

    Scenario: LogValidatorTest.testRecordBatchWithCountOverrides,
    LogValidatorTest.testUnmatchedNumberOfRecords
    """
    data = build_batch(RECORDS, codec=codec)

    for count in (9, 11):
        with pytest.raises(InvalidRecord):
            accepted(repacked(data, records_count=count, last_offset_delta=count - 1))


@pytest.mark.parametrize(
    "data", [build_batch(RECORDS) * 2, build_old(1, OLD, codec=Codec.GZIP) * 2]
)
def test_an_append_holds_one_batch(data: bytes) -> None:
    """An append of magic 2 or of compressed batches must have exactly one batch.

    Scenario: LogValidatorTest.checkAllowMultiBatch, LogValidatorTest.checkOnlyOneBatch
    """
    with pytest.raises(InvalidRecord):
        accepted(data)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_records_of_a_compacted_topic_need_keys(codec: Codec) -> None:
    """Null keys are rejected; all are listed, three are shown. Empty keys are accepted.

    Scenario: LogValidatorTest.checkNoKeyCompactedTopic,
    LogValidatorTest.testInvalidRecordExceptionHasBatchIndex,
    UnifiedLogTest.testCompactedTopicConstraints
    """
    keys = [b"", None, b"k", None, None, None]
    data = build_batch([(NOW, key, b"v", ()) for key in keys], codec=codec)
    seen: list[tuple[Rejection, int]] = []
    policy = LeaderPolicy(needs_keys=True)

    with pytest.raises(InvalidRecord) as caught:
        accepted(data, policy, on_rejected=lambda *a: seen.append(a))

    assert [index for index, _ in caught.value.record_errors] == [1, 3, 4, 5]
    assert str(caught.value).count("no key") == 3
    assert seen == [(Rejection.NO_KEY_COMPACTED_TOPIC, 4)]
    accepted(data)


@pytest.mark.parametrize(
    ("timestamp", "is_fine"),
    [
        (NOW - 1000, True),
        (NOW - 1001, False),
        (NOW + HOUR, True),
        (NOW + HOUR + 1, False),
        (-1, True),
    ],
)
def test_timestamps_have_limits(timestamp: int, is_fine: bool) -> None:
    """A timestamp too far from now is rejected; a missing one is accepted.

    Scenario: LogValidatorTest.testInvalidCreateTimeCompressedV2,
    LogValidatorTest.testInvalidCreateTimeNonCompressedV2,
    LogValidatorTest.testRecordWithFutureTimestampIsRejected,
    LogValidatorTest.testRecordWithPastTimestampIsRejected
    """
    data = build_batch([(NOW, b"k", b"v", ()), (timestamp, b"k", b"v", ())])
    policy = LeaderPolicy(timestamp_before_max_ms=1000)

    if is_fine:
        assert stored(accepted(data, policy))[1].timestamp == timestamp
    else:
        with pytest.raises(InvalidTimestamp) as caught:
            accepted(data, policy)
        assert [index for index, _ in caught.value.record_errors] == [1]


def test_limits_do_not_matter_with_log_append_time() -> None:
    """If the leader sets the timestamp, the producer's may be anything."""
    data = build_batch([(NOW + 2 * HOUR, b"k", b"v", ())])

    assert stored(accepted(data, LeaderPolicy(timestamp_type=APPEND)))[0].timestamp == NOW


def test_a_bad_timestamp_outranks_a_missing_key() -> None:
    """If any timestamp is invalid, the error is InvalidTimestamp; it lists all records.

    Scenario: LogValidatorTest.testBatchWithInvalidRecordsAndInvalidTimestamp,
    LogValidatorTest.testInvalidTimestampExceptionHasBatchIndex
    """
    data = build_batch([(NOW, None, b"", ()), (NOW + 2 * HOUR, b"k", b"", ())])

    with pytest.raises(InvalidTimestamp) as caught:
        accepted(data, LeaderPolicy(needs_keys=True))

    assert [index for index, _ in caught.value.record_errors] == [0, 1]


def test_a_producer_must_not_claim_log_append_time() -> None:
    """On a LogAppendTime topic, a batch with that flag is rejected."""
    data = build_batch(RECORDS, timestamp_type=APPEND, max_timestamp=NOW)

    with pytest.raises(InvalidTimestamp) as caught:
        accepted(data, LeaderPolicy(timestamp_type=APPEND))

    assert len(caught.value.record_errors) == len(RECORDS)


def test_a_claimed_append_time_within_limits_becomes_create_time() -> None:
    """On a CreateTime topic, Kafka accepts such a batch and clears its flag."""
    data = build_batch(RECORDS, timestamp_type=APPEND, max_timestamp=NOW + 77)

    found = accepted(data)

    assert found.batches.max_timestamp.item() == NOW + 77
    assert {record.timestamp_type for record in stored(found)} == {CREATE}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_offsets_are_always_dense(codec: Codec) -> None:
    """A client batch whose offset deltas are not 0, 1, 2 … gets new ones.

    Scenario: LogValidatorTest.testValidationOfBatchesWithNonSequentialInnerOffsets
    """
    body = bytearray()
    for delta in (0, 0, 2):
        write_record(body, 0, delta, key=b"k%d" % delta, value=b"v")
    header = BATCH_HEADER.unpack(build_batch(RECORDS[:3]))
    plain = pack_batch(header._replace(attributes=0), body)

    found = accepted(plain, LeaderPolicy(codec=codec))

    assert [record.offset for record in stored(found)] == [100, 101, 102]
    assert found.are_sizes_changed


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_coordinators_offsets_may_have_gaps_unless_they_are_compressed(codec: Codec) -> None:
    """As in Kafka only batches of clients, and compressed ones, are rebuilt without them."""
    body = bytearray()
    for delta in (0, 2):
        write_record(body, 0, delta, key=b"k", value=b"v")
    header = BATCH_HEADER.unpack(build_batch(RECORDS[:3]))
    header = header._replace(attributes=int(codec), records_count=2, last_offset_delta=2)
    data = pack_batch(header, compress(codec, body))

    found = accepted(data, origin=AppendOrigin.COORDINATOR)

    assert found.are_sizes_changed is (codec is not Codec.NONE)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("source", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("target", [None, Codec.NONE, Codec.ZSTD])
def test_old_batches_become_one_of_magic_2(magic: int, source: Codec, target: Codec | None) -> None:
    """Batches of magic 0 or 1 are stored as one batch of magic 2.

    Scenario: LogValidatorTest.checkCreateTimeUpConversionFromV0,
    LogValidatorTest.testAbsoluteOffsetAssignmentCompressed,
    LogValidatorTest.testAbsoluteOffsetAssignmentNonCompressed,
    LogValidatorTest.testCreateTimeUpConversionV1ToV2,
    LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV2Compressed,
    LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV2NonCompressed,
    LogValidatorTest.testOffsetAssignmentAfterUpConversionV1ToV2Compressed,
    LogValidatorTest.testOffsetAssignmentAfterUpConversionV1ToV2NonCompressed,
    LogValidatorTest.testRelativeOffsetAssignmentCompressedV1,
    LogValidatorTest.testRelativeOffsetAssignmentNonCompressedV1
    """
    found = accepted(build_old(magic, OLD, codec=source), LeaderPolicy(codec=target))

    records = stored(found)
    assert found.batches.magic.tolist() == [2]
    assert found.batches.codec.item() == (source if target is None else target)
    times = [-1, -1] if magic == 0 else [NOW + 5, NOW]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records] == [
        (100 + i, times[i], *OLD[i][1:]) for i in range(2)
    ]
    assert found.max_timestamp == max(times)
    assert found.are_sizes_changed


def test_magics_may_not_be_mixed() -> None:
    """All batches of an append must have the magic of the first.

    Scenario: LogValidatorTest.checkMismatchMagic
    """
    seen: list[tuple[Rejection, int]] = []

    with pytest.raises(InvalidRecord, match="of magic 1 follows one of magic 0"):
        accepted(build_old(0, OLD) + build_old(1, OLD), on_rejected=lambda *a: seen.append(a))
    with pytest.raises(InvalidRecord, match="of magic 2 follows one of magic 1"):
        accepted(build_old(1, OLD) + build_batch(RECORDS), on_rejected=lambda *a: seen.append(a))

    assert seen == [(Rejection.INVALID_MAGIC_NUMBER, 1)] * 2


def test_attributes_of_old_records_are_not_those_of_batches() -> None:
    """Of magic 1 the bits of transactions and control batches mean nothing."""
    entry = bytearray(build_entry(1, 0, OLD[0]))
    entry[17] |= 0x30
    entry[12:16] = zlib.crc32(entry[16:]).to_bytes(4)

    found = accepted(bytes(entry))

    assert not (found.batches.is_transactional | found.batches.is_control).any()


def wrapped(inner: bytes) -> bytes:
    record = NOW, None, compress(Codec.GZIP, inner, magic=1)
    return build_entry(1, 1, record, codec=Codec.GZIP)


def test_inner_records_are_of_the_wrappers_magic() -> None:
    """A leader rejects wrappers that old brokers could write (KAFKA-4298)."""
    seen: list[tuple[Rejection, int]] = []

    with pytest.raises(InvalidRecord) as caught:
        accepted(
            wrapped(build_entry(1, 0, OLD[0]) + build_entry(0, 1, OLD[1])),
            on_rejected=lambda *a: seen.append(a),
        )

    assert [index for index, _ in caught.value.record_errors] == [1]
    assert seen == [(Rejection.INVALID_MAGIC_NUMBER, 1)]


def test_inner_checksums_are_checked() -> None:
    """A wrong CRC of a record inside a wrapper is corruption.

    Scenario: LogValidatorTest.checkInvalidChecksum
    """
    inner = bytearray(build_entry(1, 0, OLD[0]))
    inner[-1] ^= 1

    with pytest.raises(CorruptMessage):
        accepted(wrapped(bytes(inner)))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_compressed_bytes_that_are_damaged_are_no_reason_to_send_them_again(codec: Codec) -> None:
    """The checksum is right: the producer has made them, and clients repeat after CorruptMessage.

    Kafka's error for it, too, is one that clients do not repeat after.
    """
    batch = build_batch([(NOW, None, b"a" * 100, ())], codec=codec)
    packed = batch[BATCH_HEADER.size :]

    for damaged in (packed[: len(packed) // 2], b"\xff" * len(packed)):
        with pytest.raises(InvalidRecord) as caught:
            accepted(pack_batch(BATCH_HEADER.unpack(batch), damaged))
        assert not caught.value.code.retriable


def test_old_records_are_held_to_the_same_rules() -> None:
    """The rules for keys and timestamps apply to old formats too.

    Scenario: LogValidatorTest.testInvalidCreateTimeCompressedV1,
    LogValidatorTest.testInvalidCreateTimeNonCompressedV1
    """
    keyless = build_old(1, [(NOW, None, b"v")])
    late = build_old(1, [(NOW + 2 * HOUR, b"k", b"v")], codec=Codec.GZIP)

    with pytest.raises(InvalidRecord):
        accepted(keyless, LeaderPolicy(needs_keys=True))
    with pytest.raises(InvalidTimestamp):
        accepted(late)


@pytest.mark.parametrize("target", [None, Codec.ZSTD])
def test_markers_are_never_compressed(target: Codec | None) -> None:
    """A coordinator's marker is unchanged, whatever the topic's codec.

    Scenario: LogValidatorTest.testControlRecordsNotCompressed
    """
    marker = build_marker(
        producer_id=7, producer_epoch=1, coordinator_epoch=2, is_commit=True, timestamp=NOW
    )

    found = accepted(marker, LeaderPolicy(codec=target), origin=AppendOrigin.COORDINATOR)

    assert found.batches.codec.item() == 0
    assert read_marker(found.data, 0)[1].coordinator_epoch == 2
    assert found.batches.base_offset.item() == 100


@pytest.mark.parametrize("kind", [CREATE, APPEND])
def test_staged_batches_are_only_stamped(kind: TimestampType) -> None:
    """Batches that were validated before get consecutive offsets, several at once."""
    batches = [build_batch(RECORDS[:3]), build_batch(RECORDS[3:], codec=Codec.ZSTD, **PRODUCER)]
    data = b"".join(batches)

    found = accepted(data, LeaderPolicy(timestamp_type=kind, codec=Codec.GZIP), origin=STAGED)

    assert [record.offset for record in stored(found)] == list(range(100, 110))
    assert found.next_offset == 110
    assert found.batches.size.tolist() == [len(batch) for batch in batches]
    assert found.max_timestamp == (NOW if kind is APPEND else NOW + 2)
    crcs = [BATCH_HEADER.unpack(batch).crc for batch in batches]
    assert (found.batches.crc.tolist() == crcs) is (kind is CREATE)


@pytest.mark.parametrize(
    "data", [build_old(1, OLD), repacked(build_batch(RECORDS), last_offset_delta=-1)]
)
def test_staged_batches_are_of_magic_2_and_hold_offsets(data: bytes) -> None:
    """Batches that cannot have been validated are rejected."""
    with pytest.raises(InvalidArgument):
        accepted(data, origin=STAGED)


@pytest.mark.parametrize("origin", [AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER])
def test_existing_offsets_are_not_assigned_again(origin: AppendOrigin) -> None:
    """Followers and the KRaft leader bring their own offsets."""
    data = build_batch(RECORDS, leader_epoch=6)

    with pytest.raises(InvalidArgument):
        accepted(data, origin=origin)


def test_a_policy_follows_a_topics_settings() -> None:
    """The policy has each setting that concerns batches."""
    config = LogConfig.parse(
        {
            "compression.type": "zstd",
            "compression.zstd.level": "7",
            "cleanup.policy": "compact",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "5",
            "message.timestamp.after.max.ms": "6",
        }
    )

    assert LeaderPolicy.of(config) == LeaderPolicy(
        codec=Codec.ZSTD,
        level=7,
        needs_keys=True,
        timestamp_type=APPEND,
        timestamp_before_max_ms=5,
        timestamp_after_max_ms=6,
    )
    assert LeaderPolicy.of(LogConfig()) == LeaderPolicy()
    uncompressed = LogConfig.parse({"compression.type": "uncompressed"})
    assert LeaderPolicy.of(uncompressed).codec is Codec.NONE
    assert accepted(build_batch(RECORDS), config).batches.codec.item() == Codec.ZSTD
