"""The public door of the package: what it lists, and what it loads."""

from __future__ import annotations

import subprocess
import sys

import tidelog.testing


def test_the_package_loads_only_the_names_in_use() -> None:
    """A program's tests need neither hypothesis nor pytest for a clock and a disk."""
    code = "import sys; from tidelog.testing import CrashFileSystem; print(*sys.modules)"
    source = tidelog.testing.__file__.removesuffix("/tidelog/testing/__init__.py")

    result = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )

    assert {"hypothesis", "pytest", "tidelog.testing.manual_time"} & set(result.stdout.split()) == {
        "tidelog.testing.manual_time"
    }


def test_the_package_lists_its_names() -> None:
    """Each listed name can be loaded, and no other."""
    names = dir(tidelog.testing)

    assert [name for name in names if not hasattr(tidelog.testing, name)] == []
    assert {"CrashFileSystem", "ManualClock", "build_batch"} < set(names)
    assert not hasattr(tidelog.testing, "nothing")
