"""Names that packages export when they are first used."""

from __future__ import annotations

import importlib
import pkgutil
from inspect import ismodule

import pytest


@pytest.mark.parametrize("name", ["tidelog", "tidelog.arrow", "tidelog.spark", "tidelog.testing"])
def test_no_module_has_the_name_of_an_export(name: str) -> None:
    """Importing the module would put it in the place of what the package exports."""
    package = importlib.import_module(name)
    modules = {found.name for found in pkgutil.iter_modules(package.__path__)}

    hidden = {one for one in modules & set(package.__all__) if not ismodule(getattr(package, one))}
    assert package.__all__
    assert hidden == set()
