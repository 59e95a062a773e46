"""Logs that Kafka wrote, archived, and read from the archive by the readers of directories."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.golden.conftest import find_partitions, in_base64, link_all, topic_of
from tests.machinery.archives import files_with
from tests.machinery.object_model import ObjectModel

from tidelog.archive.chain import Chain
from tidelog.archive.chain_state import ChainState
from tidelog.archive.claim_file import ClaimFile, KnownArchive, claim_file, write_claim
from tidelog.archive.deltas import Add, Claim, Entry, Start
from tidelog.archive.segment_object import SegmentObject
from tidelog.arrow.read_topic import stream_of
from tidelog.arrow.topic_read import TopicRead
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.batch import INT64_MAX
from tidelog.segment.filenames import log_offsets

if TYPE_CHECKING:
    from pathlib import Path

    from tests.golden.conftest import Partition

    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.record import Record

ROOT = "s3://lake/golden"
TOPIC = UUID(int=5)


def archived(
    partition: Partition, store: ObjectModel, start: int = 0, topic_id: UUID = TOPIC
) -> ChainState:
    """Archive all closed segments of a partition; return the state of its chain."""
    directory = str(partition.directory)
    bases = sorted(log_offsets(SYSTEM_FILES.list(directory)))
    chain, state = Chain(store, topic_id, 0, store.rng), ChainState()
    first = Start(max(start, bases[0]), "delete-records")
    config = {"cleanup.policy": "compact"} if "compact" in partition.name else {}
    chain.commit(state, (Claim("0" * 32, topic_of(partition), config), first), 1)
    for base, end in pairwise(bases):
        made = SegmentObject(SYSTEM_FILES, directory, base, end)
        name = f"s/{base:020}-1-{base:032x}"
        put = store.put(chain.name(name), made.parts(), made.object_bytes)
        chain.commit(state, (Add(made.entry(name, put.etag)),), 1)
    return state


def opened(store: ObjectModel, topic: str) -> ReadOnlyLog:
    files = files_with(store, ROOT)
    return open_directory_read_only(ROOT, fs=files).open(topic, 0)


SEGMENTED = [
    one for one in find_partitions() if len(log_offsets(SYSTEM_FILES.list(str(one.directory)))) > 1
]


@pytest.fixture(params=SEGMENTED, ids=str)
def segmented(request: pytest.FixtureRequest) -> Partition:
    """A partition with closed segments."""
    found: Partition = request.param
    return found


def test_an_archive_has_the_records_that_kafka_gives(segmented: Partition, tmp_path: Path) -> None:
    """Those of closed segments, in any range; of committed ones, those that are decided there."""
    store = ObjectModel(random.Random(0))
    link_all([segmented], tmp_path)
    topic = topic_of(segmented)
    local = open_directory_read_only(str(tmp_path), fs=SYSTEM_FILES).open(topic, 0)
    state = archived(segmented, store, local.log_start_offset)
    with local, opened(store, topic) as log:
        assert (log.log_end_offset, log.topic_id) == (state.end, TOPIC)
        first = local.log_start_offset
        assert log.log_start_offset == first
        last = min(local.high_watermark, state.end)
        wanted = [*local.records(first, last)]
        assert [*log.records(first, last)] == wanted
        rng = random.Random(str(segmented))
        start, end = sorted(rng.randint(first, last) for _ in range(2))
        assert [*log.records(start, end)] == [*local.records(start, end)]
        stable = min(log.last_stable_offset(), last)
        shown = [*log.records(first, stable, committed=True)]
        assert shown == [*local.records(first, stable, committed=True)]
        # Kafka takes the time of an empty segment's file for that of its records.
        is_compacted = any(not entry.size_bytes for entry in state.entries)
        for record in [] if is_compacted else wanted[:: max(len(wanted) // 5, 1)]:
            moment = record.timestamp
            assert log.offset_at(moment) == local.offset_at(moment, state.end)


def test_a_log_that_begins_in_an_archive_is_as_it_was(segmented: Partition, tmp_path: Path) -> None:
    """However many of its first segments the disk has lost, in both isolations."""
    store = ObjectModel(random.Random(0))
    link_all([segmented], tmp_path)
    files, topic = files_with(store, ROOT), topic_of(segmented)
    directory = tmp_path / f"{topic}-0"
    directory.unlink()  # a link to what must not change
    shutil.copytree(segmented.directory, directory)
    with open_directory_read_only(str(tmp_path), fs=files).open(topic, 0) as log:
        topic_id, start = log.topic_id, log.log_start_offset
        wanted = listings(log)
    if topic_id is None:
        pytest.skip("a release of Kafka without topic ids wrote it")
    state = archived(segmented, store, start, topic_id)
    known = KnownArchive(ROOT, start, state.end)
    claim = claim_file(str(tmp_path), topic_id, 0)
    write_claim(SYSTEM_FILES, claim, ClaimFile(archive=known))

    assert state.entries
    for entry in state.entries:
        for file in list(directory.glob(f"{entry.base_offset:020}.*")):
            file.unlink()
        with open_directory_read_only(str(tmp_path), fs=files).open(topic, 0) as log:
            assert log.log_start_offset == start
            assert listings(log) == wanted


def listings(log: ReadOnlyLog) -> list[list[Record]]:
    return [
        [*log.records(None, log.visible_end(committed=level), committed=level)]
        for level in (False, True)
    ]


def test_an_archive_is_a_table(segmented: Partition) -> None:
    """For what reads directories with another file system."""
    store = ObjectModel(random.Random(0))
    archived(segmented, store)
    topic = topic_of(segmented)
    with opened(store, topic) as log:
        expected = [(one.offset, in_base64(one.value)) for one in log.records()]

    read = TopicRead.of(ROOT, topic)
    tables = stream_of(read, ["offset", "value"]).tables(read.plan())
    rows = [row for table in tables for row in table.to_pylist()]

    assert [(row["offset"], in_base64(row["value"])) for row in rows] == expected


def test_entries_say_what_is_in_a_segment(segmented: Partition) -> None:
    """Sizes, checksum, leader epochs, and transactions that are open at its end."""
    store = ObjectModel(random.Random(0))
    state = archived(segmented, store)

    assert state.entries
    for entry in state.entries:
        check_entry(entry, segmented)


def check_entry(entry: Entry, partition: Partition) -> None:
    path = partition.directory / f"{entry.base_offset:020}.log"
    assert entry.size_bytes == path.stat().st_size
    assert all(start <= entry.end_offset for _, start in entry.epochs)
    assert all(first < entry.end_offset for _, first in entry.opened)
    assert entry.max_timestamp < INT64_MAX
