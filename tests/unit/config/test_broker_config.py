"""The settings of a data directory are Kafka's."""

from __future__ import annotations

import logging

import pytest

from tidelog.config.broker_config import MOST_THREADS, BrokerConfig
from tidelog.config.log_config import HOUR_MS, MINUTE_MS, LogConfig
from tidelog.config.option import options_of
from tidelog.errors import InvalidConfig

# Name: type and default. Source: Kafka 4.3.1, broker configs.
KAFKA = {
    "log.dir": ("list", "/tmp/kafka-logs"),
    "log.dirs": ("list", ""),
    "cordoned.log.dirs": ("list", ""),
    "num.recovery.threads.per.data.dir": ("int", "2"),
    "log.retention.check.interval.ms": ("long", "300000"),
    "log.flush.scheduler.interval.ms": ("long", "9223372036854775807"),
    "log.flush.offset.checkpoint.interval.ms": ("int", "60000"),
    "log.flush.start.offset.checkpoint.interval.ms": ("int", "60000"),
    "log.initial.task.delay.ms": ("long", "30000"),
    "log.dir.failure.timeout.ms": ("long", "30000"),
    "log.cleaner.enable": ("boolean", "true"),
    "log.cleaner.threads": ("int", "1"),
    "log.cleaner.dedupe.buffer.size": ("long", "134217728"),
    "log.cleaner.io.buffer.load.factor": ("double", "0.9"),
    "log.cleaner.io.buffer.size": ("int", "524288"),
    "log.cleaner.io.max.bytes.per.second": ("double", "1.7976931348623157e+308"),
    "log.cleaner.backoff.ms": ("long", "15000"),
    "producer.id.expiration.ms": ("int", "86400000"),
    "producer.id.expiration.check.interval.ms": ("int", "600000"),
    "transaction.partition.verification.enable": ("boolean", "true"),
    "transaction.max.timeout.ms": ("int", "900000"),
    "transactional.id.expiration.ms": ("int", "604800000"),
    "replica.high.watermark.checkpoint.interval.ms": ("long", "5000"),
    "replica.alter.log.dirs.io.max.bytes.per.second": ("long", "9223372036854775807"),
    "background.threads": ("int", "10"),
    "remote.log.manager.task.interval.ms": ("long", "30000"),
    "remote.log.manager.copier.thread.pool.size": ("int", "10"),
    "remote.log.manager.copy.max.bytes.per.second": ("long", "9223372036854775807"),
}


def problems_of(properties: dict[str, str]) -> tuple[str, ...]:
    """Return the problems with the properties of a broker."""
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.parse(properties)
    return caught.value.problems


def test_names_types_and_defaults_are_kafkas() -> None:
    """Every broker setting that storage uses has Kafka's name; our own start with ``tidelog.``."""
    ours = {
        known.name: (
            known.kind.name,
            "" if known.default is None else known.kind.format(known.default),
        )
        for known in options_of(BrokerConfig)
        if not known.name.startswith("tidelog.")
    }

    assert ours == KAFKA


def test_topics_have_kafkas_defaults_by_default() -> None:
    """Without broker-level names, topics have their own defaults."""
    assert BrokerConfig.parse({}).log_defaults == LogConfig()


def test_log_dirs_takes_precedence_over_log_dir() -> None:
    """log.dir names one directory, log.dirs several."""
    one = BrokerConfig.parse({"log.dir": "/a"})
    two = BrokerConfig.parse({"log.dir": "/a", "log.dirs": "/b, /c"})

    assert (one.data_directories, two.data_directories) == (("/a",), ("/b", "/c"))


@pytest.mark.parametrize("name", ["log.dir", "log.dirs"])
def test_there_is_a_data_directory(name: str) -> None:
    """A broker needs at least one data directory."""
    assert problems_of({name: ""})[0].startswith(f"{name}: nothing must be")


def test_the_synonym_with_the_highest_precedence_counts() -> None:
    """Of several names for a setting, the one with the finest unit is used."""
    hours = {"log.retention.hours": "2", "log.roll.hours": "1"}
    minutes = {**hours, "log.retention.minutes": "5"}
    ms = {**minutes, "log.retention.ms": "7"}

    found = [BrokerConfig.parse(p).log_defaults.retention_ms for p in (hours, minutes, ms)]

    assert found == [2 * HOUR_MS, 5 * MINUTE_MS, 7]
    assert BrokerConfig.parse(ms).log_defaults.segment_ms == HOUR_MS


