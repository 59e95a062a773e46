"""Where scripts that stand before a program are written."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.scripts import place_script, temporary_folder

if TYPE_CHECKING:
    import pytest


def test_one_text_has_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same script is found again, another one does not replace it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    first, again = place_script("tool", "#!/bin/sh\n"), place_script("tool", "#!/bin/sh\n")

    assert first is not None
    assert first == again != place_script("tool", "#!/bin/sh\nexit 1\n")
    assert first.startswith(str(tmp_path / "tidelog"))
    assert stat.S_IMODE(Path(first, "bin", "tool").stat().st_mode) == 0o700


def test_a_script_that_was_changed_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies there is looked at before it is used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = place_script("tool", "#!/bin/sh\n") or ""
    Path(folder, "bin", "tool").write_text("something else")

    assert folder == place_script("tool", "#!/bin/sh\n")
    assert Path(folder, "bin", "tool").read_text() == "#!/bin/sh\n"


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user's cache folder takes nothing, a folder of this process takes the script."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))

    folder = place_script("tool", "#!/bin/sh\n")

    assert folder is not None
    assert not folder.startswith(str(tmp_path))


def test_a_temporary_folder_is_private() -> None:
    """Only this user may enter it."""
    assert stat.S_IMODE(os.stat(temporary_folder()).st_mode) == 0o700
