"""A service archives logs by their topics' settings, and deletes here and there by them."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import Loading, ManagerHome
from tests.machinery.object_model import ObjectModel, Timed

from tidelog.archive import open_archives
from tidelog.archive.chain import Chain
from tidelog.archive.claim_file import claims_among
from tidelog.archive.copier import REMOVED_MS, Copier
from tidelog.archive.deltas import Claim
from tidelog.archive.segment_object import SegmentObject
from tidelog.embedded.logs import Logs
from tidelog.errors import (
    ArchivedLogLost,
    CleaningAborted,
    CorruptArchive,
    DataLoss,
    KafkaStorageError,
    OffsetOutOfRange,
)
from tidelog.explain.plans.disk_share_plan import plan_disk_share
from tidelog.explain.plans.retention_plan import plan_retention
from tidelog.log.retention.retention_rules import Rule
from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.manager.log_archiver import SWEEP_MS
from tidelog.manager.manager_part import OpenStores
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition
from tidelog.service.log_service import LogService

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Enumerated

    from tidelog.archive.chain_state import ChainState
    from tidelog.log.retention.shrunk_log import ShrunkLog
    from tidelog.manager.log_manager import LogManager
    from tidelog.readonly.read_only_log import ReadOnlyLog

URI = "s3://lake/logs"
ARCHIVED = {"remote.storage.enable": "true", "local.retention.ms": "1000", "retention.ms": "-1"}


def service(home: ManagerHome, **settings: Any) -> LogService:
    return home.open(tidelog_archive_uri=URI, **settings)


def append(manager: LogManager, count: int, topic: str = "t", number: int = 0) -> None:
    partition = manager.partition(topic, number)
    now_ms = manager.machine.clock.now_ms()
    for _ in range(count):
        partition.append_records([(now_ms, None, b"v" * 300, ())])


def offsets_read(home: ManagerHome, topic: str = "t") -> list[int]:
    """Return the offsets that somebody reads who only looks."""
    open_archives._archives[URI]._states.clear()
    directory = open_directory_read_only(*home.paths, fs=home.fs)
    with directory.open(topic, 0) as log:
        found = [record.offset for record in log.records(end_offset=log.log_end_offset)]
        assert found[:1] == [log.log_start_offset][: len(found)]
        return found


def state_of(store: ObjectModel, manager: LogManager, topic: str = "t") -> ChainState:
    return Chain(store, manager.topic(topic).topic_id, 0, manager.machine.rng).read()


def owned(manager: LogService, *, lost: tuple[int, int] | None = None) -> list[int]:
    """Return the offsets that the owner reads; check that all of ``lost`` is reported after it."""
    found: list[int] = []
    with nullcontext() if lost is None else pytest.raises(DataLoss) as error:
        found += (record.offset for record in Logs(manager).read("t", 0))
    if error is not None:
        assert (error.value.start_offset, error.value.end_offset) == lost
    return found


def archive(manager: LogService) -> None:
    assert manager.tasks.archiving is not None
    manager.tasks.archiving.run()


def archive_and_delete(home: ManagerHome, manager: LogService) -> None:
    archive(manager)
    home.clock.advance(2_000)
    manager.tasks.cleanup_logs()
    archive(manager)


def active_base(manager: LogService) -> int:
    return manager.partition("t", 0).log.segments.active.base_offset


def objects_of(store: ObjectModel) -> int:
    """Return the number of archived segments on a store."""
    return sum("/s/" in name for name in store.objects)


def metrics_of(manager: LogService, name: str) -> float:
    (found,) = (one.value for one in manager.metrics() if one.name == name)
    return found


def planned(home: ManagerHome, manager: LogService) -> ShrunkLog:
    """Return what ``tidelog plan retention`` says, as another process does."""
    open_archives._archives[URI]._states.clear()
    directory = open_directory_read_only(*home.paths, fs=home.fs)
    config = manager.partition("t", 0).log.config
    return plan_retention(lambda: directory.open("t", 0), config, home.clock)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_archived_stays_closed_over_a_power_cut(store: Timed, seed: int) -> None:
    """Though all was durable before the roll: the name of the segment after it is synced, too."""
    home = ManagerHome(seed=seed)
    manager = service(home)
    manager.create_topic("t", config={**ARCHIVED, "internal.segment.bytes": "1000"})
    append(manager, 2)
    log = manager.partition("t", 0).log
    log.flush()
    while len(log.segments.base_offsets) == 1:
        append(manager, 1)
    base = active_base(manager)

    archive(manager)
    home.power_cut()
    manager = service(home)

    assert state_of(store, manager).end == active_base(manager) == base
    append(manager, 4)
    archive(manager)
    assert metrics_of(manager, "FailedLogsCount") == 0
    manager.close()


def test_what_is_closed_is_archived_and_then_deleted_here(store: Timed) -> None:
    """The log begins in the archive; readers, and the next service, see all of it."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        log = manager.partition("t", 0).log
        manager.tasks.cleanup_logs()
        assert log.segments.first_base_offset == 0
        archive(manager)
        home.clock.advance(2_000)
        manager.tasks.cleanup_logs()

        active = log.segments.active.base_offset
        assert (log.log_start_offset, log.local_log_start_offset) == (0, active)
        assert state_of(store, manager).end == active > 10
        assert offsets_read(home) == list(range(20))
    with service(home) as manager:
        log = manager.partition("t", 0).log
        assert (log.log_start_offset, log.local_log_start_offset) == (0, active)
        append(manager, 20)
        archive(manager)
        manager.tasks.cleanup_logs()
        assert offsets_read(home) == list(range(40))


