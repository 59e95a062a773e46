"""Durations and sizes in words: the error says which number Kafka takes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tidelog.config.log_config import LogConfig
from tidelog.config.sources import broker_config, from_keywords, from_mapping
from tidelog.config.units import plain_number_hint
from tidelog.errors import InvalidConfig


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("retention.ms", "7d", 604_800_000),
        ("retention.ms", "7 days", 604_800_000),
        ("retention.ms", "1.5h", 5_400_000),
        ("segment.ms", "1 week", 604_800_000),
        ("log.retention.minutes", "2h", 120),
        ("log.retention.hours", "7d", 168),
        ("retention.bytes", "1GiB", 1 << 30),
        ("retention.bytes", "1 GB", 10**9),
        ("segment.bytes", "64k", 64 << 10),
        ("segment.bytes", "512B", 512),
        ("log.cleaner.dedupe.buffer.size", "128m", 128 << 20),
    ],
)
def test_a_duration_or_a_size_in_words_gets_its_number(name: str, text: str, number: int) -> None:
    """In the unit of the setting; a plain ``m`` is a minute of time and a mebibyte of bytes."""
    assert plain_number_hint(name, text) == f"; write {number}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "soon"),
        ("retention.ms", "7"),
        ("retention.ms", "1GiB"),
        ("retention.bytes", "7d"),
        ("log.retention.hours", "90m"),
        ("retention.ms", 7),
    ],
)
def test_other_text_gets_none(name: str, text: object) -> None:
    """Such as words of another kind, or a duration of a fraction of the unit."""
    assert plain_number_hint(name, text) == ""


def test_the_error_of_a_setting_has_the_number() -> None:
    """Of topics and of processes, wherever a user gives them."""
    for parse in (LogConfig.parse, broker_config):
        with pytest.raises(InvalidConfig, match=r"'7d' is not a .*; write 604800000"):
            parse({"retention.ms": "7d"})


def test_a_program_may_give_a_timedelta() -> None:
    """It becomes a number in the unit of the setting; one that is not whole is an error."""
    week = timedelta(days=7)

    assert from_mapping({"retention.ms": week, "log.retention.hours": week}) == {
        "retention.ms": "604800000",
        "log.retention.hours": "168",
    }
    assert from_keywords({"retention_ms": week, "log_retention_minutes": week}) == {
        "retention.ms": "604800000",
        "log.retention.minutes": "10080",
    }
    with pytest.raises(InvalidConfig, match=r"'1\.5' is not a whole number"):
        broker_config(from_keywords({"log_retention_hours": timedelta(minutes=90)}))


@pytest.mark.parametrize("name", ["retention.bytes", "background.threads"])
def test_a_timedelta_is_no_number_of_anything_but_time(name: str) -> None:
    """A day would be 86,400,000 bytes."""
    with pytest.raises(InvalidConfig, match=f"{name}: '1 day, 0:00:00' is not a whole number"):
        broker_config(from_mapping({name: timedelta(days=1)}))
