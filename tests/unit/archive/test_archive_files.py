"""An archive as a data directory that is only read."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machinery.archives import files_with
from tests.machinery.object_model import ObjectModel

import tidelog
from tidelog.archive import fetched_file
from tidelog.archive.archive_files import ArchiveFiles
from tidelog.archive.archived_partitions import ArchivedPartitions
from tidelog.archive.chain import Chain
from tidelog.archive.chain_state import ChainState
from tidelog.archive.coarse_index import COARSE_BYTES, COARSE_ENTRY
from tidelog.archive.deltas import Add, Claim, Deleted, Remove, Start
from tidelog.archive.fetched_file import ArchiveFile, Place
from tidelog.archive.segment_object import SegmentObject
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    CorruptArchive,
    CorruptMessage,
    InconsistentTopicId,
    InvariantError,
    UnknownTopicOrPartition,
)
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.testing import damage_batch

if TYPE_CHECKING:
    from pathlib import Path

ROOT = "s3://lake/logs"
ONE, TWO = UUID(int=1), UUID(int=2)


def archive(
    store: ObjectModel, directory: Path, topic: str = "t", topic_id: UUID = ONE, partition: int = 0
) -> tuple[Chain, ChainState]:
    """Archive the closed segments of a partition directory."""
    chain, state = Chain(store, topic_id, partition, store.rng), ChainState()
    chain.commit(state, (Claim("0" * 32, topic, {}),), 1)
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    for base, end in pairwise(bases):
        made = SegmentObject(SYSTEM_FILES, str(directory), base, end)
        name = f"s/{base:020}-1-{base:032x}"
        chain.commit(
            state,
            (
                Add(
                    made.entry(
                        name, store.put(chain.name(name), made.parts(), made.object_bytes).etag
                    )
                ),
            ),
            1,
        )
    return chain, state


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with 100 records in several segments of two partitions."""
    with tidelog.open(tmp_path, config={"internal.segment.bytes": 1000}) as logs:
        logs.create_topic("t", 2)
        for number in range(100):
            record = {"key": b"k", "value": b"%03d" % number * 20, "timestamp": 1000 + number}
            logs.append_all("t", [record | {"partition": number % 2}])
    return tmp_path


@pytest.fixture
def store() -> ObjectModel:
    return ObjectModel(Random(0))


def values(store: ObjectModel, partition: int = 0) -> list[bytes | None]:
    files = files_with(store, ROOT)
    with open_directory_read_only(ROOT, fs=files).open("t", partition) as log:
        return [record.value for record in log.records()]


def test_partitions_are_directories_with_files(data: Path, store: ObjectModel) -> None:
    """As Kafka names them; what is not of an archive is not there."""
    for number in range(2):
        archive(store, data / f"t-{number}", partition=number)
    store.put("not an id/0/m/x", [b""], len(b""))
    for other in ("x", "01", "-1", str(2**31), "9" * 5000, "²"):
        store.put(f"{ONE}/{other}/m/{1:020}", [b""], 0)
    files = ArchiveFiles(ArchivedPartitions(store, ROOT), ROOT)

    assert sorted(files.list(ROOT)) == [
        "log-start-offset-checkpoint",
        "meta.properties",
        "replication-offset-checkpoint",
        "t-0",
        "t-1",
        "tidelog.topics.json",
    ]
    names = files.list(f"{ROOT}/t-0")
    segments = sorted(name for name in names if name.endswith(".log"))
    assert segments == sorted(path.name for path in (data / "t-0").glob("*.log"))
    # The active segment is not archived; an empty one stands for it.
    assert files.read(f"{ROOT}/t-0/{segments[-1]}") == b""
    active = segments[-1].removesuffix(".log")
    others = {"leader-epoch-checkpoint", "partition.metadata"}
    others |= {name for name in names if name.startswith(active) and "snapshot" not in name}
    for name in names:
        path = data / "t-0" / name
        if path.exists() and name not in others:
            assert files.read(f"{ROOT}/t-0/{name}") == path.read_bytes()
            assert files.stat(f"{ROOT}/t-0/{name}").size_bytes == path.stat().st_size
    assert files.stat(f"{ROOT}/t-0").is_directory
    assert files.exists(ROOT)
    for other in (f"{ROOT}/t-2", f"{ROOT}/t-0/x", "/data", "s3://lake/other"):
        assert not files.exists(other)
        with pytest.raises(FileNotFoundError):
            files.list(other)
        with pytest.raises(FileNotFoundError):
            files.open(other)
    with pytest.raises(IsADirectoryError):
        files.open(f"{ROOT}/t-0")


