"""The file systems under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tidelog.env.overlay_files import OverlayFiles
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.env.files import FileSystem


class Place(NamedTuple):
    """A file system, and an empty directory in it."""

    fs: FileSystem
    root: str

    def path(self, name: str) -> str:
        """Return the path of a name in the directory."""
        return f"{self.root}/{name}"

    def file(self, name: str, data: bytes = b"") -> str:
        """Create a file and return its path."""
        self.fs.write(self.path(name), data)
        return self.path(name)


@pytest.fixture(params=["system", "crash", "overlay"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty directory on each file system in turn."""
    if request.param == "system":
        return Place(SYSTEM_FILES, str(tmp_path))
    if request.param == "overlay":
        return Place(OverlayFiles(SYSTEM_FILES), str(tmp_path))
    fs = CrashFileSystem()
    fs.make_directory("/data/dir")
    return Place(fs, "/data/dir")
