"""Settings that change while logs are open."""

from __future__ import annotations

from dataclasses import replace
from errno import EIO, EMFILE
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, fill, values

from tidelog.errors import (
    InconsistentTopicId,
    InvalidConfig,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.manager.log_manager import LogManager
from tidelog.manager.on_demand import Terms

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_topics_new_settings_reach_its_open_logs() -> None:
    """And only its own.

    Scenario: LogManagerTest.testTopicConfigChangeUpdatesLogConfig,
    LogManagerTest.testConfigChangeGetsCleanedUp,
    LogManagerTest.testConfigChangesWithNoLogGettingInitialized
    """
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2)
        manager.create_topic("u")
        manager.alter_topic("t", {"retention.ms": "7"})
        found = {one.log.config.retention_ms for one in manager.partitions("t")}

        assert found == {7}
        assert manager.partition("u", 0).log.config.retention_ms == home.defaults.retention_ms


def test_a_topics_settings_outlive_the_process() -> None:
    """They stand in the catalogue of every directory, the latest revision of them."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, {"segment.ms": "5"})
        manager.alter_topic("t", {"retention.ms": "7"}, unset=["segment.ms"])
    older = home.fs.read("/a/tidelog.topics.json").replace(b'"revision": 1', b'"revision": 0')
    home.fs.write("/a/tidelog.topics.json", older.replace(b'"7"', b'"8"'))
    with home.open() as manager:
        assert manager.topic("t").config == {"retention.ms": "7"}


def test_bad_settings_change_nothing() -> None:
    """One error names each."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        with pytest.raises(InvalidConfig) as caught:
            manager.alter_topic("t", {"retention.years": "1", "segment.ms": "0"})
        with pytest.raises(InvalidConfig):
            manager.alter_topic("t", {}, unset=["segment.ms"])
        with pytest.raises(InvalidConfig, match="5 is not text"):
            manager.alter_topic("t", {"retention.ms": 5})  # type: ignore[dict-item]  # on purpose
        with pytest.raises(UnknownTopicOrPartition):
            manager.alter_topic("u", {})

        assert (len(caught.value.problems), manager.topic("t").config) == (2, {})


def test_what_cannot_be_archived_is_refused() -> None:
    """A topic of Kafka's own, a compacted one, and local limits above those of the whole log."""
    home = ManagerHome()
    archived = {"remote.storage.enable": " True "}
    with home.open() as manager:
        for name, settings, reason in (
            ("__share_group_state", {}, "a topic of Kafka's own is not archived"),
            ("t", {"cleanup.policy": "compact"}, "a compacted log cannot be archived"),
            ("t", {"local.retention.ms": "-1"}, "all is more than retention.ms, 600000"),
            (
                "t",
                {"retention.bytes": "5", "local.retention.bytes": "6"},
                "6 bytes is more than retention.bytes, 5",
            ),
        ):
            with pytest.raises(InvalidConfig, match=reason):
                manager.create_topic(name, 1, {**archived, **settings})
        assert not manager.topics()
        manager.create_topic("t", 1, {**archived, "local.retention.ms": "1"})
        with pytest.raises(InvalidConfig, match="a compacted log cannot be archived"):
            manager.alter_topic("t", {"cleanup.policy": "compact"})


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_what_is_archived_is_compacted_by_no_override(policy: str) -> None:
    """It would lose records that are not archived yet, and have others than its archive."""
    home = ManagerHome()
    with home.open(how={"overrides": {"cleanup.policy": policy}}) as manager:
        manager.create_topic("t", 1, {"remote.storage.enable": "true"})
        manager.create_topic("u", 1)
        opened = [manager.partition(name, 0).log.config for name in ("t", "u")]
        asked = manager.on_demand.config_with("t", Terms(overrides={"cleanup.policy": policy}))

    assert [config.is_compacted for config in (*opened, asked)] == [False, True, False]
    assert opened[0].is_archived
    assert asked.is_archived


