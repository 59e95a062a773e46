"""What a wheel and a source archive must contain, and what they must not."""

from __future__ import annotations

import re
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from email.message import Message

ROOT: Final = Path(__file__).resolve().parents[2]
EXTRAS: Final = {"arrow", "console", "dev", "spark", "sql", "store", "testing"}
PAGES: Final = {"Changelog", "Documentation", "Issues", "Source"}
ARCHIVED: Final = (
    "CHANGELOG.md", "LICENSE", "Makefile", "PKG-INFO", "README.md", "SECURITY.md", "hatch_build.py",
    "pyproject.toml", "requirements.lock", "docs/installation.md", "examples/flights.py",
    "tests/conftest.py", "tools/dist/run.py",
)  # fmt: skip
"""Files of a source archive, beside all those below ``src``."""


def version() -> str:
    """Return the version that the sources state."""
    text = (ROOT / "src" / "tidelog" / "version.py").read_text("utf-8")
    found = re.search('^__version__: Final = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def source_files() -> set[str]:
    """Return the path below ``src`` of each file that users install."""
    paths = (ROOT / "src").rglob("*")
    return {
        path.relative_to(ROOT / "src").as_posix()
        for path in paths
        if path.is_file() and path.suffix != ".pyc"
    }


def wheel_problems(path: Path) -> list[str]:
    """Return what is wrong with a wheel: its name, its files or its metadata."""
    info = f"tidelog-{version()}.dist-info"
    metadata = wheel_metadata(path)
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
        entry_points = wheel.read(f"{info}/entry_points.txt").decode()
    inside = {name for name in names if not name.startswith(f"{info}/")}
    problems = [f"not in the wheel: {name}" for name in sorted(source_files() - inside)]
    problems += [f"in the wheel: {name}" for name in sorted(inside - source_files())]
    if not path.name.endswith("-py3-none-any.whl"):
        problems.append(f"not pure Python: {path.name}")
    if "tidelog/py.typed" not in inside:
        problems.append("the types are not marked: no py.typed")
    if f"{info}/licenses/LICENSE" not in names:
        problems.append("the licence is missing")
    if "tidelog = tidelog.__main__:main" not in entry_points:
        problems.append("the command is missing")
    return problems + metadata_problems(metadata)


def wheel_metadata(path: Path) -> Message:
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(path) as wheel:
        return message_from_string(wheel.read(f"tidelog-{version()}.dist-info/METADATA").decode())


def sdist_problems(path: Path) -> list[str]:
    """Return what is wrong with a source archive."""
    top = f"tidelog-{version()}/"
    with tarfile.open(path) as archive:
        names = {name.removeprefix(top) for name in archive.getnames()}
        packed = archive.extractfile(f"{top}PKG-INFO")
        assert packed is not None
        metadata = message_from_string(packed.read().decode())
    wanted = {*ARCHIVED, *(f"src/{name}" for name in source_files())}
    made = re.compile(r"(^|/)(__pycache__|\.venvs?|\.peer|\.git|\.demo)(/|$)|^dist/|\.pyc$")
    problems = [f"not in the archive: {name}" for name in sorted(wanted - names)]
    problems += [f"in the archive: {name}" for name in sorted(names) if made.search(name)]
    return problems + metadata_problems(metadata)


def metadata_problems(metadata: Message) -> list[str]:
    """Return what is wrong with the metadata of either."""
    wanted = {
        "Name": "tidelog",
        "Version": version(),
        "License-Expression": "Apache-2.0",
        "Description-Content-Type": "text/markdown",
    }
    problems = [
        f"{name} is {metadata[name]}, not {value}"
        for name, value in wanted.items()
        if metadata[name] != value
    ]
    if not metadata["Requires-Python"]:
        problems.append("Requires-Python is missing")
    if set(metadata.get_all("Provides-Extra", [])) != EXTRAS:
        problems.append(f"the extras are {metadata.get_all('Provides-Extra')}")
    pages = project_urls(metadata)
    if pages and pages.keys() != PAGES:
        problems.append(f"the project's addresses are {sorted(pages)}")
    return problems


def project_urls(metadata: Message) -> dict[str, str]:
    """Return the project's addresses; none if the repository has no address on a network."""
    return dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
