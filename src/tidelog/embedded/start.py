"""The public door to all logs of data directories: ``tidelog.open``.

Owns the choice of the real disk, clock, threads and random numbers. Everything below is given them.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

from tidelog.cleaner.log_cleaner import Machine
from tidelog.config.sources import broker_config, from_keywords
from tidelog.datadir.catalogue import NO_SETTINGS
from tidelog.embedded.logs import Logs
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.descriptors import raise_descriptor_limit
from tidelog.env.scheduler import ThreadScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.waiting import sleep_ms
from tidelog.manager.log_manager import LogManager

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.config.broker_config import BrokerConfig


def open_logs(
    path: str | os.PathLike[str],
    config: Mapping[str, str] = NO_SETTINGS,
    *more: str | os.PathLike[str],
    overrides: Mapping[str, str] = NO_SETTINGS,
    **settings: object,
) -> Logs:
    """Open a data directory, or several, with all logs in it, for reading and writing.

    Args:
        path: the directory that holds the partition directories; made if missing.
        config: settings under Kafka's names, of the broker or for topics that set none.
        more: further data directories; new partitions go where the fewest are.
        overrides: topic settings that go before a topic's own, until this is closed.
        settings: as ``config``, with underscores for dots: ``retention_ms=3_600_000``.

    Raises:
        DirectoryLocked: another process, Kafka or tidelog, writes there.
        InvalidConfig: names every bad setting.
        InvalidArgument: this is the directory of one partition.
        InvalidTopic: a directory in it is that of no partition.
        KafkaStorageError: a disk failed, or a file that says what there is does not read.
        UnsupportedPlatform: this platform lacks the locks that writing needs.
    """
    paths = [os.path.abspath(one) for one in (path, *more)]
    given = {**config, **from_keywords(settings), "log.dirs": ",".join(paths)}
    return start_logs(broker_config(given), overrides=overrides)


def start_logs(
    config: BrokerConfig,
    *,
    overrides: Mapping[str, str] = NO_SETTINGS,
    on_halt: Callable[[], None] | None = None,
) -> Logs:
    """Open the directories of ``log.dirs`` on this machine; as ``open_logs``.

    ``on_halt`` is told, on some thread, that no directory is left.
    """
    raise_descriptor_limit()
    scheduler = ThreadScheduler(config.background_threads)
    rng = random.SystemRandom()
    machine = Machine(SYSTEM_FILES, SYSTEM_CLOCK, scheduler, rng, sleep_ms)
    manager = LogManager(config, machine, overrides=overrides, on_halt=on_halt)
    scheduler.start()
    try:
        manager.startup()
    except BaseException:
        scheduler.shutdown()
        raise
    return Logs(manager, scheduler)
