"""A service archives logs by their topics' settings, and deletes here and there by them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import files_with
from tests.machinery.manager_home import ManagerHome
from tests.machinery.object_model import ObjectModel

from tidelog.archive import open_archives
from tidelog.archive.chain import Chain
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.service import archiving

if TYPE_CHECKING:
    from tidelog.archive.chain_state import ChainState
    from tidelog.service.log_service import LogService

URI = "s3://lake/logs"
ARCHIVED = {"remote.storage.enable": "true", "local.retention.ms": "1000", "retention.ms": "-1"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> ObjectModel:
    """Let the archive of this process be one in memory."""
    found = ObjectModel(Random(1))
    found.name = URI
    files_with(found, URI)
    monkeypatch.setattr(archiving, "ObjectStore", lambda _uri: found)
    return found


def service(home: ManagerHome, **settings: Any) -> LogService:
    return home.open(tidelog_archive_uri=URI, **settings)


def append(manager: LogService, count: int, topic: str = "t", number: int = 0) -> None:
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


def state_of(store: ObjectModel, manager: LogService, topic: str = "t") -> ChainState:
    return Chain(store, manager.topic(topic).topic_id, 0, manager.machine.rng).read()


def test_what_is_closed_is_archived_and_then_deleted_here(store: ObjectModel) -> None:
    """The log begins in the archive; readers, and the next service, see all of it."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        log = manager.partition("t", 0).log
        manager.tasks.cleanup_logs()
        assert log.segments.first_base_offset == 0
        manager.tasks.archiving.run()
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
        manager.tasks.archiving.run()
        manager.tasks.cleanup_logs()
        assert offsets_read(home) == list(range(40))
