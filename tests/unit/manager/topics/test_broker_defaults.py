"""Defaults of a service that contradict a topic's settings, at start and while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery import metadata_log as made
from tests.machinery.manager_home import ManagerHome

from tidelog.errors import InvalidConfig
from tidelog.log.topic_id import write_partition_metadata

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

TOPIC_ID = UUID(int=77)


def retention_of(manager: LogService, topic: str = "t") -> tuple[int, bool]:
    """Return ``retention.ms`` of an open log, and whether the policy is known."""
    config = manager.partition(topic, 0).log.config
    return config.retention_ms, config.is_policy_known


def test_defaults_that_contradict_a_topic_are_refused_while_the_service_runs() -> None:
    """Nothing is taken, the error names the topic, and the service continues."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 1, {"max.compaction.lag.ms": "1000"})
        manager.create_topic("u")
        manager.alter_topic("t", {}, follow=["min.compaction.lag.ms"])
        manager.alter_topic("u", {}, follow=["retention.ms"])
        contradicting = replace(home.defaults, min_compaction_lag_ms=5000, retention_ms=9)

        with pytest.raises(InvalidConfig, match=r"topic t: min\.compaction\.lag\.ms: 5000"):
            manager.update_config(home.config(log_defaults=contradicting))

        found = [manager.partition(name, 0).log.config for name in ("t", "u")]
        assert [config.retention_ms for config in found] == [home.defaults.retention_ms] * 2
        manager.update_config(home.config(log_defaults=replace(home.defaults, retention_ms=7)))
        assert retention_of(manager, "u") == (7, True)


def test_defaults_that_contradict_a_topic_do_not_stop_a_start() -> None:
    """The log is compacted later than it says, and a warning names the topic."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 1, {"max.compaction.lag.ms": "1000"})
        manager.alter_topic("t", {}, follow=["min.compaction.lag.ms", "retention.ms"])
    home.defaults = replace(home.defaults, min_compaction_lag_ms=5000)

    with home.open() as manager:
        config = manager.partition("t", 0).log.config
        assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (5000, 5000)
        manager.update_config(home.config(log_defaults=replace(home.defaults, retention_ms=7)))
        assert retention_of(manager) == (7, True)


def home_of_a_broker(*settings: bytes) -> ManagerHome:
    """Return a directory with one topic of a broker's, and its metadata."""
    home = ManagerHome()
    home.fs.make_directory("/data/t-0")
    home.fs.write("/data/t-0/00000000000000000000.log", b"")
    write_partition_metadata(home.fs, "/data/t-0/partition.metadata", TOPIC_ID)
    log = made.metadata_log([[made.topic("t", TOPIC_ID), *settings]])
    made.write_metadata(home.fs, "/data", log)
    return home


def test_the_settings_of_a_broker_reach_the_logs() -> None:
    """They are those of the metadata and of server.properties, and never the service's own."""
    home = home_of_a_broker(made.setting("cleanup.policy", "delete", "t"))
    found = []
    for static in (None, {"log.retention.hours": "1"}, {}):
        with home.open(server_properties=static) as manager:
            found.append(retention_of(manager))

    assert found == [(-1, True), (3_600_000, True), (7 * 86_400_000, True)]
    assert b"retention" not in home.fs.read("/data/tidelog.topics.json")


def test_server_properties_may_change_while_the_service_runs() -> None:
    """Open logs follow."""
    home = home_of_a_broker()
    with home.open() as manager:
        before = retention_of(manager)
        static = {"log.retention.ms": "5", "log.cleanup.policy": "delete"}
        manager.update_config(home.config(server_properties=static))

        assert (before, retention_of(manager)) == ((-1, False), (5, True))


@pytest.mark.parametrize(
    ("known", "change", "problem"),
    [
        (
            "cleanup.policy=compact",
            "remote.storage.enable=true",
            "compacted log cannot be archived",
        ),
        (
            "remote.storage.enable=true",
            "cleanup.policy=compact",
            "compacted log cannot be archived",
        ),
        (
            "min.compaction.lag.ms=1000",
            "max.compaction.lag.ms=5",
            "1000 is more than max.compactio",
        ),
    ],
)
def test_a_change_must_go_with_what_the_broker_has_set(
    known: str, change: str, problem: str
) -> None:
    """Else it would not be in force, though it was accepted."""
    name, _, value = known.partition("=")
    home = home_of_a_broker(made.setting(name, value, "t"))
    with home.open() as manager:
        with pytest.raises(InvalidConfig, match=problem):
            manager.alter_topic("t", dict([change.split("=")]))
        assert not manager.topic("t").config


def test_a_topic_that_a_broker_has_archived_can_be_changed() -> None:
    """It stays archived, as the metadata says."""
    home = home_of_a_broker(made.setting("remote.storage.enable", "true", "t"))
    with home.open() as manager:
        manager.alter_topic("t", {"retention.ms": "-1"})
        assert manager.config_of("t").remote_storage_enable
        with pytest.raises(InvalidConfig, match="the archive may hold records"):
            manager.alter_topic("t", {"remote.storage.enable": "false"})


def test_what_a_broker_has_set_against_the_defaults_hinders_no_change() -> None:
    """Compaction waits for the longer of the two, as at a start."""
    home = home_of_a_broker(made.setting("max.compaction.lag.ms", "1000", "t"))
    home.defaults = replace(home.defaults, min_compaction_lag_ms=5000)
    with home.open() as manager:
        manager.alter_topic("t", {"retention.ms": "9"})
        assert retention_of(manager) == (9, False)
