"""Appends, as leader and as follower."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.codec.compression import Codec
from tidelog.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    OffsetsOutOfOrder,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
    UnexpectedAppendOffset,
)
from tidelog.kernels.runtime import gate
from tidelog.log.leader_epoch import EpochEntry
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import ManualClock, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.codec.layout import Buffer
    from tidelog.config.log_config import LogConfig
    from tidelog.log.log import Log
    from tidelog.records.builder import BatchFields

NOW_MS = 1_700_000_000_000
_END = Isolation.LOG_END


def batch(*values: bytes, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch with a record per value, all of one time."""
    return build_batch([(NOW_MS, b"key", value, ()) for value in values], **fields)


def produced(sequence: int, count: int = 1, epoch: int = 0, **fields: Unpack[BatchFields]) -> bytes:
    """Make a batch of producer 7."""
    values = [b"value"] * count
    stated: BatchFields = {
        "producer_id": 7,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        **fields,
    }
    return batch(*values, **stated)


def marker(*, commit: bool, epoch: int = 0, producer_id: int = 7) -> bytes:
    """Make the marker that ends a transaction of producer 7."""
    return build_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=0,
        is_commit=commit,
        timestamp=NOW_MS,
    )


def test_a_leader_gives_consecutive_offsets() -> None:
    """Records get the offsets from the log's end on, and the answer names them.

    Scenario: UnifiedLogTest.testAppendInfoFirstOffset
    """
    log = LogHome().open()
    log.append_as_leader(batch(b"a", b"b"))

    info = log.append_as_leader(batch(b"c", b"d", b"e"), leader_epoch=4)

    assert (info.first_offset, info.last_offset, info.last_leader_epoch) == (2, 4, 4)
    assert log.log_end_offset == 5
    assert [offset for offset, _ in all_values(log)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_answer_names_the_codec_and_the_first_batch_as_they_came(codec: Codec) -> None:
    """Whatever the topic stores them with."""
    log = LogHome(compression_type="zstd").open()
    log.append_as_leader(batch(b"a"))

    info = log.append_as_leader(batch(b"c", b"d", b"e", codec=codec))

    assert (info.source_codec, info.last_offset_of_first_batch) == (codec, 2)
    assert (info.offset_count, info.last_offset) == (3, 3)


@pytest.mark.parametrize(("codec", "converted"), [(Codec.ZSTD, 0), (Codec.NONE, 3)])
def test_records_that_were_written_anew_are_counted(codec: Codec, converted: int) -> None:
    """A batch in the topic's codec is stored as it came."""
    log = LogHome(compression_type="zstd").open()

    assert log.append_as_leader(batch(b"c", b"d", b"e", codec=codec)).records_converted == converted


def test_the_callers_bytes_are_left_alone() -> None:
    """The leader stamps a copy."""
    data = batch(b"a")
    before = bytes(data)

    LogHome().open().append_as_leader(bytearray(data), leader_epoch=9)

    assert data == before


def test_nothing_is_appended_from_nothing() -> None:
    """An append without a whole batch succeeds, rolls nothing and gives no offsets."""
    log = LogHome().open()

    info = log.append_as_leader(batch(b"a")[:-1])

    assert info.is_empty
    assert log.log_end_offset == 0


def test_the_start_of_one_more_batch_is_left_out() -> None:
    """Bytes after the last whole batch are not part of the append."""
    log = LogHome().open()

    log.append_as_leader(batch(b"a") + batch(b"b")[:30])

    assert all_values(log) == [(0, b"a")]


def test_a_damaged_batch_is_refused() -> None:
    """A wrong checksum fails the append, and nothing is kept."""
    log = LogHome().open()
    data = bytearray(batch(b"a"))
    data[-1] ^= 1

    with pytest.raises(CorruptMessage):
        log.append_as_leader(data)
    assert log.log_end_offset == 0


def test_a_batch_above_max_message_bytes_is_refused() -> None:
    """The limit counts the whole batch as it is stored.

    Scenario: UnifiedLogTest.testMessageSizeCheck
    """
    log = LogHome(max_message_bytes=len(batch(b"12345"))).open()
    log.append_as_leader(batch(b"12345"))

    with pytest.raises(MessageTooLarge):
        log.append_as_leader(batch(b"123456"))


def test_an_append_above_the_segment_size_is_refused() -> None:
    """What does not fit a whole segment cannot be appended.

    Scenario: UnifiedLogTest.testMessageSetSizeCheck
    """
    log = LogHome(internal_segment_bytes=100).open()

    with pytest.raises(RecordListTooLarge):
        log.append_as_leader(batch(b"x" * 100))


def test_a_full_segment_rolls_first() -> None:
    """A batch that does not fit goes into a new segment that begins at its offset.

    Scenario: UnifiedLogTest.testSizeBasedLogRoll
    """
    log = LogHome(internal_segment_bytes=2 * len(batch(b"a"))).open()

    for value in (b"a", b"b", b"c", b"d", b"e"):
        log.append_as_leader(batch(value))

    assert log.segments.base_offsets == [0, 2, 4]
    assert [value for _, value in all_values(log)] == [b"a", b"b", b"c", b"d", b"e"]


def test_a_clients_control_batch_is_refused() -> None:
    """Only coordinators write markers.

    Scenario: LogValidatorTest.testControlRecordsNotAllowedFromClients
    """
    with pytest.raises(InvalidRecord):
        LogHome().open().append_as_leader(marker(commit=True))


def test_the_topics_codec_wins() -> None:
    """A batch in another codec than the topic's is compressed again.

    Scenario: UnifiedLogTest.testCompressedMessages
    """
    log = LogHome(compression_type="zstd").open()

    log.append_as_leader(batch(b"a", codec=Codec.GZIP))

    with log.read(0, isolation=_END) as found:
        assert found.read()[22] & 7 == Codec.ZSTD
    assert all_values(log) == [(0, b"a")]


def test_each_epoch_is_noted_with_its_first_offset() -> None:
    """The leader epoch cache follows the appends.

    Scenario: UnifiedLogTest.shouldApplyEpochToMessageOnAppendIfLeader
    """
    log = LogHome().open()

    for epoch in (1, 1, 3):
        log.append_as_leader(batch(b"a"), leader_epoch=epoch)

    assert log.epochs.entries == (EpochEntry(1, 0), EpochEntry(3, 2))


def test_a_follower_keeps_offsets_and_epochs() -> None:
    """Batches of a leader are stored as they are, gaps included.

    Scenario:
    UnifiedLogTest.followerShouldSaveEpochInformationFromReplicatedMessagesToTheEpochCache,
    UnifiedLogTest.testAppendAndReadWithNonSequentialOffsets
    """
    log = LogHome().open()
    data = batch(b"a", base_offset=3, leader_epoch=1) + batch(b"b", base_offset=9, leader_epoch=2)

    info = log.append_as_follower(data, leader_epoch=2)

    assert (info.first_offset, info.last_offset) == (3, 9)
    assert all_values(log) == [(3, b"a"), (9, b"b")]
    assert log.epochs.entries == (EpochEntry(1, 3), EpochEntry(2, 9))


def test_a_follower_does_not_go_back() -> None:
    """Batches that begin below the log's end are refused, and the error says which.

    Scenario: UnifiedLogTest.testAppendBelowExpectedOffsetThrowsException
    """
    log = LogHome().open()
    log.append_as_follower(batch(b"a", base_offset=3, leader_epoch=0), 0)

    with pytest.raises(UnexpectedAppendOffset) as raised:
        log.append_as_follower(batch(b"b", b"c", base_offset=2, leader_epoch=0), 0)
    assert (raised.value.first_offset, raised.value.last_offset) == (2, 3)


def test_a_followers_offsets_must_rise() -> None:
    """Two batches with the same offsets are refused.

    Scenario: UnifiedLogTest.testAppendWithOutOfOrderOffsetsThrowsException
    """
    twice = batch(b"a", base_offset=3, leader_epoch=0) * 2

    with pytest.raises(OffsetsOutOfOrder):
        LogHome().open().append_as_follower(twice, 0)


@pytest.mark.parametrize("offsets", [[(0, 9), (5, 14)], [(0, 0), (4, 9), (9, 12)]])
def test_a_follower_takes_no_batches_that_overlap(offsets: list[tuple[int, int]]) -> None:
    """No reader would take them: they are refused, and nothing was appended.

    Kafka compares the last offsets alone, and appends them.
    """
    log = LogHome().open()
    data = b"".join(batch(b"x", base_offset=first, last_offset=last) for first, last in offsets)

    with pytest.raises(OffsetsOutOfOrder, match="impossible offsets"):
        log.append_as_follower(data, 0)

    assert (log.log_end_offset, log.epochs.entries) == (0, ())


def test_a_follower_stops_at_a_newer_epoch() -> None:
    """Of epochs 1, 2, 1 a follower at epoch 1 keeps the first batch only (KAFKA-18723)."""
    log = LogHome().open()
    parts = [batch(b"x", base_offset=n, leader_epoch=e) for n, e in enumerate((1, 2, 1))]

    log.append_as_follower(b"".join(parts), leader_epoch=1)

    assert log.log_end_offset == 1


def test_a_gap_of_two_billion_begins_a_new_segment() -> None:
    """An offset too far from the base for 32 bits begins a new segment."""
    home = LogHome()
    log = home.open()
    log.append_as_follower(batch(b"a", leader_epoch=0), 0)

    log.append_as_follower(batch(b"b", base_offset=2**31 + 1, leader_epoch=0), 0)

    assert log.segments.base_offsets == [0, 2**31 + 1]
    assert home.files(".snapshot") == ["00000000002147483649.snapshot"]


@pytest.mark.parametrize("again", [0, 1, 2, 3, 4])
def test_any_of_the_last_five_batches_may_come_again(again: int) -> None:
    """A repeated batch succeeds with its old offsets, and is not written twice.

    Scenario: UnifiedLogTest.testDuplicateAppends
    """
    log = LogHome().open()
    for sequence in range(5):
        log.append_as_leader(produced(sequence))

    info = log.append_as_leader(produced(again))

    assert (info.is_duplicate, info.first_offset, info.last_offset) == (True, again, again)
    assert log.log_end_offset == 5


def test_an_older_or_partly_equal_batch_is_out_of_order() -> None:
    """Beyond five batches, or with other ends, a repeat cannot be distinguished from an error."""
    log = LogHome().open()
    for sequence in range(6):
        log.append_as_leader(produced(sequence))

    with pytest.raises(OutOfOrderSequenceNumber):
        log.append_as_leader(produced(0))
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append_as_leader(produced(4, count=2))


def test_a_stale_producer_is_fenced() -> None:
    """Once a newer epoch has written, the older one may not.

    Scenario: UnifiedLogTest.testOldProducerEpoch
    """
    log = LogHome().open()
    log.append_as_leader(produced(0, epoch=3))

    with pytest.raises(InvalidProducerEpoch):
        log.append_as_leader(produced(0, epoch=2))


def test_a_transaction_needs_its_coordinators_consent() -> None:
    """The first batch brings the guard that was handed out, the following ones need none.

    Scenario: UnifiedLogTest.testEnablingVerificationWhenRequestIsAtLogLayer,
    UnifiedLogTest.testTransactionIsOngoingAndVerificationGuard
    """
    log = LogHome().open()
    with pytest.raises(InvalidTxnState):
        log.append_as_leader(produced(0, transactional=True))
    guard = log.start_verification(7, 0, 0, supports_epoch_bump=False)

    log.append_as_leader(produced(0, transactional=True), verification_guard=guard)
    log.append_as_leader(produced(1, transactional=True))

    assert log.log_end_offset == 2


def test_an_aborted_transaction_is_indexed_and_stable_once_replicated() -> None:
    """The last stable offset passes a transaction when the watermark has passed its marker."""
    log = LogHome().open()
    guard = log.start_verification(7, 0, 0, supports_epoch_bump=False)
    log.append_as_leader(batch(b"plain"))
    log.append_as_leader(produced(0, transactional=True), verification_guard=guard)
    log.update_high_watermark(2)
    log.append_as_leader(
        marker(commit=False), origin=AppendOrigin.COORDINATOR, transaction_version=0
    )
    before = log.last_stable_offset

    log.update_high_watermark(3)

    assert (before, log.last_stable_offset) == (1, 3)
    (aborted,) = log.segments.active.txn_index.all_aborted()
    assert aborted[1:] == (7, 1, 2, 3)


def test_a_full_disk_changes_nothing_and_passes() -> None:
    """ENOSPC fails the append with the log as it was; when space returns, appends continue."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(batch(b"a"))
    home.fs.fail("pwrite", ".log", OSError(errno.ENOSPC, "full"))

    with pytest.raises(KafkaStorageError):
        log.append_as_leader(batch(b"b"))
    log.append_as_leader(batch(b"c"))

    assert all_values(log) == [(0, b"a"), (1, b"c")]
    assert home.failures == []


def at(offset: int, epoch: int = 2) -> bytes:
    """Make a batch as a follower gets it."""
    return batch(b"v", base_offset=offset, leader_epoch=epoch)


def full_segment() -> tuple[LogHome, Log]:
    """Make a follower's log of two batches, of epochs 0 and 1, which leave no room for a third.

    The transaction of producer 7 is open.
    """
    first = produced(0, transactional=True, base_offset=0, leader_epoch=0)
    home = LogHome(internal_segment_bytes=2 * len(first), retention_ms=-1)
    log = home.open()
    log.append_as_follower(first, 0)
    log.append_as_follower(at(1, epoch=1), 1)
    return home, log


def refuse_behind_gap(home: LogHome, log: Log, *, is_disk_full: bool) -> None:
    """Let an append at offset 100 be refused: by the disk, or as it is outside a transaction."""
    if is_disk_full:
        home.fs.fail("pwrite", ".log", OSError(errno.ENOSPC, "full"))
        with pytest.raises(KafkaStorageError):
            log.append_as_follower(at(100), 2)
    else:
        plain = produced(1, base_offset=100, leader_epoch=2)
        with pytest.raises(InvalidTxnState):
            log.append_as_follower(plain, 2)


@pytest.mark.parametrize("is_disk_full", [False, True])
def test_an_append_that_is_refused_behind_a_gap_leaves_no_gap(*, is_disk_full: bool) -> None:
    """The segment that was rolled for it would begin above the log's end, and take no records."""
    home, log = full_segment()
    epochs = log.epochs.entries

    refuse_behind_gap(home, log, is_disk_full=is_disk_full)

    assert log.segments.base_offsets == [0, 2]
    assert (log.epochs.entries, log.producers.map_end_offset) == (epochs, 2)
    assert home.files(".snapshot") == [f"{2:020}.snapshot"]
    log.append_as_leader(batch(b"next"), leader_epoch=3)
    log.append_as_follower(at(100, epoch=3), 3)
    assert [offset for offset, _ in all_values(log)] == [0, 1, 2, 100]
    assert (home.failures, log.is_offline) == ([], False)


@pytest.mark.parametrize("is_disk_full", [False, True])
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_start_after_a_refused_append_finds_the_same_end(
    *, is_disk_full: bool, is_clean: bool
) -> None:
    """An empty segment after a gap would be where the log ends."""
    home, log = full_segment()
    epochs = log.epochs.entries
    refuse_behind_gap(home, log, is_disk_full=is_disk_full)
    if is_clean:
        log.close()
    else:
        home.power_cut("all")

    log = home.open(clean=is_clean)

    assert (log.log_end_offset, log.epochs.entries) == (2, epochs)


def test_a_gap_that_cannot_be_taken_back_is_by_the_next_append() -> None:
    """The disk may be so full that no other segment can be made, but not for ever."""
    home, log = full_segment()
    home.fs.fail("rename", "100.log", OSError(errno.ENOSPC, "full"))
    refuse_behind_gap(home, log, is_disk_full=True)
    assert log.segments.base_offsets == [0, 100]

    log.append_as_leader(batch(b"next"), leader_epoch=2)

    assert (log.segments.base_offsets, log.log_end_offset) == ([0, 2], 3)
    assert home.files(".snapshot") == [f"{2:020}.snapshot"]
    log.close()
    assert home.open().log_end_offset == 3


def test_a_gap_is_taken_back_to_an_empty_segment() -> None:
    """A file that was left under the name of the new segment does not get into the log."""
    home, log = full_segment()
    home.write(f"{2:020}.log", at(2))

    refuse_behind_gap(home, log, is_disk_full=True)

    assert (log.segments.base_offsets, log.segments.active.size_bytes) == ([0, 2], 0)


def test_a_watermark_that_was_behind_a_gap_is_looked_up_again() -> None:
    """Where the gap was are new records, which readers must not see yet."""
    log = LogHome().open()
    for offset in (0, 1, 5):
        log.append_as_follower(at(offset), 2)
    log.truncate_to(5)
    log.update_high_watermark(3)
    log.roll(100)
    assert log.offset_snapshot().high_watermark.segment_base_offset == 100

    log.append_as_follower(at(5), 2)

    assert log.segments.base_offsets == [0, 5]
    assert [offset for offset, _ in all_values(log, Isolation.READ_UNCOMMITTED)] == [0, 1]


def test_empty_segments_before_a_gap_are_replaced_too() -> None:
    """None begins where another does."""
    log = LogHome().open()
    log.append_as_leader(batch(b"a"))
    for base in (1, 100, 200):
        log.roll(base)

    log.append_as_leader(batch(b"b"))

    assert log.segments.base_offsets == [0, 1]
    assert all_values(log) == [(0, b"a"), (1, b"b")]


def test_a_failed_disk_takes_the_log_offline() -> None:
    """EIO is reported to the owner of the directory, and nothing works on it any more.

    Scenario: UnifiedLogTest.testAppendToOrReadFromLogInFailedLogDir
    """
    home = LogHome()
    log = home.open()
    home.fs.fail("pwrite", ".log", OSError(errno.EIO, "broken"))

    with pytest.raises(KafkaStorageError):
        log.append_as_leader(batch(b"a"))
    with pytest.raises(KafkaStorageError):
        log.append_as_leader(batch(b"a"))
    assert [error.errno for error in home.failures] == [errno.EIO]


def test_flush_messages_flushes_with_the_append() -> None:
    """As soon as ``flush.messages`` offsets are unflushed the append flushes them."""
    log = LogHome(flush_messages=3).open()

    log.append_as_leader(batch(b"a", b"b"))
    before = log.recovery_point
    log.append_as_leader(batch(b"c"))

    assert (before, log.recovery_point) == (0, 3)


def test_a_closed_log_takes_no_appends() -> None:
    """After close every change is a KafkaStorageError."""
    log = LogHome().open()
    log.close()

    with pytest.raises(KafkaStorageError):
        log.append_as_leader(batch(b"a"))


def test_the_short_way_into_the_log_leaves_what_the_long_one_does() -> None:
    """With kernels a usual batch is accepted at once: the same answers and the same files."""
    found = []
    for is_compiled in (False, True):
        gate.force(is_compiled)
        try:
            home = LogHome()
            with home.open() as log:
                answers = [log.append_as_leader(batch(b"a", b"b" * 5_000), 4) for _ in range(3)]
                answers.append(log.append_as_leader(produced(0, 2), 4))
                answers.append(log.append_as_leader(produced(0, 2), 4))
        finally:
            gate.force(None)
        found.append((answers, {name: home.read(name) for name in home.files()}))

    assert found[0] == found[1]
    assert found[0][0][-1].is_duplicate


class Interrupting(ManualClock):
    """While an append asks what time it is, as it does before it takes the lock, settings change.

    That stands for another thread, at the one moment that matters.
    """

    log: Log | None = None
    settings: LogConfig

    def now_ms(self) -> int:
        if self.log is not None:
            log, self.log = self.log, None
            log.update_config(self.settings)
        return super().now_ms()


@pytest.mark.parametrize("kernels", [False, True])
def test_an_append_under_way_obeys_settings_that_changed_before_it_is_in_the_log(
    *, kernels: bool
) -> None:
    """Once a change has returned nothing more is appended by the old ones."""
    home = LogHome()
    home.clock = clock = Interrupting()
    gate.force(kernels)
    try:
        log = home.open()
        clock.log, clock.settings = log, replace(home.config, compression_type="zstd")
        log.append_as_leader(batch(b"value" * 20))
        clock.log, clock.settings = log, replace(home.config, max_message_bytes=70)
        with pytest.raises(MessageTooLarge):
            log.append_as_leader(batch(b"value" * 20))
    finally:
        gate.force(None)

    codecs = [int(piece.batches.codec[0]) for piece in log.segments.active.file_records().pieces()]
    assert codecs == [Codec.ZSTD]


LARGE = batch(*[b"v" * 99] * 5, base_offset=3, leader_epoch=0)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (
            lambda log: log.append_as_leader(batch(*[b"v" * 99] * 5)),
            f"flights-0: a batch of {len(LARGE)} bytes exceeds the limit of 400 (max.message.",
        ),
        (
            lambda log: log.append_as_follower(LARGE, 0),
            f"flights-0: an append of {len(LARGE)} bytes exceeds the limit of 500 (segment.bytes)",
        ),
        (
            lambda log: log.append_as_follower(
                batch(b"a", base_offset=9) + batch(b"b", base_offset=8), 0
            ),
            "flights-0: a batch's last offset 8 does not exceed 9",
        ),
        (
            lambda log: log.append_as_follower(
                batch(b"a", b"b", base_offset=0) + batch(b"c", base_offset=5), 0
            ),
            (
                "flights-0: offsets 0 to 5 begin below the log end offset 3 (log start offset 1); "
                "the first batches begin at 0, 5"
            ),
        ),
        (
            lambda log: log.append_as_leader(
                batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
            ),
            "flights-0: producer 7 has no verified transaction",
        ),
        (lambda log: log.read(7), "flights-0: offset 7 is out of range"),
        (lambda log: log.offset_metadata(7), "flights-0: offset 7 is out of range"),
        (lambda log: log.delete_records(7), "flights-0: offset 7 is out of range"),
    ],
)
def test_every_error_of_a_log_names_it(act: Callable[[Log], object], text: str) -> None:
    """With topic and partition, also where the rule is one of batches."""
    log = LogHome(max_message_bytes=400, internal_segment_bytes=500).open()
    log.append_as_leader(batch(b"a", b"b", b"c"))
    log.update_high_watermark(3)
    log.delete_records(1)

    with pytest.raises(KafkaError) as raised:
        act(log)

    assert str(raised.value).startswith(text)


