"""Read-only opens: what is the end of a log, and what is damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import record
from tests.machinery.stored_log import (
    BATCHES,
    SIZE,
    VALUES,
    flipped,
    home_with,
    index,
    name_of,
    read,
    whole,
)

from tidelog.errors import (
    CorruptMessage,
)
from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry, pack_snapshot
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, pack_batch

if TYPE_CHECKING:
    from tests.machinery.fields import SequenceFields

PRODUCER: SequenceFields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\0",
        b"\0" * 100_000,
        BATCHES[4][:5],
        BATCHES[4][:16],
        BATCHES[4][:40],
        BATCHES[4][:-1],
        BATCHES[4][:-4] + b"\0" * 4,
        BATCHES[4][:60].ljust(SIZE, b"\0"),
        BATCHES[4][:60].ljust(SIZE + 5000, b"\0"),
        flipped(BATCHES[4]),
    ],
    ids=range(11),
)
def test_an_unfinished_tail_is_the_end(tail: bytes) -> None:
    """A batch that is being written, was torn by a crash, or the zeros of a preallocated file."""
    home = home_with(BATCHES[:4], tail=tail, watermark=4)
    log = home.read_only("t-0")

    assert (VALUES[:4], None) == read(log)
    assert (log.log_end_offset, log.damage) == (4, None)


@pytest.mark.parametrize("tail", [BATCHES[4][:40], b"\0" * 500, flipped(BATCHES[4]), b""])
def test_an_end_below_the_high_watermark_is_damage(tail: bytes) -> None:
    """Offsets that were promised are missing: all before them, then the error with the byte."""
    home = home_with(BATCHES[:4], tail=tail, watermark=5)

    values, error = whole(home)

    assert VALUES[:4] == values
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(0)}", 4 * SIZE) == (error.path, error.position)


def test_damage_after_an_open_transaction_is_told_to_readers_of_committed_records() -> None:
    """It may hide the marker: the transaction would seem to be open for ever."""
    begun = build_batch([record(VALUES[1])], base_offset=1, transactional=True, **PRODUCER)
    home = home_with([BATCHES[0], begun], [flipped(BATCHES[2]), *BATCHES[3:]], watermark=6)
    opened = ProducerSnapshotEntry(7, 0, 0, 1, 0, 1000, -1, txn_first_offset=1)
    home.write(name_of(2, ".snapshot"), pack_snapshot([opened]))

    with home.read_only("t-0") as log:
        values, error = read(log, committed=True)

    assert values == VALUES[:1]
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(2)}", 0) == (error.path, error.position)


def test_a_log_that_lost_everything_is_damaged() -> None:
    """An emptied or vanished segment does not read as an empty log."""
    for home in (home_with([], watermark=5), home_with(watermark=5)):
        log = home.read_only("t-0")

        values, error = read(log)
        assert ([], CorruptMessage) == (values, type(error))
        with pytest.raises(CorruptMessage):
            log.splits(0, 0, 1)


@pytest.mark.parametrize("bad", [flipped(BATCHES[3]), BATCHES[3][:40], b"\0" * SIZE])
def test_damage_in_the_last_segment_is_told_after_the_records_before_it(bad: bytes) -> None:
    """Bytes follow that are not zeros, so this is not an unfinished end."""
    home = home_with([*BATCHES[:3], bad, *BATCHES[4:]])

    values, error = whole(home)

    assert VALUES[:3] == values
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(0)}", 3 * SIZE) == (error.path, error.position)


def test_a_length_that_swallows_what_follows_is_damage() -> None:
    """A flipped bit makes a batch longer than the file, but the index knows a batch after it."""
    long = BATCHES[3][:9] + b"\x7f" + BATCHES[3][10:]
    home = home_with([*BATCHES[:3], long, *BATCHES[4:]])
    home.write(name_of(0, ".index"), index((1, SIZE), (5, 5 * SIZE)))

    values, error = whole(home)

    assert values == VALUES[:3]
    assert isinstance(error, CorruptMessage)
    assert error.position == 3 * SIZE


@pytest.mark.parametrize("bad", [flipped(BATCHES[1]), BATCHES[1][:40], b"\0" * SIZE, b"\0" * 3])
def test_a_bad_batch_in_an_inactive_segment_is_damage(bad: bytes) -> None:
    """Also at its end: nobody writes there any more."""
    home = home_with([BATCHES[0], bad], BATCHES[2:])

    values, error = whole(home)

    assert VALUES[:1] == values
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(0)}", SIZE) == (error.path, error.position)


def test_a_range_behind_the_damage_can_be_read() -> None:
    """The index leads to it; only a range that covers the damage fails."""
    home = home_with([*BATCHES[:2], flipped(BATCHES[2]), *BATCHES[3:]])
    home.write(name_of(0, ".index"), index((3, 3 * SIZE)))
    log = home.read_only("t-0")

    assert (VALUES[3:], None) == read(log, 3, 6)
    assert (VALUES[:2], None) == read(log, 0, 2)
    assert (VALUES[:2], CorruptMessage) == (read(log)[0], type(read(log)[1]))


@pytest.mark.parametrize(
    "records_bytes", [b"\x04\x00\x00\x00\x01", b"", b"\x80\x80\x80\x80\x80\x80"]
)
def test_a_batch_that_does_not_decode_is_damage(records_bytes: bytes) -> None:
    """Its checksum is right and its records are not: reported with file and byte."""
    bad = pack_batch(BATCH_HEADER.unpack(BATCHES[1]), records_bytes)
    home = home_with([BATCHES[0], bad, BATCHES[2]])

    values, error = whole(home)

    assert VALUES[:1] == values
    assert isinstance(error, CorruptMessage)
    assert (f"{home.path}/{name_of(0)}", SIZE) == (error.path, error.position)


def test_a_batch_of_an_unknown_codec_is_damage() -> None:
    """As one that does not decode; batches after it can be read."""
    header = BATCH_HEADER.unpack(BATCHES[1])._replace(attributes=6)
    home = home_with([BATCHES[0], pack_batch(header, BATCHES[1][61:]), BATCHES[2]])

    values, error = whole(home)

    assert (VALUES[:1], SIZE) == (values, getattr(error, "position", None))
    assert ([VALUES[2]], None) == read(home.read_only("t-0"), 2, 3)


class FirstGlance:
    """A disk on which the first look at a file shows the fourth batch only in part.

    So it may look beside a writer: bytes of one write need not be seen all at once.
    """

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self._seen: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, mode: str = "r") -> Any:
        """Open a file whose first large read is not yet whole."""
        return _HalfSeenFile(self._fs.open(path, mode), path, self._seen)


class _HalfSeenFile:
    def __init__(self, file: Any, path: str, seen: set[str]) -> None:
        self._file = file
        self._path = path
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def pread_into(self, buffer: Any, position: int) -> int:
        count: int = self._file.pread_into(buffer, position)
        if self._path not in self._seen:
            self._seen.add(self._path)
            buffer[3 * SIZE + 65 : 3 * SIZE + 70] = bytes(5)
        return count


@pytest.mark.parametrize("bounds", [(0, 6), (0, 4), ()])
def test_a_bad_batch_is_read_once_more(bounds: tuple[int, ...]) -> None:
    """What is whole at the second look is not damage, in the log or at its end."""
    fs: Any = FirstGlance(home_with(BATCHES, watermark=6).fs)

    found = read(open_read_only("/data/t-0", fs=fs), *bounds)

    assert (VALUES[: bounds[1] if bounds else 6], None) == found


@pytest.mark.parametrize("entries", [index(), index((1, SIZE)), index((2, 2 * SIZE))])
@pytest.mark.parametrize("bad", [1, 2])
def test_a_read_begins_at_the_batch_that_holds_its_offset(entries: bytes, bad: int) -> None:
    """A bad checksum before it is not its concern, whatever the index names."""
    batches = [flipped(batch) if n == bad else batch for n, batch in enumerate(BATCHES)]
    home = home_with(batches[:5], batches[5:])
    home.write(name_of(0, ".index"), entries)
    log = home.read_only("t-0")

    assert read(log, 3, 6) == (VALUES[3:], None)
    assert type(read(log, bad, 6)[1]) is CorruptMessage


def test_a_bad_header_before_a_read_is_not_taken_for_a_hole() -> None:
    """No checksum covers a base offset: where none claims the offset, the walk starts before."""
    back = (1).to_bytes(8, "big") + BATCHES[3][8:]
    home = home_with([*BATCHES[:3], back, BATCHES[4]], [BATCHES[5]])
    log = home.read_only("t-0")

    values, error = read(log, 3, 6)

    assert (values, type(error)) == ([], CorruptMessage)


def test_a_count_names_the_batch_that_does_not_decode() -> None:
    """Only a batch that reaches out of the range is decoded; its CRC is right."""
    full = build_batch([(1, None, b"v", ())] * 2)
    header = BATCH_HEADER.unpack(full)._replace(attributes=6)
    home = home_with([pack_batch(header, full[BATCH_HEADER.size :])])

    with home.read_only("t-0") as log:
        assert log.count_records(0, 2).records == 2
        with pytest.raises(CorruptMessage, match="a batch does not decode") as caught:
            log.count_records(1, 2)

    assert (caught.value.path, caught.value.position) == (f"{home.path}/{name_of(0)}", 0)
