"""Public doors that load nothing until a name is used."""

from __future__ import annotations

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


def test_the_door_lists_its_names() -> None:
    """``dir`` shows what can be had, sorted."""
    _, names = lazy_door("door", HOMES)

    assert names() == ["inf", "infinity"]


def test_every_public_name_can_be_loaded() -> None:
    """Each name in ``__all__`` of the package is there, and is listed."""
    loaded = {name: getattr(tidelog, name) for name in tidelog.__all__}

    assert None not in loaded.values()
    assert set(tidelog.__all__) == set(dir(tidelog))
