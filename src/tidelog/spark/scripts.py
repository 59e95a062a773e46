"""Small scripts that stand before a program that Spark starts, and the folders they lie in.

Owns where they may be written, and how. Must not know what a script does.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def place_script(name: str, text: str) -> str | None:
    """Write the script ``bin/<name>``; return the folder ``bin`` is in, None if none can be had."""
    folder = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    for parent in _parents():
        try:
            return _write(parent / folder, name, text)
        except OSError:
            continue
    return None


def temporary_folder(parent: str | None = None) -> str:
    """Make a folder that only this user may enter and that goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="tidelog-", dir=parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _parents() -> Iterator[Path]:
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    cache = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home folder can be told
        yield (Path(cache) if cache else Path.home() / caches) / "tidelog"
    yield Path(temporary_folder())


def _write(home: Path, name: str, text: str) -> str:
    script = home / "bin" / name
    if not (script.is_file() and script.read_text() == text and os.access(script, os.X_OK)):
        script.parent.mkdir(parents=True, exist_ok=True)
        # Another process may start Spark at the same moment: it sees no script or a whole one.
        handle, unfinished = tempfile.mkstemp(dir=script.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(unfinished).chmod(0o700)
        Path(unfinished).replace(script)
    return str(home)
