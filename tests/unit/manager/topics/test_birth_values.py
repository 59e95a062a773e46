"""What decides about deletion and compaction of a topic is kept as it held at its creation."""

from __future__ import annotations

import json
from dataclasses import replace
from errno import ENOSPC
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome, values

from tidelog.codec.compression import Codec
from tidelog.config.log_config import LogConfig
from tidelog.config.sources import broker_config
from tidelog.datadir.birth import BIRTH_SETTINGS, birth_values
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.embedded.logs import Logs
from tidelog.errors import CommitUnfinished, InvalidConfig

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

CATALOGUE = "/data/tidelog.topics.json"
DAY_MS = 86_400_000


def opened(
    home: ManagerHome, *, overrides: dict[str, str] | None = None, **given: str
) -> LogService:
    """Open a home as a program does that gives these settings, with underscores for dots."""
    properties = {name.replace("_", "."): text for name, text in given.items()}
    config = replace(broker_config(properties, home.paths), log_cleaner_enable=False)
    return home.open(
        how={"overrides": overrides or {}},
        log_defaults=config.log_defaults,
        given=config.given,
    )


def entry_of(home: ManagerHome) -> dict[str, Any]:
    """Return the first topic in the file of the catalogue."""
    entry: dict[str, Any] = json.loads(home.fs.read(CATALOGUE))["topics"][0]
    return entry


def older(home: ManagerHome) -> None:
    """Make the catalogue one of the release before birth values."""
    content = json.loads(home.fs.read(CATALOGUE))
    for entry in content["topics"]:
        del entry["birth"]
    home.fs.write(CATALOGUE, json.dumps({**content, "version": 1}).encode())


def test_birth_values_are_what_held_in_the_process_that_created_the_topic() -> None:
    """All of them are stored, those that are defaults and those that the topic sets itself too."""
    home = ManagerHome()
    with opened(home, retention_ms="5", segment_ms="7") as manager:
        manager.create_topic("t", config={"retention.ms": "9"})

    assert entry_of(home)["config"] == {"retention.ms": "9"}
    assert entry_of(home)["birth"].keys() == BIRTH_SETTINGS
    assert entry_of(home)["birth"]["retention.ms"] == "5"
    assert entry_of(home)["birth"]["segment.ms"] == "7"
    assert entry_of(home)["birth"]["cleanup.policy"] == "delete"


@pytest.mark.parametrize("name", sorted(BIRTH_SETTINGS - {"remote.log.delete.on.disable"}))
def test_a_later_opener_does_not_change_what_a_topic_was_born_with(name: str) -> None:
    """Whatever decides about deletion and compaction stays; the rest follows the opener."""
    other = {"cleanup.policy": "compact"}.get(name, "123456")
    home = ManagerHome()
    with opened(home) as manager:
        manager.create_topic("t")
        before = manager.config_of("t")

    given: dict[str, Any] = {name.replace(".", "_"): other, "flush_messages": "8"}
    with opened(home, **given) as manager:
        after = manager.config_of("t")

    assert after == replace(before, flush_messages=8)


def test_an_override_of_this_run_goes_before_the_topics_own_and_that_before_birth() -> None:
    """Rank: override, own, birth, opener."""
    home = ManagerHome()
    with opened(home, retention_ms="4") as manager:
        manager.create_topic("t")
        manager.create_topic("own", config={"retention.ms": "3"})
    found = []
    for overrides in ({}, {"retention.ms": "2"}):
        with opened(home, overrides=overrides, retention_ms="1") as manager:
            found.append([manager.config_of(name).retention_ms for name in ("t", "own")])

    assert found == [[4, 3], [2, 2]]


def test_a_topics_own_setting_that_is_dropped_returns_to_its_birth_value() -> None:
    """Not to what the process brings that drops it."""
    home = ManagerHome()
    with opened(home, retention_ms="4") as manager:
        manager.create_topic("t", config={"retention.ms": "3"})
    with opened(home, retention_ms="1") as manager:
        manager.alter_topic("t", {}, ["retention.ms"])

        assert manager.config_of("t").retention_ms == 4
        assert manager.partition("t", 0).log.config.retention_ms == 4


def test_a_birth_value_that_is_dropped_leaves_the_decision_to_the_opener() -> None:
    """The open log follows at once; other birth values stay."""
    home = ManagerHome()
    with opened(home, retention_ms="4", cleanup_policy="compact") as manager:
        manager.create_topic("t")
    with opened(home, retention_ms="1") as manager:
        manager.alter_topic("t", {}, follow=["retention.ms"])
        config = manager.partition("t", 0).log.config

        assert (config.retention_ms, config.cleanup_policy) == (1, ("compact",))
    assert "retention.ms" not in entry_of(home)["birth"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("flush.messages", "topic t has no birth value of it"),
        ("no.such.setting", "unknown"),
        ("retention.ms", "topic t has no birth value of it"),
    ],
)
def test_only_a_birth_value_can_be_dropped(name: str, why: str) -> None:
    """Of any other setting the opener decides already."""
    home = ManagerHome()
    with opened(home) as manager:
        manager.create_topic("t")
        manager.alter_topic("t", {}, follow=["retention.ms"])
        with pytest.raises(InvalidConfig, match=f"{name}: {why}"):
            manager.alter_topic("t", {}, follow=[name])


