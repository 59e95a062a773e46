"""What ``tools/house.py`` measures, on a small package, and the limits that are reached."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

PACKAGE = {
    "__init__.py": '"""A package."""\n',
    "log/__init__.py": '"""A room."""\n',
    "log/state.py": '"""State."""\nfrom tidelog.log import parts\nfrom tidelog.cli import state\n',
    "log/parts.py": """
from tidelog.log.state import State


class Calls:
    \"\"\"For the owner of a mover.\"\"\"

    _mover: object

    def move(self):
        return self._mover.move() if self._is_service else None
""",
    "cli/state.py": "import sys\n\nif sys.argv:\n    print(1, 2)\n",
}


@pytest.fixture(scope="module")
def house(root: Path) -> ModuleType:
    """The tool."""
    spec = spec_from_file_location("house", root / "tools" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_house_is_measured(house: ModuleType, tmp_path: Path) -> None:
    """Statements without imports and docstrings; circles, mixins and flags by their places."""
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    modules = house.read_modules(tmp_path)

    assert house.sizes(modules) == {"log": (3, 15, 4), "cli": (1, 4, 2), "__init__": (1, 1, 0)}
    assert list(house.measured(modules).values()) == [
        [],
        ["state: cli, log"],
        ["log.parts <-> log.state"],
        ["log.parts.Calls: 1 attributes"],
        ["log.parts:11"],
    ]


def test_the_house_stays_where_it_has_come(house: ModuleType) -> None:
    """No full folder, no file name twice, no circle of imports, no state of another class."""
    modules = house.read_modules()

    assert len(modules) > 500
    assert set(map(len, house.measured(modules).values())) == {0}
