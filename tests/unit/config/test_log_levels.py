"""Levels of log lines by logger."""

from __future__ import annotations

import logging
from importlib.util import find_spec

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_levels import LOGGERS, TRACE, parse_log_levels
from tidelog.errors import InvalidConfig


def test_a_level_is_for_all_loggers_or_for_one() -> None:
    """Of several for one logger the last counts."""
    texts = ["DEBUG", "tidelog.log=TRACE", "INFO", "tidelog.cleaner=warn"]

    expected = {"tidelog": logging.INFO, "tidelog.log": TRACE, "tidelog.cleaner": logging.WARNING}
    assert parse_log_levels(texts) == expected


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("kafka.log.LogManager", ["tidelog.manager", "tidelog.service"]),
        ("org.apache.kafka.storage.internals.log.UnifiedLog", ["tidelog.log"]),
        ("LogCleaner", ["tidelog.cleaner"]),
        ("kafka", ["tidelog"]),
    ],
)
def test_kafkas_loggers_are_taken(name: str, ours: list[str]) -> None:
    """The classes of a log4j file are known, in whatever package Kafka has them."""
    assert parse_log_levels([f"{name}=DEBUG"]) == dict.fromkeys(ours, logging.DEBUG)


@pytest.mark.parametrize(
    ("word", "level"), [("ALL", TRACE), ("FATAL", logging.CRITICAL), ("OFF", 100), ("all", TRACE)]
)
def test_kafkas_levels_are_taken(word: str, level: int) -> None:
    """Its documentation sets ``kafka.log.Log=ALL``, in a file as ``log4j.logger.kafka.log.Log``."""
    for name in ("kafka.log.Log", "log4j.logger.kafka.log.Log"):
        assert parse_log_levels([f"{name}={word}"]) == {"tidelog.log": level}


@pytest.mark.parametrize("text", ["LOUD", "", "tidelog.log=", "kafka.network=DEBUG", "log=DEBUG"])
def test_an_unknown_level_or_logger_is_refused(text: str) -> None:
    """In a setting too, by its name."""
    with pytest.raises(ValueError, match="is not a"):
        parse_log_levels([text])
    with pytest.raises(InvalidConfig, match=r"tidelog\.log\.levels"):
        BrokerConfig(log_dirs=("/data",), tidelog_log_levels=(text,))


@pytest.mark.parametrize("logger", sorted({logger for ours in LOGGERS.values() for logger in ours}))
def test_our_loggers_are_modules(logger: str) -> None:
    """Loggers have the names of the modules that log."""
    assert find_spec(logger) is not None
