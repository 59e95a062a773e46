"""What clients fetch of a log that begins in its archive."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.machinery.archives import shorten_coarse_indexes
from tests.machinery.manager_home import ManagerHome
from tests.machinery.transactions import append_transaction
from tests.unit.service.test_archiving import ARCHIVED, URI, append, archive_and_delete

from tidelog.archive import fetched_file
from tidelog.embedded.logs import Logs
from tidelog.manager.whole_log import archived_batches
from tidelog.records.batch import BATCH_HEADER, BatchFlags
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import transaction_index_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.machinery.object_model import Timed

    from tidelog.log.log import Log
    from tidelog.service.log_service import LogService

ALL, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED


def received_from(store: Timed, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return a list that gets the sizes of the ranges that are received from now on, by object."""
    received, get_ranges = list[tuple[str, int]](), store.get_ranges

    def counted(name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        received.extend((name, end - start) for start, end in ranges)
        return get_ranges(name, ranges)

    monkeypatch.setattr(store, "get_ranges", counted)
    return received


def fetched(home: ManagerHome, log: Log, isolation: Isolation, max_bytes: int) -> list[int]:
    """Return the offsets of the batches with records that a client gets, fetch by fetch."""
    at, found = log.log_start_offset, list[int]()
    while at < log.local_log_start_offset:
        data = archived_batches(log, at, max_bytes, isolation, home.fs)
        position = 0
        while position < len(data):
            header = BATCH_HEADER.unpack(data, position)
            if header.records_count and not header.attributes & BatchFlags.CONTROL:
                found.append(header.base_offset)
            at = header.base_offset + header.last_offset_delta + 1
            position += header.length + 12
    return found


def transactions(manager: LogService, count: int = 30) -> None:
    """Append transactions, each third of them aborted, with other records in between."""
    partition, now_ms = manager.partition("t", 0), manager.machine.clock.now_ms()
    for number in range(count):
        is_commit = number % 3 != 1
        append_transaction(
            *(partition, b"%d" % number * 100, b"second" * 20),
            is_commit=is_commit,
            producer_id=number,
            now_ms=now_ms,
        )
        append(manager, 1)


@pytest.mark.parametrize("max_bytes", [1, 900, 1 << 20])
def test_clients_get_the_records_that_the_owner_reads(store: Timed, max_bytes: int) -> None:
    """At each isolation level, however little they ask for at once."""
    home = ManagerHome()
    with home.open(tidelog_archive_uri=URI) as manager:
        manager.create_topic("t", config=ARCHIVED)
        transactions(manager)
        archive_and_delete(home, manager)
        log, logs = manager.partition("t", 0).log, Logs(manager)
        assert store.objects
        for isolation in (ALL, COMMITTED):
            records = logs.read("t", 0, isolation=isolation)
            values = {one.offset for one in records if one.offset < log.local_log_start_offset}
            expected = [at for at in fetched(home, log, ALL, 1 << 20) if at in values]
            assert fetched(home, log, isolation, max_bytes) == expected
        assert len(expected) > 20


def test_a_lost_index_of_transactions_is_no_leave_to_show_aborted_ones(store: Timed) -> None:
    """One that cannot be read is replaced by reading the batches."""
    home = ManagerHome()
    with home.open(tidelog_archive_uri=URI) as manager:
        manager.create_topic("t", config=ARCHIVED)
        transactions(manager)
        log = manager.partition("t", 0).log
        archive_and_delete(home, manager)
        assert store.objects
        expected = fetched(home, log, COMMITTED, 1 << 20)
        for base in log.segments.base_offsets:
            home.fs.write(transaction_index_file(log.directory, base), b"\xff" * 34)
        assert fetched(home, log, COMMITTED, 1 << 20) == expected


@pytest.mark.parametrize("isolation", [ALL, COMMITTED])
def test_a_fetch_receives_about_what_it_gives(
    store: Timed, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the rest of the segment, nor of the log: a client comes again for each megabyte."""
    shorten_coarse_indexes(monkeypatch, 500)
    monkeypatch.setattr(fetched_file, "SEEK_BYTES", 1000)
    home = ManagerHome()
    with home.open(tidelog_archive_uri=URI) as manager:
        manager.create_topic("t", config=ARCHIVED | {"internal.segment.bytes": "20000"})
        transactions(manager, 150)
        archive_and_delete(home, manager)
        log = manager.partition("t", 0).log
        received = received_from(store, monkeypatch)
        data = archived_batches(log, 0, 2000, isolation, home.fs)

    assert sum("/s/" in name for name in store.objects) >= 5
    assert 1000 < len(data) <= 2000
    large = {name for name, size in received if size > 1000}
    assert len(large) == 1
    assert sum(size for _, size in received) < 8000


def test_the_first_committed_record_comes_before_all_is_received(
    store: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner who reads a long log from its beginning does not wait for the end of its archive."""
    home = ManagerHome()
    with home.open(tidelog_archive_uri=URI) as manager:
        manager.create_topic("t", config=ARCHIVED)
        transactions(manager)
        archive_and_delete(home, manager)
        received = received_from(store, monkeypatch)
        found = iter(Logs(manager).read("t", 0, isolation=COMMITTED))
        next(found)
        first = {name for name, size in received if size > 500}
        rest = list(found)
        all_objects = {name for name, size in received if size > 500}

    assert rest
    assert len(first) == 1
    assert len(all_objects) > 10
    assert sum(size for _, size in received) < 1.2 * sum(map(len, store.objects.values()))


@contextmanager
def archived_log() -> Iterator[tuple[Log, Logs]]:
    """Open a log of 20 records, the first of which only the archive has."""
    home = ManagerHome()
    with home.open(tidelog_archive_uri=URI) as manager:
        manager.create_topic("t", config=ARCHIVED)
        append(manager, 20)
        archive_and_delete(home, manager)
        yield manager.partition("t", 0).log, Logs(manager)


def test_a_time_is_found_behind_records_of_the_archive_that_were_deleted(store: Timed) -> None:
    """Their segments stay in the archive until all of them are deleted."""
    with archived_log() as (log, logs):
        first = next(logs.read("t", 0)).timestamp
        for start in range(1, log.local_log_start_offset):
            logs.delete_records("t", 0, start)
            found = logs.offset_at("t", 0, first)
            assert found is not None
            assert found.offset == start
        assert store.objects


def test_the_owner_is_told_where_an_archived_log_begins(store: Timed) -> None:
    """Not where the disk does."""
    with archived_log() as (log, logs):
        logs.delete_records("t", 0, 2)
        assert log.local_log_start_offset > 2
        assert logs.offsets("t", 0) == (2, 20, 20, 20)
        assert store.objects
