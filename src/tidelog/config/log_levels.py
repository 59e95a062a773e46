"""Levels of log lines by logger, as a service takes them: ``INFO,tidelog.cleaner=DEBUG``.

Kafka: the loggers of its ``log4j2.yaml``, whose names are taken, too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = "tidelog"
TRACE: Final = 5
"""The level of lines about each append and read, below DEBUG. Kafka: TRACE."""

OFF: Final = 100
"""A level above all lines. Kafka: OFF."""

LEVELS: Final = {
    "ALL": TRACE,
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": OFF,
}
LEVEL_FORM: Final = "[LOGGER=]LEVEL, such as INFO or tidelog.cleaner=DEBUG"

LOGGERS: Final = {
    "AbstractIndex": ("tidelog.segment",),
    "Cleaner": ("tidelog.cleaner",),
    "KafkaScheduler": ("tidelog.env.scheduler",),
    "LeaderEpochFileCache": ("tidelog.log.leader_epoch",),
    "LocalLog": ("tidelog.log",),
    "Log": ("tidelog.log",),
    "LogCleaner": ("tidelog.cleaner",),
    "LogCleanerManager": ("tidelog.cleaner",),
    "LogConfig": ("tidelog.config",),
    "LogDirFailureChannel": ("tidelog.manager.directories",),
    "LogLoader": ("tidelog.log.loading",),
    "LogManager": ("tidelog.manager", "tidelog.service"),
    "LogSegment": ("tidelog.segment",),
    "LogValidator": ("tidelog.records.validation",),
    "OffsetCheckpointFile": ("tidelog.datadir",),
    "OffsetIndex": ("tidelog.segment",),
    "ProducerAppendInfo": ("tidelog.log.producers",),
    "ProducerStateManager": ("tidelog.log.producers",),
    "SnapshotFile": ("tidelog.log.producers",),
    "TimeIndex": ("tidelog.segment",),
    "TransactionIndex": ("tidelog.segment",),
    "UnifiedLog": ("tidelog.log",),
}
"""Our loggers by the class that a logger of Kafka is named after, in whatever package."""

logging.addLevelName(TRACE, "TRACE")


def parse_log_levels(texts: Iterable[str]) -> dict[str, int]:
    """Return levels by logger; of several for one logger, the last.

    Each text is ``LEVEL``, for all loggers, or ``LOGGER=LEVEL``. Raises ValueError for an unknown
    level or logger.
    """
    levels = {}
    for text in texts:
        name, _, word = text.strip().rpartition("=")
        if word.strip().upper() not in LEVELS:
            known = ", ".join(sorted(LEVELS, key=LEVELS.__getitem__))
            raise ValueError(f"{word.strip()!r} is not a level; use one of {known}")
        levels.update(dict.fromkeys(_loggers_of(name.strip()), LEVELS[word.strip().upper()]))
    return levels


def are_log_levels(texts: Iterable[str]) -> bool:
    """Return whether ``parse_log_levels`` takes them."""
    try:
        parse_log_levels(texts)
    except ValueError:
        return False
    return True


def _loggers_of(name: str) -> tuple[str, ...]:
    if name in {"", "root", "kafka", ROOT}:
        return (ROOT,)
    if name.startswith(f"{ROOT}."):
        return (name,)
    known = LOGGERS.get(name.rpartition(".")[2])
    if known is None:
        raise ValueError(
            f"{name!r} is not a logger; ours begin with tidelog., and those of Kafka's log classes"
            " are taken, such as kafka.log.LogManager"
        )
    return known
