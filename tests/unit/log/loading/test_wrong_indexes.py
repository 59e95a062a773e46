"""Opening a log whose last segment has index entries that point to nothing in its file."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

NOW_MS = 1_700_000_000_000
BASE = 40
COUNT = 6
INT32_MAX = 2**31 - 1


def home_of() -> LogHome:
    """Close a log whose one segment begins at ``BASE`` and has an entry for nearly each batch."""
    home = LogHome(index_interval_bytes=0)
    log = home.open(log_start_offset=BASE)
    for number in range(COUNT):
        log.append_as_leader(build_batch([(NOW_MS + number, b"key", b"%d" % number, ())]))
    log.close()
    return home


def damage(home: LogHome, suffix: str, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of the index of the log's one segment."""
    (name,) = home.files(suffix)
    home.write(name, change(home.read(name)))


def last_offset_entry(relative_offset: int, position: int) -> Callable[[bytes], bytes]:
    """Replace the last entry of an offset index."""
    return lambda data: data[:-8] + struct.pack(">ii", relative_offset, position)


def last_time_entry(timestamp: int, relative_offset: int) -> Callable[[bytes], bytes]:
    """Replace the last entry of a time index."""
    return lambda data: data[:-12] + struct.pack(">qi", timestamp, relative_offset)


WRONG = {
    "offset above the end": (".index", last_offset_entry(COUNT, 0)),
    "greatest offset": (".index", last_offset_entry(INT32_MAX, 0)),
    "offset below the base": (".index", last_offset_entry(-1, 0)),
    "position below zero": (".index", last_offset_entry(COUNT - 1, -5)),
    "position inside a batch": (".index", last_offset_entry(COUNT - 1, 7)),
    "position beyond the end": (".index", last_offset_entry(COUNT - 1, INT32_MAX)),
    "rubbish": (".index", lambda _: b"\x7f" * 80),
    "time of an offset above the end": (".timeindex", last_time_entry(NOW_MS + 9, COUNT)),
    "time of an offset below the base": (".timeindex", last_time_entry(NOW_MS + 9, -1)),
}


@pytest.mark.parametrize(("suffix", "change"), WRONG.values(), ids=WRONG)
def test_a_clean_log_keeps_its_records_whatever_its_last_index_entry_says(
    suffix: str, change: Callable[[bytes], bytes]
) -> None:
    """The indexes are made again if the last entry of one is wrong, and appends follow the records.

    Kafka lets the log end where the segment begins, and gives the same offsets once more.
    """
    home = home_of()
    damage(home, suffix, change)
    before = [(BASE + number, b"%d" % number) for number in range(COUNT)]

    with home.open(log_start_offset=BASE) as log:
        assert all_values(log) == before
        appended = [
            log.append_as_leader(build_batch([(NOW_MS + 20 + number, b"key", b"new", ())]))
            for number in range(3)
        ]
    with home.open(log_start_offset=BASE) as log:
        found = all_values(log)

    assert [each.first_offset for each in appended] == [46, 47, 48]
    assert found == before + [(each.first_offset, b"new") for each in appended]


@pytest.mark.parametrize(("suffix", "change"), WRONG.values(), ids=WRONG)
def test_a_rebuilt_index_is_as_it_was(suffix: str, change: Callable[[bytes], bytes]) -> None:
    """Opening and closing the log leaves the files that were there before the damage."""
    home = home_of()
    before = {name: home.read(name) for name in home.files("index")}
    damage(home, suffix, change)

    home.open(log_start_offset=BASE).close()

    assert before == {name: home.read(name) for name in home.files("index")}


@pytest.mark.parametrize("position", [2, 3, 1000, 7, -1])
@pytest.mark.parametrize("offset", range(COUNT))
def test_an_entry_is_followed_only_if_a_batch_confirms_it(position: int, offset: int) -> None:
    """A read begins at its offset whatever position its entry has, and so does a truncation.

    Kafka passes over the records before that position, or fails.
    """
    home = home_of()
    size = len(build_batch([(NOW_MS, b"key", b"0", ())]))
    at = position * size if position in {2, 3} else position
    damage(home, ".index", lambda data: struct.pack(">ii", 1, at) + data[8:])

    with home.open(log_start_offset=BASE) as log:
        log.update_high_watermark(BASE + COUNT)
        found = next(log.records(BASE + offset))
        by_time = log.fetch_offset_by_timestamp(NOW_MS + offset)
        log.truncate_to(BASE + offset)
        left = all_values(log)

    assert (found.offset, found.value) == (BASE + offset, b"%d" % offset)
    assert by_time is not None
    assert by_time.offset == BASE + offset
    assert left == [(BASE + number, b"%d" % number) for number in range(offset)]
