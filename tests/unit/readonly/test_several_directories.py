"""Several data directories as one: where partitions are, and which ones a read would lack."""

from __future__ import annotations

import errno
import pickle
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pytest
from tests.machinery import metadata_log as made
from tests.machinery.stored_log import BATCHES

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import Catalogue, Topic, write_catalogue
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    InconsistentTopicId,
    InvalidArgument,
    KafkaStorageError,
    PartitionsElsewhere,
    UnknownTopicOrPartition,
)
from tidelog.readonly.absent_partitions import BY_FLAG
from tidelog.readonly.read_only_directory import ReadOnlyDirectory, open_directory_read_only
from tidelog.testing.crash_files import CrashFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.conftest import Enumerated

A, B, C = "/disks/a", "/disks/b", "/disks/c"
IDS: Final = {path: UUID(int=100 + number) for number, path in enumerate((A, B, C))}
TOPIC, OTHER_TOPIC = UUID(int=7), UUID(int=8)
ALL: Final[Mapping[str, None]] = {"t": None}


def disk(
    *directories: str, places: Mapping[str, Mapping[int, str]] | None = None
) -> CrashFileSystem:
    """Return a disk with partition directories, such as ``/disks/a/t-0``, of six records each.

    ``places``: the topics that the catalogue of each data directory names, with the path of the
    data directory that has each partition; None: there is none, as Kafka leaves directories.
    """
    fs = CrashFileSystem(0)
    for path, directory_id in IDS.items():
        fs.make_directory(path)
        fs.write(f"{path}/meta.properties", meta(directory_id))
        if places is not None:
            write_catalogue(fs, path, catalogue(places))
    for directory in directories:
        fs.make_directory(directory)
        fs.write(f"{directory}/{0:020}.log", b"".join(BATCHES))
    return fs


def meta(directory_id: UUID, cluster: str = "c") -> bytes:
    text = f"cluster.id={cluster}\nnode.id=1\ndirectory.id={format_uuid(directory_id)}\n"
    return f"version=1\n{text}".encode()


