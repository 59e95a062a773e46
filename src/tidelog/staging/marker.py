"""An empty staged file by which a task finds out that it sees the directory of the driver."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.errors import DirectoryNotShared
from tidelog.staging.staged_file import staged_name

if TYPE_CHECKING:
    from random import Random

    from tidelog.env.files import FileSystem


def make_marker(fs: FileSystem, path: str, txn: str, rng: Random) -> str:
    """Make the file in a data directory; return its name, which is that of a file of ``txn``."""
    marker = staged_name(txn, rng)
    fs.open(os.path.join(path, marker), "x").close()
    return marker


def check_marker(fs: FileSystem, path: str, marker: str) -> None:
    """Raise DirectoryNotShared unless this process sees the file."""
    if not fs.exists(os.path.join(path, marker)):
        raise DirectoryNotShared(
            f"{path} is not the data directory that the driver sees: every executor must see"
            f" it under the same path ({marker} is missing)"
        )