def test_no_topic_is_deleted_here_that_no_archive_has(
    store: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    """Not without an archive, not while the store fails, nor once another log has claimed it."""
    home = ManagerHome()
    with home.open() as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        home.clock.advance(5_000)
        assert manager.tasks.cleanup_logs() == 0
    with home.open() as manager:
        assert "topic-not-archived topic=t" in caplog.text
    with service(home) as manager:
        store.chance = 1
        archive(manager)
        assert manager.tasks.cleanup_logs() == 0
        assert metrics_of(manager, "FailedLogsCount") == 1
        store.chance = 0
        store.settle()
        archive(manager)
        archive(manager)
        log = manager.partition("t", 0).log
        assert log.archived is not None
        assert log.archived.equal_end == log.segments.active.base_offset
        chain = Chain(store, manager.topic("t").topic_id, 0, manager.machine.rng)
        state = chain.read()
        chain.commit(state, [Claim("f" * 32, "t", {})], state.claim_epoch + 1)
        archive(manager)
        assert manager.tasks.cleanup_logs() == 0
        archive(manager)
        assert manager.tasks.cleanup_logs() == 0
        assert "was written by another log, or by a copy of this one" in caplog.text
        assert offsets_read(home) == list(range(20))


def put_back(home: ManagerHome, path: str = "/data") -> None:
    """Replace a log and its claim by copies, as restoring a backup does."""
    claims = [f"tidelog.{one}-{number}.archive" for one, number in claims_among(home.files(path))]
    for name in (*claims, *(f"t-0/{name}" for name in home.files(f"{path}/t-0"))):
        copy = home.fs.read(f"{path}/{name}")
        home.fs.delete(f"{path}/{name}")
        home.fs.write(f"{path}/{name}", copy)


def test_a_copy_of_a_directory_reads_the_archive_and_leaves_it_alone(store: Timed) -> None:
    """It is another log to the archive, which it may only read."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
    put_back(home)
    before = dict(store.objects)

    with service(home) as manager:
        append(manager, 20)
        archive_and_delete(home, manager)
        assert store.objects == before
        assert offsets_read(home) == owned(manager) == list(range(40))


def test_a_copy_of_a_directory_begins_in_the_archive_where_it_has_moved_to(store: Timed) -> None:
    """Else its first records would be hidden, and be deleted once it takes the archive over."""
    home = ManagerHome("/a", "/b")
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        (source,) = {*home.paths} & {manager.partition("t", 0).log.data_dir}
    (target,) = {*home.paths} - {source}
    put_back(home, source)
    with service(home) as manager:
        manager.move_partition("t", 0, target)
        home.clock.advance(0)
        assert manager.partition("t", 0).log.data_dir == target

    with service(home) as manager:
        assert offsets_read(home) == owned(manager) == list(range(20))
        archive_log(manager, TopicPartition("t", 0), store, ArchiveTerms(takes_over=True))
        archive(manager)
        archive(manager)  # the first one only learns of the other claim
        assert metrics_of(manager, "FailedLogsCount") == 0
        assert offsets_read(home) == owned(manager) == list(range(20))


@pytest.mark.usefixtures("store")
def test_the_owner_reads_counts_and_looks_up_in_both() -> None:
    """As if all of it were on the disk."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        for _ in range(4):
            append(manager, 5)
            home.clock.advance(1_000)
        archive_and_delete(home, manager)
        logs = Logs(manager)
        log = manager.partition("t", 0).log
        assert log.local_log_start_offset > 10
        times = [record.timestamp for record in logs.read("t", 0)]
        for time_ms in {*times, times[0] - 5, times[-1] + 1}:
            found = logs.offset_at("t", 0, time_ms)
            later = [at for at, one in enumerate(times) if one >= time_ms]
            assert (None if found is None else found.offset) == (later[0] if later else None)
        for start, end in ((None, None), (3, 7), (3, 20), (log.local_log_start_offset, None)):
            wanted = (20 if end is None else end) - (start or 0)
            assert logs.count_records("t", 0, start, end).records == wanted
        with logs.reader("t", group="g") as reader:
            assert [record.offset for record in reader.read()] == list(range(20))
        assert [one.offset for one in logs.follow("t", 0, 2, idle_ms=0)] == list(range(2, 20))
        with pytest.raises(OffsetOutOfRange):
            list(logs.read("t", 0, 21))
        logs.delete_records("t", 0, 4)
        assert owned(manager) == offsets_read(home) == list(range(4, 20))
        with pytest.raises(OffsetOutOfRange):
            list(logs.read("t", 0, 3))


def test_total_retention_deletes_in_the_archive(store: Timed) -> None:
    """By size and by age, of both together; the objects go a day later."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        entries = state_of(store, manager).entries
        active = manager.partition("t", 0).log.size_bytes
        kept = sum(entry.size_bytes for entry in entries[-2:]) + active
        manager.alter_topic("t", {"retention.bytes": str(kept)})
        plan = planned(home, manager)
        archive(manager)
        state = state_of(store, manager)
        assert state.start == entries[-2].base_offset == offsets_read(home)[0]
        assert [one[:2] for one in plan.deleted] == [one[1:3] for one in entries[:-2]]
        assert state.start_why == f"log retention size {kept} breach"

        manager.alter_topic("t", {"retention.ms": "30000"}, unset=["retention.bytes"])
        home.clock.advance(40_000)
        assert [one.rule for one in planned(home, manager).deleted] == [Rule.TIME] * 2
        archive(manager)
        assert state_of(store, manager).entries == []
        assert owned(manager) == offsets_read(home) == list(range(active_base(manager), 20))
        assert objects_of(store) == len(entries)
        store.now_ms = REMOVED_MS
        append(manager, 4)
        home.clock.advance(SWEEP_MS)
        archive(manager)
        state = state_of(store, manager)
        assert objects_of(store) == len({*state.entries, *state.removed}) > 0
        assert state.removed.keys().isdisjoint(entry.name for entry in entries)


def test_a_plan_says_what_the_disk_gives_up(store: Timed) -> None:
    """Of a log that is archived: nothing before the archive has it, then by the local limits."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        store.chance = 1
        home.clock.advance(2_000)
        store.chance = 0
        plan = planned(home, manager)
        assert not plan.deleted
        *closed, active = (one.held_by for one in plan.kept)
        assert set(closed) == {"the archive, which is not known to have it yet"}
        assert active == "the archive, which gets it once it is closed"
        archive(manager)
        plan = planned(home, manager)
        log = manager.partition("t", 0).log
        assert tuple(log.retain()) == plan.deleted
        assert {one.reason for one in plan.deleted} == {"local log retention time 1000ms breach"}
        assert (plan.log_start_offset, plan.size_bytes) == (0, log.size_bytes)
        again = planned(home, manager)
        assert not again.deleted
        assert [one.base_offset for one in again.kept] == [
            *(one.base_offset for one in plan.deleted),
            active_base(manager),
        ]


def test_an_archive_that_is_disabled_keeps_what_is_here(store: Timed) -> None:
    """What only the archive has is deleted, as was asked for."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        append(manager, 10)
        archive(manager)
        disabled = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
        manager.alter_topic("t", disabled)
        here = manager.partition("t", 0).log.local_log_start_offset
        assert owned(manager)[0] == 0
        archive(manager)
        assert owned(manager) == offsets_read(home) == list(range(here, 30))
        assert state_of(store, manager).start == here
        manager.alter_topic("t", {"remote.storage.enable": "true"})
        append(manager, 10)
        archive_and_delete(home, manager)
        assert owned(manager) == offsets_read(home) == list(range(here, 40))


def test_copying_can_be_stopped_and_goes_on(store: Timed) -> None:
    """``remote.log.copy.disable``: what is archived stays in the log, and counts by its limits."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        end = state_of(store, manager).end
        manager.alter_topic("t", {"remote.log.copy.disable": "true"})
        append(manager, 10)
        archive_and_delete(home, manager)
        assert state_of(store, manager).end == end
        assert owned(manager) == offsets_read(home) == list(range(30))
        manager.alter_topic("t", {"remote.log.copy.disable": "false"})
        archive_and_delete(home, manager)
        assert state_of(store, manager).end > end
        assert owned(manager) == list(range(30))
        manager.alter_topic("t", {"remote.log.copy.disable": "true", "retention.ms": "1000"})
        append(manager, 1)
        archive_and_delete(home, manager)
        assert owned(manager) == offsets_read(home)
        assert state_of(store, manager).start == manager.partition("t", 0).log.log_start_offset > 20


def test_a_deleted_topic_leaves_the_archive_a_day_later(store: Timed) -> None:
    """Its name can be used at once; what somebody has copied by hand stays where it is."""
    home = ManagerHome()
    other = ObjectModel(Random(2))
    other.name = "s3://lake/other"
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        manager.create_topic("u")
        for topic in ("t", "u"):
            append(manager, 20, topic)
            archive_log(manager, TopicPartition(topic, 0), other, ArchiveTerms())
        archive_and_delete(home, manager)
        copies, old = objects_of(other), state_of(store, manager)
        for topic in ("t", "u"):
            manager.delete_topic(topic)
        assert len(claims_among(home.files())) == 1
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 5)
        archive(manager)
        assert owned(manager) == offsets_read(home) == list(range(5))
        gone = len(old.entries)
        assert objects_of(store) == gone + len(state_of(store, manager).entries)
    store.now_ms = REMOVED_MS
    with service(home) as manager:
        archive(manager)
        assert objects_of(store) == len(state_of(store, manager).entries)
        assert len(claims_among(home.files())) == 1
        archive(manager)
    assert objects_of(other) == copies