def test_nothing_can_be_written(data: Path, store: ObjectModel) -> None:
    """A write is a fault of the program."""
    archive(store, data / "t-0")
    files = ArchiveFiles(ArchivedPartitions(store, ROOT), ROOT)
    path = f"{ROOT}/t-0/partition.metadata"

    for change in (
        lambda: files.open(path, "r+"),
        lambda: files.write(path, b""),
        lambda: files.delete(path),
        lambda: files.rename(path, path),
        lambda: files.make_directory(f"{ROOT}/x"),
        lambda: files.open(path).pwrite(b"", 0),
    ):
        with pytest.raises(InvariantError):
            change()


def test_the_log_begins_at_the_start_of_the_archive(data: Path, store: ObjectModel) -> None:
    """A reader that was opened before sees what it saw, as long as the objects are there."""
    chain, state = archive(store, data / "t-0")
    before = values(store)
    files = reading(files_with(store, ROOT))
    files.list(ROOT)
    first, second = state.entries[:2]
    chain.commit(state, (Start(second.base_offset + 1, "retention"), Remove(first.name)), 1)

    assert values(store) == before[second.base_offset + 1 :]
    with open_directory_read_only(ROOT, fs=files).open("t", 0) as log:
        assert [record.value for record in log.records()] == before


def test_deleted_topics_are_not_there_and_names_are_of_one_topic(
    data: Path, store: ObjectModel
) -> None:
    """A name with two ids is an error that lists them."""
    chain, state = archive(store, data / "t-0")
    archive(store, data / "t-0", topic_id=TWO)
    with pytest.raises(CorruptArchive, match=f"two topics named t: {ONE} and {TWO}"):
        values(store)

    chain.commit(state, (Deleted(),), 1)
    assert len(values(store)) > 10
    chain, state = Chain(store, TWO, 0, store.rng), Chain(store, TWO, 0, store.rng).read()
    chain.commit(state, (Deleted(),), 1)
    with pytest.raises(UnknownTopicOrPartition):
        values(store)


def test_damage_in_an_object_is_damage(data: Path, store: ObjectModel) -> None:
    """And one that is gone, or shorter, an error of the store."""
    _, state = archive(store, data / "t-0")
    name = f"{ONE}/0/{state.entries[1].name}"
    sound = store.objects[name]
    store.objects[name] = sound[:80] + bytes([sound[80] ^ 1]) + sound[81:]
    with pytest.raises(CorruptMessage):
        values(store)
    del store.objects[name]
    with pytest.raises(CorruptArchive, match="is gone, and the archive has not removed it"):
        values(store)


def test_a_damaged_segment_is_not_archived(data: Path) -> None:
    """Nor one whose batches reach into the next."""
    damage_batch(data, "t", 1, partition=0)
    with pytest.raises(CorruptMessage):
        SegmentObject(SYSTEM_FILES, str(data / "t-0"), 0, 8)
    with pytest.raises(CorruptMessage):
        SegmentObject(SYSTEM_FILES, str(data / "t-1"), 0, 3)


