"""Listeners to the offsets of a log. Kafka: ``LogOffsetsListener`` and ``PartitionListener``."""

from __future__ import annotations

import logging
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.env.waiting import holder_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import RLock

    _Call = tuple["LogListener", Callable[[int], None]]

OFFSET_NAMES: Final = (
    "log_end_offset",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
)
"""The offsets listeners hear of, by their names in a log, in the order of the calls."""

_METHODS: Final = {name: f"on_{name}_updated" for name in OFFSET_NAMES}

_log = logging.getLogger(__name__)


class LogListener:
    """Hears of each new offset of a log; a subclass overrides what it needs.

    Calls come one at a time, in the order of the changes, after the lock of the log was released,
    and on whichever thread released it last: a listener may append to the log. An exception of a
    listener is logged and reaches nobody else.
    """

    def on_log_end_offset_updated(self, log_end_offset: int) -> None:
        """Hear the offset that the next record gets; lower than before after a truncation."""

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Hear the high watermark (exclusive); it may go back."""

    def on_last_stable_offset_updated(self, last_stable_offset: int) -> None:
        """Hear the end (exclusive) of what readers of committed records see."""

    def on_log_start_offset_updated(self, log_start_offset: int) -> None:
        """Hear the first offset that may be read."""


class Listeners:
    """The listeners of one log or partition, and the changes that they have not heard of yet.

    Changes are made, and noted, under ``lock``; ``notify`` follows once it is released. As the
    outer one of two contexts, ``with listeners, lock:``, an instance notifies by itself. ``name``
    returns what identifies the log in log lines. Adding and removing do not wait for a change that
    is under way: ``_registry`` guards who listens.
    """

    def __init__(self, lock: RLock, name: Callable[[], str]) -> None:
        self._registry: Final = Lock()
        self.is_lock_held: Final = holder_of(lock)
        """Return whether this thread holds the lock."""
        self._name: Final = name
        self._all: dict[int, LogListener] = {}
        self._calls: dict[str, tuple[_Call, ...]] = {}
        self._delivery: Final = Lock()
        self.news: Final[deque[tuple[tuple[_Call, ...], str, int]]] = deque()
        """Changes to report: whom to call, as of that moment, an offset's name, its new value."""

    def add(self, listener: LogListener) -> None:
        """Call ``listener`` for each change from now on; adding it again changes nothing."""
        # A change that is noted just before is in the offsets already: they move before the note.
        with self._registry:
            self._replace({**self._all, id(listener): listener})

    def remove(self, listener: LogListener) -> None:
        """Stop calling ``listener``; an unknown one changes nothing."""
        with self._registry:
            self._replace({key: kept for key, kept in self._all.items() if kept is not listener})

    def _replace(self, listeners: dict[int, LogListener]) -> None:
        self._all = listeners
        calls = {
            offset: tuple(
                (listener, getattr(listener, method))
                for listener in listeners.values()
                if getattr(type(listener), method) is not getattr(LogListener, method)
            )
            for offset, method in _METHODS.items()
        }
        self._calls = {offset: found for offset, found in calls.items() if found}

    def note(self, old: object, new: object) -> None:
        """Note each of ``OFFSET_NAMES`` that differs between two sets of offsets."""
        for name, calls in self._calls.items():
            offset = getattr(new, name)
            if offset != getattr(old, name):
                self.news.append((calls, name, offset))

    def notify(self) -> None:
        """Call the listeners with what was noted, unless this thread still holds the lock.

        A thread never waits for another's listeners: the thread that calls listeners already also
        reports what others have noted.
        """
        if not self.news or self.is_lock_held():
            return
        # What is noted between the last look and the release is seen by the outer loop.
        while self.news:
            is_mine = False
            try:
                is_mine = self._delivery.acquire(blocking=False)
                while is_mine and self.news:
                    self._call(*self.news.popleft())
            finally:
                if is_mine:
                    self._delivery.release()
            if not is_mine:
                return

    def __enter__(self) -> None:
        """Begin a change; the lock is taken after this, so that it is released before the end."""

    def __exit__(self, *_: object) -> None:
        if self.news:
            self.notify()

    def _call(self, calls: tuple[_Call, ...], name: str, offset: int) -> None:
        for listener, method in calls:
            if id(listener) not in self._all:
                continue  # it was removed after the change
            try:
                method(offset)
            except Exception:  # noqa: BLE001 - whatever it is, others continue
                _log.exception(
                    "listener-failed log=%s listener=%s offset=%s", self._name(), listener, name
                )
