"""The data directories of a running service, as commands beside it see them: in use, or offline.

Only the service knows: the files of a disk that failed look like those of one that works. Kafka:
the error in ``DescribeLogDirs``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.cli.terminal import print_message
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import TidelogError
from tidelog.explain.printable_text import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.manager.metrics.health import OfflineDirectory


def offline_directories(paths: Iterable[str]) -> list[OfflineDirectory]:
    """Return the directories that the service which holds one of ``paths`` does not use.

    None without a service, or if its file of metrics cannot be read.
    """
    found: dict[str, OfflineDirectory] = {}
    for path in paths:
        text = _metrics_of(path)
        if text:
            from tidelog.manager.metrics.health import offline_directories

            found |= {one.path: one for one in offline_directories(text)}
    return list(found.values())


def with_others_in_use(paths: Iterable[str]) -> list[str]:
    """Return ``paths``, each once, and what else the service uses which holds the first of them.

    Its other directories are what it acts on, whichever is named.
    """
    found = {SYSTEM_FILES.real_path(path): path for path in paths}
    text = _metrics_of(next(iter(found.values())))
    if text:
        from tidelog.manager.metrics.health import directories_in_use

        for path in filter(SYSTEM_FILES.exists, directories_in_use(text)):
            found.setdefault(SYSTEM_FILES.real_path(path), path)
    return list(found.values())


def _metrics_of(path: str) -> str | None:
    from tidelog.manager.metrics.metrics_file import read_metrics_file

    with suppress(OSError, TidelogError):
        return read_metrics_file(SYSTEM_FILES, path, SYSTEM_CLOCK.now_ms())
    return None


def report_offline(command: str, directories: Iterable[OfflineDirectory]) -> None:
    """Print on stderr which directories are offline, since when and why."""
    for one in directories:
        since = format_time(one.since_ms)
        print_message(command, f"{one.path} has been offline since {since}: {one.reason}")
