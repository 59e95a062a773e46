"""Archived logs whose disk was put back as it was before, or has lost what was never flushed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome
from tests.unit.service.test_archiving import (
    ARCHIVED,
    URI,
    active_base,
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

from tidelog.archive.claim_file import claims_among
from tidelog.archive.copier import REMOVED_MS
from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.manager.log_archiver import SWEEP_MS
from tidelog.manager.whole_log import archived_batches
from tidelog.readonly.missing.gaps import find_gaps
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tests.machinery.object_model import ObjectModel, Timed

    from tidelog.service.log_service import LogService


def followed(manager: LogService, store: ObjectModel) -> None:
    """Do what ``tidelog archive --truncate --continue`` does, and a pass of the service."""
    terms = ArchiveTerms(takes_over=True, truncates=True)
    archive_log(manager, TopicPartition("t", 0), store, terms)
    archive(manager)
    archive(manager)  # the first one only learns of the other claim


def test_what_was_deleted_stays_deleted_in_an_older_copy(store: Timed) -> None:
    """The log begins where its archive does, for its owner, too."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive(manager)
    older = home.fs.copied(1, clock=home.clock)
    with service(home) as manager:
        manager.partition("t", 0).log.delete_records(5)
        archive(manager)
    home.fs = older
    with service(home) as manager:
        followed(manager, store)
        assert owned(manager) == offsets_read(home) == list(range(5, 20))
        append(manager, 20)
        archive_and_delete(home, manager)
        assert state_of(store, manager).start == 5
        assert owned(manager) == offsets_read(home) == list(range(5, 40))


def test_an_older_copy_that_ends_before_its_archive_begins_begins_there(
    store: Timed, caplog: pytest.LogCaptureFixture
) -> None:
    """Where it is to be truncated; else it is left alone. No offset is given twice."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 4)
        archive(manager)
    older = home.fs.copied(1, clock=home.clock)
    with service(home) as manager:
        append(manager, 20)
        archive(manager)
        manager.partition("t", 0).log.delete_records(15)
        archive(manager)
    home.fs = older
    with service(home) as manager:
        before = dict(store.objects)
        archive(manager)
        assert "begins at offset 15, where the log, which was restored" in caplog.text
        assert "tidelog archive --truncate: the log is then empty and begins there" in caplog.text
        assert (owned(manager), store.objects) == (list(range(4)), before)
        followed(manager, store)
        assert metrics_of(manager, "FailedLogsCount") == 0
        append(manager, 20)
        archive_and_delete(home, manager)
        assert owned(manager) == offsets_read(home) == list(range(15, 35))
    with service(home) as manager:
        assert owned(manager) == offsets_read(home) == list(range(15, 35))


def test_a_program_that_knows_no_archives_may_delete(store: Timed) -> None:
    """As Kafka does, on request: the log begins there, and the archive follows."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        append(manager, 1)
        start = active_base(manager) + 1
        append(manager, 1)
    (claim,) = (f"/data/{name}" for name in home.files() if name.endswith(".archive"))
    home.fs.rename(claim, f"{claim}.hidden")
    with home.open() as other:
        other.partition("t", 0).log.delete_records(start)
    home.fs.rename(f"{claim}.hidden", claim)
    with service(home) as manager:
        assert owned(manager) == offsets_read(home) == list(range(start, 22))
        archive(manager)
        assert (state_of(store, manager).start, state_of(store, manager).entries) == (start, [])
        assert owned(manager) == offsets_read(home) == list(range(start, 22))


