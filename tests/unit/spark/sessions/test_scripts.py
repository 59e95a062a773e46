"""The folders in which scripts are written, and what they contain."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tidelog.spark.sessions.scripts import make_temporary_folder, write_script


def test_a_script_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same script is reused, and another one does not replace it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    first, again = write_script("tool", "#!/bin/sh\n"), write_script("tool", "#!/bin/sh\n")

    assert first is not None
    assert first == again != write_script("tool", "#!/bin/sh\nexit 1\n")
    assert first.startswith(str(tmp_path / "tidelog"))
    assert stat.S_IMODE(Path(first, "bin", "tool").stat().st_mode) == 0o700


def test_a_script_that_was_changed_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content of an existing script is checked before it is used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = write_script("tool", "#!/bin/sh\n") or ""
    Path(folder, "bin", "tool").write_text("something else")

    assert folder == write_script("tool", "#!/bin/sh\n")
    assert Path(folder, "bin", "tool").read_text() == "#!/bin/sh\n"


def test_a_damaged_script_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script is replaced even if its bytes are not valid UTF-8."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = write_script("tool", "#!/bin/sh\n") or ""
    Path(folder, "bin", "tool").write_bytes(b"\xff\xfe")

    assert folder == write_script("tool", "#!/bin/sh\n")
    assert Path(folder, "bin", "tool").read_bytes() == b"#!/bin/sh\n"


def test_a_path_that_is_not_utf_8_keeps_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of a program may have any bytes; Python represents them as lone surrogates."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    folder = write_script("tool", os.fsdecode(b"exec /\xe9t\xe9\n")) or ""

    assert Path(folder, "bin", "tool").read_bytes() == b"exec /\xe9t\xe9\n"


def test_an_unwritable_cache_folder_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the user's cache folder is not writable, the script is in a temporary folder."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))

    folder = write_script("tool", "#!/bin/sh\n")

    assert folder is not None
    assert not folder.startswith(str(tmp_path))


def test_a_cache_folder_that_others_may_write_to_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could put a script of their own there; nothing is written to it."""
    shared = tmp_path / "shared"
    (shared / "cache").mkdir(parents=True)
    shared.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))

    folder = write_script("tool", "#!/bin/sh\n")

    assert folder is not None
    assert not folder.startswith(str(tmp_path))
    assert [path for path in shared.rglob("*") if path.is_file()] == []


def test_a_script_that_others_may_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content may be another one as soon as it has been checked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = write_script("tool", "#!/bin/sh\n") or ""
    Path(folder, "bin", "tool").chmod(0o777)

    assert write_script("tool", "#!/bin/sh\n") != folder
    Path(folder, "bin", "tool").chmod(0o700)
    assert write_script("tool", "#!/bin/sh\n") == folder


def test_a_cache_folder_mounted_without_execution_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a script in the cache folder cannot be executed, it is written to the next folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forbid_starting(str(tmp_path), monkeypatch)

    folder = write_script("tool", "#!/bin/sh\n") or ""

    assert os.access(os.path.join(folder, "bin", "tool"), os.X_OK)
    assert not folder.startswith(str(tmp_path))


def test_without_an_executable_folder_there_is_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If scripts can be executed in no folder, the caller gets None and works without one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forbid_starting("", monkeypatch)

    assert write_script("tool", "#!/bin/sh\n") is None


def forbid_starting(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``os.access`` treat paths that start with ``folder`` as on a ``noexec`` mount."""
    original = os.access

    def access(path: str | os.PathLike[str], mode: int) -> bool:
        forbidden = mode & os.X_OK and os.fspath(path).startswith(folder)
        return not forbidden and original(path, mode)

    monkeypatch.setattr("os.access", access)


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_a_relative_cache_folder_is_ignored(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script's path is absolute, since Spark starts workers in other working directories."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(variable, "here")

    folder = write_script("tool", "#!/bin/sh\n") or ""

    assert os.path.isabs(folder)
    assert folder.startswith(str(tmp_path / "home")) == (variable != "HOME")
    assert not Path("here").exists()


def test_an_unfinished_script_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the script cannot be renamed to its final name, its temporary file is deleted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = write_script("tool", "#!/bin/sh\n") or ""
    script = Path(folder, "bin", "tool")
    script.unlink()
    script.mkdir()

    elsewhere = write_script("tool", "#!/bin/sh\n")

    assert elsewhere != folder
    assert [script] == list(script.parent.iterdir())


def test_a_temporary_folder_is_private() -> None:
    """Only this user may enter it."""
    assert stat.S_IMODE(os.stat(make_temporary_folder()).st_mode) == 0o700
