"""A cleaning by many processes that is disturbed: the log stays as it was."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.machinery.cleaning import CleanerHome, kept
from tests.machinery.spread_workers import SerialWorkers

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.compaction import Spread, examine_log
from tidelog.cleaner.keys.offset_map import hash_plainly
from tidelog.cleaner.spread import entries
from tidelog.cleaner.spread.entries import Entries, KeyCollision, superseded_exactly
from tidelog.cleaner.spread.spread_cleaner import MAX_COLLISIONS, SpreadCleaner
from tidelog.config.broker_config import BrokerConfig
from tidelog.errors import CleaningAborted, CorruptMessage
from tidelog.kernels.runtime import gate
from tidelog.segment.filenames import TopicPartition
from tidelog.segment.segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.log.log import Log
    from tidelog.segment.txn_index import TxnIndexSearchResult


class Died(Exception):
    """The driver dies."""


def filled(home: CleanerHome) -> Log:
    """Return a log of four segments, the last of them empty."""
    log = home.open()
    for number in range(24):
        home.append(log, (number % 5, f"value-{number}"))
        if number % 8 == 7:
            log.roll()
    return log


def clean(
    home: CleanerHome,
    log: Log,
    *,
    is_exact: bool = False,
    on_swapped: Callable[[int], None] = lambda _: None,
    **how: Any,
) -> None:
    rng = Random(1)
    workers = SerialWorkers(home.fs, home.clock, rng, **how)
    cleaner = SpreadCleaner(workers, clock=home.clock, fs=home.fs, rng=rng, is_exact=is_exact)
    end = log.segments.active.base_offset
    cleaner.clean(log, OffsetsToClean(0, end), home.clock.now_ms(), on_swapped=on_swapped)


def contents(home: CleanerHome) -> dict[str, bytes]:
    return {name: home.read(name) for name in home.files()}


def test_of_several_attempts_one_counts() -> None:
    """The files of the others are deleted."""
    home = CleanerHome()
    with filled(home) as log:
        clean(home, log, attempts=3)

        assert kept(log) == [(n, str(n % 5), f"value-{n}") for n in range(19, 24)]
    home.clock.advance(60_000)
    assert home.files(".deleted") == []


def test_it_says_how_far_it_came_after_each_group() -> None:
    """As the cleaner of one process does."""
    home = CleanerHome(internal_segment_bytes=400)
    alone = home.copied(0)
    ends: list[int] = []
    with filled(home) as log:
        clean(home, log, on_swapped=ends.append)

        assert ends == [*log.segments.base_offsets[1:]]
    expected: list[int] = []
    with filled(alone) as log:
        to_clean = OffsetsToClean(0, log.segments.active.base_offset)
        now_ms = alone.clock.now_ms()
        alone.cleaner().clean(log, to_clean, now_ms, on_swapped=expected.append)

    assert ends == expected
    assert len(ends) > 1


@pytest.mark.parametrize("when", ["between", "at_end"])
@pytest.mark.parametrize("change", ["append", "delete", "touch"])
def test_a_log_that_changed_meanwhile_is_not_swapped(when: str, change: str) -> None:
    """The error names what changed; the files written for nothing are deleted."""
    home = CleanerHome()
    with filled(home) as log:
        path = log.segments.all[1].path
        name = path.rpartition("/")[2]
        data = home.read(name)
        changes: dict[str, Callable[[], None]] = {
            "append": lambda: home.write(name, data + data[:70]),
            "delete": lambda: home.fs.delete(path),
            "touch": lambda: home.fs.set_mtime_ms(path, 5),
        }
        before = contents(home)

        how: dict[str, Any] = {when: changes[change]}
        with pytest.raises(CleaningAborted, match=name):
            clean(home, log, **how)

        after = contents(home)
        assert before.keys() - {name} == after.keys() - {name}
        assert all(after[each] == before[each] for each in before.keys() - {name})
        home.write(name, data)


def test_another_log_start_keeps_groups_from_being_swapped_in() -> None:
    """As records may be deleted by another thread."""
    home = CleanerHome(cleanup_policy=("compact", "delete"))
    with filled(home) as log:
        before = home.files(".log")

        with pytest.raises(CleaningAborted, match="log start offset was 0 and is 3"):
            clean(home, log, at_end=lambda: log.delete_records(3))

        assert before == home.files(".log")


def test_a_driver_that_dies_leaves_the_log_as_it_was() -> None:
    """Opening it deletes what was written for nothing."""
    home = CleanerHome()
    log = filled(home)
    log.flush(force=True)
    before, at_death = contents(home), dict[str, bytes]()

    def die() -> None:
        at_death.update(contents(home))
        raise Died

    with pytest.raises(Died):
        clean(home, log, at_end=die)
    assert home.files(".deleted") == []
    home.restart()
    left = at_death.keys() - before.keys()
    for name in left:
        home.write(name, at_death[name])
    assert left
    assert all(name.endswith(".deleted") for name in left)

    with home.open(clean=False) as opened:
        assert len(kept(opened)) == 24
        assert {name for name in home.files() if name.endswith(".deleted")} == set()
        assert {name: home.read(name) for name in before if name.endswith(".log")} == {
            name: data for name, data in before.items() if name.endswith(".log")
        }


def test_planning_grows_in_a_line_with_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of each is searched once more only where a transaction was aborted."""
    home, calls = CleanerHome(), list[str]()
    search = LogSegment.collect_aborted

    def collect(segment: LogSegment, start: int, end: int) -> TxnIndexSearchResult:
        calls.append(segment.path)
        return search(segment, start, end)

    with filled(home) as log:
        for number in range(40):
            home.append(log, (number, "value"))
            log.roll()
        monkeypatch.setattr(LogSegment, "collect_aborted", collect)
        clean(home, log)

        assert len(calls) <= 2 * 44


