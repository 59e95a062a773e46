"""The requirements can be met from wheels alone, by the newest versions and by the oldest."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LINUX = "x86_64-unknown-linux-gnu"
MACHINES = {
    LINUX: ("linux", "x86_64"),
    "aarch64-unknown-linux-gnu": ("linux", "aarch64"),
    "aarch64-apple-darwin": ("darwin", "arm64"),
    "x86_64-apple-darwin": ("darwin", "x86_64"),
    "x86_64-pc-windows-msvc": ("win32", "AMD64"),
}
WITHOUT_NUMBA = {"x86_64-apple-darwin"}
OFFLINE = ("dns error", "error sending request", "Network is unreachable", "Connection refused")


def requirements(python: str, machine: str) -> list[Requirement]:
    """Return what the core and the extra ``arrow`` require on a Python and a machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["arrow"]]
    platform, processor = MACHINES[machine]
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": platform,
        "platform_machine": processor,
    }
    parsed = [Requirement(line) for line in lines]
    return [one for one in parsed if one.marker is None or one.marker.evaluate(environment)]


def lowest(required: list[Requirement]) -> dict[str, Version]:
    """Return the lowest version of each package that the requirements admit."""
    floors: dict[str, Version] = {}
    for one in required:
        (bound,) = [Version(each.version) for each in one.specifier if each.operator == ">="]
        floors[one.name] = max(bound, floors.get(one.name, bound))
    return floors


def resolved(python: str, machine: str, resolution: str) -> dict[str, Version]:
    """Return the versions that uv chooses when it may use wheels only."""
    options = ["--only-binary", ":all:", "--resolution", resolution, "--python-version", python]
    options += ["--python-platform", machine, "--extra", "arrow", "--no-header", "--no-annotate"]
    uv = Path(sys.prefix, "bin", "uv")
    done = subprocess.run(
        [uv, "pip", "compile", "-q", *options, ROOT / "pyproject.toml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if any(words in done.stderr for words in OFFLINE):
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    pins = [line.split("==") for line in done.stdout.split()]
    return {name: Version(version) for name, version in pins}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lowest_versions_have_wheels(python: str) -> None:
    """On each Python the lower bounds are true: nothing is compiled, and none is missing."""
    floors = lowest(requirements(python, LINUX))

    chosen = resolved(python, LINUX, "lowest-direct")

    assert len(floors) == 8
    assert {name: chosen[name] for name in floors} == floors


@pytest.mark.parametrize(
    ("machine", "python"),
    [
        *((LINUX, python) for python in PYTHONS),
        *((one, "3.12") for one in MACHINES if one != LINUX),
    ],
)
def test_the_newest_versions_have_wheels(machine: str, python: str) -> None:
    """On each machine; numba is left out where it has none."""
    required = {one.name for one in requirements(python, machine)}

    chosen = resolved(python, machine, "highest")

    assert required <= chosen.keys()
    assert ("numba" in chosen) == (machine not in WITHOUT_NUMBA)