def test_a_copy_stops_where_its_log_is_needed(
    store: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two parts of a segment; the next pass begins that segment again."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        parts = SegmentObject.parts

        def aborting(self: SegmentObject) -> Iterator[bytes]:
            yield from parts(self)
            if self.base_offset > 5:
                raise CleaningAborted("the topic is being deleted")

        with monkeypatch.context() as patched:
            patched.setattr(SegmentObject, "parts", aborting)
            archive(manager)
        log = manager.partition("t", 0).log
        assert 0 < state_of(store, manager).end < active_base(manager)
        assert metrics_of(manager, "FailedLogsCount") == 0
        archive(manager)
        assert state_of(store, manager).end == log.segments.active.base_offset


def test_sizes_are_metrics_in_percent_of_both_limits(store: Timed) -> None:
    """The whole log of retention.bytes, and the disk of local.retention.bytes, for each partition.

    Kafka's names. What is on the disk and in the archive counts once; without a limit it is 0.
    """
    home = ManagerHome()
    limits = {"retention.bytes": "40000", "local.retention.bytes": "4000"}
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED | limits)
        manager.create_topic("endless", config=ARCHIVED | {"local.retention.bytes": "-1"})
        append(manager, 40)
        append(manager, 40, "endless")
        log = manager.partition("t", 0).log
        archive_and_delete(home, manager)
        assert log.local_log_start_offset > log.log_start_offset
        active = log.segments.active.size_bytes
        whole = sum(entry.size_bytes for entry in state_of(store, manager).entries) + active
        shown = {one.kafka_name: one.value for one in manager.metrics()}

    named = "kafka.log.remote:type=RemoteLogManager,name={},topic={},partition=0"
    assert shown[named.format("RetentionSizeInPercent", "t")] == whole * 100 // 40_000
    local = shown[named.format("LocalRetentionSizeInPercent", "t")]
    assert local == log.size_bytes * 100 // 4_000
    assert 0 < local != whole * 100 // 4_000
    assert shown[named.format("LocalRetentionSizeInPercent", "endless")] == 0
    assert shown["kafka.log:type=Log,name=RetentionSizeInPercent,topic=t,partition=0"] == 0


