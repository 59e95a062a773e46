"""A log that continues an archive, and gets what a mirror of it has done since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import Loading, ManagerHome
from tests.unit.service.test_archiving import (
    ARCHIVED,
    append,
    archive,
    archive_and_delete,
    metrics_of,
    offsets_read,
    owned,
    service,
    state_of,
)

from tidelog.embedded.logs import Logs
from tidelog.errors import MirrorDiverged
from tidelog.manager.mirror import Mirror
from tidelog.readonly.read_only_directory import open_directory_read_only

if TYPE_CHECKING:
    from tests.machinery.object_model import Timed


def home_at(path: str, other: ManagerHome | None = None) -> ManagerHome:
    """Return a data directory, on the disk of another one."""
    home = ManagerHome(path, retention_ms=-1)
    if other is not None:
        home.fs, home.clock, home.scheduler = other.fs, other.clock, other.scheduler
    return home


def mirror(source: ManagerHome, target: ManagerHome) -> None:
    """Run once."""
    found = open_directory_read_only(*source.paths, fs=source.fs)
    with target.open_as(Loading.FIRST_USE) as manager:
        Mirror(found, manager, *target.paths).run()


@pytest.mark.parametrize("start", [5, 18, 20, 25, 40])
def test_what_a_mirror_has_deleted_stays_deleted_in_an_archived_source(
    store: Timed, start: int
) -> None:
    """Also where only the archive has it, and where the source has nothing of what is left."""
    home = home_at("/data")
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        assert manager.partition("t", 0).log.local_log_start_offset > 5
    copy = home_at("/copy", home)
    mirror(home, copy)
    with Logs(copy.open_as(Loading.FIRST_USE)) as logs:
        append(logs.manager, 20)
        logs.delete_records("t", 0, start)
        assert logs.offsets("t", 0).log_start_offset == start

    mirror(copy, home)

    for end in (40, 41):
        with service(home) as manager:
            assert offsets_read(home) == owned(manager) == list(range(start, end))
            archive(manager)
            assert metrics_of(manager, "FailedLogsCount") == 0
            assert state_of(store, manager).start == start
            append(manager, 1)


def test_an_archived_source_gets_what_follows_what_only_the_archive_has(store: Timed) -> None:
    """The last batch, by which the two are compared, need not be on the disk."""
    home = home_at("/data")
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        manager.partition("t", 0).log.maybe_roll()
        archive_and_delete(home, manager)
        assert manager.partition("t", 0).log.local_log_start_offset == 20
    copy, others = home_at("/copy", home), home_at("/others", home)
    mirror(home, copy)
    mirror(home, others)
    with copy.open_as(Loading.FIRST_USE) as other:
        append(other, 5)
    with others.open_as(Loading.FIRST_USE) as other:
        append(other, 1)  # it is open then
        other.truncation.truncate_to({("t", 0): 19})
        append(other, 5)

    with pytest.raises(MirrorDiverged):
        mirror(others, home)
    mirror(copy, home)

    with service(home) as manager:
        assert offsets_read(home) == owned(manager) == list(range(25))
        archive(manager)
        assert (state_of(store, manager).start, metrics_of(manager, "FailedLogsCount")) == (0, 0)
