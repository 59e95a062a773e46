"""Retention and compaction that somebody asks for."""

from __future__ import annotations

import errno
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.machinery.held_lock import HeldLock
from tests.machinery.manager_home import MAX_AGE_MS, Loading, ManagerHome, fill, values

from tidelog.cleaner.states import Event
from tidelog.embedded.logs import Logs
from tidelog.errors import (
    CleaningAborted,
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.segment.filenames import TopicPartition
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.cleaner.compaction import CompactionProgress
    from tidelog.manager.log_manager import LogManager

HOWS = pytest.mark.parametrize(
    ("loading", "cleaner"), [(Loading.ALL, False), (Loading.ALL, True), (Loading.FIRST_USE, False)]
)
COMPACT = {"cleanup.policy": "compact", "internal.segment.bytes": "200"}


def opened(
    home: ManagerHome, loading: Loading = Loading.ALL, *, cleaner: bool = False
) -> LogManager:
    return home.open_as(loading, log_cleaner_enable=cleaner)


@HOWS
def test_retention_deletes_what_has_expired_and_returns_it(loading: Loading, cleaner: bool) -> None:
    """Of all topics, of one, or of one partition; what was deleted is known by log."""
    home = ManagerHome(file_delete_delay_ms=0)
    with opened(home, loading, cleaner=cleaner) as manager:
        for name in ("t", "u"):
            manager.create_topic(name, 2, {"internal.segment.bytes": "100"})
            for number in (0, 1):
                fill(manager, name, number, 3)
        assert manager.on_demand.retain() == {(name, n): [] for name in ("t", "u") for n in (0, 1)}
        expire(manager)

        one = manager.on_demand.retain(("t", 1))
        topic = manager.on_demand.retain("t")
        rest = manager.on_demand.retain()

    assert list(one) == [("t", 1)]
    assert len(one["t", 1]) == 3
    assert [len(found) for found in topic.values()] == [3, 0]
    assert {key: len(found) for key, found in rest.items() if found} == {("u", 0): 3, ("u", 1): 3}


def expire(manager: LogManager) -> None:
    """Let all records be too old, without time passing."""
    for name in manager.topics():
        manager.alter_topic(name, {"retention.bytes": "0"})


@HOWS
def test_compaction_cleans_and_returns_what_it_did(loading: Loading, cleaner: bool) -> None:
    """However little is dirty; the checkpoint is written, other topics are left alone."""
    home = ManagerHome(file_delete_delay_ms=0)
    with opened(home, loading, cleaner=cleaner) as manager:
        manager.create_topic("t", 1, {**COMPACT, "min.cleanable.dirty.ratio": "1"})
        manager.create_topic("plain")
        fill(manager, "t", 0, 6)
        end = manager.partition("t", 0).log.segments.active.base_offset

        done = manager.on_demand.compact()

        assert (done["t", 0].end_offset, done["t", 0].is_whole) == (end, True)
        assert done["t", 0].freed_bytes > 0
        assert (done["plain", 0].is_compacted, done["plain", 0].stats) == (False, None)
        assert len(values(manager, "t", 0)) < 6
        assert manager.on_demand.compact("t")["t", 0].stats is None
        assert home.lines("cleaner-offset-checkpoint") == [f"t 0 {end}"]


@HOWS
def test_a_topic_that_is_deleted_meanwhile_is_left_out(loading: Loading, cleaner: bool) -> None:
    """Where all logs are cleaned, by another thread; one that was named is an error."""
    home = ManagerHome(file_delete_delay_ms=0)
    with opened(home, loading, cleaner=cleaner) as manager:
        for name in ("t", "u", "v"):
            manager.create_topic(name, 1, COMPACT)
            fill(manager, name, 0, 6)

        def delete(_progress: CompactionProgress) -> None:
            with suppress(UnknownTopicOrPartition):  # it comes more than once
                manager.delete_topic("u")

        manager.on_demand.on_progress = delete
        done = manager.on_demand.compact()

        assert [key for key, facts in done.items() if facts.stats] == [("t", 0), ("v", 0)]
        with pytest.raises(UnknownTopicOrPartition):
            manager.on_demand.compact("t", "u")


def test_a_command_keeps_the_lines_of_other_logs() -> None:
    """The cleaner's checkpoint has lines of logs that this process has not loaded."""
    home = ManagerHome(file_delete_delay_ms=0)
    with opened(home) as manager:
        for name in ("t", "u"):
            manager.create_topic(name, 1, COMPACT)
            fill(manager, name, 0, 6)
        manager.on_demand.compact("u")
    with opened(home, Loading.FIRST_USE) as manager:
        manager.on_demand.compact("t")

    assert [line.split()[0] for line in home.lines("cleaner-offset-checkpoint")] == ["t", "u"]


def test_unknown_settings_are_refused() -> None:
    """A named topic with an unknown policy is an error; among all it is left alone."""
    home = ManagerHome()
    with opened(home) as manager:
        manager.create_topic("t", 1, {"internal.segment.bytes": "100"})
        fill(manager, "t", 0, 3)
    home.fs.delete("/data/tidelog.topics.json")
    with opened(home) as manager:
        home.clock.advance(10 * MAX_AGE_MS)
        for act in (manager.on_demand.retain, manager.on_demand.compact):
            with pytest.raises(InvalidArgument, match=r"cleanup\.policy of t is unknown"):
                act("t")

        assert manager.on_demand.retain() == {("t", 0): []}
        assert not manager.on_demand.compact()["t", 0].is_compacted
        assert len(values(manager, "t", 0)) == 3


def test_what_is_not_there_is_refused() -> None:
    """Before anything is done."""
    home = ManagerHome()
    with opened(home) as manager:
        manager.create_topic("t")
        for chosen in ("none", ("t", 1), ("none", 0)):
            with pytest.raises(UnknownTopicOrPartition):
                manager.on_demand.retain("t", chosen)


def test_a_partition_whose_cleaning_is_paused_is_busy() -> None:
    """As while it is moved or truncated; the error comes after a while."""
    home = ManagerHome()
    with opened(home, cleaner=True) as manager:
        manager.create_topic("t", 1, COMPACT)
        cleaner = manager.cleaning.cleaner
        assert cleaner is not None
        cleaner.manager.abort_and_pause(("t", 0))

        with pytest.raises(CleaningAborted, match="t-0 is busy: its cleaning is paused"):
            manager.on_demand.compact("t")

        cleaner.manager.resume([("t", 0)])
        assert manager.on_demand.compact("t")["t", 0].is_compacted


def test_the_cleaners_checkpoint_is_read_once_for_all_logs() -> None:
    """Else a pass over many logs takes time that grows with their square."""
    home = ManagerHome(file_delete_delay_ms=0)
    with opened(home, Loading.FIRST_USE) as manager:
        manager.create_topic("t", 5, COMPACT)
        for number in range(5):
            fill(manager, "t", number, 9)
        manager.on_demand.compact()
        traced = home.fs.trace()
        manager.on_demand.compact()
        opened_files = [one.path for one in traced if one.name == "open"]

    assert opened_files.count("/data/cleaner-offset-checkpoint") == 1


def test_closing_waits_for_a_compaction_that_another_thread_is_stopping() -> None:
    """Else the locks of the directories would stay, with an error about the cleaning."""
    home = ManagerHome()
    key = TopicPartition("t", 0)
    with opened(home) as manager:
        manager.create_topic("t", 1, COMPACT)
        body = manager.cleaning.exclusive(key)
        body.__enter__()
        manager.cleaning.manager._apply(key, Event.PAUSE)  # what an abort begins with
        ended: list[int] = []

        def end() -> None:
            ended.append(home.clock.now_ms())
            body.__exit__(None, None, None)

        home.scheduler.schedule("end", end, delay_ms=1_000)
        manager.close()

    assert len(ended) == 1
    assert home.is_marked()


@pytest.mark.parametrize("act", ["retain", "compact"])
def test_a_log_that_is_replaced_while_its_turn_is_awaited_is_used_as_it_is_then(
    act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the one before, which is closed: a move or a reopening may come in between."""
    home = ManagerHome()
    with opened(home) as manager:
        manager.create_topic("t", 1, COMPACT)
        fill(manager, "t", 0, 6)
        before, exclusive = manager.partition("t", 0).log, manager.cleaning.exclusive

        @contextmanager
        def reopened_first(key: TopicPartition) -> Iterator[Callable[[], None]]:
            home.fs.fail("truncate", ".index", OSError(errno.ENOSPC, "full"))
            with pytest.raises(KafkaStorageError):
                before.truncate_to(5)
            assert manager._reopener.reopen_all() == 1
            with exclusive(key) as check_done:
                yield check_done

        monkeypatch.setattr(manager.cleaning, "exclusive", reopened_first)

        assert list(getattr(manager.on_demand, act)("t")) == [("t", 0)]
        assert manager.partition("t", 0).log is not before


def test_a_deletion_of_records_keeps_no_deletion_of_the_topic_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a log in exclusive use it waits for nobody who may wait for the end of that use."""
    home = ManagerHome(internal_segment_bytes=200)
    key = TopicPartition("t", 0)
    with opened(home) as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 10)
        exclusive, log = manager.cleaning.exclusive_if_free, manager.partition("t", 0).log
        found_free: list[bool] = []

        def look() -> None:
            with exclusive(key) as is_free:
                found_free.append(is_free)

        @contextmanager
        def stopped_first(asked: TopicPartition) -> Iterator[bool]:
            home.fs.fail("truncate", ".index", OSError(errno.EMFILE, "too many open files"))
            with pytest.raises(KafkaStorageError):
                log.truncate_to(9)
            with exclusive(asked) as is_free:
                yield is_free

        monkeypatch.setattr(manager.cleaning, "exclusive_if_free", stopped_first)
        monkeypatch.setattr(manager._registry, "change_lock", HeldLock.until(look))
        with suppress(KafkaStorageError):  # the log has to be reopened first
            manager.on_demand.delete_records(key, 5)
        monkeypatch.undo()

        assert found_free == []
        assert manager.on_demand.delete_records(key, 5).log_start_offset == 5


def test_a_deletion_of_records_waits_for_no_cleaning_and_no_move() -> None:
    """The records are gone at once, as in Kafka; the next pass of retention frees the space."""
    home = ManagerHome(internal_segment_bytes=200, file_delete_delay_ms=0)
    key = TopicPartition("t", 0)
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, *key, 10)
        began_ms = home.clock.elapsed_ms()
        with manager.cleaning.exclusive(key):
            shrunk = manager.on_demand.delete_records(key, 9)

        assert (shrunk.log_start_offset, shrunk.deleted) == (9, ())
        assert home.clock.elapsed_ms() == began_ms
        manager.tasks.cleanup_logs()
        home.clock.advance(0)
        assert "00000000000000000000.log" not in home.files("/data/t-0")


