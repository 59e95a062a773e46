"""What the parts of a log manager have in common, given to each of them as one value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.config.broker_config import BrokerConfig
    from tidelog.env.machine import Machine
    from tidelog.manager.cleaning import Cleaning
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.log_registry import LogRegistry
    from tidelog.manager.offset_checkpointing import OffsetCheckpointing
    from tidelog.manager.topics.topics import Topics


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
