"""What is wrong with a running service, read off its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.manager.metrics.metric import Metric

_PROBLEMS: Final = {
    "LogDirectoryOffline": "{logDirectory} is offline",
    "LogDirectoryFull": "the disk of {logDirectory} is full: appends are rejected",
    "PartitionsWithLossCount": "{value} partitions lost records that readers have seen",
    "uncleanable-partitions-count": "{value} partitions of {logDirectory} cannot be cleaned",
    "DeadThreadCount": "{value} threads of the log cleaner have ended",
}
"""Gauges that are 0 in health, and what another value means."""


def degraded_reasons(metrics: Iterable[Metric]) -> list[str]:
    """Return a sentence for each thing that is wrong; none: all is well."""
    return [
        _PROBLEMS[metric.name].format(value=int(metric.value), **dict(metric.tags))
        for metric in metrics
        if metric.name in _PROBLEMS and metric.value
    ]
