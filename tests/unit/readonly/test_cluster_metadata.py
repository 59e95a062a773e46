"""The cluster's metadata in a data directory: snapshot, log, damage."""

from __future__ import annotations

import errno
import logging
import os
import tracemalloc
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery import metadata_log as made
from tests.machinery.directory_home import DataHome

from tidelog.codec.checkpoint_file import MAX_FILE_BYTES
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptFile, KafkaStorageError
from tidelog.readonly.cluster_metadata import (
    MAX_BATCH_BYTES,
    ClusterMetadata,
    find_broker_settings,
    read_bootstrap_types,
    read_cluster_metadata,
)
from tidelog.records.control import ControlType

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE, TWO = UUID(int=1), UUID(int=2)
FIRST = [made.topic("t", ONE), made.setting("retention.ms", "1", "t")]
SECOND = [made.setting("retention.ms", "2", "t"), made.message(20)]
LOG = made.metadata_log([FIRST, SECOND])
"""Offsets 0 (leader), 1 and 2, 3 and 4."""


def home_with(log: bytes = LOG, start: int = 0, **snapshots: bytes) -> DataHome:
    """Return a data directory with this metadata."""
    home = DataHome()
    made.write_metadata(home.fs, home.path, log, start=start, **snapshots)
    home.write("__cluster_metadata-0/quorum-state", '{"currentVoters":[{"voterId":1}]}')
    return home


def read(home: DataHome) -> ClusterMetadata:
    """Read the metadata, which is there."""
    found = read_cluster_metadata(home.path, fs=home.fs)
    assert found is not None
    return found


def retention(home: DataHome) -> str | None:
    """Return what is known of the topic's ``retention.ms``."""
    settings = find_broker_settings([home.path], fs=home.fs, topic_ids=[ONE])
    known = settings.of_topic("t", ONE).get("retention.ms")
    return None if known is None else known.value


def test_a_directory_without_metadata_has_none() -> None:
    """That is what most directories are."""
    home = DataHome()
    home.fs.make_directory(home.path)

    assert read_cluster_metadata(home.path, fs=home.fs) is None


def test_a_log_without_snapshot_is_read_from_its_start() -> None:
    """All records count, in order."""
    found = read(home_with())

    assert (found.snapshot_end, found.end, found.voters) == (0, 5, 1)
    assert retention(home_with()) == "2"


def test_records_behind_the_newest_snapshot_count_only() -> None:
    """What a snapshot covers is not applied again, even within one batch."""
    snapshot = made.metadata_snapshot([made.topic("t", ONE)])

    assert retention(home_with(s4=snapshot)) is None
    assert retention(home_with(s3=snapshot)) == "2"


def _flipped(snapshot: bytes) -> bytes:
    """Change the value of a setting, so that its batch has a wrong CRC."""
    at = snapshot.index(b"retention.ms") + len(b"retention.ms") + 1
    return snapshot[:at] + b"8" + snapshot[at + 1 :]


def test_a_snapshot_that_is_not_complete_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """The next older one is used, or the log; a warning names the file."""
    old = made.metadata_snapshot([made.topic("t", ONE)])
    torn = made.metadata_snapshot([made.setting("retention.ms", "9", "t")], is_whole=False)
    whole = made.metadata_snapshot([made.setting("retention.ms", "9", "t")])
    with caplog.at_level(logging.WARNING):
        known = [
            retention(home_with(s3=old, s4=bad))
            for bad in (torn, torn[:-7], b"", torn + b"x", _flipped(whole))
        ]

    assert known == ["2"] * 5
    assert caplog.messages[0].startswith(
        "metadata-snapshot-skipped path=/data/__cluster_metadata-0"
    )


def test_a_snapshot_newer_than_the_log_is_enough() -> None:
    """A node that fetched a snapshot has a log that begins at its end."""
    home = home_with(b"", 50, s50=made.metadata_snapshot(FIRST))

    assert retention(home) == "1"


def _with_a_hole() -> DataHome:
    home = home_with(made.metadata_log([FIRST]))
    made.write_metadata(home.fs, home.path, made.metadata_log([SECOND], start=4), start=4)
    return home


