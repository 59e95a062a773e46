"""The lists of the mutation tests name files that exist, and mutants that have a reason."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read(root: Path, name: str) -> dict[str, Any]:
    """Read one of the lists."""
    return tomllib.loads((root / "tools" / "mutants" / name).read_text("utf-8"))


def test_every_mutated_module_and_its_tests_exist(root: Path) -> None:
    """A module or a test file that is renamed is renamed in rules.toml too."""
    rules: dict[str, list[str]] = read(root, "rules.toml")["rules"]
    modules = [f"src/tidelog/{module}" for module in rules]
    tests = [name for names in rules.values() for name in names]

    assert len(modules) >= 19
    assert [name for name in modules if not (root / name).is_file()] == []
    assert [name for name in tests if not (root / name).exists()] == []
    assert all(rules.values())


def test_every_equivalent_mutant_is_of_a_line_that_exists_and_has_a_reason(root: Path) -> None:
    """The list cannot outlive the lines it is about, nor hide a test that is missing."""
    modules = read(root, "rules.toml")["rules"]
    entries: list[dict[str, str]] = read(root, "equivalent.toml")["equivalent"]
    assert entries
    for entry in entries:
        assert entry.keys() == {"module", "before", "after", "reason"}, entry
        assert entry["module"] in modules, entry
        text = (root / "src" / "tidelog" / entry["module"]).read_text("utf-8")
        joined = " ".join(line.strip() for line in text.splitlines())
        assert entry["before"], entry
        assert entry["before"] in joined, entry
        assert len(entry["reason"].split()) > 3, entry