def test_what_is_archived_stays_so_under_every_override() -> None:
    """Else retention deletes what is not archived, after what only the archive has."""
    home = ManagerHome()
    override = {"remote.storage.enable": "false"}
    with home.open(how={"overrides": override}) as manager:
        manager.create_topic("t", 1, {"remote.storage.enable": "true"})
        manager.create_topic("u", 1)
        opened = [manager.partition(name, 0).log.config.is_archived for name in ("t", "u")]
        asked = manager.on_demand.config_with("t", Terms(overrides=override)).is_archived

    assert (opened, asked) == ([True, False], True)


def test_a_topic_of_kafkas_own_keeps_its_policy() -> None:
    """Another one would delete what groups and transactions are at; its own may be named."""
    home = ManagerHome()
    with home.open() as manager:
        with pytest.raises(InvalidConfig, match="'compact,delete' would delete"):
            manager.create_topic("__consumer_offsets", 1, {"cleanup.policy": "compact,delete"})
        manager.create_topic("__consumer_offsets", 1)
        manager.alter_topic("__consumer_offsets", {"cleanup.policy": "compact"})
        with pytest.raises(InvalidConfig, match="'delete' would delete"):
            manager.alter_topic("__consumer_offsets", {"cleanup.policy": "delete"})
        with pytest.raises(InvalidConfig, match="is not archived"):
            manager.alter_topic("__consumer_offsets", {"remote.storage.enable": "true"})


def test_an_archive_is_not_given_up_unless_it_is_deleted() -> None:
    """It may hold records that are no longer here, so the setting alone is refused, as in Kafka."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 1, {"remote.storage.enable": "true"})
        reason = "set remote.log.copy.disable=true to copy no more, or remote.log.delete.on.disable"
        with pytest.raises(InvalidConfig, match=reason):
            manager.alter_topic("t", {"remote.storage.enable": "false"})
        with pytest.raises(InvalidConfig, match=reason):
            manager.alter_topic("t", {}, unset=["remote.storage.enable"])
        manager.alter_topic("t", {"remote.log.copy.disable": "true"})
        deletes = {"remote.log.delete.on.disable": "true"}
        manager.alter_topic("t", {"remote.storage.enable": "false", **deletes})


def test_the_brokers_new_defaults_reach_every_log() -> None:
    """Except where a topic has settings of its own.

    Scenario: LogManagerTest.testBrokerConfigChangeDeliveredToAllLogs
    """
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 2)
        manager.create_topic("u", 1, {"flush.messages": "3"})
        home.defaults = home.defaults.with_overrides({"flush.messages": "9"})
        manager.update_config(home.config())
        found = [log.config.flush_messages for log in manager.all_logs()]

        assert sorted(found) == [3, 9, 9]


def test_a_log_that_is_no_longer_compacted_is_cleaned_no_more() -> None:
    """What is under way is stopped.

    Scenario: LogManagerTest.testTopicConfigChangeStopCleaningIfCompactIsRemoved
    """
    home = ManagerHome(min_cleanable_dirty_ratio=0.0)
    with home.open(log_cleaner_enable=True) as manager:
        manager.create_topic("t", 1, {"cleanup.policy": "compact"})
        fill(manager, "t", 0, 50)
        manager.alter_topic("t", {"cleanup.policy": "delete", "retention.ms": "-1"})
        home.clock.advance(60_000)

        assert len(list(manager.partition("t", 0).log.records())) == 50


def test_the_pool_is_resized_for_the_next_time() -> None:
    """Loading and closing take the new number of threads."""
    home = ManagerHome()
    with home.open() as manager:
        manager.update_config(home.config(num_recovery_threads_per_data_dir=5))

        assert manager.recovery_threads == 5


def test_overrides_go_before_a_topics_own_settings() -> None:
    """Until the process ends."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 1, {"retention.ms": "3"})
    with home.open(how={"overrides": {"retention.ms": "4"}}) as manager:
        during = manager.partition("t", 0).log.config.retention_ms
    with home.open() as manager:
        after = manager.partition("t", 0).log.config.retention_ms

    assert (during, after) == (4, 3)


