"""Truncation of a compacted log: what is written again is dirty again."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome, fill

from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.readonly.read_only_log import open_read_only
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

KEY = ("t", 0)
COMPACT = {"cleanup.policy": "compact", "internal.segment.bytes": "200"}
CLEANER = pytest.mark.parametrize("cleaner", [False, True])
LINES = "cleaner-offset-checkpoint"


def append(manager: LogService, *records: tuple[bytes, bytes | None]) -> None:
    """Append records of key and value, and start a new segment after them."""
    now_ms = manager.machine.clock.now_ms()
    partition = manager.partition(*KEY)
    for key, value in records:
        partition.append_records([(now_ms, key, value, ())])
    partition.log.roll()


def opened(home: ManagerHome, *, cleaner: bool) -> LogService:
    """Open the directory; a cleaner that works in background begins after an hour."""
    backoff_ms = 3_600_000
    return home.open(log_cleaner_enable=cleaner, log_cleaner_backoff_ms=backoff_ms)


@CLEANER
def test_a_key_deleted_after_a_truncation_does_not_come_back(cleaner: bool) -> None:
    """Its tombstone supersedes what lies below the truncation, so it counts as dirty."""
    home = ManagerHome(internal_segment_bytes=100_000, delete_retention_ms=1_000)
    with opened(home, cleaner=cleaner) as manager:
        manager.create_topic("t", 1, {"cleanup.policy": "compact"})
        append(manager, (b"k", b"old"))
        append(manager, (b"x", b"1"), (b"y", b"1"), (b"z", b"1"))
        manager.on_demand.compact("t")

        manager.truncation.truncate_to({KEY: 1})
        append(manager, (b"k", None), *((b"%d" % number, b"1") for number in range(5)))
        manager.on_demand.compact("t")
        home.clock.advance(2_000)
        append(manager, (b"w", b"1"))
        manager.on_demand.compact("t")

        records = manager.partition(*KEY).log.records()
        assert b"k" not in [record.key for record in records]


@CLEANER
@pytest.mark.parametrize("policy", ["compact", "delete"])
@pytest.mark.parametrize("starts_anew", [False, True])
def test_truncation_lowers_the_line_to_the_active_segment(
    cleaner: bool, policy: str, starts_anew: bool
) -> None:
    """Of a log that is not compacted at present, too: it may be again."""
    home = ManagerHome()
    with opened(home, cleaner=cleaner) as manager:
        manager.create_topic("t", 1, COMPACT)
        fill(manager, "t", 0, 9)
        manager.on_demand.compact("t")
        manager.alter_topic("t", {"cleanup.policy": policy})
        before = int(home.lines(LINES)[0].rpartition(" ")[2])

        if starts_anew:
            manager.truncation.truncate_fully_and_start_at(TopicPartition("t", 0), 4)
        else:
            manager.truncation.truncate_to({KEY: 4})

        base = manager.partition(*KEY).log.segments.active.base_offset
        assert base <= 4 < before
        assert home.lines(LINES) == [f"t 0 {base}"]


@CLEANER
def test_a_truncation_that_stops_half_way_has_lowered_the_line(cleaner: bool) -> None:
    """The log is opened again with what is left; the first record it takes is dirty."""
    home = ManagerHome()
    with opened(home, cleaner=cleaner) as manager:
        manager.create_topic("t", 1, COMPACT)
        fill(manager, "t", 0, 9)
        manager.on_demand.compact("t")
        home.fs.fail("truncate", ".index", OSError(errno.ENOSPC, "full"))

        with pytest.raises(KafkaStorageError):
            manager.truncation.truncate_to({KEY: 4})
        assert manager._reopener.reopen_all() == 1

        assert int(home.lines(LINES)[0].rpartition(" ")[2]) <= 4


@CLEANER
def test_the_line_of_a_deleted_log_goes(cleaner: bool) -> None:
    """The line of another log stays as it is, lowered by a truncation; a new log begins dirty."""
    home = ManagerHome()
    with opened(home, cleaner=cleaner) as manager:
        for name in ("other", "t"):
            manager.create_topic(name, 1, COMPACT)
            fill(manager, name, 0, 9)
        manager.on_demand.compact()
    with opened(home, cleaner=cleaner) as manager:
        manager.truncation.truncate_to({("other", 0): 0})
        manager.delete_topic("t")
        left = home.lines(LINES)
        manager.create_topic("t", 1, COMPACT)
        fill(manager, "t", 0, 9)

        assert left == ["other 0 0"]
        assert manager.on_demand.compact("t")[KEY].to_clean.offsets.first_dirty_offset == 0


@CLEANER
def test_the_line_of_a_log_that_moves_follows_it(cleaner: bool) -> None:
    """One that stayed behind would count again if the log came back, truncated meanwhile."""
    home = ManagerHome("/a", "/b")
    with opened(home, cleaner=cleaner) as manager:
        manager.create_topic("t", 1, COMPACT)
        fill(manager, "t", 0, 9)
        manager.on_demand.compact()
        source = manager.partition(*KEY).log.directory.rpartition("/")[0]
        target = "/b" if source == "/a" else "/a"
        before = home.lines(LINES, source)

        manager.move_partition("t", 0, target)
        home.clock.advance(1_000)

        assert manager.partition(*KEY).log.directory.startswith(target)
        assert (home.lines(LINES, source), home.lines(LINES, target)) == ([], before)


def test_a_truncation_that_is_refused_leaves_a_line_that_is_valid() -> None:
    """Offsets are never negative."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 1, COMPACT)
        fill(manager, "t", 0, 9)
        manager.on_demand.compact("t")

        with pytest.raises(InvalidArgument):
            manager.truncation.truncate_to({KEY: -1})

        assert home.lines(LINES) == ["t 0 0"]