@pytest.mark.parametrize("is_exact", [False, True])
def test_exact_keys_are_not_left_to_one_process(is_exact: bool) -> None:
    """It compares hashes only, however small the log is."""
    home = CleanerHome()
    workers = SerialWorkers(home.fs, home.clock, Random(1))
    with filled(home) as log:
        facts = examine_log(TopicPartition("t", 0), log, None, None, home.clock.now_ms())
        reason = Spread(workers, home.fs, 1 << 30, is_exact).why_local(facts, BrokerConfig())

    assert facts.is_due
    assert (reason is None) == is_exact


def test_keys_that_are_sent_count_by_their_bytes() -> None:
    """Else a task would hold all large keys of a segment at once."""
    words = np.zeros((3, 2), np.int64)
    small = Entries(words, np.array([3, 3]), np.zeros(6, np.uint8))
    large = Entries(words, np.array([2400, 2400]), np.zeros(4800, np.uint8))

    assert (small.weight, large.weight) == (2, 202)


def test_keys_are_gathered_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces larger than what is gathered at a time, and empty ones, too."""
    monkeypatch.setattr(entries, "_GATHERED_BYTES", 4)
    data = np.arange(20, dtype=np.uint8)
    starts, sizes = np.array([5, 0, 9, 3, 19, 0]), np.array([2, 3, 0, 9, 1, 0])

    found = entries.gathered(data, starts, sizes)

    wanted = [data[at : at + size] for at, size in zip(starts, sizes, strict=True)]
    assert found.tolist() == np.concatenate(wanted).tolist()
    assert entries.gathered(data, starts[:0], sizes[:0]).tolist() == []


@pytest.mark.parametrize("damaged", [-1, 8], ids=["a value", "a length"])
def test_damage_ends_it_with_file_and_byte(damaged: int) -> None:
    """Nothing is swapped in, even where a batch seems to run past the end of its file."""
    home = CleanerHome()
    with filled(home) as log:
        name = log.segments.all[1].path.rpartition("/")[2]
        data = bytearray(home.read(name))
        data[damaged] ^= 1
        home.write(name, data)
        before = contents(home)

        with pytest.raises(CorruptMessage, match=name):
            clean(home, log)

        assert contents(home) == before


@pytest.fixture
def _plain() -> Iterator[None]:
    """Hash in plain code, which a test may replace."""
    gate.force(False)
    yield
    gate.force(None)


@pytest.mark.usefixtures("_plain")
def test_keys_that_collide_are_hashed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another random key; the result is that of keys that do not collide."""
    home, tried = CleanerHome(), set()

    def weak(key: bytes, hash_key: bytes) -> tuple[int, int]:
        tried.add(hash_key)
        return (7, 7) if len(tried) == 1 else hash_plainly(key, hash_key)

    monkeypatch.setattr(entries, "hash_plainly", weak)
    with filled(home) as log:
        clean(home, log, is_exact=True)

        assert [offset for offset, _, _ in kept(log)] == list(range(19, 24))
    assert len(tried) == 2


@pytest.mark.usefixtures("_plain")
def test_keys_that_collide_under_any_hash_key_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than drop a record."""
    monkeypatch.setattr(entries, "hash_plainly", lambda _key, _hash_key: (7, 7))
    home = CleanerHome()
    with filled(home) as log:
        with pytest.raises(CleaningAborted, match="collide"):
            clean(home, log, is_exact=True)

        assert len(kept(log)) == 24
    assert MAX_COLLISIONS > 1


def test_keys_are_compared_themselves() -> None:
    """A longer key, and one of the same length, collide with the key of the same hash."""

    def of(*found: bytes) -> Entries:
        words = np.array([[1] * len(found), [2] * len(found), range(len(found))], np.int64)
        sizes = np.array([len(key) for key in found], np.int64)
        return Entries(words, sizes, np.frombuffer(b"".join(found), np.uint8))

    assert superseded_exactly(of(b"ab", b"ab", b"ab"), of()).tolist() == [0, 1]
    for other in (b"abc", b"ac", b""):
        with pytest.raises(KeyCollision):
            superseded_exactly(of(b"ab", other), of())