def metadata_of(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode()


def catalogue(places: Mapping[str, Mapping[int, str]], revision: int = 0) -> Catalogue:
    topics = {
        name: Topic(name, TOPIC, {n: IDS[path] for n, path in at.items()}, {}, revision)
        for name, at in places.items()
    }
    return Catalogue(topics)


def opened(fs: Any, *paths: str, accept: str | None = BY_FLAG) -> ReadOnlyDirectory:
    return open_directory_read_only(*paths, fs=fs, accept=accept)


def refusal(directory: ReadOnlyDirectory, wanted: Mapping[str, Any] = ALL) -> PartitionsElsewhere:
    with pytest.raises(PartitionsElsewhere) as caught:
        directory.check_present(wanted)
    return caught.value


def test_the_partitions_of_a_topic_come_from_all_directories() -> None:
    """Each is opened where it lies, with the checkpoints of its directory."""
    places = {"t": {0: A, 1: B, 2: A}}
    fs = disk(f"{A}/t-0", f"{B}/t-1", f"{A}/t-2", places=places)
    fs.write(f"{A}/replication-offset-checkpoint", b"0\n2\nt 0 5\nt 1 1\n")
    fs.write(f"{B}/replication-offset-checkpoint", b"0\n1\nt 1 4\n")
    directory = opened(fs, A, B)

    directory.check_present(ALL)
    watermarks = {log.directory: log.high_watermark for log in directory.logs("t")}

    assert watermarks == {f"{A}/t-0": 5, f"{B}/t-1": 4, f"{A}/t-2": 6}
    assert directory.topic("t").partitions == (0, 1, 2)
    assert (directory.missing, directory.paths) == ((), (A, B))


def test_partitions_that_the_catalogue_places_elsewhere_are_an_error() -> None:
    """It names them, their directory where that is found beside the one given, and what to do."""
    places = {"t": {0: A, 1: B, 2: B, 3: C}, "u": {0: A}, "v": {0: C}}
    directory = opened(disk(f"{A}/t-0", f"{A}/u-0", places=places), A)

    error = refusal(directory)

    assert error.partitions == (("t", 1, 2), ("t", 3, 3))
    assert error.directories == (B, C)
    assert str(error) == (
        "not all partitions are in /disks/a: t-1 to t-2 are in /disks/b; t-3 is in /disks/c. Name"
        " all data directories of these topics; or, for a part of them only, add --allow-partial"
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert refusal(directory, {"v": None}).partitions == (("v", 0, 0),)
    directory.check_present({"u": None})


def test_what_is_there_is_read_without_complaint() -> None:
    """Who names a partition, or accepts topics in part, is not asked about others."""
    fs = disk(f"{A}/t-0", places={"t": {0: A, 1: B}})

    opened(fs, A).check_present({"t": [0]})
    opened(fs, A, accept=None).check_present(ALL)

    assert refusal(opened(fs, A), {"t": [1, 0]}).partitions == (("t", 1, 1),)


def test_a_directory_that_cannot_be_found_is_named_by_its_id() -> None:
    """So is one that is offline, of which ``meta.properties`` cannot be read."""
    fs = disk(f"{A}/t-0", places={"t": {0: A, 1: B}})
    fs.delete(f"{B}/meta.properties")

    error = refusal(opened(fs, A))

    assert error.directories == ()
    assert f"t-1 is in the directory with directory.id {format_uuid(IDS[B])}" in str(error)


@pytest.mark.parametrize(
    ("numbers", "absent"),
    [
        ((0, 1, 2), []),
        ((1,), [("t", 0, 0)]),
        ((0, 2, 5), [("t", 1, 1), ("t", 3, 4)]),
        ((0, 2_147_483_647), [("t", 1, 2_147_483_646)]),
    ],
)
def test_a_hole_in_the_numbers_is_an_error_without_a_catalogue(
    numbers: tuple[int, ...], absent: list[tuple[str, int, int]]
) -> None:
    """As in the directories of a broker; a name with a large number costs nothing."""
    directory = opened(disk(*(f"{A}/t-{number}" for number in numbers)), A)

    if not absent:
        directory.check_present(ALL)
        return
    error = refusal(directory)

    assert list(error.partitions) == absent
    where = r"t-\d.* (is|are) in another data directory, or on another broker\. Name all"
    assert re.search(where, str(error))


def test_the_clusters_metadata_knows_more_partitions_than_the_last_one_found() -> None:
    """A broker's directory with the first ones has no hole; a reader that polls need not ask."""
    fs = disk(f"{A}/t-0", f"{A}/t-1", f"{B}/t-2")
    for path in (f"{A}/t-0", f"{A}/t-1"):
        fs.write(f"{path}/partition.metadata", metadata_of(TOPIC))
    records = [made.topic("t", TOPIC), *(made.partition(TOPIC, number) for number in range(4))]
    made.write_metadata(fs, A, made.metadata_log([records]))

    assert refusal(opened(fs, A)).partitions == (("t", 2, 3),)
    assert refusal(opened(fs, A, B)).partitions == (("t", 3, 3),)
    opened(fs, A).check_present(ALL, asks_metadata=False)

    for path in (f"{A}/t-0", f"{A}/t-1"):
        fs.rename(path, path.replace(A, C))
    assert refusal(opened(fs, A)).partitions == (("t", 0, 3),)
    assert opened(fs, A).topic_names == ()


def test_a_copy_that_is_being_made_is_not_a_partition() -> None:
    """Nor is one that waits to be deleted: the log itself is read."""
    hexadecimal = "0123456789abcdef" * 2
    fs = disk(f"{A}/t-0", f"{B}/t-0.{hexadecimal}-future", f"{B}/t-0.{hexadecimal}-delete")
    directory = opened(fs, A, B)

    directory.check_present(ALL)

    assert directory.partition_path("t", 0) == f"{A}/t-0"


@pytest.mark.parametrize("has_catalogue", [False, True])
def test_a_partition_that_is_in_two_directories_is_an_error(has_catalogue: bool) -> None:
    """It names both if it is not known which counts; other partitions are read."""
    fs = disk(f"{A}/t-0", f"{B}/t-0", f"{B}/t-1", places={} if has_catalogue else None)
    directory = opened(fs, A, B)

    with directory.open("t", 1) as log:
        assert log.log_end_offset == 6
    for look in (directory.open, directory.partition_path, directory.topic_id):
        with pytest.raises(KafkaStorageError, match=f"t-0 lies both in {A} and in {B}"):
            look("t", 0)


@pytest.mark.parametrize("paths", [(A, B), (B, A)])
def test_after_a_move_the_copy_that_the_catalogue_names_is_read(paths: tuple[str, str]) -> None:
    """What was left behind is older; the catalogue beside it says that it has left."""
    fs = disk(f"{A}/t-0", f"{B}/t-0", places={"t": {0: B}})

    assert opened(fs, *paths).partition_path("t", 0) == f"{B}/t-0"

    write_catalogue(fs, A, catalogue({"t": {0: A}}))  # an older file: A may have records of its own
    write_catalogue(fs, B, catalogue({"t": {0: B}}, revision=1))
    with pytest.raises(KafkaStorageError, match="lies both in"):
        opened(fs, *paths).partition_path("t", 0)


def test_a_directory_of_another_topics_id_is_not_the_partition() -> None:
    """A topic that was deleted and created again while a disk was offline has left one there."""
    fs = disk(f"{A}/t-0", f"{B}/t-0", places={"t": {0: A}})
    fs.write(f"{A}/t-0/partition.metadata", metadata_of(TOPIC))
    fs.write(f"{B}/t-0/partition.metadata", metadata_of(OTHER_TOPIC))

    assert opened(fs, A, B).partition_path("t", 0) == f"{A}/t-0"


def disk_of_two_topics(*, is_listed: bool) -> CrashFileSystem:
    """Return a disk with t-0 and t-2 of a topic, and t-1 of another one in B."""
    fs = disk(f"{A}/t-0", f"{B}/t-1", f"{A}/t-2", f"{B}/u-0")
    for directory, topic_id in (
        (f"{A}/t-0", TOPIC),
        (f"{A}/t-2", TOPIC),
        (f"{B}/t-1", OTHER_TOPIC),
    ):
        fs.write(f"{directory}/partition.metadata", metadata_of(topic_id))
    if is_listed:
        write_catalogue(fs, A, catalogue({"t": {0: A, 2: A}}, revision=1))
        other = Topic("t", OTHER_TOPIC, {1: IDS[B]}, {})
        write_catalogue(fs, B, Catalogue({"t": other}))
    return fs


@pytest.mark.parametrize("paths", [(A, B), (B, A)])
@pytest.mark.parametrize("is_listed", [True, False])
def test_topics_of_one_name_are_not_read_as_one(paths: tuple[str, str], *, is_listed: bool) -> None:
    """A typed error names both; in part, the catalogue's is read, else what most partitions are."""
    fs = disk_of_two_topics(is_listed=is_listed)
    directory = opened(fs, *paths)

    with pytest.raises(InconsistentTopicId) as caught:
        directory.check_present(ALL)
    directory.check_present({"u": None})

    ids = (format_uuid(OTHER_TOPIC), format_uuid(TOPIC))
    assert str(caught.value).startswith(
        f"two topics are named t: {B}/t-1 has the id {ids[0]} in partition.metadata, and the topic"
        f" has {ids[1]}."
    )
    assert str(caught.value).endswith(f"; or, for the one with {ids[1]} only, add --allow-partial")
    in_part = opened(fs, *paths, accept=None)
    in_part.check_present(ALL)
    assert (in_part.topic("t").partitions, in_part.topic("t").topic_id) == ((0, 2), TOPIC)
    assert [str(key) for key in in_part.partitions] == ["t-0", "t-2", "u-0"]
    assert [log.directory for log in in_part.logs()] == [f"{A}/t-0", f"{A}/t-2", f"{B}/u-0"]
    for look in (in_part.open, in_part.partition_path, in_part.topic_id):
        with pytest.raises(InconsistentTopicId, match=f"{B}/t-1 has the id"):
            look("t", 1)
    assert opened(fs, B).topic("t").partitions == (1,)


def test_an_id_is_read_only_where_a_partition_may_be_another_topics(
    enumerated: Enumerated,
) -> None:
    """Not of those that the catalogue beside them lists, nor of a topic in one directory alone.

    A directory has thousands of partitions.
    """
    places = {"t": {0: A, 1: B}, "u": {0: A}}
    listed = Counted(disk(f"{A}/t-0", f"{B}/t-1", f"{A}/u-0", places=places))
    found = Counted(disk(f"{A}/t-0", f"{A}/t-1", f"{B}/u-0"))
    for counted in (listed, found):
        assert len(opened(counted, A, B).partitions) == 3

    enumerated("files", listed.operations["open"], at_least=1)
    assert [path for one in (listed, found) for path in one.opened if "t-" in path] == []


def test_a_topic_made_again_where_it_was_is_read_beside_an_older_catalogue() -> None:
    """Its directory alone was open then: the other one still lists the deleted topic."""
    fs = disk(f"{A}/t-0", f"{B}/u-0")
    fs.write(f"{A}/t-0/partition.metadata", metadata_of(TOPIC))
    write_catalogue(fs, A, catalogue({"t": {0: A}}))
    deleted = Topic("t", OTHER_TOPIC, {0: IDS[A]}, {}, 5)
    write_catalogue(fs, B, Catalogue({"t": deleted}))

    for paths in ((A, B), (B, A)):
        directory = opened(fs, *paths)
        directory.check_present(ALL)
        assert (directory.topic("t").topic_id, directory.topic("t").partitions) == (TOPIC, (0,))


def test_what_a_move_left_is_not_read_for_the_whole_topic() -> None:
    """The catalogue places it into a directory that is not given: records may be missing in it."""
    fs = disk(f"{A}/t-0", f"{A}/t-1", f"{B}/t-1", places={"t": {0: A, 1: B}})
    directory = opened(fs, A)

    error = refusal(directory)

    assert "t-1 is in /disks/b by tidelog.topics.json, so that what /disks/a holds" in str(error)
    with directory.open("t", 1) as log:
        assert log.log_end_offset == 6
    opened(fs, A, B).check_present(ALL)


def test_a_partition_that_was_moved_by_hand_is_found() -> None:
    """It lies in another of the directories than the catalogue says, and in no other."""
    fs = disk(f"{A}/t-0", f"{B}/t-1", places={"t": {0: A, 1: A}})
    directory = opened(fs, A, B)

    directory.check_present(ALL)

    assert (directory.topic("t").partitions, directory.missing) == ((0, 1), ())


def test_a_partition_that_is_lost_here_is_missing_and_not_elsewhere() -> None:
    """Its directory is one of those given; with the records that its checkpoint names."""
    fs = disk(f"{A}/t-0", places={"t": {0: A, 1: B}})
    fs.write(f"{A}/replication-offset-checkpoint", b"0\n1\nt 1 5\n")
    fs.write(f"{B}/replication-offset-checkpoint", b"0\n1\nt 1 9\n")
    directory = opened(fs, A, B)

    directory.check_present(ALL)

    assert directory.missing == (("t", 1, 9),)
    with pytest.raises(UnknownTopicOrPartition, match=f"no partition t-1 in {B}"):
        directory.open("t", 1)


def test_a_directory_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    """Also through a link: its partitions would lie in two directories otherwise."""
    data, link = tmp_path / "data", tmp_path / "link"
    (data / "t-0").mkdir(parents=True)
    (data / "t-0" / f"{0:020}.log").touch()
    link.symlink_to(data)

    directory = opened(SYSTEM_FILES, str(data), f"{data}/", str(link))

    assert directory.paths == (str(data),)
    assert directory.partition_path("t", 0) == str(data / "t-0")
    assert directory.part_at(str(link)) is directory.parts[0]


def test_directories_that_do_not_belong_together_are_refused() -> None:
    """A copy has the id of its original; topics of two clusters are not one topic."""
    fs = disk(f"{A}/t-0", f"{B}/t-1")
    fs.write(f"{B}/meta.properties", fs.read(f"{A}/meta.properties"))
    with pytest.raises(InvalidArgument, match="one is a copy of the other"):
        opened(fs, A, B).check_present(ALL)

    fs.write(f"{B}/meta.properties", meta(IDS[B], "x"))
    with pytest.raises(InvalidArgument, match="tidelog join"):
        opened(fs, A, B).check_present(ALL)


def test_the_last_change_of_the_catalogue_counts() -> None:
    """A writer changes one file after the other, and a deletion may be in one of them only."""
    fs = disk(f"{A}/t-0", f"{B}/u-0", places={"t": {0: A}})
    write_catalogue(fs, B, catalogue({"t": {0: A, 1: B}}, revision=3))
    assert opened(fs, A, B).missing == (("t", 1, None),)

    fs.write(f"{A}/t-0/partition.metadata", metadata_of(TOPIC))
    write_catalogue(fs, B, Catalogue({}, frozenset({TOPIC})))
    assert opened(fs, A, B).topic_names == ("u",)


class Hooked:
    """A disk that calls ``hook`` before each listing of a data directory."""

    def __init__(self, fs: CrashFileSystem, hook: Any) -> None:
        self._fs = fs
        self._hook = hook

    def list(self, path: str) -> list[str]:
        if path in IDS:
            self._hook(path)
        return self._fs.list(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)


@pytest.mark.parametrize(("source", "target"), [(A, B), (B, A)])
def test_a_partition_that_moves_between_two_listings_is_found(source: str, target: str) -> None:
    """It is in none of them, or in both: the directories are looked at again."""
    fs = disk(f"{source}/t-0", places={"t": {0: source}})
    listed = []

    def move(path: str) -> None:
        listed.append(path)
        if len(listed) == 2:
            for each in (source, target):
                write_catalogue(fs, each, catalogue({"t": {0: target}}, revision=1))
            fs.rename(f"{source}/t-0", f"{target}/t-0")

    directory = opened(Hooked(fs, move), A, B)

    assert directory.partition_path("t", 0) == f"{target}/t-0"
    assert directory.missing == ()


def test_a_topic_that_is_being_deleted_has_no_partitions_elsewhere() -> None:
    """One of its directories may be renamed between the listing and the look at its topic id."""
    fs = disk(f"{A}/t-0", f"{A}/t-1", f"{A}/u-0")
    for number in (0, 1):
        fs.write(f"{A}/t-{number}/partition.metadata", metadata_of(TOPIC))
    write_catalogue(fs, A, Catalogue({}, frozenset({TOPIC})))

    renamed: list[str] = []

    class Renaming(Hooked):
        def open(self, path: str, *mode: Any) -> Any:
            if path == f"{A}/t-1/partition.metadata" and not renamed:
                renamed.append(path)
                self._fs.rename(f"{A}/t-1", f"{A}/t-1.{0:032x}-delete")
            return self._fs.open(path, *mode)

    directory = opened(Renaming(fs, lambda _: None), A)
    directory.check_present({"t": None, "u": None})

    assert (len(renamed), directory.topic_names) == (1, ("u",))


def test_a_directory_that_is_offline_is_an_error_that_names_it() -> None:
    """What it holds cannot be known."""

    def fail(path: str) -> None:
        if path == B:
            raise OSError(errno.EIO, "Input/output error", B)

    fs: Any = Hooked(disk(f"{A}/t-0"), fail)

    with pytest.raises(KafkaStorageError, match=f"{B}: Input/output error"):
        opened(fs, A, B).check_present(ALL)
    with pytest.raises(InvalidArgument, match="/disks/d is not a data directory: it is missing"):
        opened(fs, A, "/disks/d")


def test_looking_takes_time_in_proportion_to_the_directories(enumerated: Enumerated) -> None:
    """Each file is read once, and a catalogue that all of them have is parsed once."""
    counts = []
    for count in (50, 100):
        fs, ids = CrashFileSystem(0), [UUID(int=1000 + number) for number in range(count)]
        topic = Topic("t", TOPIC, dict(enumerate(ids)))
        paths = [f"/data/{number}" for number in range(count)]
        for number, (path, directory_id) in enumerate(zip(paths, ids, strict=True)):
            fs.make_directory(f"{path}/t-{number}")
            fs.write(f"{path}/t-{number}/{0:020}.log", b"")
            fs.write(f"{path}/meta.properties", meta(directory_id))
            write_catalogue(fs, path, Catalogue({"t": topic}))
        counted = Counted(fs)
        directory = opened(counted, *paths)

        directory.check_present(ALL)
        assert len(list(directory.logs())) == count
        counts.append(counted.operations)
        read = [part.read_catalogue().catalogue for part in directory.parts]
        assert all(one is read[0] for one in read)

    enumerated("operations", sum(counts[1].values()), at_least=100)
    assert counts[1].total() < 2.1 * counts[0].total()
    assert max(counts[1].values()) < 12 * 100


def test_one_topic_is_found_without_a_look_at_the_others() -> None:
    """Among a thousand, each look for one would take a thousand operations of the disk."""
    counts = []
    for others in (1, 100):
        names = ["t", *(f"t-{number}" for number in range(others))]
        counted = Counted(disk(*(f"{A}/{name}-0" for name in names)))
        write_catalogue(counted._fs, A, catalogue({name: {0: A} for name in names}))
        directory = opened(counted, A)

        assert directory.topic("t").partitions == (0,)
        assert directory.numbers_of("t") == [0]
        with directory.open("t", 0) as log:
            assert log.log_end_offset == 6
        assert [found.directory for found in directory.logs("t")] == [f"{A}/t-0"]
        counts.append(counted.operations.total())
        assert directory.topic_names == tuple(sorted(names))

    assert counts[0] == counts[1]


def test_many_topics_are_looked_up_together() -> None:
    """Each look lists the directories: one for each topic takes time with the square of them."""
    names = [f"t{number}" for number in range(50)]
    counted = Counted(disk(*(f"{A}/{name}-0" for name in names)))
    directory = opened(counted, A)

    assert all(directory.has(name, 0) and not directory.has(name, 1) for name in names)
    with pytest.raises(UnknownTopicOrPartition, match="no topic u in"):
        directory.topic("u")
    assert sum(directory.known_topic(name) is not None for name in names) == 50
    assert directory.part_of("t49", 0).path == A
    assert counted.operations["list"] < 100


class Counted:
    """A disk that counts its operations by name."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self.operations: Counter[str] = Counter()
        self.opened: list[str] = []

    def open(self, path: str, *more: Any) -> Any:
        self.operations["open"] += 1
        self.opened.append(path)
        return self._fs.open(path, *more)

    def __getattr__(self, name: str) -> Any:
        self.operations[name] += 1
        return getattr(self._fs, name)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert "cluster-metadata-unusable" not in caplog.text
