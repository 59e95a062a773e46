"""The data directories that a running service has taken offline, as commands beside it see them.

Only the service knows: the files of a disk that failed look like those of one that works. Kafka:
the error in ``DescribeLogDirs``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.cli.terminal import print_message
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.errors import TidelogError
from tidelog.explain.printable_text import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.manager.metrics.health import OfflineDirectory
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


def offline_directories(directory: ReadOnlyDirectory) -> list[OfflineDirectory]:
    """Return the directories that the service which holds one of these does not use.

    None without a service, or if its file of metrics cannot be read.
    """
    from tidelog.manager.metrics.metrics_file import read_metrics_file

    found: dict[str, OfflineDirectory] = {}
    for path in directory.paths:
        with suppress(OSError, TidelogError):
            text = read_metrics_file(directory.fs, path, SYSTEM_CLOCK.now_ms())
            if not text:
                continue
            from tidelog.manager.metrics.health import offline_directories

            found |= {one.path: one for one in offline_directories(text)}
    return list(found.values())


def report_offline(command: str, directories: Iterable[OfflineDirectory]) -> None:
    """Print on stderr which directories are offline, since when and why."""
    for one in directories:
        since = format_time(one.since_ms)
        print_message(command, f"{one.path} has been offline since {since}: {one.reason}")
