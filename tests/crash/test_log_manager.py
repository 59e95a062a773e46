"""Power cuts and killed processes over several logs and the checkpoints that they share."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.manager_home import ManagerHome, fill, values
from tests.machinery.scale import examples

from tidelog.errors import KafkaStorageError
from tidelog.testing import PowerCut


def expected(count: int) -> list[bytes]:
    return [b"value %d" % number for number in range(count)]


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 10_000), operations=st.integers(0, 160))
def test_a_power_cut_loses_only_unflushed_suffixes(seed: int, operations: int) -> None:
    """Each log has what was flushed, then a part of what was not, without holes at its front.

    Both directories and their checkpoints see the cut at the same moment: within appends, rolls,
    flushes, retention and checkpoints.
    """
    home = ManagerHome("/a", "/b", seed=seed, retention_ms=-1)
    rng = Random(seed)
    manager = home.open()
    manager.create_topic("t", 2, is_spread=True)
    appended, flushed = [0, 0], [0, 0]
    home.fs.crash_after(operations)
    with suppress(PowerCut, KafkaStorageError):
        while True:
            number = rng.randrange(2)
            target = manager.partition("t", number)
            target.append_records([(home.clock.now_ms(), None, b"value %d" % appended[number], ())])
            appended[number] += 1
            if rng.randrange(4) == 0:
                before = list(appended)
                manager.flush()
                flushed = before
            if rng.randrange(4) == 0:
                home.clock.advance(5000)
    home.power_cut()

    with home.open() as manager:
        for number in range(2):
            found = values(manager, "t", number)
            assert len(found) >= flushed[number]
            assert found[: flushed[number]] == expected(flushed[number])
            assert set(found) <= set(expected(appended[number] + 1))


@pytest.mark.parametrize("seed", range(8))
def test_a_killed_process_loses_nothing(seed: int) -> None:
    """What was appended is there, flushed or not, and a clean end follows."""
    home = ManagerHome("/a", "/b", seed=seed, retention_ms=-1)
    manager = home.open()
    manager.create_topic("t", 4, is_spread=True)
    for number in range(4):
        fill(manager, "t", number, 10 * number + seed)
    home.restart()
    with home.open() as manager:
        found = [values(manager, "t", number) for number in range(4)]

    assert found == [expected(10 * number + seed) for number in range(4)]
    assert [home.is_marked(path) for path in home.paths] == [True, True]


@pytest.mark.parametrize("operations", range(0, 60, 2))
def test_a_topic_is_there_with_all_its_partitions_or_not_at_all(operations: int) -> None:
    """Whatever the power cut left, the next start completes it."""
    home = ManagerHome("/a", "/b", seed=operations)
    manager = home.open()
    home.fs.crash_after(operations)
    with suppress(PowerCut, KafkaStorageError):
        manager.create_topic("t", 3, {"retention.ms": "7"}, is_spread=True)
    home.power_cut()
    with home.open() as manager:
        topics = manager.topics()
        found = (
            [partition.log.config.retention_ms for partition in manager.partitions("t")]
            if (topics)
            else []
        )

    assert found == ([7, 7, 7] if topics else [])
