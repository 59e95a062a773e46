"""Public doors that load nothing until a name is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tidelog
from tidelog.lazy import lazy_door

HOMES = {"inf": "math", "infinity": "math:inf"}


def test_a_name_is_taken_from_its_home() -> None:
    """Under the same name, or another one there."""
    from math import inf

    load, _ = lazy_door("door", HOMES)

    assert [inf, inf] == [load("inf"), load("infinity")]


def test_other_names_are_not_there() -> None:
    """As for any module: AttributeError, so that ``hasattr`` and imports of modules work."""
    load, _ = lazy_door("door", HOMES)

    with pytest.raises(AttributeError, match=r"'door' has no attribute 'pi'"):
        load("pi")


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    """As a package of another name is to be installed; without an extra, Python says it all."""
    load, _ = lazy_door("door", {"x": "no_such_package.sub"}, extra="arrow")

    with pytest.raises(
        ModuleNotFoundError, match=r"^no_such_package is .* tidelog\[arrow\]$"
    ) as it:
        load("x")
    assert it.value.name == "no_such_package"
    load, _ = lazy_door("door", {"x": "no_such_package.sub"})
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        load("x")


def test_numpy_is_imported_when_a_name_of_it_is_used() -> None:
    """From then on the stand-in has that name, and one that NumPy lacks is missing in both."""
    code = """
import sys
from tidelog.lazy import np
before = "numpy" in sys.modules
import_free, kind = vars(np).copy(), np.int64
import numpy
assert (before, "int64" in import_free) == (False, False)
assert kind is numpy.int64 is vars(np)["int64"]
assert not hasattr(np, "no_such_name")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_door_lists_its_names() -> None:
    """``dir`` shows what can be had, sorted."""
    _, names = lazy_door("door", HOMES)

    assert names() == ["inf", "infinity"]


def test_every_public_name_can_be_loaded() -> None:
    """Each name in ``__all__`` of the package is there, and is listed."""
    loaded = {name: getattr(tidelog, name) for name in tidelog.__all__}

    assert None not in loaded.values()
    assert set(tidelog.__all__) == set(dir(tidelog))