def test_records_are_deleted_though_there_is_no_room_to_free_their_space() -> None:
    """The start is raised; the next pass of retention frees the space."""
    home = ManagerHome(internal_segment_bytes=200, file_delete_delay_ms=0)
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 10)
        home.fs.fail("rename", "/00000000000000000000.log", OSError(errno.ENOSPC, "full"))

        shrunk = manager.on_demand.delete_records(TopicPartition("t", 0), 9)

        assert (shrunk.log_start_offset, shrunk.deleted) == (9, ())
        manager.tasks.cleanup_logs()
        home.clock.advance(0)
        assert "00000000000000000000.log" not in home.files("/data/t-0")


def test_deleted_segments_do_not_come_back_after_a_power_cut() -> None:
    """Where a log starts with a segment no checkpoint has it, and the deletion has to be durable.

    A topic that is deleted meanwhile is passed over.
    """
    home = ManagerHome(retention_ms=-1, internal_segment_bytes=200)
    with home.open() as manager:
        for topic in ("t", "u"):
            manager.create_topic(topic)
            fill(manager, topic, 0, 10)
        log = manager.partition("t", 0).log
        log.flush()
        start = log.segments.all[1].base_offset
        for topic in ("t", "u"):
            manager.on_demand.delete_records(TopicPartition(topic, 0), start)
        manager.delete_topic("u")
        manager.on_demand.keep_deleted([TopicPartition(topic, 0) for topic in ("t", "u")])
        home.fs.power_cut("none")
        manager.abandon()

    with home.open() as manager:
        assert manager.partition("t", 0).log.log_start_offset == start