def test_a_coarse_index_has_an_entry_for_each_mebibyte(tmp_path: Path) -> None:
    """Each with the largest timestamp before it, so that a search by time needs no more."""
    with tidelog.open(tmp_path, config={"internal.segment.bytes": 5 << 20}) as logs:
        logs.create_topic("t")
        for number in range(60):
            record = {"value": os.urandom(100_000), "timestamp": 1000 + number}
            logs.append_all("t", [record])
    end = sorted(int(path.stem) for path in (tmp_path / "t-0").glob("*.log"))[1]
    made = SegmentObject(SYSTEM_FILES, str(tmp_path / "t-0"), 0, end)
    start, stop = made.entry("s/" + "0" * 20 + "-1-" + "0" * 32, "").section("coarse")

    import numpy as np

    entries = np.frombuffer(b"".join(made.parts())[start:stop], COARSE_ENTRY.dtype).tolist()
    assert 4 <= len(entries) <= 5
    assert entries[0] == (0, 0, -1)
    for (_, before, _), (offset, position, timestamp) in pairwise(entries):
        assert COARSE_BYTES <= position - before <= COARSE_BYTES + 110_000
        assert timestamp == 1000 + offset - 1


@given(st.data())
def test_parts_of_objects_read_as_files(data: st.DataObject) -> None:
    """Whatever was fetched before; nothing outside of the part is returned."""
    store = ObjectModel(Random(0))
    whole = bytes(range(256)) * 8
    store.put("x", [whole], len(whole))
    start, end = sorted(data.draw(st.tuples(st.integers(0, 2048), st.integers(0, 2048))))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fetched_file, "LOOK_BYTES", data.draw(st.integers(1, 300)))
        patched.setattr(fetched_file, "SCAN_BYTES", data.draw(st.integers(1, 3000)))
        file = ArchiveFile(store, "path", Place("x", start, end), pytest.fail)
        part = whole[start:end]
        assert file.size() == len(part)
        for _ in range(10):
            if data.draw(st.booleans()):
                file.will_read(
                    *sorted(data.draw(st.tuples(st.integers(0, 2048), st.integers(0, 2048))))
                )
            position, size = data.draw(st.tuples(st.integers(0, 2100), st.integers(0, 2100)))
            assert file.pread(size, position) == part[position : position + size]
            buffer = bytearray(size)
            count = file.pread_into(buffer, position)
            assert buffer[:count] == part[position : position + size]
    assert file.hold() is file
    file.close()
    assert file.pread(1, 0) == part[:1]
    file.close()
    with pytest.raises(OSError, match="closed") as caught:
        file.pread(1, 0) if part else file.hold()
    assert caught.value.errno == errno.EBADF


def test_a_file_of_known_bytes_keeps_them() -> None:
    """It has no object to fetch them from again, wherever a reader says it will read."""
    file = ArchiveFile(ObjectModel(Random(0)), "path", b"known", pytest.fail)
    for start, end in ((0, 5), (9, 30), (30, 9)):
        file.will_read(start, end)
        assert file.pread(5, 0) == b"known"


def test_a_scan_takes_few_requests(store: ObjectModel) -> None:
    """And a look few bytes."""
    store.put("x", [bytes(32 << 20)], len(bytes(32 << 20)))
    store.requests = 0
    file = ArchiveFile(store, "path", Place("x", 0, 32 << 20), pytest.fail)

    for position in range(0, 32 << 20, 1 << 20):
        file.pread(1 << 20, position)
    assert store.requests <= 6


@pytest.mark.parametrize("is_first", [True, False])
def test_the_archive_of_another_topic_of_the_name_is_not_read_as_this_one(
    data: Path, *, is_first: bool
) -> None:
    """A topic that was deleted and created again has an archive under its old id."""
    store = ObjectModel(Random(0))
    archive(store, data / "t-0")
    paths = [str(data), ROOT] if is_first else [ROOT, str(data)]
    directory = open_directory_read_only(*paths, fs=files_with(store, ROOT))

    with pytest.raises(InconsistentTopicId, match="two topics are named t"):
        directory.check_present({"t": None})
    with pytest.raises(InconsistentTopicId, match="two topics are named t"):
        directory.numbers_of("t")
