"""Where scripts that stand before a program are written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tidelog.spark.sessions.scripts import place_script, temporary_folder


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


def test_a_script_that_is_no_text_any_more_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged script is replaced, whatever bytes are in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = place_script("tool", "#!/bin/sh\n") or ""
    Path(folder, "bin", "tool").write_bytes(b"\xff\xfe")

    assert folder == place_script("tool", "#!/bin/sh\n")
    assert Path(folder, "bin", "tool").read_bytes() == b"#!/bin/sh\n"


def test_a_path_that_is_no_text_stands_in_a_script_as_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of a program may have any bytes; Python gives them as lone surrogates."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    folder = place_script("tool", os.fsdecode(b"exec /\xe9t\xe9\n")) or ""

    assert Path(folder, "bin", "tool").read_bytes() == b"exec /\xe9t\xe9\n"


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


def test_a_cache_from_which_nothing_can_be_started_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may be mounted without execution: the script goes to the next folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forbid_starting(str(tmp_path), monkeypatch)

    folder = place_script("tool", "#!/bin/sh\n") or ""

    assert os.access(os.path.join(folder, "bin", "tool"), os.X_OK)
    assert not folder.startswith(str(tmp_path))


def test_without_a_folder_to_start_from_there_is_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no folder lets a script start, the caller learns it and does without."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forbid_starting("", monkeypatch)

    assert place_script("tool", "#!/bin/sh\n") is None


def forbid_starting(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer for the paths that begin with ``folder`` as a ``noexec`` mount does."""
    asked = os.access

    def access(path: str | os.PathLike[str], mode: int) -> bool:
        forbidden = mode & os.X_OK and os.fspath(path).startswith(folder)
        return not forbidden and asked(path, mode)

    monkeypatch.setattr("os.access", access)


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_a_relative_cache_folder_is_ignored(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script's path holds in any working directory, as Spark starts workers in others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(variable, "here")

    folder = place_script("tool", "#!/bin/sh\n") or ""

    assert os.path.isabs(folder)
    assert folder.startswith(str(tmp_path / "home")) == (variable != "HOME")
    assert not Path("here").exists()


def test_what_could_not_be_finished_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the script cannot be put into its place, nothing of it stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = place_script("tool", "#!/bin/sh\n") or ""
    script = Path(folder, "bin", "tool")
    script.unlink()
    script.mkdir()

    elsewhere = place_script("tool", "#!/bin/sh\n")

    assert elsewhere != folder
    assert [script] == list(script.parent.iterdir())


def test_a_temporary_folder_is_private() -> None:
    """Only this user may enter it."""
    assert stat.S_IMODE(os.stat(temporary_folder()).st_mode) == 0o700
