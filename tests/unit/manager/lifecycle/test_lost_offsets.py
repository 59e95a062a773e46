"""Records that readers saw and that are lost: reported, never passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome, fill

from tidelog.log.loading.cut_files import CUT_FILE_END, CutFileEnd

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

LOG = "/data/t-0/00000000000000000000.log"


def left(records: int) -> ManagerHome:
    """Leave a topic of ``records`` records behind, flushed and closed."""
    home = ManagerHome(internal_segment_bytes=1 << 20)
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, records)
    return home


def losses(manager: LogService) -> float:
    """Return what the metric says."""
    (value,) = [one.value for one in manager.metrics() if one.name == "PartitionsWithLossCount"]
    return value


def test_a_log_that_ends_below_its_high_watermark_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its end was lost with the disk's last writes, or by hand."""
    home = left(5)
    home.fs.write(LOG, home.fs.read(LOG)[:100])
    with home.open() as manager:
        counted = losses(manager)

    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "log-end-lost directory=/data/t-0 log_end_offset=1 high_watermark=5" in told
    assert counted == 1


@pytest.mark.parametrize(("seen", "counted"), [(5, 1), (0, 0)])
def test_a_log_that_was_emptied_at_a_start_beyond_its_end_has_lost_what_readers_saw(
    seen: int, counted: int
) -> None:
    """It ends at that start then, above what they saw, and none of that is left."""
    home = left(5)
    for name, offset in (("log-start-offset", 1005), ("replication-offset", seen)):
        home.fs.write(f"/data/{name}-checkpoint", b"0\n1\nt 0 %d\n" % offset)
    with home.open() as manager:
        log = manager.partition("t", 0).log

        assert (log.log_start_offset, log.log_end_offset) == (1005, 1005)
        assert losses(manager) == counted
        assert (log.latest_epoch is not None) == bool(counted)


def test_a_log_that_is_gone_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It begins again at offset 0, which readers take for old records."""
    home = left(5)
    for name in home.fs.list("/data/t-0"):
        home.fs.delete(f"/data/t-0/{name}")
    home.fs.delete_directory("/data/t-0")
    with home.open() as manager:
        counted = losses(manager)

    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert told == ["log-lost directory=/data/t-0 high_watermark=5"]
    assert counted == 1


def test_a_log_that_is_whole_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Neither one with records, nor a new one without."""
    home = left(5)
    with home.open() as manager:
        manager.create_topic("new")
        counted = losses(manager)

    assert [one.getMessage() for one in caplog.records if one.levelname == "WARNING"] == []
    assert counted == 0


def test_a_lost_catalogue_is_told_with_what_was_adopted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Topics are known again by their directories, but their settings went with the file."""
    home = left(1)
    home.fs.delete("/data/tidelog.topics.json")
    with home.open() as manager:
        topic_id = manager.topic("t").topic_id

    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    unknown = "unknown=cleanup.policy,retention.ms,retention.bytes"
    assert told == [
        f"topic-adopted directory=/data count=1 {unknown} topic=t",
        f"topic-settings-unknown count=1 {unknown} topic=t",
    ]
    assert topic_id is not None


def test_many_topics_are_told_of_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A broker's directory has thousands; the line has their number and the first names."""
    home = left(1)
    for number in range(10, 30):
        home.fs.make_directory(f"/data/u{number}-0")
        home.fs.write(f"/data/u{number}-0/{0:020}.log", b"")
    with home.open():
        told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]

    names = "u10, u11, u12, u13, u14, u15, u16, u17, and 12 more"
    unknown = "unknown=cleanup.policy,retention.ms,retention.bytes"
    assert told == [
        f"topic-adopted directory=/data count=20 {unknown} topic={names}",
        f"topic-settings-unknown count=20 {unknown} topic={names}",
    ]


def test_staged_files_that_nobody_writes_go_at_the_start_and_while_it_runs() -> None:
    """Young ones stay: their writer may be at work."""
    name = f"tidelog.{'0' * 32}.{{:032x}}.staged"
    home = left(1)
    home.fs.write(f"/data/{name.format(1)}", b"")
    home.clock.advance(8 * 86_400_000)
    hour_ms = 3_600_000
    with home.open(tidelog_staged_retention_ms=hour_ms) as manager:
        at_start = [one for one in home.files() if one.endswith(".staged")]
        home.fs.write(f"/data/{name.format(2)}", b"")
        manager.tasks.cleanup_logs()
        young = [one for one in home.files() if one.endswith(".staged")]
        home.clock.advance(2 * hour_ms)
        later = [one for one in home.files() if one.endswith(".staged")]

    assert (at_start, young, later) == ([], [name.format(2)], [])


def test_what_recovery_cut_is_deleted_after_its_retention() -> None:
    """-1 keeps it for ever; a file that a newer release wrote is left alone."""
    part = f"tidelog.{'0' * 32}-0.{0:020d}"
    newer = b"{}" + CUT_FILE_END.pack(CutFileEnd(2, 99, 0x7469_6465_2E63_7574))
    home = left(1)
    home.fs.write(f"/data/{part}.1.cut", b"bytes")
    home.fs.write(f"/data/{part}.2.cut", newer)
    home.clock.advance(8 * 86_400_000)
    with home.open(tidelog_cut_retention_ms=-1) as manager:
        manager.tasks.cleanup_logs()
        kept = [one for one in home.files() if one.endswith(".cut")]
        sizes = [one.value for one in manager.metrics() if one.name == "CutFileBytes"]
    with home.open():
        later = [one for one in home.files() if one.endswith(".cut")]

    assert (kept, later) == ([f"{part}.1.cut", f"{part}.2.cut"], [f"{part}.2.cut"])
    assert sizes == [5 + len(newer)]


def test_what_is_lost_is_followed_by_another_leader_epoch() -> None:
    """Of a lost end, and of a log that is gone; at once durable, and one for each loss."""
    home = left(5)
    home.fs.write(LOG, home.fs.read(LOG)[:100])
    for _ in range(2):
        with home.open() as manager:
            (_, ends) = manager.partition("t", 0).log.epochs.entries
        assert ends.start_offset == 1
        assert home.fs.read("/data/t-0/leader-epoch-checkpoint").splitlines()[-1] == (
            b"%d 1" % ends.epoch
        )
    for name in home.fs.list("/data/t-0"):
        home.fs.delete(f"/data/t-0/{name}")
    home.fs.delete_directory("/data/t-0")
    with home.open() as manager:
        (begun,) = manager.partition("t", 0).log.epochs.entries
    assert begun.start_offset == 0
    assert begun.epoch >= 4096