def test_topics_of_older_catalogues_keep_their_records(caplog: pytest.LogCaptureFixture) -> None:
    """How long to keep them is not known, so whatever a program gives deletes nothing of them."""
    home = ManagerHome()
    with opened(home) as manager:
        manager.create_topic("t")
    older(home)
    with opened(home, retention_ms="5", delete_retention_ms="6") as manager:
        config = manager.config_of("t")

    assert (config.retention_ms, config.delete_retention_ms) == (-1, 6)
    assert "topic=t kept=retention.ms=-1, not 5" in caplog.text


def test_the_file_of_a_service_may_name_the_retention_of_older_topics() -> None:
    """The operator has written it down; a change of it counts, and it is not stored."""
    home = ManagerHome()
    with opened(home) as manager:
        manager.create_topic("t")
    older(home)
    found = []
    for value in (5, 6):
        defaults = LogConfig(retention_ms=value)
        with home.open(log_defaults=defaults, is_retention_in_file=True) as manager:
            found.append(manager.config_of("t").retention_ms)
            changed = home.config(log_defaults=replace(defaults, retention_ms=value + 10))
            manager.update_config(replace(changed, is_retention_in_file=True))
            found.append(manager.config_of("t").retention_ms)
            manager.create_topic(f"u{value}")  # which writes the catalogue

    topics = json.loads(home.fs.read(CATALOGUE))["topics"]
    assert found == [5, 15, 6, 16]
    assert ["birth" in entry for entry in topics] == [False, True, True]


def test_an_opener_whose_setting_does_not_count_is_told_once_per_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Only of settings that it gave and that differ; not where the topic has one of its own."""
    home = ManagerHome()
    with opened(home, retention_ms="4") as manager:
        for name in ("a", "b"):
            manager.create_topic(name)
        manager.create_topic("own", config={"retention.ms": "3"})
    with opened(home), opened(ManagerHome(), retention_ms="4"):
        assert "topic-settings-of-birth" not in caplog.text
    with opened(home, retention_ms="4"):
        assert "topic-settings-of-birth" not in caplog.text

    with opened(home, retention_ms="1", cleanup_policy="delete"):
        told = [text for text in caplog.messages if text.startswith("topic-settings-of-birth")]

    assert told == [
        f"topic-settings-of-birth topic={name} kept=retention.ms=4, not 1" for name in ("a", "b")
    ]


def test_a_setting_that_contradicts_a_birth_value_is_refused() -> None:
    """As one that contradicts another of the topic's own."""
    home = ManagerHome()
    with opened(home, min_compaction_lag_ms=str(DAY_MS)) as manager:
        manager.create_topic("t")
        with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms"):
            manager.alter_topic("t", {"max.compaction.lag.ms": "5"})


def test_birth_values_of_a_request_are_those_of_the_process_that_asks() -> None:
    """The service has other defaults, which do not count."""
    home = ManagerHome()
    asker = birth_values(LogConfig(cleanup_policy=("compact",)))
    with opened(home, retention_ms="5") as manager:
        manager.create_topic("t", birth=asker)
        config = manager.config_of("t")

    assert (config.retention_ms, config.cleanup_policy) == (-1, ("compact",))


def test_birth_values_that_are_not_settings_are_refused() -> None:
    """They come out of files that anybody may have written."""
    home = ManagerHome()
    with opened(home) as manager:
        for birth in ({"retention.ms": "long"}, {"retention": "5"}):
            with pytest.raises(InvalidConfig):
                manager.create_topic("t", birth=birth)

        assert manager.topics() == {}


def test_a_commit_checks_records_by_what_their_new_topic_was_born_with() -> None:
    """Not by what the process brings that commits: here it would need keys."""
    home = ManagerHome()
    with opened(home, cleanup_policy="compact") as manager:
        with BusyDirectory("/data", machine=home.machine()).transaction(
            "x", codec=Codec.NONE
        ) as txn:
            txn.create_topic("t")
            txn.append("t", b"without a key")

        assert values(manager, "t", 0) == [b"without a key"]
        assert manager.config_of("t").cleanup_policy == ("delete",)


def test_a_topic_of_an_older_journal_keeps_its_records() -> None:
    """It does not say what held where the topic was asked for; who finishes it does not decide."""
    home = ManagerHome()
    txn = Logs(opened(home)).transaction("x")
    txn.create_topic("t")
    home.fs.fail("rename", CATALOGUE, OSError(ENOSPC, "no space"))
    with pytest.raises(CommitUnfinished):
        txn.commit()
    home.restart()
    [name] = [name for name in home.fs.list("/data") if name.endswith(".intent")]
    content = json.loads(home.fs.read(f"/data/{name}"))
    del content["topics"][0]["birth"]
    home.fs.write(f"/data/{name}", json.dumps({**content, "version": 3}).encode())

    with opened(home, retention_ms="5", delete_retention_ms="6") as manager:
        config = manager.config_of("t")

    assert (config.retention_ms, config.delete_retention_ms) == (-1, 6)
