"""Doing all of several things, whatever fails among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def try_all(actions: Iterable[Callable[[], object]], passing: type[Exception] = OSError) -> None:
    """Try all actions; then raise the first error of the class ``passing``. Others end this."""
    errors = []
    for action in actions:
        try:
            action()
        except passing as error:
            errors.append(error)
    if errors:
        raise errors[0]