def test_new_settings_let_the_cleaner_try_a_failed_log_at_once() -> None:
    """A log whose settings changed does not wait for the back-off; other logs still wait."""
    home = ManagerHome(cleanup_policy=("compact",))
    with home.open(log_cleaner_enable=True) as manager:
        cleaner = manager.cleaning.cleaner
        assert cleaner is not None
        for topic in ("t", "u"):
            manager.create_topic(topic)
            cleaner.manager.mark_uncleanable((topic, 0), ValueError("bad"), home.clock.now_ms())

        manager.alter_topic("t", {"min.cleanable.dirty.ratio": "0.1"})

        now_ms = home.clock.now_ms()
        failures = cleaner.manager.failures()
        assert [failures[topic, 0].is_due(now_ms) for topic in ("t", "u")] == [True, False]


def alter(manager: LogManager) -> None:
    """Change a setting."""
    manager.alter_topic("t", {"retention.ms": "5"})


@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize(
    "change",
    [
        lambda manager: manager.create_topic("new"),
        lambda manager: manager.delete_topic("t"),
        lambda manager: manager.create_partitions("t", 3),
        alter,
    ],
)
def test_a_change_whose_name_could_not_be_synced_did_not_happen(
    change: Callable[[LogManager], object], failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the next start find it: a topic that was not deleted takes appends meanwhile.

    What could not be put back at once is with the next change.
    """
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    before = manager.topics()
    fail_sync(home, monkeypatch, unrestored=failures - 1)
    with pytest.raises(KafkaStorageError):
        change(manager)
    assert (manager.topics(), manager.live_dirs) == (before, ["/data"])
    if failures > 1:
        manager.create_topic("other")
        manager.delete_topic("other")
    home.restart()

    with home.open() as manager:
        assert manager.topics() == before


@pytest.mark.parametrize("later", ["a pass", "the end"])
def test_a_refused_deletion_that_was_not_undone_is_undone_later(
    later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next pass of retention, or at the end: no start deletes what was appended since."""
    home = ManagerHome("/a", "/b")
    manager = home.open()
    manager.create_topic("t", path="/a")
    fail_sync(home, monkeypatch, unrestored=1)
    with pytest.raises(KafkaStorageError):
        manager.delete_topic("t")
    fill(manager, "t", 0, 3)
    if later == "a pass":
        manager.tasks.cleanup_logs()
        home.restart()
    else:
        manager.shutdown()
        home.scheduler.forget()

    with home.open() as manager:
        assert values(manager, "t", 0) == [b"value 0", b"value 1", b"value 2"]


def test_a_catalogue_that_was_not_put_back_twice_is_put_back_by_the_third_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though nothing is known of what stands in the directory."""
    home = ManagerHome("/a", "/b")
    manager = home.open()
    manager.create_topic("t", path="/a")
    for _ in range(2):
        fail_sync(home, monkeypatch, unrestored=1)
        with pytest.raises(KafkaStorageError):
            manager.delete_topic("t")
    home.fs.fail("open", "/b/tidelog.topics.json.tmp", OSError(EMFILE, "too many open files"))
    with pytest.raises(KafkaStorageError):
        manager.create_topic("new")
    home.restart()

    with home.open() as manager:
        assert list(manager.topics()) == ["t"]


def test_a_directory_that_fails_while_a_change_is_undone_goes_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its catalogue may say what was refused, and a later start would go by it."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", path="/a")
        home.fs.fail("open", "/b/tidelog.topics.json.tmp", OSError(EMFILE, "too many open files"))
        rename = home.fs.rename

        def renamed(source: str, target: str) -> None:
            rename(source, target)
            monkeypatch.undo()
            home.fs.fail("open", "/a/tidelog.topics.json.tmp", OSError(EIO, "bad disk"))

        monkeypatch.setattr(home.fs, "rename", renamed)
        with pytest.raises(KafkaStorageError):
            manager.delete_topic("t")

        assert manager.live_dirs == ["/b"]


def fail_sync(home: ManagerHome, monkeypatch: pytest.MonkeyPatch, *, unrestored: int) -> None:
    """Let the next catalogue be in place but not synced, and let attempts to undo that fail."""
    rename = home.fs.rename

    def renamed(source: str, target: str) -> None:
        rename(source, target)
        if target.endswith("tidelog.topics.json"):
            monkeypatch.undo()
            parent = target.rpartition("/")[0]
            home.fs.fail("sync_directory", parent, OSError(EMFILE, "too many open files"))
            home.fs.fail("open", "topics.json.tmp", OSError(EMFILE, "too many"), unrestored)

    monkeypatch.setattr(home.fs, "rename", renamed)


def command(home: ManagerHome, path: str) -> LogManager:
    """Open one of the directories alone."""
    config = replace(home.config(), log_dirs=(path,))
    return LogManager(config, home.machine())


@pytest.mark.parametrize("path", ["/a", "/b"])
@pytest.mark.parametrize("changes", [0, 2])
def test_a_topic_made_again_in_its_directory_keeps_its_records(path: str, changes: int) -> None:
    """The other catalogue still has the old one, even as a later revision."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", path=path)
        for number in range(changes):
            manager.alter_topic("t", {"retention.ms": str(10**12 + number)})
    with command(home, path) as manager:
        manager.delete_topic("t")
    with command(home, path) as manager:
        topic = manager.create_topic("t")
        fill(manager, "t", 0, 3)
    with home.open() as manager:
        assert manager.topics() == {"t": topic}
        assert len(values(manager, "t", 0)) == 3
    assert [name for name in home.files(path) if name.startswith("t-0")] == ["t-0"]


