"""Rescues from disks and directories that fail, onto disks that fail, and what is beside logs."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.machinery.scale import stride
from tests.unit.manager.test_mirror import append
from tests.unit.manager.test_rescue import DATA, LETTERS, LOG, NEW, Home, gaps, reasons, remove

from tidelog.archive.claim_file import ClaimFile, KnownArchive, claim_file, write_claim
from tidelog.codec.uuid_text import format_uuid
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.log.topic_id import pack_partition_metadata
from tidelog.manager.directories.new_directory import NewDirectory
from tidelog.manager.producer_ids import FILE_NAME as PRODUCER_IDS_FILE
from tidelog.manager.producer_ids import ProducerIds
from tidelog.manager.rescue.rescue import BESIDE
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog.env.files import Buffer, FileStat, FileSystem, OpenFile

METADATA = "partition.metadata"
CATALOGUE = f"{DATA}/tidelog.topics.json"


class BadDisk:
    """A disk on which some bytes, files and directories cannot be read.

    ``bad`` maps a path to the bytes that fail; None: all that is done with it fails.
    """

    def __init__(self, below: FileSystem, bad: Mapping[str, range | None]) -> None:
        self._below = below
        self._bad = bad

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def open(self, path: str, mode: Any = "r") -> Any:
        self._check(path)
        file = self._below.open(path, mode)
        bad = self._bad.get(path)
        return file if bad is None else _BadFile(file, bad)

    def list(self, path: str) -> list[str]:
        self._check(path)
        return self._below.list(path)

    def stat(self, path: str) -> FileStat:
        self._fail(path)
        return self._below.stat(path)

    def is_link(self, path: str) -> bool:
        self._fail(path)
        return self._below.is_link(path)

    def _check(self, path: str) -> None:
        self._fail(path)

    def _fail(self, path: str) -> None:
        if path in self._bad and self._bad[path] is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)


class _BadFile:
    def __init__(self, below: OpenFile, bad: range) -> None:
        self._below = below
        self._bad = bad

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def pread(self, size: int, position: int) -> bytes:
        self._check(size, position)
        return self._below.pread(size, position)

    def pread_into(self, buffer: Buffer, position: int) -> int:
        self._check(len(memoryview(buffer)), position)
        return self._below.pread_into(buffer, position)

    def _check(self, size: int, position: int) -> None:
        if position < self._bad.stop and self._bad.start < position + size:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._below.path)


ONE_FILE = {"internal.segment.bytes": "1000000"}


def test_bytes_that_cannot_be_read_are_passed_by() -> None:
    """Page by page: batches in other pages are copied; the reason is that of the disk."""
    values = [b"%d" % (number % 10) * 1000 for number in range(20)]
    home = Home(*values, settings=ONE_FILE)
    (name,) = home.names()
    path = f"{LOG}/{name}"

    done = home.one(BadDisk(home.fs, {path: range(9000, 9001)}))

    size = len(home.fs.read(path)) // 20
    lost = [number for number in range(20) if size * (number + 1) > 8192 and size * number < 12288]
    assert sorted(home.values()) == [number for number in range(20) if number not in lost]
    assert gaps(done) == [(lost[0], lost[-1] + 1, True)]
    assert reasons(done) == ["Input/output error"]
    (what,) = done.left_out
    assert (what.position, what.size_bytes) == (size * lost[0], size * len(lost))


def test_files_that_cannot_be_opened_are_left_out_whole() -> None:
    """A segment, a cut file, and a partition that cannot be listed; the others are copied."""
    home = Home(*LETTERS, partitions=2)
    with home.home.open() as logs:
        append(logs.partition("t", 1).log, b"other")
    bad = f"{LOG}/{home.names()[1]}"

    done = home.one(BadDisk(home.fs, {bad: None}))
    assert [(what.path, what.position, what.is_loss) for what in done.left_out] == [
        (bad, None, True)
    ]
    assert "Input/output error" in reasons(done)[0]
    assert gaps(done)[0][2]

    rescued = home.rescue(fs=BadDisk(home.fs, {LOG: None}))
    assert [one.batches for one in rescued.partitions] == [0, 1]
    assert reasons(rescued.partitions[0])[0] == "Input/output error"
    # The offsets of what could not be listed are not given again.
    assert rescued.partitions[0].log_end_offset == 12

    cut = home.cut(1, 12, b"")
    rescued = home.rescue(fs=BadDisk(home.fs, {cut: None}))
    assert [one.path for one in rescued.entries if one.is_loss] == [cut]

    with pytest.raises(KafkaStorageError, match="Input/output error"):
        home.rescue(fs=BadDisk(home.fs, {DATA: None}))


def test_an_entry_that_cannot_be_looked_at_keeps_nothing_else_back(
    enumerated: Enumerated,
) -> None:
    """Whichever it is: one damaged inode, and all the others are copied."""
    home = Home(*LETTERS)
    with home.home.open() as logs:
        logs.create_topic("u")
        append(logs.partition("u", 0).log, b"other")
    home.cut(1, 12, b"")
    home.fs.make_directory(f"{DATA}/strange")
    names = home.fs.list(DATA)
    for name in names:
        rescued = home.rescue(fs=BadDisk(home.fs, {f"{DATA}/{name}": None}))

        wanted = {"t": 0 if name == "t-0" else 12, "u": 0 if name == "u-0" else 1}
        assert {one.topic: one.batches for one in rescued.partitions} == wanted, name
        if name in {"t-0", "u-0", "strange"} or name.endswith(".cut"):
            assert not rescued.is_whole, name
    enumerated("entries", len(names), at_least=9)


@pytest.mark.parametrize("name", ["t-0", "strange", f"t-1.{'0' * 32}-stray"])
def test_a_directory_that_cannot_be_listed_may_hold_records(name: str) -> None:
    """One that no catalogue names, as those of Kafka: that it holds no log was not seen."""
    home = Home(*LETTERS)
    home.fs.delete(CATALOGUE)
    if name != "t-0":
        home.fs.make_directory(f"{DATA}/{name}")

    rescued = home.rescue(fs=BadDisk(home.fs, {f"{DATA}/{name}": None}))

    assert [(one.path, one.reason, one.is_loss) for one in rescued.entries] == [
        (f"{DATA}/{name}", "Input/output error", True)
    ]


def test_a_file_that_fails_once_is_a_loss_and_no_more(enumerated: Enumerated) -> None:
    """Also where its damage is looked at again, to say what is in it, or where its name is."""
    home = Home(*LETTERS)
    names = home.names()
    home.spoil(names[1])
    home.fs.rename(f"{LOG}/{names[-1]}", f"{LOG}/{100:020d}.log")

    class FailsOnce(BadDisk):
        count = 0

        def open(self, path: str, mode: Any = "r") -> Any:
            self.count += path.endswith(".log")
            if self.count == number and path.endswith(".log"):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return super().open(path, mode)

    number, opens = 0, 1
    while number < opens:
        number += 1
        disk = FailsOnce(home.fs, {})
        rescued = home.one(disk)
        assert not rescued.is_whole
        assert rescued.batches >= 8
        opens = disk.count
    enumerated("files opened", opens, at_least=12)


@pytest.mark.parametrize("content", [bytes(40), b"version=1\n", None])
def test_a_cluster_that_is_not_known_is_named(content: bytes | None) -> None:
    """No broker of the old cluster starts on the new directory, which is of another one."""
    home = Home(*LETTERS)
    path = f"{DATA}/meta.properties"
    assert home.rescue().entries == ()
    if content is None:
        home.fs.delete(path)
    else:
        home.fs.write(path, content)

    (entry,) = home.rescue().entries

    assert (entry.path, entry.is_loss) == (path, False)
    assert "of a cluster of its own" in entry.reason


def test_damaged_ids_of_producers_are_not_copied() -> None:
    """The rescued directory gives out ids that none had, and takes them from another range."""
    home = Home(*LETTERS)
    path = f"{DATA}/{PRODUCER_IDS_FILE}"
    home.fs.write(path, bytes(60))

    rescued = home.rescue()

    assert [(one.path, one.is_loss) for one in rescued.entries] == [(path, True)]
    with home.home.open(paths=(NEW,)) as logs:
        assert ProducerIds(logs.manager).next() >= 1 << 40


def test_unknown_settings_delete_nothing() -> None:
    """Without a catalogue, or with a damaged one; the topic keeps the id of its partitions."""
    home = Home(*LETTERS, settings={"retention.ms": "5", "retention.bytes": "7"})
    topic_id = open_directory_read_only(DATA, fs=home.fs).topic("t").topic_id
    for content in (home.fs.read(CATALOGUE), b"{nonsense", None):
        if content is None:
            home.fs.delete(CATALOGUE)
        else:
            home.fs.write(CATALOGUE, content)
        rescued = home.rescue()
        topic = open_directory_read_only(NEW, fs=home.fs).topic("t")
        is_known = content is not None and content != b"{nonsense"
        assert topic.topic_id == topic_id
        assert topic.config["retention.ms"] == ("5" if is_known else "-1")
        assert topic.config["retention.bytes"] == ("7" if is_known else "-1")
        assert all(one.is_whole for one in rescued.partitions)
        assert len(rescued.entries) == (content == b"{nonsense")
        with home.home.open(paths=(NEW,)) as logs:
            assert logs.manager.config_of("t").retention_ms == (5 if is_known else -1)


def test_a_topic_without_an_id_gets_one() -> None:
    """Damaged and missing ``partition.metadata`` say nothing; those of other partitions count."""
    home = Home(*LETTERS, partitions=2)
    topic_id = open_directory_read_only(DATA, fs=home.fs).topic("t").topic_id
    home.fs.delete(CATALOGUE)
    home.fs.write(f"{LOG}/{METADATA}", b"\0\0")
    home.rescue()
    assert open_directory_read_only(NEW, fs=home.fs).topic("t").topic_id == topic_id
    home.fs.delete(f"{DATA}/t-1/{METADATA}")
    assert home.rescue().is_whole
    assert open_directory_read_only(NEW, fs=home.fs).topic("t").topic_id not in {None, topic_id}
    assert len(home.values()) == 12


def test_a_partition_that_is_missing_is_made_and_named() -> None:
    """By the catalogue, or by a gap in the numbers; it begins where its records ended."""
    home = Home(*LETTERS, partitions=3)
    with home.home.open() as logs:
        append(logs.partition("t", 1).log, b"a", b"b")
    for name in home.fs.list(f"{DATA}/t-1"):
        home.fs.delete(f"{DATA}/t-1/{name}")
    home.fs.delete_directory(f"{DATA}/t-1")
    for _ in range(2):
        rescued = home.rescue()
        one = rescued.partitions[1]
        assert reasons(one) == ["no directory that was named holds the partition"]
        assert (one.log_start_offset, one.log_end_offset, gaps(one)) == (2, 2, [(0, 2, True)])
        assert open_directory_read_only(NEW, fs=home.fs).topic("t").partitions == (0, 1, 2)
        home.fs.delete(CATALOGUE) if home.fs.exists(CATALOGUE) else None


def test_a_damaged_catalogue_is_a_loss() -> None:
    """It alone knows of a topic, or last partitions, whose directories are gone."""
    home = Home(*LETTERS, partitions=2)
    remove(home.fs, f"{DATA}/t-1")
    assert [one.is_whole for one in home.rescue().partitions] == [True, False]
    home.fs.write(CATALOGUE, b"{nonsense")
    rescued = home.rescue()
    assert [one.is_whole for one in rescued.partitions] == [True]
    (entry,) = rescued.entries
    assert (entry.path, entry.is_loss) == (DATA, True)
    assert "partitions whose directories are gone are not named" in entry.reason
    assert not rescued.is_whole


@pytest.mark.parametrize("name", ["", "/00000000000000000000.log"], ids=["listed", "read"])
def test_a_topic_that_is_deleted_meanwhile_is_no_loss(name: str) -> None:
    """Before its directory is listed, or before a segment of it is read."""
    home = Home(*LETTERS)

    class Deleting(BadDisk):
        def _check(self, path: str) -> None:
            if path == LOG + name and home.fs.exists(LOG):
                with home.home.open() as logs:
                    logs.delete_topic("t")

    rescued = home.rescue(fs=Deleting(home.fs, {}))

    assert rescued.is_whole
    assert set(reasons(rescued.partitions[0])) == {"its topic was deleted meanwhile"}


def test_what_was_on_a_disk_that_is_unmounted_was_not_deleted() -> None:
    """An empty directory is left where it was mounted, without the catalogue."""
    home = Home(*LETTERS)
    segment = f"{LOG}/{home.names()[2]}"

    class Unmounted(BadDisk):
        is_away = False

        def open(self, path: str, mode: Any = "r") -> Any:
            self.is_away |= path == segment
            return super().open(path, mode)

        def list(self, path: str) -> list[str]:
            return [] if self.is_away and path == DATA else super().list(path)

        def exists(self, path: str) -> bool:
            return not self.is_away and bool(self._below.exists(path))

        def _check(self, path: str) -> None:
            if self.is_away:
                raise FileNotFoundError(path)

    assert not home.rescue(fs=Unmounted(home.fs, {})).is_whole


def test_other_entries_are_named() -> None:
    """Directories that may hold records are losses; what was deleted and unknown files are not."""
    home = Home(*LETTERS)
    unique = "0" * 32
    directories = {
        f"t-1.{unique}-delete": False,
        f"t-1.{unique}-future": True,
        f"t-1.{unique}-stray": True,
        "notapartition": True,
        "remote-log-index-cache": False,
        "__cluster_metadata-0": False,
    }
    for name in directories:
        home.fs.make_directory(f"{DATA}/{name}")
        home.fs.write(f"{DATA}/{name}/{0:020d}.log", b"x")
    home.fs.write(f"{DATA}/notes.txt", b"x")
    home.fs.write(f"{DATA}/bootstrap.checkpoint", b"x")
    home.fs.write(f"{DATA}/tidelog.metrics.json", b"x")
    claim = f"tidelog.{UUID(int=1)}-0.archive"
    home.fs.write(f"{DATA}/{claim}", b"x")

    rescued = home.rescue()

    found = {os.path.basename(one.path): one.is_loss for one in rescued.entries}
    assert found == directories | {
        "notes.txt": False,
        "bootstrap.checkpoint": False,
        claim: True,
    }
    assert not rescued.is_whole
    assert not {*directories, "notes.txt"} & {*home.fs.list(NEW)}


def test_nothing_is_at_the_target_before_all_is(enumerated: Enumerated) -> None:
    """With a power cut at each operation; the next call completes it."""
    cuts = 0
    while True:
        home = Home(*LETTERS[:3])
        home.fs.crash_after(cuts)
        try:
            home.rescue()
        except PowerCut:
            home.fs.power_cut()
        else:
            break
        if home.fs.exists(NEW):
            assert "tidelog.topics.json" in home.fs.list(NEW)
        else:
            assert home.one().is_whole
        assert len(home.values()) == 3
        cuts += stride()
    enumerated("power cuts", cuts // stride(), at_least=30)


def test_a_full_disk_is_a_storage_error(enumerated: Enumerated) -> None:
    """Nothing is at the target then; with space the next call makes it."""
    home = Home(*LETTERS)
    full = 0
    for free in range(0, 600, 40):
        home.fs.set_free_bytes(free)
        with pytest.raises(KafkaStorageError, match="No space left"):
            home.rescue()
        assert not home.fs.exists(NEW)
        full += 1
    enumerated("full disks", full, at_least=10)
    home.fs.set_free_bytes(None)
    assert home.one().is_whole
    assert not home.fs.exists(NEW + BESIDE)


def test_what_is_at_the_target_is_left_alone() -> None:
    """There, beside it, and where the target is inside the source."""
    home = Home(*LETTERS[:1])
    home.fs.make_directory(NEW)
    assert home.one().is_whole
    home.fs.rename(NEW, "/disk/done")
    home.fs.make_directory(NEW)
    home.fs.write(f"{NEW}/mine", b"mine")
    with pytest.raises(InvalidArgument, match="there is something at /disk/new"):
        home.rescue(is_new=False)
    home.fs.delete(f"{NEW}/mine")
    home.fs.make_directory(NEW + BESIDE)
    home.fs.write(f"{NEW}{BESIDE}/mine", b"mine")
    with pytest.raises(InvalidArgument, match=r"/disk/new.rescuing is not of a rescue"):
        home.rescue()
    assert home.fs.list(NEW + BESIDE) == ["mine"]
    with pytest.raises(InvalidArgument, match="is in the source, /:"):
        home.rescue("/")
    with pytest.raises(InvalidArgument, match="/data/t-0 is the directory of one partition"):
        home.rescue(LOG)


def test_what_cannot_be_replaced_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    """The new directory is renamed to its place, which a mount point or a link cannot be."""
    home = Home(*LETTERS[:1])
    home.fs.make_directory(NEW)
    home.fs.fail("delete_directory", NEW, OSError(errno.EBUSY, os.strerror(errno.EBUSY), NEW))
    with pytest.raises(InvalidArgument, match="/disk/new is a mount point"):
        home.rescue(is_new=False)
    assert home.fs.list("/disk") == ["new"]
    for leads_to in (tmp_path, tmp_path / "nowhere"):
        link = tmp_path.parent / f"link to {leads_to.name}"
        link.symlink_to(leads_to)
        with pytest.raises(InvalidArgument, match="is a link: name the directory"):
            NewDirectory(SYSTEM_FILES, str(link), BESIDE)


def test_several_directories_are_rescued_as_one() -> None:
    """The partitions of a topic come from all of them; one that lies twice is not chosen."""
    home = Home()
    with home.home.open(paths=(DATA, "/more")) as logs:
        logs.create_topic("u", 2)
        append(logs.partition("u", 0).log, b"a")
        append(logs.partition("u", 1).log, b"b")

    rescued = home.rescue(DATA, "/more")

    found = {(one.topic, one.partition): one.batches for one in rescued.partitions}
    assert found == {("t", 0): 0, ("u", 0): 1, ("u", 1): 1}
    assert rescued.is_whole
    assert home.values(name="u-1") == {0: b"b"}


@pytest.mark.parametrize(
    ("archive", "is_loss"),
    [
        (None, False),
        (KnownArchive("file:///lake", 3, 5), False),
        (KnownArchive("file:///lake", 0, 5), True),
    ],
)
def test_an_archive_is_a_loss_only_where_the_log_begins_in_it(
    *, archive: KnownArchive | None, is_loss: bool
) -> None:
    """Else the disk has all of the log, and the archive a copy of closed segments."""
    home = Home(*LETTERS)
    topic_id = open_directory_read_only(DATA, fs=home.fs).topic("t").topic_id
    assert topic_id is not None
    home.fs.delete(f"{LOG}/{home.names()[0]}")
    claim = ClaimFile(drawn={"file:///lake": ("0" * 32,)}, archive=archive)
    write_claim(home.fs, claim_file(DATA, topic_id, 0), claim)

    rescued = home.rescue()

    assert [one.is_loss for one in rescued.entries] == [is_loss]
    assert "in an archive" in rescued.entries[0].reason
    assert rescued.is_whole is not is_loss


@pytest.mark.parametrize("is_listed", [True, False])
def test_records_of_another_topic_of_the_name_are_not_mixed_in(*, is_listed: bool) -> None:
    """It has another id, and is left out as a loss; without a catalogue, most partitions decide."""
    home = Home(b"a")
    with home.home.open(paths=("/other",)) as logs:
        logs.create_topic("t", 3)
        for number in range(3):
            append(logs.partition("t", number).log, b"b")
    known, other = (
        open_directory_read_only(path, fs=home.fs).topic("t").topic_id for path in (DATA, "/other")
    )
    assert known is not None
    assert other is not None
    for path in (DATA, "/other"):
        home.fs.delete(f"{path}/meta.properties")
        if not is_listed:
            home.fs.delete(f"{path}/tidelog.topics.json")
    if not is_listed:
        remove(home.fs, "/other/t-0")

    rescued = home.rescue(DATA, "/other")

    left = {what.path: what.reason for one in rescued.partitions for what in one.left_out}
    left |= {one.path: one.reason for one in rescued.entries if one.is_loss}
    if is_listed:
        assert set(left) == {"/other/t-0", "/other/t-1", "/other/t-2"}
    else:
        assert set(left) == {LOG}
    assert open_directory_read_only(NEW, fs=home.fs).topic("t").topic_id == (
        known if is_listed else other
    )
    for number, value in enumerate((b"a",) if is_listed else (None, b"b", b"b")):
        assert home.values(name=f"t-{number}") == ({} if value is None else {0: value})
    apart = format_uuid(other if is_listed else known)
    assert all(f"another topic named t by the id {apart}" in one for one in left.values())
    assert not rescued.is_whole


def test_an_id_that_contradicts_the_catalogue_keeps_no_records_back() -> None:
    """It is damaged: the catalogue says that this directory is the partition's."""
    home = Home(b"a")
    home.fs.write(f"{LOG}/partition.metadata", pack_partition_metadata(UUID(int=1)))

    one = home.one()

    assert (one.is_whole, len(one.left_out)) == (True, 1)
    assert one.left_out[0].path == f"{LOG}/partition.metadata"
    assert "another id than the catalogue" in one.left_out[0].reason
    assert home.values() == {0: b"a"}


