"""What is wrong with a running service, read off its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.shown_rows import Named, Time
from tidelog.env.moments import utc_text
from tidelog.manager.metrics.metric import parse_prometheus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.manager.metrics.metric import Metric

_PROBLEMS: Final = {
    "LogDirectoryOfflineSinceMs": "{logDirectory} has been offline since {time}: {reason}",
    "LogDirectoryFull": "the disk of {logDirectory} is full: appends may be rejected",
    "PartitionsWithLossCount": "partitions that lost records which readers had seen: {value:,}",
    "PartitionsNotLoadedCount": "partitions that could not be loaded: {value:,}",
    "PartitionsElsewhereCount": "partitions not served, as their data directory, with directory.id"
    " {directoryId}, is not in use (is its disk mounted?): {value:,}",
    "PartitionsDamagedCount": "damaged partitions that take no appends until recovered: {value:,}",
    "uncleanable-partitions-count": "uncleanable partitions of {logDirectory}: {value:,}",
    "SettingsNotTaken": "the last reload of settings was refused: the log line settings-not-taken"
    " has the reason",
    "DeadThreadCount": "threads of the log cleaner that have ended: {value:,}",
}
"""Gauges that are 0 in health, and what another value means."""
_OFFLINE_SINCE: Final = "tidelog_log_manager_log_directory_offline_since_ms"


class OfflineDirectory(NamedTuple):
    """A data directory that the running service has taken offline."""

    path: Annotated[str, Named("directory"), "Its path."]
    since_ms: Annotated[Time, "Since when."]
    reason: Annotated[str, Named("error"), "Why."]


def degraded_reasons(metrics: Iterable[Metric]) -> list[str]:
    """Return a sentence for each thing that is wrong; none: all is well."""
    return [
        _PROBLEMS[metric.name].format(
            value=int(metric.value), time=f"{utc_text(metric.value)} UTC", **dict(metric.tags)
        )
        for metric in metrics
        if metric.name in _PROBLEMS and metric.value
    ]


def offline_directories(text: str) -> list[OfflineDirectory]:
    """Return the directories that are offline, from a service's metrics in Prometheus' form."""
    return [
        OfflineDirectory(tags.get("log_directory", ""), int(value), tags.get("reason", ""))
        for name, tags, value in parse_prometheus(text)
        if name == _OFFLINE_SINCE and value
    ]


def directories_in_use(text: str) -> list[str]:
    """Return the paths of the directories that are not offline, from metrics as above."""
    return [
        tags.get("log_directory", "")
        for name, tags, value in parse_prometheus(text)
        if name == _OFFLINE_SINCE and not value
    ]
