"""The folder in which compiled kernels are cached between processes.

Its name contains a digest of the kernel sources, so edited kernels are compiled again. Nothing here
is fatal: without a usable folder, each process compiles the kernels again. Cached files are
unpickled, so a folder that other users can write to is never used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable


_PREFIX: Final = "kernels-"
_DAY: Final = 86_400.0
_KEPT_DAYS: Final = 30


def sources_digest(sources: Iterable[tuple[str, bytes]], *versions: str) -> str:
    """Return a short digest of these (path, content) pairs, in any order, and versions."""
    digest = hashlib.sha256()
    for part in versions:
        digest.update(part.encode() + b"\0")
    for name, content in sorted(sources):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:24]


def kernel_sources(package: str = "tidelog.kernels") -> list[tuple[str, bytes]]:
    """Return path and content of each module in ``package``, on disk or in a zip file.

    Paths are relative to the package and include subpackages. Raises OSError if the package has no
    sources.
    """
    files = list(_sources_in(resources.files(package), ""))
    if not files:
        raise FileNotFoundError(package)
    return files


def _sources_in(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each module in a folder, recursively; ``path`` is the folder's."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources_in(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield path + entry.name, entry.read_bytes()


def cache_folder(*versions: str) -> str | None:
    """Return an existing folder for kernels of the current sources, or None.

    The user's cache folder is tried first, then a private one in the temporary folder.
    """
    try:
        name = _PREFIX + sources_digest(kernel_sources(), sys.version, *versions)
        folder = _first_usable(name)
    except OSError:
        return None
    if folder is not None:
        with suppress(OSError):
            _note_use(folder)
    return folder


def _note_use(folder: str) -> None:
    """Set the folder's modification time to now; if it is new, remove folders unused for a month.

    A process whose files are removed meanwhile compiles them again, so no lock is needed.
    """
    os.utime(folder)
    if not os.listdir(folder):
        used_at = os.stat(folder).st_mtime
        parent, own = os.path.split(folder)
        for name in os.listdir(parent):
            if name.startswith(_PREFIX) and name != own:
                with suppress(OSError):
                    _remove_if_old(os.path.join(parent, name), used_at - _KEPT_DAYS * _DAY)


def _remove_if_old(folder: str, before: float) -> None:
    """Remove a folder that has not been used since ``before``, including its files."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_mtime >= before:
        return
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)


def _first_usable(name: str) -> str | None:
    """Create a folder of this name in the user's cache folder, or else in the temporary folder."""
    user_cache = user_cache_folder()
    if user_cache is not None:
        folder = os.path.join(user_cache, "tidelog", name)
        if _make_private(folder):
            return folder
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    shared = os.path.join(tempfile.gettempdir(), f"tidelog-{owner}")
    folder = os.path.join(shared, name)
    return folder if _make_private(shared) and _make_private(folder) else None


def user_cache_folder() -> str | None:
    """Return the folder for this user's caches, or None if it cannot be determined."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return named
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        return None
    return os.path.join(home, *(("Library", "Caches") if sys.platform == "darwin" else (".cache",)))


def _make_private(folder: str) -> bool:
    """Create ``folder`` if needed; return whether it is the user's and no other may write to it."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        is_safe = is_safe_way(folder)
    except OSError:
        return False
    is_own = not hasattr(os, "getuid") or (
        found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
    is_folder = stat.S_ISDIR(found.st_mode)
    return is_folder and is_own and is_safe and os.access(folder, os.W_OK | os.X_OK)


def is_safe_way(path: str) -> bool:
    """Return whether no other user can replace ``path``, or a folder on the way to it.

    Each belongs to this user or to root, and no other user may write to it, except to a folder
    such as /tmp in which only owners rename and delete. Raises OSError.
    """
    if not hasattr(os, "getuid"):
        return True
    place = os.path.realpath(path)
    while True:
        found = os.lstat(place)
        is_shared = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        is_sticky = bool(found.st_mode & stat.S_ISVTX) and place != os.path.realpath(path)
        if found.st_uid not in {0, os.getuid()} or (is_shared and not is_sticky):
            return False
        above = os.path.dirname(place)
        if above == place:
            return True
        place = above
