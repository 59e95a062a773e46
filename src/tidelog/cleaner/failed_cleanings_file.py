"""The file ``tidelog.cleaner.failures.json``: which partitions of a data directory failed, and why.

Other processes, such as ``tidelog cleaner status``, read it. Kafka has no such file: it only logs
the failures and counts them in metrics.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from tidelog.cleaner.failed_cleanings import Failure
from tidelog.codec.checkpoint_file import read_small_file, replace_file
from tidelog.errors import CorruptFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.files import FileSystem

FILE_NAME: Final = "tidelog.cleaner.failures.json"
VERSION: Final = 1
"""Of the file's form. A bare list, as the first release wrote it, is read, too."""

_log = logging.getLogger(__name__)


def write_failures(
    fs: FileSystem, data_directory: str, failures: Mapping[tuple[str, int], Failure]
) -> None:
    """Replace the file, or delete it if there are no failures.

    An I/O error is only logged. A file that a newer release wrote is left alone.
    """
    path = f"{data_directory}/{FILE_NAME}"
    lines = [
        {"topic": topic, "partition": partition, **failure._asdict()}
        for (topic, partition), failure in sorted(failures.items())
    ]
    try:
        if _is_newer(fs, path):
            _log.warning("cleaner-failures-not-written path=%s reason=%s", path, "newer version")
        elif lines:
            content = {"version": VERSION, "failures": lines}
            replace_file(fs, path, json.dumps(content, indent=1).encode())
        elif fs.exists(path):
            fs.delete(path)
    except OSError as error:
        _log.warning("cleaner-failures-not-written path=%s reason=%s", path, error)


def read_failures(fs: FileSystem, data_directory: str) -> dict[tuple[str, int], Failure]:
    """Return the failures by topic and partition; none, with a warning, if it is unreadable."""
    path = f"{data_directory}/{FILE_NAME}"
    try:
        if not fs.exists(path):
            return {}
        lines = _lines(json.loads(read_small_file(fs, path)))
        return {(line.pop("topic"), line.pop("partition")): Failure(**line) for line in lines}
    except (OSError, CorruptFile, ValueError, TypeError, KeyError, AttributeError) as error:
        _log.warning("cleaner-failures-unreadable path=%s reason=%s", path, error)
        return {}


def _lines(content: object) -> list[dict[str, Any]]:
    """Return the failures of a file's content; raise ValueError for another form."""
    if isinstance(content, list):
        return content
    if not isinstance(content, dict) or content.get("version") != VERSION:
        version = content.get("version") if isinstance(content, dict) else None
        raise ValueError(f"version {version}; this release reads up to {VERSION}")
    lines: list[dict[str, Any]] = content["failures"]
    return lines


def _is_newer(fs: FileSystem, path: str) -> bool:
    try:
        content = json.loads(read_small_file(fs, path))
    except (FileNotFoundError, CorruptFile, ValueError):
        return False
    version = content.get("version") if isinstance(content, dict) else 0
    return isinstance(version, int) and version > VERSION
