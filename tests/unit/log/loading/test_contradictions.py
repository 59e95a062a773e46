"""A log in which one flipped bit makes offsets contradict each other: opened, kept, ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome

from tidelog.errors import CorruptMessage, DamagedLog
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.records.isolation import Isolation
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log

SIZE = len(build_batch([(-1, None, b"00", ())]))


def home_of(
    count: int = 10, *, per_segment: int = 100, flushed: int = 0, close: bool = False
) -> LogHome:
    """Leave a log of one-record batches; ``flushed`` records are below its recovery point."""
    home = LogHome(
        internal_segment_bytes=per_segment * SIZE, index_interval_bytes=0, segment_index_bytes=1200
    )
    log = home.open()
    for number in range(count):
        log.append_as_leader(batch(number))
        if number + 1 == flushed:
            log.flush()
    if close:
        log.close()
    else:
        home.restart()
    return home


def batch(number: int) -> bytes:
    return build_batch([(-1, None, b"%02d" % number, ())])


def flip(home: LogHome, number: int, bit: int, per_segment: int = 100) -> None:
    """Flip one bit of the base offset of a batch; bit 0 is the lowest one."""
    name = f"{number // per_segment * per_segment:020d}.log"
    data = bytearray(home.read(name))
    data[number % per_segment * SIZE + 7 - bit // 8] ^= 1 << bit % 8
    home.write(name, data)


def logs_of(home: LogHome) -> dict[str, bytes]:
    return {name: home.read(name) for name in home.files(".log")}


def read(log: Log, start: int = 0) -> tuple[list[int], CorruptMessage | None]:
    """Return the offsets that a reader gets, and the error after them."""
    found: list[int] = []
    try:
        found.extend(record.offset for record in log.records(start, isolation=Isolation.LOG_END))
    except CorruptMessage as error:
        return found, error
    return found, None


def test_a_killed_log_is_not_cut_for_one_damaged_batch() -> None:
    """The sound records after it stay and are found; an error names the place of the damage."""
    home = home_of()
    flip(home, 4, 3)
    before = logs_of(home)

    log = home.open(clean=False)

    assert logs_of(home) == before
    assert home.fs.list(home.data_directory) == ["flights-0"]
    assert log.log_end_offset == 10
    assert [read(log, start)[0] for start in (0, 6)] == [[0, 1, 2, 3], [6, 7, 8, 9]]
    error = read(log)[1]
    assert error is not None
    assert error.position == 4 * SIZE


def test_it_takes_no_appends_until_it_is_recovered() -> None:
    """The error names the file, the byte, and the way out; nothing is changed."""
    home = home_of()
    flip(home, 4, 3)
    before = logs_of(home)
    log = home.open(clean=False)

    acts: list[Callable[[], object]] = [
        lambda: log.append_as_leader(batch(10)),
        lambda: log.append_records([(-1, None, b"10", ())]),
        lambda: log.append_as_follower(build_batch([(-1, None, b"", ())], base_offset=10), 0),
        lambda: log.adopt_segment("/data/none", []),
        log.roll,
        log.check_appendable,
    ]
    for act in acts:
        with pytest.raises(DamagedLog, match=rf"byte {4 * SIZE} of .*recover flights"):
            act()

    assert logs_of(home) == before
    assert not log.is_offline


def test_each_start_finds_it_again() -> None:
    """Also after an orderly end: the recovery point does not pass it."""
    home = home_of(flushed=3)
    flip(home, 4, 3)
    log = home.open(clean=False, recovery_point=3)
    log.flush()
    log.close()
    assert log.recovery_point == 4

    log = home.open(clean=False, recovery_point=log.recovery_point)

    assert log.contradiction is not None


def test_the_operators_recovery_cuts_it_and_keeps_what_it_cuts() -> None:
    """Then the log takes appends again."""
    home = home_of()
    flip(home, 4, 3)
    home.open(clean=False).close()

    log = home.open(clean=False, cuts_contradictions=True, keep_cuts=KeepCuts.ALWAYS)

    assert log.log_end_offset == 4
    assert log.append_as_leader(batch(4)).first_offset == 4
    assert read(log) == ([0, 1, 2, 3, 4], None)
    cut = [name for name in home.fs.list(home.data_directory) if name.endswith(".cut")]
    assert len(cut) == 1
    assert b"9" in home.fs.read(f"{home.data_directory}/{cut[0]}")


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("bit", [0, 1, 2, 3, 8, 40, 63])
def test_a_clean_log_is_not_recovered(number: int, bit: int) -> None:
    """After a clean stop no file is cut, and appends continue at the log end."""
    home = home_of(close=True)
    flip(home, number, bit)
    before = logs_of(home)
    is_tail = number == 9 and bit != 63 and not 9 >> bit & 1

    log = home.open(recovery_point=10)

    assert logs_of(home) == before
    if not is_tail:
        assert log.log_end_offset == 10
        assert log.append_as_leader(batch(10)).first_offset == 10
        offsets, error = read(log)
        assert offsets == list(range(number))
        assert error is not None
        assert number == 9 or read(log, 10) == ([10], None)


@pytest.mark.parametrize("bit", [1, 2, 5, 30, 31, 62])
def test_damage_in_a_segment_does_not_take_those_behind_it(bit: int) -> None:
    """The chain continues in them, so they stay too."""
    home = home_of(12, per_segment=4)
    flip(home, 5, bit, 4)
    before = logs_of(home)

    log = home.open(clean=False)

    assert logs_of(home) == before
    assert log.log_end_offset == 12
    assert read(log)[0] == [0, 1, 2, 3, 4]
    assert read(log, 8)[0] == [8, 9, 10, 11]


def test_two_damaged_batches_are_cut_as_kafka_cuts() -> None:
    """Leaving out one does not make the chain whole, wherever the other one lies."""
    home = home_of(12, per_segment=4)
    flip(home, 5, 3, 4)
    flip(home, 9, 4, 4)

    log = home.open(clean=False)

    assert log.log_end_offset == 5
    assert log.append_as_leader(batch(5)).first_offset == 5
    assert sorted(logs_of(home)) == [f"{0:020d}.log", f"{4:020d}.log"]
    assert sum(name.endswith(".cut") for name in home.fs.list(home.data_directory)) == 2


def test_bytes_that_were_never_written_still_end_the_log() -> None:
    """A crash tears the last batch; it is cut, and a batch with a wrong offset before it is not."""
    home = home_of()
    flip(home, 4, 3)
    name = f"{0:020d}.log"
    home.write(name, home.read(name)[:-5])

    log = home.open(clean=False)

    assert log.log_end_offset == 9
    assert log.contradiction is not None
    assert len(home.read(name)) == 9 * SIZE


def test_below_the_recovery_point_it_is_believed() -> None:
    """What was flushed is not questioned: the log takes appends; readers meet the damage."""
    home = home_of(flushed=8)
    flip(home, 4, 3)
    before = logs_of(home)

    log = home.open(clean=False, recovery_point=8)

    assert logs_of(home) == before
    assert log.append_as_leader(batch(10)).first_offset == 10
    assert read(log, 6) == ([6, 7, 8, 9, 10], None)


def test_a_flushed_last_batch_that_is_damaged_counts_by_its_offsets() -> None:
    """The log ends after it, so that a reader that begins there gets the error, too."""
    home = home_of(flushed=10)
    flip(home, 9, 3)
    before = logs_of(home)

    log = home.open(clean=False, recovery_point=10)

    assert logs_of(home) == before
    assert log.log_end_offset == 10
    assert read(log, 9)[0] == []
    assert read(log, 9)[1] is not None
    assert log.contradiction is not None


def lose_first_bytes(home: LogHome, base_offset: int, number: int, count: int) -> bytes:
    """Put zeros over the first bytes of a batch, as a power cut does; return what is left of it."""
    name = f"{base_offset:020d}.log"
    data = bytearray(home.read(name))
    data[number * SIZE : number * SIZE + count] = bytes(count)
    home.write(name, data)
    return bytes(data[number * SIZE : (number + 1) * SIZE])


@pytest.mark.parametrize("count", [8, 12, 16, 17, SIZE - 5])
@pytest.mark.parametrize("flushed", [0, 4, 9])
def test_a_last_batch_that_lost_its_first_bytes_is_a_torn_end(count: int, flushed: int) -> None:
    """It is cut and kept: nothing follows it that would be whole without it."""
    home = home_of(flushed=flushed)
    torn = lose_first_bytes(home, 0, 9, count)

    log = home.open(clean=False, recovery_point=flushed)

    assert log.contradiction is None
    assert log.append_as_leader(batch(9)).first_offset == 9
    assert read(log) == (list(range(10)), None)
    cut = [name for name in home.fs.list(home.data_directory) if name.endswith(".cut")]
    assert len(cut) == 1
    assert home.fs.read(f"{home.data_directory}/{cut[0]}").startswith(torn.rstrip(b"\0"))


def test_a_torn_end_before_an_empty_segment_is_cut_too() -> None:
    """The log had rolled, and nothing was in the next segment yet."""
    home = LogHome(index_interval_bytes=0, segment_index_bytes=1200)
    log = home.open()
    for number in range(10):
        log.append_as_leader(batch(number))
    log.roll()
    home.restart()
    lose_first_bytes(home, 0, 9, 8)

    log = home.open(clean=False)

    assert log.contradiction is None
    assert log.append_as_leader(batch(9)).first_offset == 9
    assert read(log) == (list(range(10)), None)
    assert sorted(logs_of(home)) == [f"{0:020d}.log"]


def test_a_batch_that_lost_its_first_bytes_stays_before_a_segment_with_records() -> None:
    """Sound records that follow it are not cut for it."""
    home = home_of(8, per_segment=4)
    lose_first_bytes(home, 4, 0, 8)
    before = logs_of(home)

    log = home.open(clean=False)

    assert logs_of(home) == before
    assert log.log_end_offset == 8
    assert log.contradiction is not None


@pytest.mark.parametrize("offset", [0, 2, 4])
def test_a_truncation_at_or_below_the_damage_ends_the_state(offset: int) -> None:
    """As when a follower copies the log again from there."""
    home = home_of()
    flip(home, 4, 3)
    log = home.open(clean=False)

    assert log.truncate_to(offset)

    assert log.log_end_offset == offset
    assert len(home.read(f"{0:020d}.log")) == offset * SIZE
    assert log.append_as_leader(batch(offset)).first_offset == offset
    assert read(log) == (list(range(offset + 1)), None)


def test_a_truncation_above_the_damage_is_refused() -> None:
    """Nobody knows where that offset is: one that the damaged batch states may be false."""
    home = home_of()
    flip(home, 4, 3)
    before = logs_of(home)
    log = home.open(clean=False)

    with pytest.raises(DamagedLog):
        log.truncate_to(8)

    assert (logs_of(home), log.log_end_offset) == (before, 10)


def test_a_damaged_batch_that_states_a_lower_offset_is_truncated_too() -> None:
    """It lies after the sound records below the truncation, whatever it states."""
    home = home_of()
    flip(home, 4, 2)
    log = home.open(clean=False)

    log.truncate_to(4)

    assert len(home.read(f"{0:020d}.log")) == 4 * SIZE


def test_a_full_truncation_ends_the_state() -> None:
    """As when a follower copies the log from the beginning."""
    home = home_of()
    flip(home, 4, 3)
    log = home.open(clean=False)

    log.truncate_fully_and_start_at(20)

    assert log.append_as_leader(batch(0)).first_offset == 20
    assert log.contradiction is None


def test_deleting_its_segment_ends_the_state() -> None:
    """What was damaged is gone by the rules of retention."""
    home = home_of(12, per_segment=4)
    flip(home, 5, 3, 4)
    log = home.open(clean=False)
    log.update_high_watermark(12)
    log.maybe_increment_log_start_offset(8)

    log.delete_old_segments()

    assert log.append_as_leader(batch(12)).first_offset == 12


def test_a_truncation_of_a_log_with_unseen_damage_keeps_what_is_below() -> None:
    """After a clean stop nobody has looked: what damage hides is an error, and nothing is cut."""
    home = home_of(close=True)
    flip(home, 4, 3)
    home.fs.delete(f"{home.directory}/{0:020d}.index")
    home.write(f"{0:020d}.index", b"")
    before = logs_of(home)
    log = home.open()

    with pytest.raises(CorruptMessage):
        log.truncate_to(8)

    assert (logs_of(home), log.log_end_offset) == (before, 10)
    assert log.truncate_to(4)
    assert len(home.read(f"{0:020d}.log")) == 4 * SIZE


def test_the_producers_of_sound_batches_are_known() -> None:
    """Sequences continue, though the batch between them is left out."""
    home = LogHome()
    log = home.open()
    for number in range(6):
        made = build_batch(
            [(home.clock.now_ms(), None, b"%d" % number, ())],
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
        )
        log.append_as_leader(made)
    size = log.size_bytes // 6
    home.restart()
    data = bytearray(home.read(f"{0:020d}.log"))
    data[2 * size + 6] ^= 4
    home.write(f"{0:020d}.log", data)

    log = home.open(clean=False)

    entry = log.producers.last_entry(7)
    assert entry is not None
    assert (entry.last_data_offset, entry.last_sequence) == (5, 5)


def test_a_snapshot_closes_no_segment_of_a_log_that_takes_no_appends() -> None:
    """The damage would lie in a closed one, of which a snapshot says that it is whole."""
    home = home_of()
    flip(home, 4, 3)
    damaged = home.open(clean=False)
    sound = home_of().open(clean=False)

    assert not damaged.maybe_roll_stable()
    assert len(damaged.segments) == 1
    sound.update_high_watermark(9)
    assert not sound.maybe_roll_stable()
    sound.update_high_watermark(10)
    assert sound.maybe_roll_stable()
    assert [one.base_offset for one in sound.segments] == [0, 10]
    assert not sound.maybe_roll_stable()