def test_what_a_deleted_topic_of_the_name_left_is_no_loss() -> None:
    """Its directory only waits for removal, in another data directory."""
    home = Home()
    with home.home.open(paths=(DATA, "/more")) as logs:
        logs.create_topic("u", 1)
        (path,) = (f"{one}/u-0" for one in (DATA, "/more") if home.fs.exists(f"{one}/u-0"))
        kept = {name: home.fs.read(f"{path}/{name}") for name in home.fs.list(path)}
        logs.delete_topic("u")
        logs.create_topic("u", 1)
    other = f"{'/more' if path.startswith(DATA) else DATA}/u-0"
    if home.fs.exists(other):
        other = path
    home.fs.make_directory(other)
    for name, content in kept.items():
        home.fs.write(f"{other}/{name}", content)

    assert home.rescue(DATA, "/more").is_whole


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
@pytest.mark.parametrize("operation", ["open", "list", "pread"])
def test_a_shortage_is_not_taken_for_a_failing_disk(operation: str, code: int) -> None:
    """What was left out for it could be read another time: nothing is at the target."""
    home = Home(*LETTERS)
    path = LOG if operation == "list" else f"{LOG}/{home.names()[0]}"
    home.fs.fail(operation, path, OSError(code, "short of it", path))

    with pytest.raises(KafkaStorageError, match="short of it"):
        home.rescue()

    assert not home.fs.exists(NEW)
    home.fs.mend()
    assert home.rescue().is_whole
