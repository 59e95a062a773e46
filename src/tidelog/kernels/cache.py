"""Where compiled kernels are kept between runs.

Owns the choice of the folder and the name that tells one set of kernel sources from another.
Never fails: without a usable folder, kernels are compiled anew in each process. Cached files are
unpickled when read, so a folder that others could write to is not used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def sources_digest(sources: Iterable[tuple[str, bytes]], *versions: str) -> str:
    """Return a short name for these (file name, content) pairs and versions, order ignored."""
    digest = hashlib.sha256()
    for part in versions:
        digest.update(part.encode() + b"\0")
    for name, content in sorted(sources):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:24]


def kernel_sources(package: str = "tidelog.kernels") -> list[tuple[str, bytes]]:
    """Return name and content of each module of ``package``, on disk or in a zip file.

    Raises OSError when the package comes without sources.
    """
    files = [file for file in resources.files(package).iterdir() if file.name.endswith(".py")]
    if not files:
        raise FileNotFoundError(package)
    return [(file.name, file.read_bytes()) for file in files]


def cache_folder(*versions: str) -> str | None:
    """Return an existing folder for kernels made from the present sources, or None.

    The user's cache folder is tried first, then one of the user's own in the temp folder.
    """
    try:
        name = "kernels-" + sources_digest(kernel_sources(), sys.version, *versions)
        return _first_usable(name)
    except OSError:
        return None


def _first_usable(name: str) -> str | None:
    """Make a folder of this name, in the user's cache or among temporary files."""
    user_cache = _user_cache()
    if user_cache is not None:
        folder = os.path.join(user_cache, "tidelog", name)
        if _make_private(folder):
            return folder
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    shared = os.path.join(tempfile.gettempdir(), f"tidelog-{owner}")
    folder = os.path.join(shared, name)
    return folder if _make_private(shared) and _make_private(folder) else None


def _user_cache() -> str | None:
    """Return the folder in which this user's programs keep caches."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return named
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        return None
    return os.path.join(home, *(("Library", "Caches") if sys.platform == "darwin" else (".cache",)))


def _make_private(folder: str) -> bool:
    """Make ``folder`` if need be; say whether it is the user's own, writable by nobody else."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return False
    is_own = not hasattr(os, "getuid") or (
        found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
    return stat.S_ISDIR(found.st_mode) and is_own and os.access(folder, os.W_OK | os.X_OK)
