"""Listeners to the offsets of a log. Kafka: ``LogOffsetsListener`` and ``PartitionListener``."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.log.notifying_lock import NotifyingLock

OFFSET_NAMES: Final = (
    "log_end_offset",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
)
"""The offsets listeners hear of, by their names in a log, in the order of the calls."""

_log = logging.getLogger(__name__)


class LogListener:
    """Hears of each new offset of a log; a subclass overrides what it needs.

    Calls come one at a time, in the order of the changes, after the lock of the log was released,
    and on whichever thread released it last: a listener may append to the log. An exception of a
    listener is logged and reaches nobody else.
    """

    @property
    def offset_names(self) -> Sequence[str]:
        """Which of ``OFFSET_NAMES`` to report; by default those with an overridden method."""
        return [
            name
            for name in OFFSET_NAMES
            if getattr(type(self), _method(name)) is not getattr(LogListener, _method(name))
        ]

    def on_log_end_offset_updated(self, log_end_offset: int) -> None:
        """Hear the offset that the next record gets; lower than before after a truncation."""

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Hear the high watermark (exclusive); it may go back."""

    def on_last_stable_offset_updated(self, last_stable_offset: int) -> None:
        """Hear the end (exclusive) of what readers of committed records see."""

    def on_log_start_offset_updated(self, log_start_offset: int) -> None:
        """Hear the first offset that may be read."""


def _method(offset_name: str) -> str:
    return f"on_{offset_name}_updated"


class LogListeners:
    """The listeners of one log or partition, called by way of the lock that guards it.

    ``name`` returns what identifies the log in log lines.
    """

    def __init__(self, lock: NotifyingLock, name: Callable[[], str]) -> None:
        self._lock: Final = lock
        self._name: Final = name
        self._all: tuple[LogListener, ...] = ()
        self._by_offset: dict[str, tuple[LogListener, ...]] = {}

    def add(self, listener: LogListener) -> None:
        """Call ``listener`` for each change from now on; adding it again changes nothing."""
        with self._lock:
            if not _is_among(listener, self._all):
                self._replace((*self._all, listener))

    def remove(self, listener: LogListener) -> None:
        """Stop calling ``listener``; an unknown one changes nothing."""
        with self._lock:
            self._replace(tuple(kept for kept in self._all if kept is not listener))

    def _replace(self, listeners: tuple[LogListener, ...]) -> None:
        self._all = listeners
        wanted = [(listener, listener.offset_names) for listener in listeners]
        by_offset = {
            name: tuple(listener for listener, names in wanted if name in names)
            for name in OFFSET_NAMES
        }
        self._by_offset = {name: found for name, found in by_offset.items() if found}

    def report_changes(self, old: object, new: object) -> None:
        """Report each of ``OFFSET_NAMES`` that differs between two sets of offsets."""
        for name in self._by_offset:
            offset = getattr(new, name)
            if offset != getattr(old, name):
                self.report(name, offset)

    def report(self, name: str, offset: int) -> None:
        """Call the listeners of this moment with the new value of an offset, after the lock."""
        listeners = self._by_offset.get(name)
        if listeners:
            self._lock.after_release(partial(self._call, listeners, name, offset))

    def _call(self, listeners: tuple[LogListener, ...], name: str, offset: int) -> None:
        for listener in listeners:
            if not _is_among(listener, self._all):
                continue  # it was removed after the change
            try:
                getattr(listener, _method(name))(offset)
            except Exception:  # noqa: BLE001 - whatever it is, others go on
                _log.exception(
                    "listener-failed log=%s listener=%s offset=%s", self._name(), listener, name
                )


def _is_among(listener: LogListener, listeners: tuple[LogListener, ...]) -> bool:
    return any(known is listener for known in listeners)
