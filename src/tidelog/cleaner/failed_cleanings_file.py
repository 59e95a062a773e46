"""The file ``tidelog.cleaner.failures.json``: which partitions of a data directory failed, and why.

Other processes, such as ``tidelog cleaner status``, read it. Kafka has no such file: it only logs
the failures and counts them in metrics.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from tidelog.cleaner.failed_cleanings import Failure
from tidelog.codec.checkpoint_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.files import FileSystem

FILE_NAME: Final = "tidelog.cleaner.failures.json"

_log = logging.getLogger(__name__)


def write_failures(
    fs: FileSystem, data_directory: str, failures: Mapping[tuple[str, int], Failure]
) -> None:
    """Replace the file, or delete it if there are no failures. An I/O error is only logged."""
    path = f"{data_directory}/{FILE_NAME}"
    lines = [
        {"topic": topic, "partition": partition, **failure._asdict()}
        for (topic, partition), failure in sorted(failures.items())
    ]
    try:
        if lines:
            replace_file(fs, path, json.dumps(lines, indent=1).encode())
        elif fs.exists(path):
            fs.delete(path)
    except OSError as error:
        _log.warning("cleaner-failures-not-written path=%s reason=%s", path, error)


def read_failures(fs: FileSystem, data_directory: str) -> dict[tuple[str, int], Failure]:
    """Return the failures by topic and partition; none, with a warning, if it is unreadable."""
    path = f"{data_directory}/{FILE_NAME}"
    if not fs.exists(path):
        return {}
    try:
        lines = json.loads(fs.read(path))
        return {(line.pop("topic"), line.pop("partition")): Failure(**line) for line in lines}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        _log.warning("cleaner-failures-unreadable path=%s reason=%s", path, error)
        return {}
