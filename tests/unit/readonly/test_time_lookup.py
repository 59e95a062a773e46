"""Which offset goes with a time, in a log that is only read."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machinery.directory_home import DataHome

from tidelog.errors import CorruptMessage, InvalidArgument, KafkaStorageError
from tidelog.log.reading.offset_lookup import OffsetTarget, TimestampedOffset
from tidelog.records.builder import build_batch
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY

TIMES = [10, 30, 20, 40, 35, 50]
"""Of the records at offsets 0 to 5: a batch each, two segments of three."""
SIZE = len(build_batch([(10, b"k", b"v", ())]))


def batch(offset: int, timestamp: int) -> bytes:
    """Make a batch of one record."""
    return build_batch([(timestamp, b"k", b"v", ())], base_offset=offset, leader_epoch=3)


def name_of(base: int, suffix: str) -> str:
    return f"t-0/{base:020d}.{suffix}"


def entries(kind: np.dtype, *rows: tuple[int, int]) -> bytes:
    """Return the bytes of an index."""
    return np.array(list(rows), kind).tobytes()


def home_of(times: list[int] = TIMES, *, indexed: bool = True) -> DataHome:
    """Return a log of these times, three a segment, with the indexes that appends leave."""
    home = DataHome()
    for base in range(0, len(times), 3):
        part = times[base : base + 3]
        data = b"".join(batch(base + at, time) for at, time in enumerate(part))
        home.write(name_of(base, "log"), data)
        if indexed:
            rising = [(t, at) for at, t in enumerate(part) if t > max([-1, *part[:at]])]
            home.write(name_of(base, "timeindex"), entries(TIME_INDEX_ENTRY.dtype, *rising))
            places = [(at, at * SIZE) for at in (1, 2)]
            home.write(name_of(base, "index"), entries(OFFSET_INDEX_ENTRY.dtype, *places))
    return home


def found(home: DataHome, target: int, end: int = 6) -> TimestampedOffset | None:
    """Look up a time, or another target."""
    with home.read_only("t-0") as log:
        return log.offset_at(target, end)


EXPECTED = {0: 0, 10: 0, 11: 1, 30: 1, 31: 3, 40: 3, 41: 5, 50: 5}


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("target", EXPECTED)
def test_a_time_finds_the_first_record_of_it_or_later(target: int, *, indexed: bool) -> None:
    """In the first segment that reaches it; with indexes and without."""
    offset = EXPECTED[target]

    assert found(home_of(indexed=indexed), target) == TimestampedOffset(TIMES[offset], offset, 3)


def test_a_time_behind_all_records_finds_nothing() -> None:
    """Nor does one whose record the reader may not see."""
    assert found(home_of(), 51) is None
    assert found(home_of(), 41, end=5) is None


@pytest.mark.parametrize(
    ("times", "offset"), [(TIMES, 5), ([10, 90, 20, 40, 90, 50], 1), ([7], 0), ([60, 20, 10, 5], 0)]
)
@pytest.mark.parametrize("indexed", [True, False])
def test_the_greatest_timestamp_finds_the_first_record_that_has_it(
    times: list[int], offset: int, *, indexed: bool
) -> None:
    """Of all segments."""
    expected = TimestampedOffset(times[offset], offset, 3)

    assert found(home_of(times, indexed=indexed), OffsetTarget.MAX_TIMESTAMP) == expected


@pytest.mark.parametrize(
    "rows",
    [
        [(999, 1)],
        [(30, 2)],
        [(20, 9)],
        [(30, 1), (20, 0)],
        [(-5, 0)],
    ],
)
def test_entries_that_lie_are_not_believed(rows: list[tuple[int, int]]) -> None:
    """An entry counts if the batch that it names says the same."""
    home = home_of()
    home.write(name_of(0, "timeindex"), entries(TIME_INDEX_ENTRY.dtype, *rows))

    offsets = {
        target: seen and seen.offset for target in EXPECTED for seen in [found(home, target)]
    }

    assert offsets == EXPECTED


def test_records_below_the_log_start_do_not_count() -> None:
    """Deleted records may still be in the file, as the last ones of a segment, too."""
    home = home_of()
    for start in (2, 3, 4):
        home.write("log-start-offset-checkpoint", f"0\n1\nt 0 {start}\n")
        assert found(home, 0) == TimestampedOffset(TIMES[start], start, 3)


def test_a_segment_without_timestamps_is_as_old_as_its_file() -> None:
    """As in Kafka; but where the file is younger than the time, the search does not end there."""
    home = home_of([-1, -1, -1, 40, 35, 50])
    for mtime_ms in (39, 40):
        home.fs.set_mtime_ms(f"{home.path}/{name_of(0, 'log')}", mtime_ms)
        assert found(home, 40) == TimestampedOffset(40, 3, 3)


@pytest.mark.parametrize(("lines", "first", "last"), [("", None, None), ("2 0\n7 4\n", 2, 7)])
def test_the_ends_come_with_their_epochs(lines: str, first: int | None, last: int | None) -> None:
    """EARLIEST is the log start, LATEST what the reader may see."""
    home = home_of()
    count = lines.count("\n")
    home.write("t-0/leader-epoch-checkpoint", f"0\n{count}\n{lines}")

    assert found(home, OffsetTarget.EARLIEST) == TimestampedOffset(-1, 0, first)
    assert found(home, OffsetTarget.LATEST, end=4) == TimestampedOffset(-1, 4, last)


def test_epochs_that_do_not_read_are_an_error() -> None:
    """The answer would be without the epoch that a client asks for."""
    home = home_of()
    home.write("t-0/leader-epoch-checkpoint", "nonsense")

    with pytest.raises(KafkaStorageError):
        found(home, OffsetTarget.LATEST)


def test_damage_before_the_answer_is_told() -> None:
    """In the last segment it is the end of what there is."""
    home = home_of(indexed=False)
    for base in (0, 3):
        data = bytearray(home.fs.read(f"{home.path}/{name_of(base, 'log')}"))
        data[SIZE + 70 - 5] ^= 1
        home.write(name_of(base, "log"), bytes(data))

    with pytest.raises(CorruptMessage):
        found(home, 20)


def test_an_unknown_target_is_refused() -> None:
    """Negative numbers are names of targets."""
    with pytest.raises(InvalidArgument):
        found(home_of(), -9)
