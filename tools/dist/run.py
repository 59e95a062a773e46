"""Builds the wheel and the source archive, checks them, and tries them in new environments.

Each Python found installs the wheel alone, the source archive, and the wheel with each extra; a
smoke test then uses what is installed. What one without Spark installs is printed, for README.

    make dist
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contents import (
    ROOT,
    project_urls,
    sdist_problems,
    version,
    wheel_metadata,
    wheel_problems,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DIST: Final = ROOT / "dist"
TWINE: Final = ROOT / ".venvs" / "dist" / "bin" / "twine"
SMOKE: Final = Path(__file__).with_name("smoke.py")


def run(*command: str | Path, **environ: str) -> str:
    """Run a command and return what it prints; exit with all of it if the command fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise SystemExit(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> tuple[Path, Path]:
    """Build the source archive, and the wheel from it; return wheel and archive."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "-o", DIST, ROOT)
    (wheel,), (archive,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, archive


def check(wheel: Path, archive: Path) -> None:
    """Check contents and metadata; exit with every problem."""
    problems = [f"{wheel.name}: {problem}" for problem in wheel_problems(wheel)]
    problems += [f"{archive.name}: {problem}" for problem in sdist_problems(archive)]
    if problems:
        raise SystemExit("\n".join(problems))
    run(TWINE, "check", "--strict", wheel, archive)
    for path in (wheel, archive):
        print(f"dist/{path.name}: {path.stat().st_size / 1e6:.1f} MB, checked")
    if not project_urls(wheel_metadata(wheel)):
        print("  without the project's addresses: git's remote origin has none on a network")


def supported() -> list[str]:
    """Return the versions of Python that pyproject.toml admits, as ``3.11``."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    found = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"$', text, re.MULTILINE)
    assert found is not None
    return [f"3.{minor}" for minor in range(int(found[1]), int(found[2]))]


def pythons() -> Iterator[tuple[str, str]]:
    """Yield version and path of each Python found; print which are not."""
    for name in supported():
        found = subprocess.run(
            [ROOT / "tools" / "find_python.sh", name], capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            yield name, found.stdout.strip()
        else:
            print(f"Python {name}: not found, skipped")


def smoke_test(name: str, python: str, wheel: Path, archive: Path) -> None:
    """Install each form into a new environment and use it; print size and time."""
    with tempfile.TemporaryDirectory(prefix=f"tidelog-{name}-") as folder:
        run(python, "-m", "venv", folder)
        pip = Path(folder, "bin", "python"), "-m", "pip", "install", "-q"
        anew = "--force-reinstall", "--no-deps"
        for what, part, words in (
            ("wheel", "core", (str(wheel),)),
            ("archive", "core", (*anew, str(archive))),
            ("wheel[store]", "store", (f"{wheel}[store]",)),
            ("wheel[arrow]", "arrow", (f"{wheel}[arrow]",)),
            ("wheel[sql]", "sql", (f"{wheel}[sql]",)),
            ("wheel[console]", "console", (f"{wheel}[console]",)),
            ("wheel[spark]", "spark", (f"{wheel}[spark]",)),
        ):
            begun = time.monotonic()
            # What each installs by itself is counted.
            for gone in {"arrow": ("obstore",), "spark": ("duckdb",)}.get(part, ()):
                run(Path(folder, "bin", "python"), "-m", "pip", "uninstall", "-q", "-y", gone)
            run(*pip, "--disable-pip-version-check", *words)
            printed = run(
                Path(folder, "bin", "python"), "-I", SMOKE, part, version(), XDG_CACHE_HOME=folder
            )
            packages, size = map(int, printed.split()[-2:])
            seconds = time.monotonic() - begun
            text = f"{packages} packages, {size / 1e6:.0f} MB"
            print(f"Python {name}: {what:13} works: {text} ({seconds:.0f} s)", flush=True)


def main() -> None:
    """Build, check and try."""
    wheel, archive = build()
    check(wheel, archive)
    tried = 0
    for name, python in pythons():
        smoke_test(name, python, wheel, archive)
        tried += 1
    if not tried:
        raise SystemExit("no Python found to try wheel and archive with")


if __name__ == "__main__":
    main()
