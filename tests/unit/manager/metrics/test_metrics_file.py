"""The files with the metrics of a running service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.manager_home import ManagerHome

from tidelog.manager.metrics.metrics_file import METRICS_FILE, MetricsFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from tidelog.manager.metrics.metric import Metric


def test_files_that_are_removed_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that is under way at the stop, or begins after it, puts none of them back."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        files, look = MetricsFiles(manager), manager.metrics
        files.start()

        def stopping() -> Sequence[Metric]:
            found = look()
            files.stop()
            return found

        at_first = [METRICS_FILE in home.files(path) for path in home.paths]
        monkeypatch.setattr(manager, "metrics", stopping)
        files.write()
        during = [METRICS_FILE in home.files(path) for path in home.paths]
        monkeypatch.undo()
        files.write()
        after = [METRICS_FILE in home.files(path) for path in home.paths]

        assert (at_first, during, after) == ([True, True], [False, False], [False, False])


def test_a_full_disk_is_told_once_until_there_is_space(caplog: pytest.LogCaptureFixture) -> None:
    """Not each ten seconds: the service's log may lie on that disk."""
    home = ManagerHome()
    with home.open() as manager:
        files = MetricsFiles(manager)
        for free_bytes in (0, 0, None, 0):
            home.fs.set_free_bytes(free_bytes)
            files.write()
        home.fs.set_free_bytes(None)

    told = [one.getMessage() for one in caplog.records if one.name.endswith("metrics_file")]
    assert [line.split()[:2] for line in told] == [["metrics-not-written", "directory=/data"]] * 2
