"""What the parts of a log manager have in common, given to each of them as one value."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.env.machine import Machine
    from tidelog.manager.cleaning import Cleaning
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.manager.offset_checkpointing import OffsetCheckpointing
    from tidelog.manager.topics.topics import Topics
    from tidelog.store.object_store import ObjectStore


class OpenStores:
    """Opens object stores, and gives up those in use: a stop waits for none for long.

    Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._used: WeakSet[ObjectStore] = WeakSet()
        self._are_given_up = False

    def opened(self, uri: str) -> ObjectStore:
        """Return the store at a URI; InvalidArgument if there can be none."""
        from tidelog.store.object_store import ObjectStore  # noqa: PLC0415 - few managers need a store

        store = ObjectStore(uri)
        with self._lock:  # else ``give_up`` might come in between, and miss it
            self._used.add(store)
            if self._are_given_up:
                store.give_up()
        return store

    def give_up(self) -> None:
        """Give up all stores, also those that are opened later; see ``ObjectStore.give_up``."""
        with self._lock:
            self._are_given_up = True
            for store in self._used:
                store.give_up()


class Shared(NamedTuple):
    """What all parts of a manager work on.

    ``config`` is called at each use, so that changed settings take effect.
    """

    machine: Machine
    config: Callable[[], BrokerConfig]
    log_dirs: LogDirs
    topics: Topics
    registry: LogRegistry
    cleaning: Cleaning
    checkpointing: OffsetCheckpointing
    stores: OpenStores


class ManagerPart:
    """The base of the parts of a manager, each of which does one of its jobs."""

    def __init__(self, shared: Shared) -> None:
        self.shared: Final = shared
        self._machine: Final = shared.machine
        self._config: Final = shared.config
        self._log_dirs: Final = shared.log_dirs
        self._topics: Final = shared.topics
        self._registry: Final = shared.registry
        self._cleaning: Final = shared.cleaning
        self._checkpointing: Final = shared.checkpointing