def test_deleted_records_do_not_come_back_after_a_power_cut() -> None:
    """Neither those that a program deletes nor those that it asks a service to."""
    home = ManagerHome(retention_ms=-1)
    with home.open() as manager:
        for topic in ("t", "u"):
            manager.create_topic(topic)
            fill(manager, topic, 0, 10)
            manager.partition(topic, 0).log.flush()
        Logs(manager).delete_records("t", 0, 3)
        asked = {"partitions": {"u": [0]}, "before": 4, "settings": {}, "now_ms": None}
        carry_out(Home(manager, home.machine(), "/data"), "delete-records", asked)
        home.fs.power_cut("none")
        manager.abandon()

    with home.open() as manager:
        starts = [manager.partition(topic, 0).log.log_start_offset for topic in ("t", "u")]

    assert starts == [3, 4]


@pytest.mark.parametrize(
    ("operation", "suffix"),
    [("pread", ".log"), ("rename", "/cleaner-offset-checkpoint.tmp")],
)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_compaction_that_the_disk_stops_raises_a_storage_error(
    operation: str, suffix: str, code: int
) -> None:
    """Also while it is examined what to clean, and while it is noted how far that was done."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 1, COMPACT)
        fill(manager, "t", 0, 10)
        home.clock.advance(0)
        home.fs.fail(operation, suffix, OSError(code, "no"))

        with pytest.raises(KafkaStorageError):
            manager.on_demand.compact("t")

        assert manager.live_dirs == ([] if code == errno.EIO else ["/data"])
