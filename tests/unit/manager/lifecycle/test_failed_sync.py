"""After a sync has failed, later ones write only what was written since, and say that all is well.

So a process that opens the directory after that, on the same machine, writes it again.
"""

from __future__ import annotations

import errno

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, fill, values

from tidelog.errors import KafkaStorageError

FILE = "tidelog.disk-failed"


def failed(*paths: str, files: str = ".log") -> ManagerHome:
    """Return a home whose process ended after a sync of records failed, which are still read."""
    home = ManagerHome(*paths, internal_segment_bytes=1 << 20)
    with home.open() as manager:
        manager.create_topic("t", path=paths[0] if paths else None)
        fill(manager, "t", 0, 1)
    manager = home.open()
    fill(manager, "t", 0, 2)
    home.fs.fail("sync", files, OSError(errno.EIO, "it failed"))
    with pytest.raises(KafkaStorageError):
        manager.partition("t", 0).log.flush()
    home.fs.mend()
    home.restart()
    return home


@pytest.mark.parametrize("loading", Loading)
@pytest.mark.parametrize("files", [".log", "index"])
def test_what_the_failed_sync_did_not_write_is_durable_with_the_next(
    loading: Loading, files: str
) -> None:
    """Else it would be read, and more be acknowledged after it, until a power cut takes all."""
    home = failed(files=files)
    running = home.open_as(loading)
    fill(running, "t", 0, 1)
    running.partition("t", 0).log.flush()
    home.fs.power_cut("none")
    home.scheduler.forget()

    with home.open_as(loading) as manager:
        assert values(manager, "t", 0) == [b"value %d" % number for number in (0, 0, 1, 0)]


def test_a_service_that_has_loaded_all_logs_ends_it() -> None:
    """A short-lived writer, which uses some, does not; the other disk's directory knows nothing."""
    home = failed("/a", "/b")
    found = [home.fs.exists(f"{path}/{FILE}") for path in home.paths]
    with home.open_as(Loading.FIRST_USE) as manager:
        fill(manager, "t", 0, 1)
    found.append(home.fs.exists(f"/a/{FILE}"))
    with home.open():
        found.append(home.fs.exists(f"/a/{FILE}"))

    assert found == [True, False, True, False]


def test_a_disk_that_fails_again_meanwhile_is_offline_and_nothing_is_lost() -> None:
    """And the next start writes it again."""
    home = failed()
    home.fs.fail("pwrite", "0.log", OSError(errno.EIO, "it failed"))
    with pytest.raises(KafkaStorageError):
        home.open_as(Loading.FIRST_USE).partition("t", 0)
    home.fs.mend()
    home.restart()

    with home.open() as manager:
        assert len(values(manager, "t", 0)) == 3
    assert not home.fs.exists(f"/data/{FILE}")
