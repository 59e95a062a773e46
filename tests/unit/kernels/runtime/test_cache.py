"""The folder in which compiled kernels are cached."""

from __future__ import annotations

import os
import stat
import tempfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from tidelog.kernels.runtime.cache import (
    cache_folder,
    is_safe_way,
    kernel_sources,
    sources_digest,
)

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = [("caller.py", b"from callee import f"), ("callee.py", b"def f(): return 1")]


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Give the test its own home and temporary folders."""
    home, temp = tmp_path / "home", tmp_path / "temp"
    home.mkdir()
    temp.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    monkeypatch.setattr("sys.platform", "linux")
    return home, temp


def own_temp(temp: Path) -> Path:
    return temp / f"tidelog-{os.getuid()}"


def test_the_users_cache_folder_comes_first(folders: tuple[Path, Path]) -> None:
    """The folder is in ~/.cache/tidelog, and nobody else can write to it."""
    home, _ = folders

    folder = cache_folder("1.0")

    assert folder is not None
    assert os.path.dirname(folder) == str(home / ".cache" / "tidelog")
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_macos_has_its_own_cache_folder(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On macOS the folder is in ~/Library/Caches."""
    monkeypatch.setattr("sys.platform", "darwin")

    folder = cache_folder("1.0")

    assert folder is not None
    assert os.path.dirname(folder) == str(folders[0] / "Library" / "Caches" / "tidelog")


@pytest.mark.parametrize(("named", "is_used"), [("absolute", True), ("relative", False)])
def test_xdg_cache_home_counts_if_absolute(
    folders: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    *,
    is_used: bool,
) -> None:
    """XDG_CACHE_HOME moves the folder; a relative path is ignored, as the XDG standard requires."""
    chosen = str(tmp_path / "cache") if named == "absolute" else "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", chosen)

    folder = cache_folder("1.0")

    assert folder is not None
    base = chosen if is_used else str(folders[0] / ".cache")
    assert folder.startswith(os.path.join(base, "tidelog"))


def test_an_unusable_home_falls_back_to_a_private_temp_folder(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no folder can be made in the home, a private one in the temporary folder is used."""
    home, temp = folders
    (home / "file").write_bytes(b"")
    monkeypatch.setenv("HOME", str(home / "file"))

    folder = cache_folder("1.0")

    assert folder is not None
    assert os.path.dirname(folder) == str(own_temp(temp))
    assert stat.S_IMODE(os.stat(own_temp(temp)).st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_home_falls_back_too(folders: tuple[Path, Path]) -> None:
    """A home without write permission is not an error."""
    home, temp = folders
    home.chmod(0o500)

    folder = cache_folder("1.0")

    assert folder is not None
    assert os.path.dirname(folder) == str(own_temp(temp))


def test_a_temp_folder_that_others_may_write_is_not_used(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cached code is executed, so a folder that others may have written to is rejected."""
    _, temp = folders
    monkeypatch.setenv("HOME", os.devnull)
    own_temp(temp).mkdir()
    own_temp(temp).chmod(0o777)

    assert cache_folder("1.0") is None


def test_a_link_in_the_temp_folder_is_not_followed(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A symbolic link in the temporary folder, which anyone may have made, is not used."""
    _, temp = folders
    monkeypatch.setenv("HOME", os.devnull)
    own_temp(temp).symlink_to(tmp_path)

    assert cache_folder("1.0") is None


def test_without_a_writable_folder_nothing_is_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without any usable folder, kernels are not cached."""
    monkeypatch.setenv("HOME", os.devnull)
    monkeypatch.setattr(tempfile, "tempdir", os.devnull)

    assert cache_folder("1.0") is None


def test_a_new_folder_removes_those_unused_for_a_month(folders: tuple[Path, Path]) -> None:
    """Each release has kernels of its own, so those of old releases are removed."""
    caches = folders[0] / ".cache" / "tidelog"
    for name, days in (("kernels-old", 31), ("kernels-recent", 29), ("something-else", 99)):
        (caches / name).mkdir(parents=True)
        (caches / name / "file.nbc").write_bytes(b"code")
        then = (caches / name).stat().st_mtime - days * 86_400
        os.utime(caches / name, (then, then))

    folder = cache_folder("1.0")

    assert folder is not None
    left = sorted(path.name for path in caches.iterdir())
    assert left == sorted([os.path.basename(folder), "kernels-recent", "something-else"])


def test_a_folder_in_use_stays_young() -> None:
    """Each process that asks for the folder counts as use."""
    folder = cache_folder("1.0")
    assert folder is not None
    os.utime(folder, (0, 0))

    again = cache_folder("1.0")

    assert (again, os.stat(folder).st_mtime > 0) == (folder, True)


def test_an_edited_callee_changes_the_name() -> None:
    """All sources count, not only the kernel's own, since numba's cache does not track callees."""
    edited = [SOURCES[0], ("callee.py", b"def f(): return 2")]

    assert sources_digest(SOURCES) != sources_digest(edited)


def test_bytes_moved_between_files_change_the_name() -> None:
    """The same content under other file names is a different set of sources."""
    moved = [("callee.py", SOURCES[0][1]), ("caller.py", SOURCES[1][1])]

    assert sources_digest(SOURCES) != sources_digest(moved)


def test_versions_change_the_name_and_order_does_not() -> None:
    """Another numba or Python compiles again; the order of a directory listing does not matter."""
    assert sources_digest(SOURCES, "1.0") == sources_digest(SOURCES[::-1], "1.0")
    assert sources_digest(SOURCES, "1.0") != sources_digest(SOURCES, "1.1")


def test_sources_are_read_from_a_zip_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are read from an archive on the path, as Spark ships packages, as from a folder."""
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("packed_kernels/__init__.py", "")
        packed.writestr("packed_kernels/scan.py", "x = 1")
        packed.writestr("packed_kernels/notes.txt", "no source")
        packed.writestr("packed_kernels/json/text.py", "y = 2")
    monkeypatch.syspath_prepend(str(archive))

    assert sorted(kernel_sources("packed_kernels")) == [
        ("__init__.py", b""),
        ("json/text.py", b"y = 2"),
        ("scan.py", b"x = 1"),
    ]


def test_a_package_without_sources_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An install without sources raises OSError, since there is nothing to derive a name from."""
    (tmp_path / "bare_kernels").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(OSError, match="bare_kernels"):
        kernel_sources("bare_kernels")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX owners")
@pytest.mark.parametrize("shared", ["", "a", "a/b", "a/b/c"])
def test_no_folder_on_the_way_may_be_written_by_others(tmp_path: Path, shared: str) -> None:
    """A user who may rename a folder can put another in its place, with files that are run."""
    (tmp_path / "a/b/c").mkdir(parents=True, mode=0o700)
    for folder in ("a", "a/b", "a/b/c"):
        (tmp_path / folder).chmod(0o700)
    if shared:
        (tmp_path / shared).chmod(0o777)

    assert is_safe_way(str(tmp_path / "a/b/c")) is not bool(shared)