def test_metrics_say_how_far_the_archive_is(store: Timed) -> None:
    """Under Kafka's names by topic, and how old the oldest record is that waits."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        home.clock.advance(0)  # a pass of its own
        state = state_of(store, manager)
        total = sum(entry.size_bytes for entry in state.entries)
        assert metrics_of(manager, "RemoteCopyBytesPerSec") == total
        assert metrics_of(manager, "RemoteCopyRequestsPerSec") == len(state.entries)
        assert metrics_of(manager, "RemoteLogSizeBytes") == total
        assert metrics_of(manager, "RemoteLogMetadataCount") == len(state.entries)
        assert metrics_of(manager, "RemoteCopyLagBytes") == 0
        append(manager, 20)
        home.clock.advance(3_000)
        log = manager.partition("t", 0).log
        waiting = [one for one in log.segments.all[:-1] if one.base_offset >= state.end]
        assert metrics_of(manager, "RemoteCopyLagSegments") == len(waiting) > 1
        assert metrics_of(manager, "RemoteCopyLagBytes") == sum(one.size_bytes for one in waiting)
        assert metrics_of(manager, "OldestWaitingAgeMs") == 3_000
        store.chance = 1
        archive(manager)
        assert metrics_of(manager, "RemoteCopyErrorsPerSec") == 1
        store.chance = 0


@pytest.mark.parametrize("limit", ["retention.ms", "retention.bytes"])
def test_local_limits_are_those_of_the_log_by_default(store: Timed, limit: str) -> None:
    """So a segment leaves the disk and the archive at the same time, and the log with it."""
    home = ManagerHome()
    with service(home) as manager:
        settings = {"remote.storage.enable": "true", "retention.ms": "-1", limit: "2000"}
        manager.create_topic("t", config=settings)
        append(manager, 20)
        archive(manager)
        if limit == "retention.ms":
            assert manager.tasks.cleanup_logs() == 0
        home.clock.advance(3_000)
        archive(manager)
        manager.tasks.cleanup_logs()
        log = manager.partition("t", 0).log
        assert log.log_start_offset == log.local_log_start_offset > 10
        assert state_of(store, manager).start == log.log_start_offset
        assert owned(manager) == offsets_read(home) == list(range(log.log_start_offset, 20))


def test_what_was_deleted_on_request_need_not_be_archived(store: Timed) -> None:
    """Its segments go at once; the archive begins, or continues, behind them."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        for first in (0, 20):
            append(manager, 20)
            Logs(manager).delete_records("t", 0, first + 11)
            assert manager.partition("t", 0).log.segments.first_base_offset == first + 10
            archive(manager)
            state = state_of(store, manager)
            assert (state.start, state.end) == (first + 11, active_base(manager))
            assert owned(manager) == offsets_read(home) == list(range(first + 11, first + 20))


