"""A snapshot has a topic's closed segments as a whole, or not at all, and never changes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.archives import TOPIC, LogOfFiles, files_with
from tests.machinery.object_model import Stopping

import tidelog
from tidelog.archive.chain import Chain
from tidelog.archive.copier import Copier
from tidelog.archive.deltas import Deleted
from tidelog.archive.snapshots import copy_to_snapshot, snapshot_uri
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import ArchiveDiverged, ArchiveOvertaken, CorruptArchive, InvalidArgument
from tidelog.readonly.read_only_directory import open_directory_read_only

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog.archive.chain_state import ChainState

ROOT = "s3://lake/snapshots/monday"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with topic t of one partition."""
    path = tmp_path / "data"
    with tidelog.open(path, config={"internal.segment.bytes": 800}) as logs:
        logs.create_topic("t")
        for number in range(40):
            logs.append("t", b"%d " % number * 20, timestamp=1000)
    return path


def snapshot(store: Stopping, data: Path, partitions: int = 1) -> ChainState:
    """Copy t-0 to the snapshot."""
    return copy_to_snapshot(SYSTEM_FILES, store, LogOfFiles(data), store.rng, partitions)


def chain(store: Stopping) -> Chain:
    """Return the chain of t-0."""
    return Chain(store, TOPIC, 0, Random(0))


def check_whole(store: Stopping, data: Path) -> None:
    """Compare the snapshot with the closed segments; nothing else is on the store."""
    end = LogOfFiles(data).closed_segments()[-1].end_offset
    with tidelog.open_read_only(data / "t-0") as log:
        expected = [*log.records(0, end)]
    with open_directory_read_only(ROOT, fs=files_with(store, ROOT)).open("t", 0) as log:
        assert [*log.records()] == expected
    kept = {f"{TOPIC}/0/{entry.name}" for entry in chain(store).read().entries}
    assert {name for name in store.objects if "/s/" in name} == kept


def test_a_copy_that_is_broken_off_is_not_there_and_can_be_made_again(
    data: Path, enumerated: Enumerated
) -> None:
    """At each request; what was put before is deleted by the next one."""
    stops = 0
    while True:
        store = Stopping(stops + 1)
        try:
            snapshot(store, data)
        except KeyboardInterrupt:
            stops += 1
            is_there = chain(store).read().version == 1
            assert is_there == any("/m/" in name for name in store.objects)
            store.left = 0
            if is_there:  # its process does not know; another one deletes what it does not need
                with pytest.raises(ArchiveOvertaken, match="another process has made the snapshot"):
                    snapshot(store, data)
            else:
                snapshot(store, data)
            check_whole(store, data)
        else:
            check_whole(store, data)
            break
    enumerated("requests before or after which a process ended", stops, at_least=10)


def test_a_topic_is_read_only_with_all_its_partitions(data: Path) -> None:
    """A part of it would pass for the whole."""
    store = Stopping(0)
    snapshot(store, data, partitions=2)

    with pytest.raises(CorruptArchive, match="has 1 of the 2 partitions of t: the snapshot was"):
        open_directory_read_only(ROOT, fs=files_with(store, ROOT)).open("t", 0)


def test_a_snapshot_begins_where_the_log_does(data: Path) -> None:
    """Segments below that, which the next pass of retention deletes, are not in it."""
    store = Stopping(0)
    second = LogOfFiles(data).closed_segments()[1]
    log = LogOfFiles(data, first=second.base_offset + 2)

    state = copy_to_snapshot(SYSTEM_FILES, store, log, store.rng, 1)

    assert state.entries[0].base_offset == second.base_offset
    with open_directory_read_only(ROOT, fs=files_with(store, ROOT)).open("t", 0) as found:
        assert [one.offset for one in found.records()] == [*range(log.first, state.end)]


def test_a_snapshot_never_changes(data: Path) -> None:
    """No archive continues in it, not even by taking it over; a version that follows is damage."""
    store = Stopping(0)
    state = snapshot(store, data)
    for takes_over in (False, True):
        copier = Copier(SYSTEM_FILES, store, LogOfFiles(data), store.rng, takes_over=takes_over)
        with pytest.raises(ArchiveDiverged, match="is a snapshot, which never changes"):
            copier.copy()
    with pytest.raises(CorruptArchive, match="a version follows that of a snapshot"):
        chain(store).commit(state, [Deleted()], 1)
    check_whole(store, data)


def test_a_log_without_closed_segments_is_empty(tmp_path: Path) -> None:
    """And begins where the log does."""
    path = tmp_path / "data"
    with tidelog.open(path) as logs:
        logs.create_topic("t")
    store = Stopping(0)
    log = LogOfFiles(path, first=7)
    state = copy_to_snapshot(SYSTEM_FILES, store, log, store.rng, 1)

    assert (state.start, state.end, state.entries) == (7, 7, [])
    with open_directory_read_only(ROOT, fs=files_with(store, ROOT)).open("t", 0) as log_there:
        assert [*log_there.records()] == []


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "ä", "x" * 101, "a\n"])
def test_a_name_stays_a_directory_of_its_own(name: str) -> None:
    """It can neither lead out of the archive nor be taken for something else."""
    with pytest.raises(InvalidArgument, match="is not the name of a snapshot"):
        snapshot_uri("s3://lake/logs", name)
    assert snapshot_uri("s3://lake/logs/", "2026-11-28") == "s3://lake/logs/snapshots/2026-11-28"
