"""What a running service last wrote of itself, read from its data directories.

The file of metrics is replaced again and again, and is ignored once it is old: see
``manager.metrics.metrics_file``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.explain.printable_text import counted
from tidelog.manager.metrics.metric import Metric, parse_prometheus
from tidelog.manager.metrics.metrics_file import read_metrics_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.env.files import FileSystem

_CLEANER_GAUGES: Final = {
    "timeSinceLastRunMs": ("LogCleanerManager", "time-since-last-run-ms"),
    "maxCleanTimeSeconds": ("LogCleaner", "max-clean-time-secs"),
    "maxBufferUtilizationPercent": ("LogCleaner", "max-buffer-utilization-percent"),
    "recopyPercent": ("LogCleaner", "cleaner-recopy-percent"),
    "deadThreads": ("LogCleaner", "DeadThreadCount"),
}
"""The gauges of a service's cleaner, by their names in JSON."""


def metrics_of_service(fs: FileSystem, paths: Sequence[str], now_ms: int) -> str | None:
    """Return the metrics of the service that holds all of these directories; None without one.

    It writes the same, about all of them, into each. They are in Prometheus' format.
    """
    text = read_metrics_file(fs, paths[0], now_ms)
    if text is None or len(paths) == 1:
        return text
    held = {tags.get("log_directory") for _, tags, _ in parse_prometheus(text)}
    return text if held.issuperset(paths) else None


def cleaner_of_service(fs: FileSystem, directory: str, now_ms: int) -> dict[str, int] | None:
    """Return what a running service last wrote of its cleaner; None without such a service."""
    text = read_metrics_file(fs, directory, now_ms)
    written = {} if text is None else {name: value for name, _, value in parse_prometheus(text)}
    families = {
        name: Metric("kafka.log", kind, gauge, (), 0).family
        for name, (kind, gauge) in _CLEANER_GAUGES.items()
    }
    if not written.keys() >= set(families.values()):
        return None  # no service, or one without a cleaner
    return {name: int(written[family]) for name, family in families.items()}


def cleaner_text(cleaner: Mapping[str, int]) -> str:
    """Return what ``cleaner_of_service`` found, as a sentence."""
    ended = counted(cleaner["deadThreads"], "thread")
    return (
        f"running service: cleaned last {cleaner['timeSinceLastRunMs'] / 1000:,.0f} s ago; the"
        f" longest cleaning took {cleaner['maxCleanTimeSeconds']:,} s, its offset map was"
        f" {cleaner['maxBufferUtilizationPercent']}% full, {cleaner['recopyPercent']}% were copied"
        f" again; {ended} ended with an error"
    )
