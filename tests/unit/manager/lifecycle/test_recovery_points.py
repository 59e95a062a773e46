"""The checkpoint of recovery points beside logs that end below their lines."""

from __future__ import annotations

import errno

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, fill

from tidelog.errors import KafkaStorageError

RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def with_a_line_above(seed: int) -> ManagerHome:
    """Leave a log of 5 records that its line takes for flushed up to 20."""
    home = ManagerHome(seed=seed)
    manager = home.open()
    manager.create_topic("t")
    fill(manager, "t", 0, 20)
    manager.partition("t", 0).log.flush()
    manager._checkpointing.checkpoint_recovery_points()
    manager.partition("t", 0).log.truncate_to(5)
    home.restart()
    home.fs.power_cut("all")
    assert home.lines(RECOVERY_POINTS) == ["t 0 20"]
    return home


@pytest.mark.parametrize("loading", Loading)
def test_a_log_does_not_grow_into_a_line_that_is_above_it(loading: Loading) -> None:
    """A recovery after the next crash would begin there, and believe what was never flushed."""
    for seed in range(20):
        home = with_a_line_above(seed)
        manager = home.open_as(loading)
        fill(manager, "t", 0, 2)
        manager.partition("t", 0).log.roll()
        fill(manager, "t", 0, 20)
        home.power_cut()

        with home.open() as manager:
            found = [(one.offset, one.value) for one in manager.partition("t", 0).log.records()]

        # Between segments a gap may be left, as in Kafka: the first is synced after the second has
        # begun. There is no damage.
        written = [b"value %d" % n for part in (range(5), range(2), range(20)) for n in part]
        assert found == [(offset, written[offset]) for offset, _ in found]


def test_a_truncation_lowers_the_line_first() -> None:
    """On a full disk the log stays as it is: else it could grow into the line meanwhile."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 20)
        manager.partition("t", 0).log.flush()
        manager._checkpointing.checkpoint_recovery_points()
        home.fs.fail("open", f"{RECOVERY_POINTS}.tmp", OSError(errno.ENOSPC, "no space is left"))
        with pytest.raises(KafkaStorageError):
            manager.truncation.truncate_to({("t", 0): 5})
        kept = manager.partition("t", 0).log.log_end_offset

        manager.truncation.truncate_to({("t", 0): 5})
        ends = manager.partition("t", 0).log.log_end_offset, home.lines(RECOVERY_POINTS)

    assert kept == 20
    assert ends == (5, ["t 0 5"])