@pytest.mark.parametrize("loading", Loading)
@pytest.mark.parametrize("kept", ["/a", "/b"])
def test_of_two_topics_of_one_name_none_becomes_a_stray(loading: Loading, kept: str) -> None:
    """The copy of a disk may be older, and its topic a later revision: the user decides.

    The one whose partitions stay is the topic then, whichever revision it is.
    """
    home = ManagerHome("/a", "/b")
    with home.open():
        pass
    for path, changes in (("/a", 0), ("/b", 3)):
        with command(home, path) as manager:
            manager.create_topic("t")
            fill(manager, "t", 0, 3)
            for number in range(changes):
                manager.alter_topic("t", {"retention.ms": str(10**12 + number)})

    with pytest.raises(InconsistentTopicId, match=r"two topics are named t: /a/t-0 has .* /b/t-0"):
        home.open_as(loading)

    for path in home.paths:
        assert [name for name in home.files(path) if name.startswith("t-0")] == ["t-0"]
    (gone,) = set(home.paths) - {kept}
    home.fs.rename(f"{gone}/t-0", "/aside")
    with home.open_as(loading) as manager:
        assert len(values(manager, "t", 0)) == 3
        assert manager.partition("t", 0).log.data_dir == kept


@pytest.mark.parametrize("path", ["/a", "/b"])
@pytest.mark.parametrize("loading", Loading)
def test_a_topic_deleted_in_its_directory_does_not_come_back(path: str, loading: Loading) -> None:
    """The directories that were not open at that time follow."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", path=path)
    with command(home, path) as manager:
        manager.delete_topic("t")
    with home.open_as(loading) as manager:
        assert manager.topics() == {}
        manager.create_topic("u")
    for each in home.paths:
        with command(home, each) as manager:
            assert list(manager.topics()) == ["u"]


def test_a_directory_that_lost_its_catalogue_gets_its_topics_from_another() -> None:
    """With their settings, also where no partition of it is left there."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 1, {"retention.ms": "7"}, path="/b")
        before = manager.topics()
    home.fs.delete("/b/tidelog.topics.json")
    with home.open() as manager:
        assert manager.topics() == before


def test_a_topic_whose_log_is_there_is_kept_with_its_settings() -> None:
    """A crash may keep its own directory from naming it."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("other", path="/b")
        catalogue = home.fs.read("/b/tidelog.topics.json")
        manager.create_topic("t", 1, {"retention.ms": "7"}, path="/b")
        before = manager.topics()
    home.fs.write("/b/tidelog.topics.json", catalogue)
    with home.open() as manager:
        assert manager.topics() == before


def test_two_logs_that_commands_made_of_one_partition_stop_the_start() -> None:
    """Neither catalogue names the other place, and both logs have records: none is deleted."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t", 2, is_spread=True)
    for path in home.paths:
        with command(home, path) as manager:
            manager.create_partitions("t", 3)
            fill(manager, "t", 2, 1)

    with pytest.raises(KafkaStorageError, match="t-2 lies both in /a and in /b"):
        home.open()
    assert ["t-2" in home.files(path) for path in home.paths] == [True, True]
