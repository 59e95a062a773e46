"""Batches of old formats, and segments whose offsets do not fit."""

from __future__ import annotations

import pytest
from tests.machinery.cleaning import CleanerHome, batch_headers, kept
from tests.machinery.long_varints import with_long_key_lengths
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.errors import CleaningAborted
from tidelog.records.batch import TimestampType
from tidelog.testing import build_batch

pytestmark = pytest.mark.usefixtures("engine")
NOW_MS = 1_600_000_000_000
RETENTION_MS = 1000
LOG = "00000000000000000000.log"


def home_with(data: bytes) -> CleanerHome:
    """Make a log whose first segment contains ``data``."""
    home = CleanerHome(internal_segment_bytes=1000, delete_retention_ms=RETENTION_MS)
    home.write("00000000000000000000.log", data)
    return home


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_batches_come_out_as_new_ones(magic: int, codec: Codec) -> None:
    """Retained records of magic 0 and 1 are written as magic 2, with offsets and timestamps.

    Scenario: LogCleanerParameterizedIntegrationTest.testCleanerWithMessageFormatV0V1V2,
    LogCleanerParameterizedIntegrationTest.testCleaningNestedMessagesWithV0V1
    """
    records = [(NOW_MS + n, b"k%d" % (n % 2), b"v%d" % n) for n in range(4)]
    home = home_with(build_old(magic, records, codec=codec))
    with home.open(clean=False) as log:
        home.append(log, ("k1", "new"))
        log.roll()

        home.clean(log)

        timestamps = [NOW_MS + 2 if magic else -1, home.clock.now_ms()]
        assert kept(log) == [(2, "k0", "v2"), (4, "k1", "new")]
        assert [record.timestamp for record in log.records()] == timestamps
        headers = list(batch_headers(log))
        assert [header.magic for header in headers] == [2, 2]
        assert headers[0].base_offset == 2
        assert headers[0].attributes & 7 == codec


def test_append_times_of_old_batches_stay() -> None:
    """A batch with log append time keeps that time and that timestamp type."""
    records = [(NOW_MS, b"a", b"1"), (NOW_MS + 5, b"b", b"2")]
    kind = TimestampType.LOG_APPEND_TIME
    data = build_old(1, records, codec=Codec.GZIP, timestamp_type=kind)
    home = home_with(data)
    with home.open(clean=False) as log:
        log.roll()
        before = list(log.records())

        home.clean(log)

        assert before == list(log.records())
        assert next(iter(batch_headers(log))).attributes == Codec.GZIP | 8


def test_an_old_tombstone_gets_its_horizon_when_it_is_rewritten() -> None:
    """The first cleaning retains it, as its segment is young; one after the horizon drops it."""
    home = home_with(build_old(1, [(NOW_MS, b"a", b"1"), (NOW_MS, b"a", None)]))
    with home.open(clean=False) as log:
        home.append(log, ("z", "1"))
        log.roll()
        home.clean(log)
        first = kept(log)
        home.clock.advance(RETENTION_MS)

        home.clean(log)

        assert first == [(1, "a", None), (2, "z", "1")]
        assert kept(log) == [(2, "z", "1")]


def test_an_old_batch_at_the_end_keeps_the_end_known() -> None:
    """Kafka fails if no record of it is retained; here an empty batch of magic 2 is written."""
    home = home_with(build_old(1, [(NOW_MS, b"a", b"1"), (NOW_MS, None, b"2")]))
    with home.open(clean=False) as log:
        log.roll()

        home.clean(log)

        headers = [(h.base_offset, h.magic, h.records_count) for h in batch_headers(log)]
        assert headers == [(0, 2, 1), (1, 2, 0)]


def test_a_segment_whose_offsets_do_not_fit_is_split_first() -> None:
    """The cleaning is aborted and the segment split; the next cleaning succeeds.

    Scenario: LogCleanerTest.testSegmentWithOffsetOverflow
    """
    far = 2**31 + 5
    batches = [
        build_batch([(NOW_MS, key, b"v", ())], base_offset=offset, leader_epoch=0)
        for offset, key in ((0, b"a"), (1, b"b"), (far, b"a"))
    ]
    home = CleanerHome()
    with home.open() as log:
        for batch in batches[:2]:
            log.append_as_follower(batch, 0)
        first = log.segments.active
        log.append_as_follower(batches[2], 0)
        assert log.segments.active is not first
        log.roll()
        # Old versions of Kafka put such a batch into the same file.
        path = f"{home.directory}/00000000000000000000.log"
        file = home.fs.open(path, "w")
        file.pwrite(batches[2], first.size_bytes)
        file.close()
        first._size_bytes += len(batches[2])
        second = log.segments.all[1]
        log.segments.remove(second.base_offset)
        second.delete()
        log.update_high_watermark(log.log_end_offset)

        with pytest.raises(CleaningAborted):
            home.clean(log)
        split = log.segments.base_offsets
        offsets = [offset for offset, _, _ in kept(log)]
        home.clean(log)

        assert split == [0, far, far + 1]
        assert offsets == [0, 1, far]
        assert [offset for offset, _, _ in kept(log)] == [1, far]


def test_lengths_longer_than_necessary_stay_so() -> None:
    """A record's key, value and headers are copied byte by byte, with the lengths before them.

    Only the record's own length, timestamp and offset are encoded again. Kafka encodes all lengths
    again, as short as possible: see docs/architecture.md.
    """
    batch = build_batch(
        [(NOW_MS, b"a", b"1", ()), (NOW_MS, b"b", b"2", [("h", b"x")])], leader_epoch=0
    )
    longer = with_long_key_lengths(batch)
    home = CleanerHome(internal_segment_bytes=1000)
    with home.open() as log:
        log.append_as_follower(longer, 0)
        whole = home.read(LOG)
        home.append(log, ("a", "new"))
        log.roll()
        found = list(log.records())

        home.clean(log)

        rewritten = home.read(LOG)
        assert found[1:] == list(log.records())
    assert whole == longer
    assert len(longer) == len(batch) + 2 * 2
    assert longer[-12:] in rewritten
    assert rewritten.index(longer[-12:]) < len(batch)


def test_a_batch_with_long_lengths_that_stays_whole_keeps_its_bytes() -> None:
    """A batch of which no record is dropped is copied byte by byte, here and in Kafka."""
    longer = with_long_key_lengths(build_batch([(NOW_MS, b"a", b"1", ())], leader_epoch=0))
    home = CleanerHome(internal_segment_bytes=1000)
    with home.open() as log:
        log.append_as_follower(longer, 0)
        home.append(log, ("b", 1), ("b", 2))
        log.roll()

        home.clean(log)

        assert home.read(LOG).startswith(longer)