DAMAGED: dict[str, Callable[[], DataHome]] = {
    "a flipped byte in the middle": lambda: home_with(LOG[:150] + b"\xff" + LOG[151:]),
    "no snapshot for a log that begins later": lambda: home_with(
        made.metadata_log([FIRST], start=9), 9
    ),
    "a hole": _with_a_hole,
    "a malformed record": lambda: home_with(made.metadata_log([FIRST, [b"\x01\x04\x00\x02"]])),
    "an unknown version": lambda: home_with(
        made.metadata_log([FIRST, [made.message(2, b"x", version=7)]])
    ),
    "a frame that is cut short": lambda: home_with(made.metadata_log([FIRST, [b"\x01\x14"]])),
    "an empty value": lambda: home_with(made.metadata_log([FIRST, [b""]])),
    "a type without end": lambda: home_with(made.metadata_log([FIRST, [b"\x01\x80\x80"]])),
    "a control record cut short": lambda: home_with(
        LOG + made.control(ControlType.LEADER_CHANGE, b"\0", 5)
    ),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_metadata_gives_an_error_and_unknown_settings(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of it is used; a warning says why, and nothing stops."""
    home = DAMAGED[kind]()

    with pytest.raises(KafkaStorageError):
        read_cluster_metadata(home.path, fs=home.fs)
    with caplog.at_level(logging.WARNING):
        assert retention(home) is None
    assert caplog.messages[-1].startswith("cluster-metadata-unusable directory=/data")


@pytest.mark.parametrize("value", [b"\x01\x14\x80", b"\x01\x7f\x80"])
def test_records_of_other_types_are_not_looked_at(value: bytes) -> None:
    """Whatever is in them: most of a busy cluster's records are of such types."""
    assert retention(home_with(made.metadata_log([FIRST, [value], SECOND]))) == "2"


def test_a_failing_disk_is_not_damage() -> None:
    """No older snapshot is used in place of one that could not be read."""
    snapshot = made.metadata_snapshot([made.topic("t", ONE)])
    for suffix in (".checkpoint", ".log"):
        home = home_with(s3=snapshot)
        home.fs.fail("open", suffix, OSError(errno.EIO, "bad"), 10)

        with pytest.raises(KafkaStorageError) as raised:
            read_cluster_metadata(home.path, fs=home.fs)

        assert not isinstance(raised.value, CorruptFile)


def test_what_is_deleted_while_it_is_read_is_named() -> None:
    """A controller deletes old segments and snapshots."""
    home = home_with(s3=made.metadata_snapshot([made.topic("t", ONE)]))
    path = f"{home.path}/__cluster_metadata-0/{3:020d}-{1:010d}.checkpoint"
    home.fs.fail("open", ".checkpoint", FileNotFoundError(errno.ENOENT, "gone", path))

    with pytest.raises(KafkaStorageError, match=f"^{path} was deleted while it was read"):
        read_cluster_metadata(home.path, fs=home.fs)


def test_the_newest_snapshot_is_used() -> None:
    """Here it covers the change that is in the log."""
    snapshot = made.metadata_snapshot([made.topic("t", ONE)])

    assert retention(home_with(s3=snapshot, s4=snapshot)) is None


def test_other_control_records_of_a_snapshot_do_not_matter() -> None:
    """They come between header and footer."""
    parts = [
        made.control(ControlType.SNAPSHOT_HEADER, bytes(2) + bytes(8) + made.NO_TAGS, 0),
        made.control(ControlType.KRAFT_VERSION, bytes(4) + made.NO_TAGS, 1),
        made.control(ControlType.SNAPSHOT_FOOTER, bytes(2) + made.NO_TAGS, 2),
    ]

    assert read(home_with(b"", 50, s50=b"".join(parts))).snapshot_end == 50


def test_a_snapshot_is_committed_and_what_follows_it_may_not_be() -> None:
    """However many records it holds, and though the change is the first record after it."""
    values = [made.topic("t", ONE), *[made.setting("retention.ms", "7", "t")] * 5]
    snapshot = made.metadata_snapshot(values)
    changed = made.metadata_log([FIRST, [made.setting("retention.ms", "2", "t")]], voters=3)
    unchanged = made.metadata_log([FIRST, [made.message(20)]], voters=3)

    home = home_with(changed, s3=snapshot)
    home.fs.delete(f"{home.path}/__cluster_metadata-0/quorum-state")
    assert (read(home).voters, retention(home)) == (None, None)
    home = home_with(unchanged, s3=snapshot)
    home.fs.delete(f"{home.path}/__cluster_metadata-0/quorum-state")
    assert retention(home) == "7"


def test_an_empty_log_ends_at_its_start() -> None:
    """Nothing is known then."""
    assert (read(home_with(b"")).end, retention(home_with(b""))) == (0, None)


def test_an_unfinished_batch_at_the_end_is_left_out() -> None:
    """A controller that was killed leaves it; it was never committed."""
    assert retention(home_with(LOG[:-3])) == "1"


def test_several_directories_with_metadata_leave_settings_unknown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One of them is a copy, perhaps an old one; a warning names both."""
    home = home_with()
    assert retention(home) == "2"
    assert not caplog.text
    made.write_metadata(home.fs, "/other", LOG)

    settings = find_broker_settings([home.path, "/other"], fs=home.fs, topic_ids=[ONE])

    assert settings.of_topic("t", ONE) == {}
    reason = f"several directories hold __cluster_metadata-0: {home.path}, /other"
    assert caplog.messages == [f"cluster-metadata-unusable directory={home.path} reason={reason}"]


@pytest.mark.parametrize(("voters", "known"), [(1, "2"), (3, None)])
def test_of_a_larger_quorum_the_end_may_not_be_committed(voters: int, known: str | None) -> None:
    """The directory of the topic proves that it was created, but no change after that."""
    home = home_with(made.metadata_log([FIRST, SECOND], voters=voters))

    assert retention(home) == known


def test_what_a_later_topic_on_disk_proves_is_committed() -> None:
    """Everything before the creation of a topic that has a directory is known."""
    third = [made.topic("u", TWO)]
    home = home_with(made.metadata_log([FIRST, SECOND, third], voters=3))

    known = [
        find_broker_settings([home.path], fs=home.fs, topic_ids=ids).of_topic("t", ONE)
        for ids in ([ONE], [ONE, TWO])
    ]

    assert [sorted(each) for each in known] == [[], ["retention.ms"]]


@pytest.mark.parametrize(
    ("state", "voters"),
    [
        ('{"currentVoters":[{"voterId":1}],"data_version":0}', 1),
        ('{"currentVoters":[{"voterId":1},{"voterId":2}]}', 2),
        ('{"leaderId":1,"data_version":1}', None),
        ("[[", None),
        ("[1]", None),
        ("[" * 100_000, None),
        (None, None),
    ],
)
def test_the_quorum_state_names_voters_where_no_record_does(
    state: str | None, voters: int | None
) -> None:
    """A snapshot may cover the record with which the last leader began."""
    home = home_with(b"", 50, s50=made.metadata_snapshot(FIRST))
    if state is None:
        home.fs.delete(f"{home.path}/__cluster_metadata-0/quorum-state")
    else:
        home.write("__cluster_metadata-0/quorum-state", state)

    assert read(home).voters == voters


def test_a_far_too_large_quorum_state_names_no_voters() -> None:
    """It may be sparse, and is not read whole."""
    home = home_with(b"", 50, s50=made.metadata_snapshot(FIRST))
    path = f"{home.path}/__cluster_metadata-0/quorum-state"
    with closing(home.fs.open(path, "w")) as file:
        file.truncate(MAX_FILE_BYTES + 1)

    assert read(home).voters is None


def test_a_quorum_state_too_large_for_one_is_not_read(tmp_path: Path) -> None:
    """It may be sparse, and larger than memory; it then names no voters."""
    made_in = home_with(b"", 50, s50=made.metadata_snapshot(FIRST))
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    for name in made_in.files("__cluster_metadata-0"):
        data = made_in.fs.read(f"{made_in.path}/__cluster_metadata-0/{name}")
        (folder / name).write_bytes(data)
    (folder / "quorum-state").touch()
    os.truncate(folder / "quorum-state", 1 << 40)

    found = read_cluster_metadata(str(tmp_path), fs=SYSTEM_FILES)

    assert found is not None
    assert (found.voters, found.end) == (None, 50)


def meta(cluster: str, node: int = 1) -> str:
    """Return the content of ``meta.properties``."""
    return f"version=1\ncluster.id={cluster}\nnode.id={node}\n"


def test_the_directory_of_the_metadata_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    """``metadata.log.dir`` names it, where no data directory holds metadata; never another's."""
    home = home_with()
    home.write("meta.properties", meta("c"))
    for path in ("/logs", "/foreign", "/none"):
        home.fs.make_directory(path)
    home.fs.write("/logs/meta.properties", meta("c").encode())
    home.fs.write("/foreign/meta.properties", meta("other").encode())

    def known(data_dir: str, metadata_dir: str) -> str | None:
        properties = {"metadata.log.dir": metadata_dir}
        settings = find_broker_settings(
            [data_dir], fs=home.fs, topic_ids=[ONE], server_properties=properties
        )
        found = settings.of_topic("t", ONE).get("retention.ms")
        return None if found is None else found.value

    assert known("/logs", f" {home.path} ") == "2"
    assert known(home.path, "/none") == "2"
    assert not caplog.text
    assert known("/foreign", home.path) is None
    assert "metadata.log.dir is that of another cluster" in caplog.text
    home.fs.write("/logs/meta.properties", b"version=1\ncluster.id=c\nnode.id=x\n")
    assert known("/logs", home.path) == "2"  # which cluster this is cannot be read
    home.write("meta.properties", "version=1\ncluster.id=c\nnode.id=x\n")
    assert known("/logs", home.path) is None
    assert retention(home) == "2"
    home.write("meta.properties", meta("c"))
    home.fs.fail("open", "/data/meta.properties", OSError(errno.EIO, "bad"))
    assert known("/logs", home.path) is None
    assert known("/logs", "/none") is None
    assert "metadata.log.dir holds no __cluster_metadata-0" in caplog.text


def sparse_batch(size: int) -> bytes:
    """Return the header of a batch that claims to have ``size`` bytes after its length."""
    return (0).to_bytes(8) + size.to_bytes(4) + bytes(4) + b"\2"


@pytest.mark.parametrize("name", [f"{0:020}.log", f"{12:020}-{1:010}.checkpoint"])
def test_no_memory_is_taken_for_a_batch_larger_than_controllers_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """A sparse file makes such a claim for a few bytes; it is damage, with file and byte."""
    made.write_metadata(SYSTEM_FILES, str(tmp_path), LOG)
    path = tmp_path / "__cluster_metadata-0" / name
    path.write_bytes(sparse_batch(MAX_BATCH_BYTES))
    os.truncate(path, 1 << 31)

    tracemalloc.start()
    try:
        if name.endswith(".log"):
            with pytest.raises(KafkaStorageError, match=f"at byte 0 of .*{name}"):
                read_cluster_metadata(str(tmp_path), fs=SYSTEM_FILES)
        else:
            assert read_cluster_metadata(str(tmp_path), fs=SYSTEM_FILES) is not None
            assert f"{name} reason=a batch of 67,108,876 bytes" in caplog.text
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak_bytes < MAX_BATCH_BYTES // 4


def test_large_batches_are_looked_for_in_each_segment_and_nothing_else(tmp_path: Path) -> None:
    """Whatever else lies there, and comes first: an index, and a file of somebody's."""
    made.write_metadata(SYSTEM_FILES, str(tmp_path), LOG)
    partition = tmp_path / "__cluster_metadata-0"
    claim = sparse_batch(MAX_BATCH_BYTES)
    for name in (f"{0:020}.txnindex", "0 notes.log"):
        (partition / name).write_bytes(claim)
        os.truncate(partition / name, MAX_BATCH_BYTES * 2)
    assert read_cluster_metadata(str(tmp_path), fs=SYSTEM_FILES) is not None

    later = partition / f"{100:020}.log"
    later.write_bytes(claim)
    os.truncate(later, MAX_BATCH_BYTES * 2)
    with pytest.raises(KafkaStorageError, match=f"at byte 0 of .*{later.name}"):
        read_cluster_metadata(str(tmp_path), fs=SYSTEM_FILES)


def test_a_claim_beyond_the_end_of_the_log_is_an_unfinished_batch() -> None:
    """Its writer was stopped: the records before it count."""
    home = home_with(LOG + sparse_batch((1 << 31) - 1))

    assert retention(home) == "2"


BOOTSTRAP = made.metadata_snapshot([made.feature("metadata.version", 29), made.message(20)])


def bootstrap_types(data: bytes) -> set[int]:
    """Return the types of the records in a ``bootstrap.checkpoint`` of these bytes."""
    home = DataHome()
    home.write("bootstrap.checkpoint", data)
    return read_bootstrap_types(f"{home.path}/bootstrap.checkpoint", fs=home.fs)


def test_the_types_of_all_data_records_of_a_bootstrap_file_are_known() -> None:
    """Control records, of which every such file has a header and a footer, have none."""
    assert bootstrap_types(BOOTSTRAP) == {12, 20}
    assert bootstrap_types(made.metadata_snapshot([])) == set()


@pytest.mark.parametrize(
    "data",
    [
        BOOTSTRAP[:-1],
        BOOTSTRAP + b"x",
        BOOTSTRAP.replace(b"metadata.version", b"metadata.versiom"),
        made.metadata_snapshot([b"\x01"]),
        sparse_batch(MAX_BATCH_BYTES),
    ],
    ids=["cut short", "a byte too many", "a wrong CRC", "a frame cut short", "a large batch"],
)
def test_a_damaged_bootstrap_file_is_refused(data: bytes) -> None:
    """Records of other types may be in what cannot be read, so the file must not be replaced."""
    with pytest.raises(CorruptFile, match=r"^/data/bootstrap.checkpoint cannot be read: "):
        bootstrap_types(data)


def test_a_bootstrap_file_on_a_failing_disk_is_not_called_damaged() -> None:
    """What is in it is not known; the error of the disk is reported as it is."""
    home = DataHome()
    home.write("bootstrap.checkpoint", BOOTSTRAP)
    home.fs.fail("open", "bootstrap.checkpoint", OSError(errno.EIO, "bad"))

    with pytest.raises(KafkaStorageError) as raised:
        read_bootstrap_types(f"{home.path}/bootstrap.checkpoint", fs=home.fs)

    assert not isinstance(raised.value, CorruptFile)
