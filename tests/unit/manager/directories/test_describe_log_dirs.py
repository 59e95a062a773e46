"""The description of a manager's data directories."""

from __future__ import annotations

import errno

import pytest
from tests.machinery.manager_home import ManagerHome, fill

from tidelog.datadir.log_dir_description import ReplicaInfo


def test_each_directory_has_its_logs_and_its_room() -> None:
    """Sizes of all logs, and the bytes of the disk, total and usable."""
    home = ManagerHome("/one", "/two")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        fill(manager, "t", 0, 3)
        fill(manager, "t", 1, 1)
        home.fs.set_free_bytes(5_000)

        found = manager.describe_log_dirs()

        replicas = [replica for path in home.paths for replica in found[path].replicas]
        sizes = {n: manager.partition("t", n).log.size_bytes for n in (0, 1)}
        assert list(found) == ["/one", "/two"]
        assert sorted(replicas, key=lambda one: one.partition) == [
            ReplicaInfo("t", number, size, 0, is_future=False) for number, size in sizes.items()
        ]
        for one in found.values():
            assert (one.error, one.usable_bytes) == (None, 5_000)
            assert one.total_bytes is not None
            assert one.total_bytes > 5_000
        home.fs.set_free_bytes(None)


def test_a_future_log_has_its_lag() -> None:
    """It is behind the log that the partition has, by the difference of their log ends."""
    home = ManagerHome("/one", "/two")
    with home.open() as manager:
        manager.create_topic("t", 1)
        fill(manager, "t", 0, 3)
        here = manager.partition("t", 0).log.directory.rpartition("/")[0]
        there = next(path for path in home.paths if path != here)
        manager.move_partition("t", 0, there)
        fill(manager, "t", 0, 1)

        found = manager.describe_log_dirs()

        [current], [future] = found[here].replicas, found[there].replicas
        assert (current.is_future, current.offset_lag) == (False, 0)
        log = manager.get_log("t", 0, is_future=True)
        assert log is not None
        lag = 4 - log.log_end_offset
        assert future == ReplicaInfo("t", 0, log.size_bytes, lag, is_future=True)
        assert lag > 0


def test_an_offline_directory_has_its_reason() -> None:
    """It has no logs and no sizes; the other one is described all the same."""
    home = ManagerHome("/one", "/two")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        manager.take_dir_offline("/one", OSError(errno.EIO, "broken", "/one"))
        manager.handle_failures()

        found = manager.describe_log_dirs()

        assert "broken" in (found["/one"].error or "")
        assert (found["/one"].replicas, found["/one"].total_bytes) == ((), None)
        assert (found["/two"].error, len(found["/two"].replicas)) == (None, 1)


@pytest.mark.parametrize("operation", ["total_bytes", "free_bytes"])
def test_only_a_disk_that_fails_is_taken_offline(operation: str) -> None:
    """Where resources are lacking its logs are described, without the space of its disk."""
    home = ManagerHome("/one", "/two")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
        home.fs.fail(operation, "/one", OSError(errno.ENOMEM, "no memory"))
        lacking = manager.describe_log_dirs()["/one"]
        home.fs.fail(operation, "/one", OSError(errno.EIO, "broken"))
        failed = manager.describe_log_dirs()["/one"]

        assert (lacking.error, len(lacking.replicas)) == (None, 1)
        assert (lacking.total_bytes, lacking.usable_bytes) == (None, None)
        assert ("broken" in (failed.error or ""), failed.replicas) == (True, ())
        assert manager.live_dirs == ["/two"]
