"""Staged files that nobody will commit: their writers have ended, and a sweep deletes them.

The files of one attempt are abandoned together. A job that runs for longer than the time allowed
keeps its first files and its marker as long as it writes anything.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.staging.journal import journals
from tidelog.staging.manifest_names import HASH, waiting_hashes
from tidelog.staging.staged_file import attempt_of, is_staged_name

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem


def abandoned_files(fs: FileSystem, data_dir: str, written_until_ms: int) -> set[str]:
    """Return the names of the staged files of attempts that wrote nothing after that time.

    Those that a journal names are left out, or that may be named by one that cannot be read, and
    those whose transaction waits to be committed. The caller keeps others from committing. Raises
    OSError if the directory fails.
    """
    names = fs.list(data_dir)
    staged = {name for name in names if is_staged_name(name)}
    if not staged:
        return set()
    try:
        needed = {name for journal in journals(fs, data_dir) for name in journal.files}
    except KafkaStorageError:
        return set()
    waiting, alive = waiting_hashes(names), set()
    for name in staged:
        try:
            mtime_ms = fs.stat(os.path.join(data_dir, name)).mtime_ms
        except FileNotFoundError:  # its task has just deleted it
            continue
        if mtime_ms > written_until_ms:
            alive.add(attempt_of(name))
    return {
        name
        for name in staged - needed
        if attempt_of(name) not in alive and name[HASH] not in waiting
    }
