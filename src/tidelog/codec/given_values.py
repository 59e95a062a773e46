"""Numbers and lists as Python programs give them, whose types are checked where they come in.

Kafka's clients are in a language that checks them.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import TypeVar

from tidelog.errors import InvalidArgument

T = TypeVar("T")


def check_partition(partition: object) -> None:
    """Raise InvalidArgument for what is not the number of a partition."""
    _check_number(partition, "the number of a partition")


def check_offsets(*offsets: object) -> None:
    """Raise InvalidArgument for what is not a number; a negative one is out of range."""
    for offset in offsets:
        _check_number(offset, "an offset")


def is_integer(given: object) -> bool:
    """Say whether this is an integer, NumPy's among them; True and False are none."""
    return type(given) is int or (isinstance(given, Integral) and not isinstance(given, bool))


def listed(name: str, given: Iterable[T]) -> tuple[T, ...]:
    """Return what is given under a name, as a list; raise InvalidArgument for a single value.

    Text is one, too: its letters are not what was meant.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{name} is a list, as [{given!r}], not {given!r}")
    return tuple(given)


def _check_number(given: object, what: str) -> None:
    if not is_integer(given):
        raise InvalidArgument(f"{given!r} is not {what}")
