"""A process that was forked from one that has data directories open, or reads some.

The child has copies of all objects, but neither the parent's locks on files nor its threads, and a
lock that another thread held at that moment is never released. So whatever writes belongs to the
process that opened it: in a child every use of it raises ``ForkedProcess``, except that closing
does nothing. Whatever only reads continues. Kafka does not fork.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn, Protocol
from weakref import WeakSet

from tidelog.errors import ForkedProcess, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

_OWNER: Final = "_owner_pid"


class Inherited(Protocol):
    """An object that a forked child gets a copy of."""

    def after_fork(self, parent: int) -> None:
        """Do what a child must do before it uses anything; ``parent`` is the pid it is forked from.

        It runs between fork and exec, too, where another thread of the parent may have held any
        lock. So it takes no lock, and of the disk it only closes descriptors.
        """


_inherited: WeakSet[Inherited] = WeakSet()
_kept: list[dict[str, object]] = []
"""What owners held when this process was forked: its finalizers must not run."""
_pid = os.getpid()


def call_after_fork(one: Inherited) -> None:
    """Call ``after_fork`` of an object in each child, as long as the object is referenced."""
    _inherited.add(one)


def after_fork() -> None:
    """Call ``after_fork`` of all objects; a forked child does so before anything else."""
    global _pid
    parent, _pid = _pid, os.getpid()
    for one in list(_inherited):
        one.after_fork(parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)


def close_inherited(descriptors: Iterable[int]) -> None:
    """Close descriptors in a forked child; the parent may have closed some behind their owners.

    An error would end the handler before the objects that come later have heard of the fork.
    """
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


def refuse_pickling(one: object) -> NoReturn:
    """Refuse to pickle or copy what is open, as for a process that ``multiprocessing`` spawns."""
    name = type(one).__name__
    raise InvalidArgument(
        f"a {name} is of use in its own process only: pass the path of the data directory"
    )


class OfOneProcess:
    """The base of all that may be used only by the process that has made it.

    A forked child's copy has nothing left but the pid of its owner. So no method can take a lock
    that is never released, write, or delete, whichever it is; those that close ask ``is_inherited``
    and do nothing.
    """

    held_as: ClassVar[str | None] = None
    """What a program holds of it, where that is an object of another class."""

    def __new__(cls, *_: object, **__: object) -> Self:
        """Make the object, and let children of this process know that it is not theirs."""
        made = super().__new__(cls)
        call_after_fork(made)
        return made

    @property
    def is_inherited(self) -> bool:
        """Whether another process has made it, of which this one is a child."""
        return _OWNER in vars(self)

    def after_fork(self, parent: int) -> None:
        """Forget everything, in a forked child."""
        held = vars(self)
        if _OWNER not in held:
            _kept.append(held.copy())
            held.clear()
            held[_OWNER] = parent

    __reduce__ = refuse_pickling

    if not TYPE_CHECKING:  # else mypy would take any attribute for known

        def __getattr__(self, name: str) -> NoReturn:
            """Raise ForkedProcess for what the process that made the object has kept."""
            owner = vars(self).get(_OWNER)
            kind = type(self).__name__
            if owner is not None:
                raise ForkedProcess(self.held_as or kind, owner)
            raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)