def test_an_error_of_the_disk_names_the_log_and_its_directory() -> None:
    """Several logs lie on a disk; the one that met its error first is named."""
    home = LogHome()
    log = home.open()
    home.fs.fail("pwrite", ".log", OSError(errno.EIO, "broken"))

    with pytest.raises(KafkaStorageError, match=r"^flights-0: appending failed in /data: .*broken"):
        log.append_as_leader(batch(b"a"))
    with pytest.raises(KafkaStorageError, match=r"^flights-0: /data is offline"):
        log.append_as_leader(batch(b"a"))


@pytest.mark.usefixtures("kernels")
def test_batches_of_several_requests_are_appended_with_one_write() -> None:
    """The files are those of appends one after the other."""
    each, together = LogHome(index_interval_bytes=100), LogHome(index_interval_bytes=100)
    batches: list[Buffer] = [
        batch(b"a"),
        produced(0),
        batch(b"b", b"c", codec=Codec.LZ4),
        produced(1, 2),
    ]
    log = each.open()
    infos = [log.append_as_leader(one, 3) for one in batches]
    writes = len(together.fs.operations)

    info = together.open().append_as_leader(batches, 3)

    assert (info.first_offset, info.last_offset) == (infos[0].first_offset, infos[-1].last_offset)
    assert info.valid_bytes == sum(one.valid_bytes for one in infos)
    written = [path for name, path in together.fs.operations[writes:] if name == "pwrite"]
    assert sum(path.endswith(".log") for path in written) == 1
    for home in (each, together):
        home.power_cut("all")
    assert {name: together.read(name) for name in together.files()} == {
        name: each.read(name) for name in each.files()
    }


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (batch(b"x", base_offset=3), InvalidRecord),
        (batch(b"x")[:-1], InvalidRecord),
        (batch(b"x") * 2, InvalidRecord),
        (produced(1), OutOfOrderSequenceNumber),
        (produced(7), OutOfOrderSequenceNumber),
    ],
    ids=["with an offset", "cut off", "two", "sent before", "not the next"],
)
def test_of_batches_together_all_or_none_are_appended(
    wrong: bytes, error: type[KafkaError]
) -> None:
    """One that has to be appended by itself, or is refused, leaves the log as it was."""
    home = LogHome()
    log = home.open()
    log.append_as_leader(produced(0, 2))
    before = {name: home.read(name) for name in home.files()}

    with pytest.raises(error):
        log.append_as_leader([batch(b"a"), wrong, batch(b"b")])

    assert {name: home.read(name) for name in home.files()} == before
    assert log.log_end_offset == 2
    log.append_as_leader([batch(b"a"), produced(2)])
    assert log.log_end_offset == 4
