"""A log that begins in an archive moves to another directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import Loading, ManagerHome
from tests.unit.service.test_archiving import (
    ARCHIVED,
    append,
    archive,
    metrics_of,
    offsets_read,
    owned,
    service,
    state_of,
)

from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.segment.filenames import TopicPartition
from tidelog.service import copied_log, mover
from tidelog.store import object_store

if TYPE_CHECKING:
    from tests.machinery.object_model import Timed

    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)


def moved(home: ManagerHome, manager: LogService, key: TopicPartition) -> None:
    """Move a partition to the other directory, at once."""
    source = manager.partition(*key).log.data_dir
    (target,) = {*home.paths} - {source}
    manager.move_partition(*key, target)
    home.clock.advance(0)
    assert manager.partition(*key).log.data_dir == target


@pytest.mark.parametrize("copied", [17, 18, 19, 20])
def test_what_the_disk_gave_up_while_a_move_was_stopped_stays_in_the_log(
    store: Timed, copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy holds more of it than the log: a line where that begins would hide the archive."""
    monkeypatch.setattr(mover, "NEAR_BYTES", 0)
    monkeypatch.setattr(copied_log, "PIECE_BYTES", 1)
    monkeypatch.setattr(object_store, "ObjectStore", lambda _uri: store)
    home = ManagerHome("/a", "/b", retention_ms=-1)
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive(manager)
        (target,) = {*home.paths} - {manager.partition(*KEY).log.data_dir}
        manager.move_partition(*KEY, target)
        for _ in range(copied):
            manager._mover.step(KEY)
    home.clock.set_time_of_day(home.clock.now_ms() + 2_000)
    with home.open_as(Loading.FIRST_USE) as short:
        assert short.on_demand.retain()
        assert short.partition(*KEY).log.local_log_start_offset > 0
    with service(home) as manager:
        home.clock.advance(0)
        assert manager.partition(*KEY).log.data_dir == target
        assert owned(manager) == list(range(20))

    with service(home) as manager:
        assert offsets_read(home) == owned(manager) == list(range(20))
        archive(manager)
        assert state_of(store, manager).start == metrics_of(manager, "FailedLogsCount") == 0


@pytest.mark.parametrize("settings", [{"internal.segment.bytes": "400"}, {"segment.ms": "1"}])
@pytest.mark.parametrize("is_tiered", [False, True])
def test_a_log_that_moves_keeps_the_segments_that_its_archive_has(
    store: Timed, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, is_tiered: bool
) -> None:
    """Also one made by hand, and where settings want shorter ones since.

    Others it would take for those of another log, and take nothing more.
    """
    monkeypatch.setattr(copied_log, "PIECE_BYTES", 1)
    home = ManagerHome("/a", "/b", retention_ms=-1)
    config = ARCHIVED if is_tiered else {}
    with service(home) as manager:
        manager.create_topic("t", config=config)
        for _ in range(3):
            append(manager, 1)
            home.clock.advance(10)
            append(manager, 2)
            manager.partition(*KEY).log.maybe_roll()
        archive_log(manager, KEY, store, ArchiveTerms())
        manager.alter_topic("t", {**config, **settings})
        moved(home, manager, KEY)

        append(manager, 3)
        manager.partition(*KEY).log.maybe_roll()
        done = archive_log(manager, KEY, store, ArchiveTerms())
        assert (done.archive_start_offset, done.archive_end_offset) == (0, 12)