@pytest.mark.parametrize("place", ["/data", URI])
def test_an_object_that_is_gone_was_removed_or_is_damage(store: Timed, place: str) -> None:
    """A reader that began before looks again: then its offsets are below the start."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        first, second = state_of(store, manager).entries[:2]

        def whole() -> ReadOnlyLog:
            return open_directory_read_only(place, fs=home.fs).open("t", 0)

        with whole() as log:
            assert next(log.records(0)).offset == 0
        with whole() as log:
            lost = [name for name in store.objects if name.endswith(second.name)]
            kept = {name: store.objects.pop(name) for name in lost}
            with pytest.raises(CorruptArchive, match="is gone, and the archive has not removed it"):
                list(log.records(0, 18))
            store.objects |= kept
        with whole() as log:
            Logs(manager).delete_records("t", 0, second.base_offset)
            archive(manager)
            (name,) = (name for name in store.objects if name.endswith(first.name))
            del store.objects[name]
            with pytest.raises(OffsetOutOfRange):
                list(log.records(0, 18))
            assert next(log.records(None, 18)).offset == second.base_offset


@pytest.mark.usefixtures("store")
def test_the_share_of_the_disk_gives_up_what_is_archived() -> None:
    """The log keeps it; what no archive has stays, and the disk has to hold it."""
    home = ManagerHome()
    settings = {"remote.storage.enable": "true", "retention.ms": "-1"}
    with service(home, tidelog_retention_disk_percent=1) as manager:
        manager.create_topic("t", config=settings)
        append(manager, 20)
        home.fs.set_free_bytes(100)
        assert manager.tasks.cleanup_logs() == 0
        home.fs.set_free_bytes(None)
        archive(manager)
        home.fs.set_free_bytes(100)
        plan = shared(home, manager)
        assert manager.tasks.cleanup_logs() == len(plan.deleted) > 3
        home.fs.set_free_bytes(None)

        log = manager.partition("t", 0).log
        assert log.local_log_start_offset == active_base(manager) == plan.deleted[-1].end_offset
        assert {one.rule for one in plan.deleted} == {Rule.DISK}
        assert plan.log_start_offset == log.log_start_offset == 0
        assert owned(manager) == offsets_read(home) == list(range(20))
        assert not shared(home, manager).deleted


def shared(home: ManagerHome, manager: LogService) -> ShrunkLog:
    """Return what the share of the disk would delete."""
    directory = open_directory_read_only(*home.paths, fs=home.fs)
    config = manager.partition("t", 0).log.config
    plan = plan_retention(lambda: directory.open("t", 0), config, home.clock, with_times=True)
    now_ms = home.clock.now_ms()
    return plan_disk_share([plan], {"t": config}, 100, 1, now_ms).logs[0]


def test_an_archive_that_was_deleted_is_an_error(
    store: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    """For who reads, and for the service, which deletes nothing more and begins no other one."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        append(manager, 20)
    store.objects.clear()
    with service(home) as manager:
        with pytest.raises(CorruptArchive, match="which held the offsets before, is gone"):
            offsets_read(home)
        with pytest.raises(CorruptArchive):
            owned(manager)
        first = manager.partition("t", 0).log.local_log_start_offset
        home.clock.advance(5_000)
        archive(manager)
        assert manager.tasks.cleanup_logs() == 0
        assert "it was deleted, or put back from an older copy" in caplog.text
        assert [one.offset for one in Logs(manager).read("t", 0, first)] == [*range(first, 40)]
    assert store.objects == {}


