"""Writes the small scripts through which Spark starts Java and Python, and private folders.

A script lies in the user's cache folder, so one file serves all processes, or in a temporary folder
if the cache folder cannot be written to or is mounted without execution.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.kernels.runtime.cache import is_safe_way, user_cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


def write_script(name: str, text: str) -> str | None:
    """Write the executable script ``bin/<name>``.

    Returns the folder that holds ``bin``, or None if no folder can hold the script.
    """
    content = os.fsencode(text)  # a path in it may have bytes that are not valid UTF-8
    folder = f"{name}-{hashlib.sha256(content).hexdigest()[:16]}"
    for parent in _parents():
        try:
            return _write(parent / folder, name, content)
        except OSError:
            continue
    return None


def make_temporary_folder(parent: str | None = None) -> str:
    """Make a folder that only this user may enter; it is deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix="tidelog-", dir=parent)
    atexit.register(_delete, folder, os.getpid())
    return folder


def _delete(folder: str, maker: int) -> None:
    if os.getpid() == maker:  # a forked child that exits has the same duties, but not the folder
        shutil.rmtree(folder, ignore_errors=True)


def _parents() -> Iterator[Path]:
    cache = user_cache_folder()
    if cache is not None:
        yield Path(cache, "tidelog")
    yield Path(make_temporary_folder())


def _write(home: Path, name: str, content: bytes) -> str:
    script = home / "bin" / name
    if not (script.is_file() and script.read_bytes() == content and os.access(script, os.X_OK)):
        script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_safe_way(str(script.parent)):
            raise PermissionError(errno.EACCES, "other users may write to it", str(script.parent))
        _replace(script, content)
    if not is_safe_way(str(script)):
        raise PermissionError(errno.EACCES, "other users may write to it", str(script))
    if not os.access(script, os.X_OK):
        raise PermissionError(errno.EACCES, "mounted without execution", str(script))
    return str(home)


def _replace(script: Path, content: bytes) -> None:
    # Another process may start Spark at the same moment: it must find no script or a complete one.
    handle, unfinished = tempfile.mkstemp(dir=script.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(unfinished).chmod(0o700)
        Path(unfinished).replace(script)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
