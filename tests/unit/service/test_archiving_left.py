"""Archives of topics whose ``remote.storage.enable`` was set back to false."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome
from tests.unit.service.test_archiving import (
    ARCHIVED,
    append,
    archive,
    archive_and_delete,
    metrics_of,
    objects_of,
    offsets_read,
    owned,
    service,
    state_of,
)

from tidelog.archive.chain import Chain
from tidelog.archive.claim_file import claims_among
from tidelog.archive.copier import REMOVED_MS
from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.manager.log_archiver import SWEEP_MS
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tests.conftest import Enumerated
    from tests.machinery.object_model import ObjectModel, Timed

    from tidelog.archive.chain_state import ChainState
    from tidelog.service.log_service import LogService

DISABLED = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


def disable(home: ManagerHome, manager: LogService, store: ObjectModel) -> ChainState:
    """Archive a topic no longer, of which the disk has a part; return what its archive has."""
    manager.create_topic("t", config=ARCHIVED)
    append(manager, 20)
    archive_and_delete(home, manager)
    append(manager, 10)
    archive(manager)
    manager.alter_topic("t", DISABLED)
    archive(manager)
    state = state_of(store, manager)
    assert state.entries
    assert state.removed
    return state


@pytest.mark.parametrize("settings", [{}, {"cleanup.policy": "compact"}])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_only_a_disabled_archive_had_goes_a_day_later(
    store: Timed, settings: dict[str, str], *, is_restarted: bool
) -> None:
    """Whatever becomes of the log; what the disk had, too, stays. Then it costs no request."""
    home = ManagerHome()
    manager = service(home)
    left = disable(home, manager, store)
    manager.alter_topic("t", settings)
    home.clock.advance(SWEEP_MS)
    assert objects_of(store) == len(left.entries) + len(left.removed)
    records = owned(manager)
    if is_restarted:
        manager.close()
        manager = service(home)
    store.now_ms = REMOVED_MS
    home.clock.advance(SWEEP_MS)

    state = state_of(store, manager)
    assert (state.entries, state.removed) == (left.entries, {})
    assert objects_of(store) == len(left.entries)
    assert owned(manager) == offsets_read(home) == records
    requests = store.requests
    home.clock.advance(SWEEP_MS)
    assert store.requests == requests
    assert metrics_of(manager, "FailedLogsCount") == 0
    manager.close()


@pytest.mark.parametrize("days", [0, 1, 2])
def test_the_archive_of_a_disabled_topic_ends_with_it(store: Timed, days: int) -> None:
    """However long after; its name can be archived again at once."""
    home = ManagerHome()
    with service(home) as manager:
        disable(home, manager, store)
        store.now_ms = days * REMOVED_MS
        home.clock.advance(SWEEP_MS)
        manager.delete_topic("t")
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 5)
        archive(manager)
        assert owned(manager) == offsets_read(home) == list(range(5))
    store.now_ms += REMOVED_MS
    with service(home) as manager:
        archive(manager)
        assert objects_of(store) == len(state_of(store, manager).entries)
        assert len(claims_among(home.files())) == 1


def test_what_was_copied_by_hand_since_stays(store: Timed) -> None:
    """An archive that somebody continues is not that of the deleted topic alone."""
    home = ManagerHome()
    with service(home) as manager:
        disable(home, manager, store)
        append(manager, 10)
        archive_log(manager, TopicPartition("t", 0), store, ArchiveTerms())
        topic_id, entries = manager.topic("t").topic_id, state_of(store, manager).entries
        manager.delete_topic("t")
        archive(manager)
        store.now_ms = REMOVED_MS
        home.clock.advance(SWEEP_MS)
        archive(manager)
        assert claims_among(home.files()) == []
        state = Chain(store, topic_id, 0, manager.machine.rng).read()
        assert (state.entries, state.removed, state.is_deleted) == (entries, {}, False)
        assert objects_of(store) == len(entries)


def test_an_archive_that_is_enabled_again_is_the_logs(store: Timed) -> None:
    """It ends with its topic, also where it has grown since it was disabled the first time."""
    home = ManagerHome()
    with service(home) as manager:
        disable(home, manager, store)
        for setting in ("true", "false"):
            manager.alter_topic("t", {"remote.storage.enable": setting})
            append(manager, 10)
            archive_and_delete(home, manager)
        home.clock.advance(SWEEP_MS)
        store.now_ms = REMOVED_MS
        home.clock.advance(SWEEP_MS)
        assert objects_of(store) == len(state_of(store, manager).entries)
        manager.delete_topic("t")
        archive(manager)
        store.now_ms *= 2
        archive(manager)
        assert objects_of(store) == len(claims_among(home.files())) == 0


def test_an_error_while_an_archive_is_left_costs_no_record(
    store: Timed, enumerated: Enumerated
) -> None:
    """At each operation on the disk; the next service completes it."""
    failed = 0
    for at in range(0, 60, 5):
        store.objects.clear()
        store.times.clear()
        store.now_ms = 0
        home = ManagerHome(seed=at)
        with service(home) as manager:
            manager.create_topic("t", config=ARCHIVED)
            append(manager, 20)
            archive_and_delete(home, manager)
            first = manager.partition("t", 0).log.local_log_start_offset
            manager.alter_topic("t", DISABLED)
            home.fs.fail_at(at, OSError(errno.ENOSPC, "injected"))
            archive(manager)
            failed += metrics_of(manager, "FailedLogsCount") == 1
            home.fs.mend()
        with service(home) as manager:
            archive(manager)
            store.now_ms = REMOVED_MS
            home.clock.advance(SWEEP_MS)
            assert objects_of(store) == len(state_of(store, manager).entries)
            assert owned(manager) == offsets_read(home) == list(range(first, 20))
    enumerated("passes that failed", failed, at_least=5)
