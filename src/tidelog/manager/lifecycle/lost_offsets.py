"""Records of a partition that readers once saw and that are gone.

A log is compared with its line in the checkpoint of high watermarks. Kafka reports nothing: the
replicas that have the records bring them back, and there are none here.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from tidelog.archive.claim_file import claim_file, read_claim
from tidelog.errors import ArchivedLogLost
from tidelog.segment.filenames import log_directory_name

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
    from tidelog.env.files import FileSystem

_log = logging.getLogger(__name__)


def warn_of_lost_end(directory: str, *, end: int, seen: int) -> bool:
    """Return whether a log ends below what readers saw; log a warning if so."""
    if end >= seen:
        return False
    _log.warning(
        "log-end-lost directory=%s log_end_offset=%d high_watermark=%d", directory, end, seen
    )
    return True


def warn_of_lost_log(checkpoints: DirectoryCheckpoints, key: tuple[str, int], path: str) -> bool:
    """Return whether readers saw records of a log that is missing; log a warning if so.

    To be called before the log is created again, empty. ``path`` is the data directory.
    """
    seen = checkpoints.high_watermark(key)
    if not seen:
        return False
    directory = os.path.join(path, log_directory_name(*key))
    _log.warning("log-lost directory=%s high_watermark=%d", directory, seen)
    return True


def check_not_archived(fs: FileSystem, path: str, key: tuple[str, int], topic_id: UUID) -> None:
    """Raise ArchivedLogLost if a missing log continues an archive, as the file beside it says.

    To be called before the log is created. ``path`` is the data directory. Raises as
    ``read_claim``.
    """
    archive = read_claim(fs, claim_file(path, topic_id, key[1])).archive
    if archive is not None and archive.end:
        directory = os.path.join(path, log_directory_name(*key))
        raise ArchivedLogLost(directory, archive.uri, archive.start, archive.end)