def test_a_truncation_during_a_compaction_of_all_logs_counts() -> None:
    """A log whose turn has yet to come is cleaned from where the truncation left it."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", 1, COMPACT)
        manager.create_topic("a", 1, COMPACT)
        for name in ("a", "t"):
            fill(manager, name, 0, 9)
        manager.on_demand.compact()
        fill(manager, "a", 0, 9)

        def truncate(_: object) -> None:
            if manager.partition(*KEY).log.log_end_offset == 9:
                manager.truncation.truncate_to({KEY: 4})
                fill(manager, "t", 0, 6)

        manager.on_demand.on_progress = truncate
        done = manager.on_demand.compact()

        assert list(done) == [("a", 0), KEY]
        assert done[KEY].to_clean.offsets.first_dirty_offset <= 4


@pytest.mark.parametrize("offset", [2, 5])
def test_what_readers_saw_is_followed_by_another_leader_epoch(offset: int) -> None:
    """It is that of the records which get its offsets; a truncation of nothing begins none."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 5)
        manager.truncation.truncate_to({KEY: offset})
        epochs = manager.partition(*KEY).log.epochs.entries
    assert [one.start_offset for one in epochs] == [0, *({offset} - {5})]


def test_epochs_that_others_give_are_left_to_them() -> None:
    """A follower's are those of its leader, of whatever it drops."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 5)
        manager.partition(*KEY).follow(3)
        manager.truncation.truncate_to({KEY: 2})
        assert [one.epoch for one in manager.partition(*KEY).log.epochs.entries] == [0]


def test_a_truncation_that_cannot_lower_the_start_in_its_file_is_refused() -> None:
    """With the old start in there, the next one would delete what was appended below it since."""
    home = ManagerHome(retention_ms=-1)
    manager = home.open()
    manager.create_topic("t")
    fill(manager, "t", 0, 10)
    manager.partition(*KEY).log.flush()
    manager.on_demand.delete_records(TopicPartition(*KEY), 8)
    manager.on_demand.keep_deleted([TopicPartition(*KEY)])
    home.fs.fail("rename", "log-start-offset-checkpoint", OSError(errno.ENOSPC, "full"))

    with pytest.raises(KafkaStorageError):
        manager.truncation.truncate_to({KEY: 1})
    fill(manager, "t", 0, 3)
    manager.partition(*KEY).log.flush()
    home.restart()

    with home.open() as manager:
        log = manager.partition(*KEY).log
        assert (log.log_start_offset, log.log_end_offset) == (8, 13)


def test_readers_beside_miss_nothing_while_a_log_is_truncated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records that are cut, and below the high watermark in the file, would be reported as lost."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    for _ in range(6):
        append(manager, (b"k", b"v"))
    manager.flush()
    rename, seen = home.fs.rename, []

    def rename_and_look(source: str, target: str) -> None:
        rename(source, target)
        if target.endswith(".log.deleted"):
            with open_read_only("/data/t-0", fs=home.fs) as log:
                seen.append([record.offset for record in log.records()])

    monkeypatch.setattr(home.fs, "rename", rename_and_look)
    manager.truncation.truncate_to({KEY: 2})

    assert seen == [[0, 1]] * 4
