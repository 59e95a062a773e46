"""Power cuts and kills while a log is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.crash.power_cuts import outcomes
from tests.machinery.log_home import LogHome, all_values
from tests.machinery.scale import examples
from tests.machinery.strategies import seeds

from tidelog.log.log import Log
from tidelog.testing import PowerCut, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Enumerated

NOW_MS = 1_700_000_000_000
SETTINGS = {"internal_segment_bytes": 400, "index_interval_bytes": 100, "segment_index_bytes": 80}
VALUES = st.lists(st.binary(max_size=40), max_size=8)


def append(log: Log, value: bytes) -> None:
    """Append one record in a batch of its own, of an idempotent producer."""
    known = log.producers.last_entry(1)
    sequence = 0 if known is None else known.last_sequence + 1
    log.append_as_leader(
        build_batch(
            [(NOW_MS, None, value, ())], producer_id=1, producer_epoch=0, base_sequence=sequence
        ),
        leader_epoch=0,
    )


def check_opens(home: LogHome, recovery_point: int, appended: list[bytes]) -> Log:
    """Open after a crash: every flushed record is there, and nothing that was never appended."""
    log = home.open(clean=False, recovery_point=recovery_point)
    survivors = all_values(log)
    flushed = list(enumerate(appended[:recovery_point]))
    assert flushed == survivors[:recovery_point]
    assert set(survivors) <= set(enumerate(appended))
    assert log.log_end_offset <= len(appended)
    if survivors:
        assert log.producers.producers[1].last_data_offset == survivors[-1][0]
    return log


@settings(max_examples=examples(100), deadline=None)
@given(flushed=VALUES, unflushed=VALUES, seed=seeds())
def test_power_cut_loses_only_an_unflushed_suffix(
    flushed: list[bytes], unflushed: list[bytes], seed: int
) -> None:
    """After a power cut the log holds every flushed batch, then a prefix of the others.

    Scenario: LogLoaderTest.testLogRecoversToCorrectOffset
    """
    home = LogHome(seed, **SETTINGS)
    log = home.open()
    for value in flushed:
        append(log, value)
    log.flush()
    recovery_point = log.recovery_point
    for value in unflushed:
        append(log, value)
        home.clock.advance(0)  # runs flush-log, if the append has rolled
    home.power_cut()

    log = check_opens(home, recovery_point, flushed + unflushed)
    survivors = [value for _, value in all_values(log)]

    assert (flushed + unflushed)[: len(survivors)] == survivors
    assert log.log_end_offset == len(survivors)


@settings(max_examples=examples(50), deadline=None)
@given(values=VALUES, seed=seeds())
def test_a_killed_process_loses_nothing(values: list[bytes], seed: int) -> None:
    """What was appended is in the page cache: only the machine can lose it.

    Scenario: LogLoaderTest.testLogRecoveryIsCalledUponBrokerCrash
    """
    home = LogHome(seed, **SETTINGS)
    log = home.open()
    for value in values:
        append(log, value)
    home.restart()

    log = check_opens(home, 0, values)

    assert [value for _, value in all_values(log)] == values


def run_script(home: LogHome, done: list[int], appended: list[bytes]) -> None:
    """Do a bit of everything; note in ``done`` what was flushed, as it returns."""
    log = home.open(clean=False)
    for number in range(8):
        value = b"value-%d" % number
        appended.append(value)
        append(log, value)
        if number in {2, 6}:
            log.flush()
            done.append(log.recovery_point)
        home.clock.advance(0)
    log.roll()
    home.clock.advance(0)
    done.append(log.recovery_point)
    log.close()


def count_operations() -> int:
    """Count what the script does to the disk."""
    home = LogHome(**SETTINGS)
    before = len(home.fs.operations)
    run_script(home, [], [])
    return len(home.fs.operations) - before


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_after_any_operation_is_recovered_from(
    seed: int, enumerated: Enumerated
) -> None:
    """At every point of a run, what was flushed by then survives, and the log opens by itself."""
    total = count_operations()
    enumerated("power cuts", total, at_least=40)
    for operations in range(total):
        home = LogHome(seed, **SETTINGS)
        done, appended = [0], list[bytes]()
        home.fs.crash_after(operations)
        with pytest.raises(PowerCut):
            run_script(home, done, appended)
        home.power_cut()

        log = check_opens(home, done[-1], appended)
        append(log, b"after")
        log.close()
        assert all_values(home.open())[-1][1] == b"after"


@settings(max_examples=examples(40), deadline=None)
@given(cut=st.integers(0, 12), seed=seeds())
def test_a_truncation_survives_a_power_cut_as_before_or_after(cut: int, seed: int) -> None:
    """A crash during or after a truncation leaves a prefix of the log, never a mixture."""
    home = LogHome(seed, **SETTINGS)
    log = home.open()
    values = [b"value-%d" % number for number in range(12)]
    for value in values:
        append(log, value)
    log.flush()
    log.truncate_to(cut)
    home.power_cut()

    log = home.open(clean=False, recovery_point=min(cut, 12))
    survivors = [value for _, value in all_values(log)]

    assert values[: len(survivors)] == survivors
    assert len(survivors) >= min(cut, 12)


def full_log(seed: int, values: list[bytes]) -> tuple[LogHome, Log]:
    """Return a log of four segments, all flushed."""
    home = LogHome(seed, **SETTINGS)
    log = home.open()
    for value in values:
        append(log, value)
    log.flush()
    return home, log


@pytest.mark.parametrize(
    ("act", "offset"),
    [
        (Log.truncate_to, 1),
        (Log.truncate_fully_and_start_at, 3),
        (Log.truncate_fully_and_start_at, 99),
    ],
)
def test_a_truncation_that_is_stopped_leaves_no_hole_in_the_log(
    act: Callable[[Log, int], object], offset: int, enumerated: Enumerated
) -> None:
    """At each point of it no record is missing before one that is there, nor is the log damaged."""
    values = [b"value-%d" % number for number in range(16)]
    home, log = full_log(0, values)
    before = len(home.fs.operations)
    act(log, offset)
    total = len(home.fs.operations) - before
    enumerated("operations", total, at_least=20)
    for operations in range(total):
        home, log = full_log(operations, values)
        home.fs.crash_after(operations)
        with pytest.raises(PowerCut):
            act(log, offset)
        for outcome in outcomes(2):
            left = home.copied(outcome.seed)
            left.power_cut(outcome.kept)

            survivors = all_values(left.open(clean=False))

            first = survivors[0][0] if survivors else 0
            assert list(enumerate(values))[first : first + len(survivors)] == survivors


@pytest.mark.parametrize("seed", range(12))
def test_segments_that_retention_deletes_do_not_come_back(seed: int) -> None:
    """Not one of them was flushed: a torn one that was back could not be loaded any more."""
    home = LogHome(seed, **SETTINGS, retention_bytes=450, retention_ms=-1)
    log = home.open()
    for number in range(16):
        append(log, b"value-%d" % number)
    log.update_high_watermark(log.log_end_offset)
    log.delete_old_segments()
    start, recovery_point = log.log_start_offset, log.recovery_point
    home.power_cut()

    log = home.open(clean=False, recovery_point=recovery_point)

    assert start == log.log_start_offset > 0


@pytest.mark.parametrize("seed", range(12))
def test_a_closed_log_is_durable_with_all_its_names(seed: int) -> None:
    """Closing makes durable also the name of a segment that nothing had flushed yet."""
    home = LogHome(seed, **SETTINGS)
    log = home.open()
    for value in (b"first", b"second"):
        append(log, value)
        log.roll()
    append(log, b"third")
    log.close()
    home.power_cut()

    survivors = all_values(home.open(clean=False, recovery_point=3))

    assert survivors == [(0, b"first"), (1, b"second"), (2, b"third")]


@pytest.mark.parametrize("seed", range(24))
def test_a_snapshot_that_a_truncation_took_does_not_come_back(seed: int) -> None:
    """Else a log that has grown past it again would take it for its own."""
    home = LogHome(seed)
    log = home.open()
    append(log, b"kept")
    log.flush()
    for _ in range(3):
        append(log, b"cut")
    log.close()
    log = home.open()
    log.truncate_to(1)
    for _ in range(3):
        log.append_records([(NOW_MS, None, b"other", ())])
    log.roll()
    log.flush()
    recovery_point = log.recovery_point
    home.power_cut()

    log = home.open(clean=False, recovery_point=recovery_point)

    assert recovery_point == 4
    assert log.producers.producers[1].last_sequence == 0
