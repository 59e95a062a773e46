"""How many requests and bytes reads of an archive cost, and that they find the same by it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.machinery.archives import files_with, shorten_coarse_indexes
from tests.machinery.object_model import ObjectModel
from tests.machinery.scale import examples

import tidelog
from tidelog.archive.archived_partitions import ArchivedPartitions
from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tidelog.readonly.read_only_log import ReadOnlyLog

URI = "s3://lake/counted"
VALUE_BYTES = 1000


class Request(NamedTuple):
    """A range that was fetched."""

    name: str
    size_bytes: int


class Counting(ObjectModel):
    """Counts what is fetched."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.fetched: list[Request] = []

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.fetched += [Request(name, end - start) for start, end in ranges]
        return super().get_ranges(name, ranges)

    def taken(self) -> list[Request]:
        """Return what was fetched since the last call."""
        taken, self.fetched = self.fetched, []
        return taken


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Counting:
    """An archive of 60,000 records in batches of 100, in segments of 16 MiB."""
    made, path = Counting(), tmp_path_factory.mktemp("counted")
    settings = {"retention.ms": "-1", "segment.bytes": str(16 << 20)}
    content = Random(5).randbytes(100_000)
    with tidelog.open(path) as logs:
        logs.create_topic("t", config=settings)
        for first in range(0, 60_000, 100):
            logs.append_all(
                "t",
                (
                    {"value": content[number : number + VALUE_BYTES], "timestamp": 1000 + number}
                    for number in range(first, first + 100)
                ),
            )
        archive_log(logs.manager, TopicPartition("t", 0), made, ArchiveTerms())
    return made


@pytest.fixture
def log(store: Counting) -> ReadOnlyLog:
    """The archived log, of which nothing was fetched but what the archive says of it."""
    found = open_directory_read_only(URI, fs=files_with(store, URI)).open("t", 0)
    assert store.taken() == []
    return found


def test_a_copy_with_nothing_to_do_writes_nothing(tmp_path: Path) -> None:
    """It reads the newest version; an archive that is copied to each hour does not grow by that.

    With records to copy, or settings that have changed, it is claimed.
    """
    made, key = ObjectModel(Random(0)), TopicPartition("t", 0)
    settings = {"retention.ms": "-1", "internal.segment.bytes": "3000"}
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", config=settings)
        archive_log(logs.manager, key, made, ArchiveTerms())
        logs.append_all("t", ({"value": bytes(500)} for _ in range(50)))
        claims = len(archive_log(logs.manager, key, made, ArchiveTerms()).copied) + 2
        for _ in range(3):
            written, before = dict(made.objects), made.requests
            done = archive_log(logs.manager, key, made, ArchiveTerms(sweeps=True))
            assert (done.copied, made.objects) == ((), written)
            assert made.requests - before <= claims + 5
        logs.alter_topic("t", {"retention.ms": "5"})
        archive_log(logs.manager, key, made, ArchiveTerms())
        assert len(made.objects) == len(written) + 1


@pytest.mark.parametrize("number", [0, 1, 1047, 16_383, 20_000, 31_416, 47_000])
def test_a_lookup_by_time_takes_two_requests(
    store: Counting, log: ReadOnlyLog, number: int
) -> None:
    """The coarse index of the segment, and the bytes around the record; not the other segments."""
    found = log.offset_at(1000 + number)
    assert found is not None
    assert found.offset == number
    taken = store.taken()
    assert len(taken) <= 2
    assert sum(one.size_bytes for one in taken) < 4 << 20


@pytest.mark.parametrize(
    ("start", "end"), [(20_000, 31_000), (5, 12_000), (12_345, 23_456), (0, 45_000), (100, 44_000)]
)
def test_a_range_is_fetched_with_little_around_it(
    store: Counting, log: ReadOnlyLog, start: int, end: int
) -> None:
    """In few requests, and at most a fifth more than its records are."""
    with log:
        found = [record.offset for record in log.records(start, end)]
    assert found == list(range(start, end))
    taken = store.taken()
    needed = (end - start) * VALUE_BYTES
    assert sum(one.size_bytes for one in taken) <= 1.2 * needed
    assert len(taken) <= 3 + 2 * needed / (8 << 20) + 2 * len({one.name for one in taken})


def test_a_look_for_holes_takes_little_of_each_segment(store: Counting, log: ReadOnlyLog) -> None:
    """Two requests: for an entry of its index, and for the last batches, of 100 KB each."""
    assert log.find_holes() == []
    taken = store.taken()
    assert len(taken) == 2 * (len(log.segments) - 1) > 2
    assert max(one.size_bytes for one in taken) < 300_000


@pytest.mark.parametrize("entry", [bytes(8), b"\xff" * 8, b"\x00\x00\x12\x34" * 2])
def test_the_end_of_a_segment_is_found_whatever_its_index_says(
    store: Counting, entry: bytes
) -> None:
    """Where an entry names no batch, the coarse index serves."""
    made, uri = ObjectModel(Random(0)), f"s3://lake/wrong-{entry[-1]}"
    made.objects |= store.objects
    (one,) = ArchivedPartitions(store, URI).all().values()
    for segment in one.state.entries:
        start, end = segment.section("index")
        data = made.objects[one.object_name(segment)]
        wrong = data[:start] + entry * ((end - start) // len(entry)) + data[end:]
        made.objects[one.object_name(segment)] = wrong
    with open_directory_read_only(uri, fs=files_with(made, uri)).open("t", 0) as log:
        ends = [segment.next_offset() for segment in log.segments[:-1]]
        assert ends == [segment.base_offset for segment in log.segments[1:]]


def test_a_range_that_begins_and_ends_anywhere_is_what_it_is_on_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With times that fall, batches of all sizes, and entries of the coarse index between them."""
    shorten_coarse_indexes(monkeypatch, 300)
    rng, made = Random(11), ObjectModel(Random(0))
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", config={"retention.ms": "-1", "internal.segment.bytes": "3000"})
        for _ in range(150):
            batch = [
                {"value": rng.randbytes(rng.randrange(90)), "timestamp": rng.randrange(1000, 1400)}
                for _ in range(rng.randrange(1, 6))
            ]
            logs.append_all("t", batch)
        archive_log(logs.manager, TopicPartition("t", 0), made, ArchiveTerms())
    uri = "s3://lake/anywhere"
    archived = open_directory_read_only(uri, fs=files_with(made, uri)).open("t", 0)
    with archived, tidelog.open_read_only(tmp_path / "t-0") as local:
        everything, end = [*local.records()], archived.high_watermark
        assert len(archived.segments) > 5
        assert end > 100
        for _ in range(examples(300)):
            start, stop = sorted((rng.randrange(end), rng.randrange(end + 1)))
            assert [*archived.records(start, stop)] == everything[start:stop]
            time = rng.randrange(990, 1410)
            found, wanted = archived.offset_at(time), local.offset_at(time)
            if wanted is not None and wanted.offset < end:
                assert found == wanted
