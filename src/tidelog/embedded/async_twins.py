"""Methods for an event loop that do on a thread what those of another class do.

See ``async_logs``.
"""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from tidelog.codec.one_line import one_line
from tidelog.env.event_loop import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

H = TypeVar("H")
P = ParamSpec("P")
R = TypeVar("R")


class Twin(Generic[H]):
    """The base of a class that offers the methods of ``held`` to tasks of an event loop."""

    def __init__(self, held: H) -> None:
        self._held = held

    def __repr__(self) -> str:
        return one_line(self, lambda: f"of {self._held!r}")


def twin(
    method: Callable[Concatenate[H, P], R],
) -> Callable[Concatenate[Twin[H], P], Coroutine[Any, Any, R]]:
    """Return what calls a method of the class that is held, with its arguments, on a thread.

    A task that is cancelled meanwhile waits for its end: the call takes its effect, and once.
    """

    @wraps(method)
    async def call(self: Twin[H], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(partial(method, self._held, *args, **kwargs))

    call.__doc__ = f"Do as ``{method.__qualname__}``."
    return call
