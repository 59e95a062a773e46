"""The public door of the package: what it lists, and what it loads."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import tidelog.testing


def loaded_by(code: str) -> set[str]:
    """Return the modules that a process has loaded after ``code``."""
    source = tidelog.testing.__file__.removesuffix("/tidelog/testing/__init__.py")
    result = subprocess.run(
        [sys.executable, "-c", f"import sys, tidelog.testing as t; {code}; print(*sys.modules)"],
        env={"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stdout.split())


def test_the_package_loads_only_the_names_in_use() -> None:
    """A clock brings no disk."""
    found = loaded_by("t.ManualClock")

    assert "tidelog.testing.manual_time" in found
    assert {"tidelog.testing.crash_files", "numpy", "pytest"} & found == set()


def test_every_module_serves_a_name_that_is_public() -> None:
    """What only tidelog's own tests use lies beside them, in ``tests/machinery``.

    The plug-in is found by pytest itself, through the entry point of the package.
    """
    modules = {
        f"tidelog.testing.{one.name}" for one in pkgutil.iter_modules(tidelog.testing.__path__)
    }

    found = loaded_by("[getattr(t, name) for name in dir(t)]")

    assert modules - found == {"tidelog.testing.pytest_plugin"}
    assert {"hypothesis", "pytest", "tests"} & found == set()


def test_the_package_lists_its_names() -> None:
    """Each listed name can be loaded, and no other."""
    names = dir(tidelog.testing)

    assert [name for name in names if not hasattr(tidelog.testing, name)] == []
    assert {"CrashFileSystem", "ManualClock", "damage_batch"} < set(names)
    assert not hasattr(tidelog.testing, "nothing")