def test_an_archive_that_has_ended_is_not_ended_again_by_an_older_disk(store: Timed) -> None:
    """It deletes what is left of it, as the disk that has ended it would."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive(manager)
        manager.delete_topic("t")
    older = home.fs.copied(1, clock=home.clock)
    with service(home) as manager:
        archive(manager)
    home.fs = older
    with service(home) as manager:
        count = len(store.objects)
        archive(manager)
        assert len(store.objects) == count + 1  # to learn what time it is there
        assert metrics_of(manager, "FailedLogsCount") == 0
        store.now_ms = REMOVED_MS
        home.clock.advance(SWEEP_MS)
        assert objects_of(store) == len(claims_among(home.files())) == 0


@pytest.mark.parametrize("is_deleted_here", [False, True])
def test_a_file_that_was_never_flushed_costs_no_more_than_its_records(
    store: Timed, *, is_deleted_here: bool
) -> None:
    """A power cut takes the file of the segment that follows the archive, and leaves the next one.

    What is archived stays in the log, whether the disk has it or not.
    """
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive(manager)
        if is_deleted_here:
            archive_and_delete(home, manager)
        end = state_of(store, manager).end
        append(manager, 20)
        bases = manager.partition("t", 0).log.segments.base_offsets
    following = bases[bases.index(end) + 1]
    for name in home.files("/data/t-0"):
        if name.startswith(f"{end:020}"):
            home.fs.delete(f"/data/t-0/{name}")
    home.fs.delete("/data/.kafka_cleanshutdown")
    kept = [*range(end), *range(following, 40)]
    with service(home) as manager:
        assert owned(manager, lost=(end, following)) == offsets_read(home) == kept
        archive_and_delete(home, manager)
        assert metrics_of(manager, "FailedLogsCount") == 0
        assert [(one.start, one.end) for one in state_of(store, manager).skips] == [
            (end, following)
        ]
        assert owned(manager, lost=(end, following)) == offsets_read(home) == kept


@pytest.mark.parametrize("by", ["retention", "deletion"])
def test_a_log_begins_in_a_gap_for_its_owner_and_for_a_reader(store: Timed, by: str) -> None:
    """Where a deletion ends there; what is missing is a hole, and reads begin after it."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive(manager)
        end = state_of(store, manager).end
        append(manager, 20)
        bases = manager.partition("t", 0).log.segments.base_offsets
    following = bases[bases.index(end) + 1]
    for name in home.files("/data/t-0"):
        if name.startswith(f"{end:020}"):
            home.fs.delete(f"/data/t-0/{name}")
    home.fs.delete("/data/.kafka_cleanshutdown")
    home.clock.advance(60_000)
    with service(home) as manager:
        append(manager, 20)
        log = manager.partition("t", 0).log
        start = end
        archive_and_delete(home, manager)
        if by == "retention":
            entries = state_of(store, manager).entries
            first = [one for one in entries if one.base_offset >= end]
            kept_bytes = sum(one.size_bytes for one in first) + log.segments.active.size_bytes
            manager.alter_topic("t", {"retention.bytes": str(kept_bytes)})
        else:
            start = end + 1
            log.delete_records(start)
        archive(manager)
        check_start(home, manager, start, following)
    with service(home) as manager:
        check_start(home, manager, start, following)


def check_start(home: ManagerHome, manager: LogService, start: int, first: int) -> None:
    """Check where a log begins, and its first record, for its owner and for readers.

    Those are beside it, and of the archive alone.
    """
    owner = manager.partition("t", 0).log
    assert (owner.log_start_offset, owned(manager, lost=(start, first))[0]) == (start, first)
    fetched = archived_batches(owner, start, 1, Isolation.READ_UNCOMMITTED, home.fs)
    assert int.from_bytes(fetched[:8]) == first
    for paths in (home.paths, [URI]):
        files = reading(home.fs)
        with open_directory_read_only(*paths, fs=files).open("t", 0) as log:
            missing = [(start, first)]
            assert (log.log_start_offset, log.find_holes(), log.holes) == (start, missing, [])
            assert next(iter(log.records())).offset == first
            assert log.holes == missing
            gaps = find_gaps(log, 0, first, fs=files)
            assert [(one.start_offset, one.end_offset) for one in gaps] == [(0, start), *missing]


def test_what_was_deleted_before_it_was_archived_is_no_part_of_an_archive(store: Timed) -> None:
    """One by hand, whose log was claimed when it had no closed segment, begins as the log does."""
    home = ManagerHome()
    key = TopicPartition("t", 0)
    with service(home) as manager:
        manager.create_topic("t", config={"internal.segment.bytes": "400"})
        append(manager, 1)
        archive_log(manager, key, store, ArchiveTerms())
        append(manager, 40)
        log = manager.partition("t", 0).log
        start = log.segments.base_offsets[3]
        log.delete_records(start)
        log.delete_segments_below_start()
        archive_log(manager, key, store, ArchiveTerms())
        assert log.log_start_offset == start
    with open_directory_read_only(URI, fs=home.fs).open("t", 0) as lone:
        assert (lone.log_start_offset, lone.find_holes()) == (start, [])


def test_an_older_copy_archives_what_was_missing_on_the_disk(store: Timed) -> None:
    """It has the records that the archive has noted as missing: these are copied after all."""
    home = ManagerHome()
    with service(home) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive(manager)
        end = state_of(store, manager).end
        append(manager, 20)
    older = home.fs.copied(1, clock=home.clock)
    for name in home.files("/data/t-0"):
        if name.startswith(f"{end:020}"):
            home.fs.delete(f"/data/t-0/{name}")
    with service(home) as manager:
        archive(manager)
        (skip,) = state_of(store, manager).skips
        assert skip.start == end
    home.fs = older
    with service(home) as manager:
        followed(manager, store)
        archive_and_delete(home, manager)
        state = state_of(store, manager)
        assert state.skips == []
        assert state.end == manager.partition("t", 0).log.local_log_start_offset
        assert owned(manager) == offsets_read(home) == list(range(40))
