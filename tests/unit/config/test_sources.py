"""Settings from several sources, under broker-level and topic-level names."""

from __future__ import annotations

import pytest

from tidelog.config.sources import (
    broker_config,
    changes,
    check_dynamic,
    from_environment,
    from_keywords,
)
from tidelog.errors import InvalidConfig


def test_topic_names_set_the_defaults_of_all_topics() -> None:
    """A topic-level name overrides the broker-level names of the same setting."""
    config = broker_config({"log.retention.hours": "1", "retention.ms": "5", "segment.ms": "6"})

    assert (config.log_defaults.retention_ms, config.log_defaults.segment_ms) == (5, 6)


def test_one_error_names_every_bad_key() -> None:
    """It names bad settings of the broker, of topics, and unknown ones."""
    properties = {"log.cleaner.threads": "x", "retention.ms": "-2", "no.such": "1"}
    with pytest.raises(InvalidConfig) as caught:
        broker_config(properties)

    named = {problem.partition(":")[0] for problem in caught.value.problems}
    assert named == set(properties)


def test_variables_name_settings() -> None:
    """The name has a prefix, capitals, and underscores for dots; other variables are ignored."""
    environment = {"TIDELOG_LOG_RETENTION_MS": "5", "HOME": "/tmp", "LOG_DIRS": "/x"}

    assert from_environment(environment) == {"log.retention.ms": "5"}


def test_keywords_name_settings() -> None:
    """Values need not be text."""
    properties = from_keywords({"retention_ms": 5, "preallocate": True, "log_dirs": ["/a", "/b"]})

    assert properties == {"retention.ms": "5", "preallocate": "true", "log.dirs": "/a,/b"}


def test_changes_are_named_with_their_values_and_secrets_are_not() -> None:
    """A broker's file, which is read too, holds passwords beside the settings of topics."""
    old = {"retention.ms": "1", "log.retention.hours": "1", "ssl.key.password": "a", "x": "1"}
    new = {
        "log.retention.hours": "2",
        "ssl.key.password": "b",
        "x": "1",
        "log.cleaner.threads": "2",
    }

    expected = ["log.cleaner.threads=2", "log.retention.hours=2", "retention.ms unset"]
    assert changes(old, new) == expected
    assert changes(new, new) == []


def test_settings_that_need_a_restart_are_named() -> None:
    """All other settings can change while the service runs."""
    old = {"log.dirs": "/a", "log.retention.ms": "1", "log.retention.check.interval.ms": "1"}
    new = {"log.dirs": "/a", "log.retention.ms": "2", "log.retention.check.interval.ms": "2"}
    check_dynamic(old, {**old, "log.retention.ms": "3", "log.cleaner.threads": "2"})
    with pytest.raises(InvalidConfig) as caught:
        check_dynamic(old, new)

    assert caught.value.problems == (
        "log.retention.check.interval.ms: takes effect only after a restart",
    )
