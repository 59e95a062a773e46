"""The doors to a data directory for a moment, and to a log that is only read.

Owns the choice of the real disk, clock and random numbers. Everything below is given them.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

from tidelog.config.log_config import LogConfig
from tidelog.datadir.catalogue import NO_SETTINGS
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.manager.data_directory import DataDirectory
from tidelog.readonly.read_only_log import open_read_only

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.readonly.read_only_log import ReadOnlyLog


def open_data_directory(
    path: str | os.PathLike[str],
    config: Mapping[str, str] = NO_SETTINGS,
    *,
    overrides: Mapping[str, str] = NO_SETTINGS,
) -> DataDirectory:
    """Open a data directory for writing, creating it if need be, and lock it.

    Args:
        path: the directory that holds the partition directories.
        config: topic settings in force where a topic has none of its own, under Kafka's names.
        overrides: settings that go before a topic's own, until the directory is closed.

    Raises:
        DirectoryLocked: another process, Kafka or tidelog, writes there.
        InvalidConfig: names every bad setting.
        InvalidArgument: this is the directory of one partition.
        KafkaStorageError: a file that says what the directory holds does not read.
        UnsupportedPlatform: this platform lacks the locks that writing needs.
    """
    return DataDirectory(
        os.path.abspath(path),
        fs=SYSTEM_FILES,
        clock=SYSTEM_CLOCK,
        rng=random.SystemRandom(),
        defaults=LogConfig.parse(config),
        overrides=overrides,
    )


def open_log_read_only(path: str | os.PathLike[str]) -> ReadOnlyLog:
    """Open one partition directory to read it; takes no lock and changes nothing.

    Raises:
        InvalidTopic: the directory is not named <topic>-<partition>.
        FileNotFoundError: there is no such directory.
        KafkaStorageError: a checkpoint file beside it does not read.
    """
    return open_read_only(os.path.abspath(path), fs=SYSTEM_FILES)
