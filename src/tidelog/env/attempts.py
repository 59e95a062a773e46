"""Doing what is to be done whatever fails: all of several things, and closing after a ``with``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self


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


class Closable:
    """The base of a class whose objects are closed where a ``with`` around them is left."""

    __slots__ = ()

    def close(self) -> None:
        """Release what it holds; each class says what that is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
