"""Numbers, lists and flags as Python programs give them; types are checked where they come in.

Kafka's clients are in a language that checks them.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from operator import index
from typing import SupportsIndex, TypeVar

from tidelog.errors import InvalidArgument
from tidelog.lazy import np

T = TypeVar("T")


def check_partition(partition: SupportsIndex) -> int:
    """Return the number of a partition; raise InvalidArgument for what is none."""
    return checked_number(partition, "the number of a partition")


def check_offsets(*offsets: SupportsIndex) -> None:
    """Raise InvalidArgument for what is not a number; a negative one is out of range."""
    for offset in offsets:
        checked_number(offset, "an offset")


def check_flags(**given: object) -> None:
    """Raise InvalidArgument for a flag that is neither True nor False: "no" would count as true."""
    for name, value in given.items():
        if isinstance(value, bool):  # without NumPy, which a command may never load
            continue
        if not isinstance(value, np.bool_):
            raise InvalidArgument(f"{name} is True or False, not {value!r}")


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


def checked_number(given: SupportsIndex, what: str) -> int:
    """Return an integer as Python's, which JSON takes; raise InvalidArgument for what is none."""
    if not is_integer(given):
        raise InvalidArgument(f"{given!r} is not {what}")
    return index(given)
