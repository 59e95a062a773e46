"""The states of a service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome

from tidelog.cli.serving.service_status import ServiceStatus
from tidelog.manager.metrics.group_lag import GroupLag
from tidelog.manager.metrics.health import degraded_reasons
from tidelog.manager.metrics.metric import Metric

if TYPE_CHECKING:
    from typing import NoReturn

ON_DATA = (("logDirectory", "/data"),)


def health(status: ServiceStatus) -> tuple[int, str]:
    """Return the status code and the state."""
    answer = status.health()
    return answer.status, json.loads(answer.body)["status"]


def test_a_service_is_available_only_between_start_and_stop() -> None:
    """While logs are loaded and closed, what asks has to wait or go elsewhere."""
    home, status = ManagerHome(), ServiceStatus()
    seen = [(health(status), status.metrics().status)]
    with home.make() as manager:
        status.begin(manager)
        seen.append((health(status), status.metrics().status))
        manager.startup()
        status.ready()
        seen.append((health(status), status.metrics().status))
        assert home.fs.exists("/data/tidelog.metrics.prom")
        status.stopping()
        seen.append((health(status), status.metrics().status))
        assert not home.fs.exists("/data/tidelog.metrics.prom")
    status.close()

    assert seen == [
        ((503, "starting"), 503),
        ((503, "starting"), 200),
        ((200, "ready"), 200),
        ((503, "stopping"), 200),
    ]


def test_the_file_knows_all_logs_as_soon_as_they_are_loaded() -> None:
    """Not only when the next interval is over."""
    home, status = ManagerHome(), ServiceStatus()
    with home.make() as manager:
        status.begin(manager)
        manager.startup()
        manager.create_topic("t")
        status.ready()
        text = home.fs.read("/data/tidelog.metrics.prom").decode()
        status.stopping()

    assert 'kafka_log_log_size{topic="t",partition="0"}' in text


def test_a_probe_reads_no_positions_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes come often, and what groups have committed takes time to read."""

    def read(_: object) -> NoReturn:
        raise AssertionError("the lag of groups was computed")

    home, status = ManagerHome(), ServiceStatus()
    with home.open() as manager:
        status.begin(manager)
        status.ready()
        monkeypatch.setattr(GroupLag, "metrics", read)
        assert health(status) == (200, "ready")
        with pytest.raises(AssertionError, match="the lag of groups"):
            status.metrics()
        monkeypatch.undo()


def test_a_full_disk_degrades_a_service_with_its_reason() -> None:
    """It still serves reads, so it is not taken for dead."""
    home, status = ManagerHome(), ServiceStatus()
    with home.open(tidelog_reserve_bytes=1000) as manager:
        status.begin(manager)
        status.ready()
        home.fs.set_free_bytes(10)
        home.clock.advance(2000)
        answer = status.health()
        home.fs.set_free_bytes(None)

    assert (answer.status, json.loads(answer.body)) == (
        200,
        {
            "status": "degraded",
            "reasons": ["the disk of /data is full: appends may be rejected"],
        },
    )


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (
            Metric(
                *("tidelog", "LogManager", "LogDirectoryOfflineSinceMs"),
                (*ON_DATA, ("reason", "disk {0} broke")),
                61_000,
            ),
            "/data has been offline since 1970-01-01 00:01:01 UTC: disk {0} broke",
        ),
        (
            Metric("tidelog", "LogManager", "PartitionsWithLossCount", (), 2),
            "partitions that lost records which readers had seen: 2",
        ),
        (
            Metric("tidelog", "LogManager", "PartitionsNotLoadedCount", (), 2),
            "partitions that could not be loaded: 2",
        ),
        (
            Metric(
                *("tidelog", "LogManager", "PartitionsElsewhereCount"),
                (("directoryId", "kbEn7rGTQ62JPjy8CLSRFA"),),
                2,
            ),
            (
                "partitions not served, as their data directory, with directory.id"
                " kbEn7rGTQ62JPjy8CLSRFA, is not in use (is its disk mounted?): 2"
            ),
        ),
        (
            Metric("kafka.log", "LogCleanerManager", "uncleanable-partitions-count", ON_DATA, 3),
            "uncleanable partitions of /data: 3",
        ),
        (
            Metric("kafka.log", "LogCleaner", "DeadThreadCount", (), 1),
            "threads of the log cleaner that have ended: 1",
        ),
    ],
)
def test_each_problem_has_its_sentence(metric: Metric, reason: str) -> None:
    """A gauge that is 0 is none."""
    assert degraded_reasons([metric]) == [reason]
    assert degraded_reasons([metric._replace(value=0)]) == []
