"""What a pass over all archives costs, and what it says, however often it is repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.machinery.manager_home import ManagerHome
from tests.unit.service.test_archiving import (
    ARCHIVED,
    append,
    archive,
    archive_and_delete,
    metrics_of,
    objects_of,
    planned,
    service,
    state_of,
)

from tidelog.archive.copier import REMOVED_MS
from tidelog.errors import StoreUnavailable
from tidelog.manager.log_archiver import SWEEP_MS
from tidelog.segment.filenames import TopicPartition
from tidelog.service import mover
from tidelog.testing import build_batch

if TYPE_CHECKING:
    import pytest
    from tests.machinery.object_model import Timed

KEY = TopicPartition("t", 0)


def test_the_archive_of_a_deleted_topic_is_looked_at_once_an_hour(store: Timed) -> None:
    """It waits a day for its end, and to look at it takes all of its versions."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive(manager)
        manager.delete_topic("t")
        archive(manager)
        requests = store.requests
        archive(manager)
        assert store.requests == requests

        store.now_ms = REMOVED_MS
        home.clock.advance(SWEEP_MS)
        assert objects_of(store) == 0


def test_a_topic_that_is_deleted_after_its_archive_was_left_ends_it_at_once(store: Timed) -> None:
    """A reader would find two topics of one name there."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive(manager)
        old = manager.topic("t").topic_id
        manager.alter_topic(
            "t", {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
        )
        archive(manager)
        archive(manager)
        manager.delete_topic("t")
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 5)
        archive(manager)
        new = manager.topic("t").topic_id
        chains = {name.partition("/")[0] for name in store.objects}
        assert chains == {str(old), str(new)}
        assert state_of(store, manager).version


def test_a_topic_of_another_service_with_that_name_is_not_archived(
    store: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither could be read. It takes its place once the other is deleted."""
    homes = ManagerHome(), ManagerHome(seed=1)
    with service(homes[0]) as first, service(homes[1]) as second:
        for manager in (first, second):
            manager.create_topic("t", config=ARCHIVED)
            append(manager, 20)
        archive(first)
        objects = dict(store.objects)
        for _ in range(2):
            archive(second)
        assert store.objects == objects
        assert caplog.text.count("has another topic named t, with the id") == 1
        assert metrics_of(second, "FailedLogsCount") == 1

        first.delete_topic("t")
        archive(first)
        archive(second)
        assert metrics_of(second, "FailedLogsCount") == 0
        assert state_of(store, second).end > 0
        requests = store.requests
        archive(second)
        assert store.requests == requests + 1


def test_an_outage_is_logged_once_whatever_the_store_says_of_it(
    store: Timed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its errors says how long was tried, and names an object with a random number."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        for times in range(3):

            def put(name: str, *_: object, times: int = times) -> None:
                raise StoreUnavailable(f"{name}: PUT in 1.{times}63s, after {times} retries: 503")

            with monkeypatch.context() as patched:
                patched.setattr(store, "put", put)
                archive(manager)
        assert caplog.text.count("archive-failed") == 1
        archive(manager)
        assert metrics_of(manager, "FailedLogsCount") == 0


def test_a_pass_does_not_wait_for_partitions_that_move(
    store: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move may take hours; the pass after it continues."""
    monkeypatch.setattr(mover, "NEAR_BYTES", 0)
    home = ManagerHome("/a", "/b", retention_ms=-1)
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        (target,) = {*home.paths} - {manager.partition(*KEY).log.data_dir}
        manager.move_partition(*KEY, target)
        began_ms = home.clock.now_ms()
        archive(manager)
        assert home.clock.now_ms() == began_ms
        assert metrics_of(manager, "FailedLogsCount") == 0
        home.clock.advance(0)
        archive(manager)
        assert state_of(store, manager).end > 0


def test_a_topic_that_is_made_again_during_a_pass_gets_no_archive(store: Timed) -> None:
    """Its settings are those of now: the pass has begun with the topic of its name before."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t")
        append(manager, 5)
        assert manager.tasks.archiving is not None
        manager.tasks.archiving._archive(KEY)
        assert not store.objects


def test_a_clock_that_is_set_back_stops_no_sweep(store: Timed) -> None:
    """Objects of removed segments would stay until the clock gets to where it was."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config={**ARCHIVED, "retention.ms": "1000"})
        append(manager, 20)
        home.clock.set_time_of_day(home.clock.now_ms() + 30 * REMOVED_MS)
        archive(manager)
        count = objects_of(store)
        assert count
        home.clock.set_time_of_day(home.clock.now_ms() - 20 * REMOVED_MS)
        store.now_ms = REMOVED_MS
        archive(manager)
        assert objects_of(store) < count


def test_an_archived_segment_without_timestamps_expires_by_the_time_of_its_copy(
    store: Timed,
) -> None:
    """On a disk its file's time decides. Without one, it and all after it would stay for ever."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config={**ARCHIVED, "internal.segment.bytes": "300"})
        log = manager.partition("t", 0).log
        for _ in range(4):
            log.append_as_leader(build_batch([(-1, None, b"v" * 200, ())]))
        log.update_high_watermark(log.log_end_offset)
        store.now_ms = home.clock.now_ms()
        archive_and_delete(home, manager)
        assert log.local_log_start_offset == 3
        manager.alter_topic("t", {"retention.ms": "5000"})
        archive(manager)
        assert log.log_start_offset == 0
        home.clock.advance(3_001)
        assert planned(home, manager).log_start_offset == 3
        archive(manager)
        assert log.log_start_offset == 3