def test_a_name_can_be_both_setting_and_synonym() -> None:
    """The flusher's interval is also the default of flush.ms."""
    config = BrokerConfig.parse({"log.flush.scheduler.interval.ms": "9"})

    assert (config.log_flush_scheduler_interval_ms, config.log_defaults.flush_ms) == (9, 9)


@pytest.mark.parametrize("name", ["log.retention.hours", "log.retention.minutes"])
def test_any_negative_retention_means_no_limit(name: str) -> None:
    """At broker level a negative time, in any unit, keeps segments forever."""
    assert BrokerConfig.parse({name: "-7"}).log_defaults.retention_ms == -1


def test_zero_retention_is_rejected() -> None:
    """At broker level a retention of zero is considered a mistake."""
    assert problems_of({"log.retention.minutes": "0"}) == (
        "log.retention.minutes: 0 would expire every segment at once",
    )


def test_one_error_names_every_bad_key() -> None:
    """Settings of the broker and topic defaults are reported together."""
    problems = problems_of(
        {
            "log.roll.hours": "0",
            "log.retention.hours": "2147483648",
            "background.threads": "0",
            "listeners": "x",
            "log.cleaner.min.compaction.lag.ms": "5",
            "log.cleaner.max.compaction.lag.ms": "4",
        }
    )

    assert [problem.split(":")[0] for problem in problems] == [
        "log.roll.hours",
        "log.retention.hours",
        "min.compaction.lag.ms",
        "background.threads",
        "listeners",
    ]


@pytest.mark.parametrize("cordoned", ["*,/a", "/b"])
def test_only_data_directories_can_be_cordoned(cordoned: str) -> None:
    """Cordoned directories are some of the data directories, or all if it is only a star."""
    properties = {"log.dirs": "/a,/c", "cordoned.log.dirs": cordoned}

    assert problems_of(properties)[0].startswith("cordoned.log.dirs:")
    for valid in ("/c", "*"):
        config = BrokerConfig.parse({**properties, "cordoned.log.dirs": valid})
        assert config.cordoned_log_dirs == (valid,)


def test_each_cleaner_thread_needs_a_mebibyte() -> None:
    """Smaller offset maps are rejected."""
    properties = {"log.cleaner.threads": "4", "log.cleaner.dedupe.buffer.size": f"{4 * 2**20}"}

    assert problems_of(properties)[0].startswith("log.cleaner.dedupe.buffer.size:")


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("log.cleaner.io.buffer.load.factor", ("0", "-1", "NaN", "-Infinity", "1e-9")),
        ("log.cleaner.io.max.bytes.per.second", ("0", "NaN", "0.5", "4.9e-324")),
    ],
)
def test_a_value_with_which_no_log_is_cleaned_is_rejected(
    name: str, refused: tuple[str, ...]
) -> None:
    """Kafka takes it, and its cleaner fails or sleeps for ever."""
    for text in refused:
        assert problems_of({name: text})[0].startswith(f"{name}:")


def test_threads_are_bounded() -> None:
    """Kafka's maximum is more than a machine has, and Kafka starts them as they are needed."""
    most = str(2**31 - 1)
    config = BrokerConfig.parse(
        {
            "background.threads": most,
            "num.recovery.threads.per.data.dir": most,
            "log.cleaner.threads": most,
            "log.cleaner.dedupe.buffer.size": str(2**62),
        }
    )

    used = {config.scheduler_threads, config.recovery_threads, config.cleaner_threads}
    assert used == {MOST_THREADS}


@pytest.mark.parametrize(
    "properties", [{"log.cleaner.enable": "false"}, {"log.cleaner.threads": "0"}]
)
def test_a_broker_without_cleaner_gets_a_warning(
    properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Compacted topics grow without limit when no cleaner runs."""
    with caplog.at_level(logging.WARNING, "tidelog.config.broker_config"):
        BrokerConfig.parse(properties)

    assert "cleaner-off" in caplog.text
