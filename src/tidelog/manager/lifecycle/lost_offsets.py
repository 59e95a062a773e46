"""What is missing of a partition that readers once saw.

Owns the comparison of a log with its line in the checkpoint of high watermarks, and what is said
about it. Must not know how a log came to be short. Kafka says nothing: the replicas that have the
records bring them back, and there are none here.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from tidelog.segment.filenames import log_directory_name

if TYPE_CHECKING:
    from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
    from tidelog.log.log import Log

_log = logging.getLogger(__name__)


def tell_lost_end(checkpoints: DirectoryCheckpoints, key: tuple[str, int], log: Log) -> bool:
    """Say whether a log ends below what readers saw, and warn if so."""
    seen, end = checkpoints.high_watermark(key), log.log_end_offset
    if end >= seen:
        return False
    _log.warning(
        "log-end-lost directory=%s log_end_offset=%d high_watermark=%d", log.directory, end, seen
    )
    return True


def tell_lost_log(checkpoints: DirectoryCheckpoints, key: tuple[str, int], home: str) -> bool:
    """Say whether readers saw records of a log that is not there any more, and warn if so.

    To be asked before the log is made anew, empty.
    """
    seen = checkpoints.high_watermark(key)
    if not seen:
        return False
    path = os.path.join(home, log_directory_name(*key))
    _log.warning("log-lost directory=%s high_watermark=%d", path, seen)
    return True