def test_records_that_are_deleted_during_a_pass_stay_deleted(
    store: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass has seen the archive before; it begins where the log does by the next one."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        equal_end = Copier.equal_end

        def deleting(self: Copier) -> int:
            manager.partition("t", 0).log.delete_records(5)
            return equal_end(self)

        with monkeypatch.context() as patched:
            patched.setattr(Copier, "equal_end", deleting)
            archive(manager)
        assert owned(manager) == list(range(5, 20))
        archive(manager)
        assert state_of(store, manager).start == 5
        assert owned(manager) == offsets_read(home) == list(range(5, 20))


@pytest.mark.usefixtures("store")
def test_a_log_that_begins_in_one_archive_does_not_continue_in_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its beginning would be missing there; one that is whole on the disk may change its place."""
    home, other = ManagerHome(), ObjectModel(Random(9))
    other.name = "s3://lake/other"
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        manager.create_topic("u", config={**ARCHIVED, "local.retention.ms": "-1"})
        append(manager, 20)
        append(manager, 20, "u")
        archive_and_delete(home, manager)
    monkeypatch.setattr(OpenStores, "opened", lambda _self, _uri: other)
    with service(home) as manager:
        append(manager, 20)
        archive(manager)
        home.clock.advance(5_000)
        assert manager.tasks.cleanup_logs() == 0
        assert f"t-0 begins in the archive {URI}, not in s3://lake/other" in caplog.text
        assert "log=u-0" not in caplog.text
        assert {name.split("/")[0] for name in other.objects} == {str(manager.topic("u").topic_id)}
        assert offsets_read(home) == owned(manager) == list(range(40))


def lose(home: ManagerHome, name: str) -> None:
    """Delete the directory of a partition."""
    for each in home.fs.list(f"/data/{name}"):
        home.fs.delete(f"/data/{name}/{each}")
    home.fs.delete_directory(f"/data/{name}")


@pytest.mark.parametrize("loading", list(Loading))
def test_an_archived_log_whose_directory_is_lost_does_not_begin_again(
    store: Timed, loading: Loading, caplog: pytest.LogCaptureFixture
) -> None:
    """It would give away offsets that the archive has; the error says how to get it back.

    Other partitions are served, and one of which nothing is archived begins again.
    """
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", 3, config=ARCHIVED)
        for number in range(2):
            append(manager, 20, number=number)
        append(manager, 1, number=2)
        archive_and_delete(home, manager)
        version = state_of(store, manager).version
    lose(home, "t-0")
    lose(home, "t-2")
    with home.open_as(loading, tidelog_archive_uri=URI) as manager:
        manager.partition("t", 1).append_records([(0, None, b"v", ())])
        manager.partition("t", 2).append_records([(0, None, b"v", ())])
        with pytest.raises(KafkaStorageError) as found:
            manager.partition("t", 0)
        lost = found.value if loading is Loading.FIRST_USE else found.value.__cause__
        assert isinstance(lost, ArchivedLogLost)
        assert f"tidelog restore {URI} t -p 0 --to /data" in str(lost)
        assert (lost.start, lost.end) == (0, state_of(store, manager).end)
        if isinstance(manager, LogService):
            archive(manager)
            assert "log-not-created topic=t partition=0" in caplog.text
            assert state_of(store, manager).version == version
        manager.delete_topic("t")  # what is lost is nothing that keeps it
    assert not home.fs.exists("/data/t-0")


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, pytest.param(errno.EMFILE, marks=pytest.mark.slow)]
)
def test_an_error_of_the_disk_ends_a_pass_and_nothing_else(
    store: Timed, number: int, enumerated: Enumerated
) -> None:
    """At each operation; the log has all, and the next service completes the pass."""
    failed = 0
    for at in range(0, 80, 3):
        store.objects.clear()
        home = ManagerHome(seed=at)
        with service(home) as manager:
            manager.create_topic("t", config=ARCHIVED)
            append(manager, 20)
            home.clock.advance(0)
            append(manager, 20)
            home.fs.fail_at(at, OSError(number, "injected"))
            archive(manager)
            failed += metrics_of(manager, "FailedLogsCount") == 1
            home.fs.mend()
        with service(home) as manager:
            assert offsets_read(home) == owned(manager) == list(range(40))
            archive_and_delete(home, manager)
            assert metrics_of(manager, "FailedLogsCount") == 0
            assert manager.partition("t", 0).log.local_log_start_offset == active_base(manager)
            assert offsets_read(home) == owned(manager) == list(range(40))
    enumerated("passes that failed", failed, at_least=20)


@pytest.mark.parametrize("rate", [1000, None])
def test_copies_keep_to_a_rate(store: Timed, rate: int | None) -> None:
    """All together, not each; without a limit they do not wait."""
    home = ManagerHome()
    settings = {"remote_log_manager_task_interval_ms": 10**9}
    if rate is not None:
        settings["remote_log_manager_copy_max_bytes_per_second"] = rate
    with service(home, **settings) as manager:
        for topic in ("t", "u"):
            manager.create_topic(topic, 1, ARCHIVED | {"internal.segment.bytes": "2000"})
            append(manager, 30, topic)
        begun = home.clock.monotonic_ns()
        archive(manager)
        passed_s = (home.clock.monotonic_ns() - begun) / 1e9
        copied = sum(len(data) for name, data in store.objects.items() if "/s/" in name)
        assert objects_of(store) > 8
        largest = max(len(data) for data in store.objects.values())
        assert passed_s < 1 if rate is None else passed_s >= (copied - largest) / rate


def test_the_start_says_when_segments_are_archived(caplog: pytest.LogCaptureFixture) -> None:
    """Those that are closed are looked for at once; old ones are closed with the first cleanup."""
    caplog.set_level("INFO", "tidelog")
    settings = {"remote_log_manager_task_interval_ms": 7_000, "log_initial_task_delay_ms": 9_000}
    with service(ManagerHome(), **settings):
        pass

    assert f"archiving-started to={URI} period_ms=7000 rolls_after_ms=9000" in caplog.messages
