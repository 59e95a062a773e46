"""A data directory is made of an archive, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.machinery.archives import files_with
from tests.machinery.manager_home import ManagerHome
from tests.machinery.object_model import ObjectModel
from tests.machinery.scale import stride

import tidelog
from tidelog.archive import open_archives
from tidelog.archive.deltas import Delta, Truncate
from tidelog.archive.open_archives import archive_at
from tidelog.cli.main import main
from tidelog.codec.checkpoint_file import read_leader_epochs
from tidelog.datadir.deletion_marks import mark_deleted
from tidelog.datadir.offset_checkpoints import read_offsets
from tidelog.embedded.logs import Logs
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    CorruptArchive,
    DirectoryLocked,
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.manager.lifecycle.deletion_queue import remove_directory
from tidelog.manager.manager_part import OpenStores
from tidelog.manager.producer_ids import ProducerIds
from tidelog.manager.restore import BESIDE, RestoredPartition, RestoredTopic, restore
from tidelog.manager.restore_lost import LostPartitions, restore_lost
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition
from tidelog.testing.crash_files import CrashFileSystem
from tidelog.testing.faults import PowerCut
from tidelog.testing.manual_time import ManualClock, ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Enumerated

    from tidelog.env.files import FileSystem
    from tidelog.manager.log_manager import LogManager
    from tidelog.service.log_service import LogService

URI = "s3://lake/restored"
TARGET = "/disk/back"
SETTINGS = {"retention.ms": "-1", "internal.segment.bytes": "800"}


@pytest.fixture
def store() -> ObjectModel:
    found = ObjectModel(Random(3))
    files_with(found, URI)
    return found


@pytest.fixture
def data(tmp_path: Path, store: ObjectModel) -> Path:
    """A directory whose topics are archived: two partitions, one of them from offset 7 on."""
    path = tmp_path / "data"
    with tidelog.open(path) as logs:
        logs.create_topic("t", 2, config=SETTINGS)
        for number in range(60):
            logs.append("t", b"%d" % number * 30, partition=number % 2)
        logs.delete_records("t", 1, 7)
        for number in range(2):
            archive_log(logs.manager, TopicPartition("t", number), store, ArchiveTerms())
    return path


def topics_of(uri: str = URI) -> list[RestoredTopic]:
    found = archive_at(uri).all()
    parts = {one.number: one for one in found.values()}
    first = parts[0]
    return [RestoredTopic("t", first.topic_id, SETTINGS, {}, parts)]


def restored(
    fs: FileSystem, store: ObjectModel, target: str = TARGET, **how: Any
) -> list[RestoredPartition]:
    scheduler = ManualScheduler(ManualClock())
    return restore(store, topics_of(), target, fs=fs, rng=Random(1), scheduler=scheduler, **how)


def test_the_files_are_those_that_were_archived(
    data: Path, store: ObjectModel, tmp_path: Path
) -> None:
    """Byte for byte; the log starts and ends where the archive does, and takes appends.

    Producers get other ids than they would get in the first directory.
    """
    back, seen = tmp_path / "back", list[int]()
    done = restored(SYSTEM_FILES, store, str(back), on_bytes=seen.append)

    for number, one in enumerate(done):
        logs = sorted((data / f"t-{number}").glob("*.log"))[:-1]
        copies = sorted((back / f"t-{number}").glob("*.log"))
        assert [path.name for path in copies[:-1]] == [path.name for path in logs]
        for path, copy in zip(logs, copies, strict=False):
            assert copy.read_bytes() == path.read_bytes()
            for suffix in (".index", ".timeindex", ".snapshot"):
                beside = path.with_suffix(suffix)
                if beside.exists() and suffix != ".snapshot":
                    assert copy.with_suffix(suffix).read_bytes() == beside.read_bytes()
        assert copies[-1].stat().st_size == 0
        assert one.size_bytes == sum(path.stat().st_size for path in logs)
        assert one.segments == len(logs)
    assert sum(seen) == sum(one.size_bytes for one in done)
    assert [one.log_start_offset for one in done] == [0, 7]
    assert not (tmp_path / f"back{BESIDE}").exists()
    assert main(["verify", str(back), "-q"]) == 0
    with tidelog.open(back) as opened, tidelog.open(data) as origin:
        assert ProducerIds(opened.manager).next() != ProducerIds(origin.manager).next()
        for number, one in enumerate(done):
            found = list(opened.read("t", number))
            assert found == [
                record for record in origin.read("t", number) if record.offset < one.log_end_offset
            ]
            assert opened.append("t", b"next", partition=number).offset == one.log_end_offset


@pytest.mark.usefixtures("data")
def test_nothing_is_at_the_target_before_all_is(store: ObjectModel, enumerated: Enumerated) -> None:
    """With a power cut at each operation; the next call completes it, and fetches less."""
    cuts = 0
    while True:
        fs = CrashFileSystem(cuts, clock=ManualClock())
        fs.make_directory("/disk")
        fs.sync_directory("/")
        fs.crash_after(cuts)
        try:
            restored(fs, store)
        except PowerCut:
            fs.power_cut()
        else:
            break
        if not fs.exists(TARGET):
            restored(fs, store)
        assert "tidelog.topics.json" in fs.list(TARGET)
        cuts += stride()
    enumerated("power cuts", cuts // stride(), at_least=30)


def segments_of(fs: FileSystem) -> dict[str, bytes]:
    """Return the bytes of the restored segments, by path."""
    return {
        path: fs.read(path)
        for directory in ("t-0", "t-1")
        for name in fs.list(f"{TARGET}/{directory}")
        if (path := f"{TARGET}/{directory}/{name}").endswith(".log")
    }


@pytest.mark.usefixtures("data")
def test_what_a_killed_call_has_written_is_durable_at_the_end(
    store: ObjectModel, enumerated: Enumerated
) -> None:
    """It may be in the memory of the system alone, though the next call finds it complete."""
    kills, expected = 0, dict[str, bytes]()
    while True:
        fs = CrashFileSystem(kills, clock=ManualClock())
        fs.make_directory("/disk")
        fs.sync_directory("/")
        fs.crash_after(kills)
        try:
            restored(fs, store)
        except PowerCut:
            fs.end_process(holds_locks=False)
        else:
            break
        if not fs.exists(TARGET):
            restored(fs, store)
            fs.power_cut("none")
        expected = expected or segments_of(fs)
        assert segments_of(fs) == expected
        kills += stride()
    enumerated("kills", kills // stride(), at_least=30)


@pytest.mark.usefixtures("data")
def test_what_is_there_is_left_alone(store: ObjectModel) -> None:
    """At the target, and beside it where another archive, or somebody else, has begun."""
    fs = CrashFileSystem(0, clock=ManualClock())
    fs.make_directory("/disk")
    fs.write(TARGET, b"mine")
    with pytest.raises(InvalidArgument, match="/disk/back is a file, not a directory"):
        restored(fs, store, f"{TARGET}/below")
    assert fs.read(TARGET) == b"mine"
    fs.delete(TARGET)
    fs.make_directory(TARGET)
    fs.write(f"{TARGET}/mine", b"1")
    with pytest.raises(InvalidArgument, match="there is something at /disk/back"):
        restored(fs, store)
    fs.delete(f"{TARGET}/mine")
    fs.make_directory(TARGET + BESIDE)
    fs.write(f"{TARGET}{BESIDE}/mine", b"1")
    with pytest.raises(InvalidArgument, match=r"/disk/back.restoring is not of this archive"):
        restored(fs, store)
    assert fs.list(TARGET + BESIDE) == ["mine"]
    fs.delete(f"{TARGET}{BESIDE}/mine")
    fs.delete_directory(TARGET + BESIDE)
    assert len(restored(fs, store)) == 2


def restored_in_part(store: ObjectModel, target: Path, segments: int) -> RestoredTopic:
    """Restore that many segments, then fail; return the topic that was to be restored."""
    left = iter(range(segments - 1))
    with pytest.raises(StopIteration):
        restored(SYSTEM_FILES, store, str(target), on_bytes=lambda _: next(left))
    (topic,) = topics_of()
    return topic


@pytest.mark.usefixtures("data")
def test_a_part_of_another_restore_does_not_pass_for_a_log(
    store: ObjectModel, tmp_path: Path
) -> None:
    """A call that fails has written some segments; the next one is asked for another partition."""
    back, scheduler = tmp_path / "back", ManualScheduler(ManualClock())
    topic = restored_in_part(store, back, segments=2)

    other = topic._replace(partitions={1: topic.partitions[1]})
    restore(store, [other], str(back), fs=SYSTEM_FILES, rng=Random(2), scheduler=scheduler)

    with tidelog.open(back) as logs:
        assert list(logs.topic("t").partitions) == [1]


@pytest.mark.usefixtures("data")
def test_segments_that_the_archive_has_lost_since_are_not_restored(
    store: ObjectModel, tmp_path: Path
) -> None:
    """A call that fails has written them; the next one finds the archive truncated."""
    back, scheduler = tmp_path / "back", ManualScheduler(ManualClock())
    count = len(topics_of()[0].partitions[0].state.entries)
    topic = restored_in_part(store, back, segments=count)

    state = topic.partitions[0].state.copy()
    nonce = "0" * 32
    cut = Truncate(state.entries[1].base_offset)
    state.apply(Delta(state.version + 1, nonce, state.claim_epoch, (cut,)))
    now = topic._replace(partitions={0: topic.partitions[0]._replace(known=state)})
    restore(store, [now], str(back), fs=SYSTEM_FILES, rng=Random(2), scheduler=scheduler)

    with tidelog.open(back) as logs:
        assert logs.offsets("t", 0).log_end_offset == state.end
        assert logs.count_records("t", 0).records == state.end


@pytest.mark.parametrize("what", ["m", "s"])
def test_a_damaged_partition_does_not_keep_the_others_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """Whether its chain or a segment is damaged: it is named, with exit code 1, and not there.

    Reads of it fail, as of one whose directory is lost: it does not pass for an empty partition.
    """
    data, lake, back = tmp_path / "data", tmp_path / "lake", tmp_path / "back"
    with tidelog.open(data) as logs:
        topic_id = logs.create_topic("t", 3, config=SETTINGS).topic_id
        for number in range(90):
            logs.append("t", b"%d" % number * 30, partition=number % 3)
    assert main(["archive", str(data), "--to", lake.as_uri()]) == 0
    kept = {}
    for path in sorted((lake / str(topic_id) / "1" / what).iterdir()):
        kept[path] = path.read_bytes()
        path.write_bytes(b"damaged" + kept[path][7:])
    capsys.readouterr()

    for ids in ([], ["--keep-ids"]):
        target = str(tmp_path / f"back{len(ids)}")
        assert main(["restore", lake.as_uri(), "--to", target, *ids]) == 1
        out, err = capsys.readouterr()

        assert [line.partition(":")[0] for line in out.splitlines()] == ["t-0", "t-2"]
        assert "tidelog restore: t-1 was not restored: " in err
        assert sorted(one.name for one in Path(target).glob("t-*")) == ["t-0", "t-2"]
        readers = tidelog.open_directory_read_only(target)
        for number in (0, 2):
            assert [one.value for one in readers.read("t", number)][:2] == [
                b"%d" % number * 30,
                b"%d" % (number + 3) * 30,
            ]
        with pytest.raises(UnknownTopicOrPartition):
            list(readers.read("t"))
    assert f"restore {lake.as_uri()} TOPIC -p N --to {target} once" in err
    for path, content in kept.items():
        path.write_bytes(content)
    assert main(["restore", lake.as_uri(), "t", "-p", "1", "--to", target]) == 0
    assert len(list(tidelog.open_directory_read_only(target).read("t"))) > 60
    for path in lake.glob(f"{topic_id}/*/{what}/*"):
        path.write_bytes(b"damaged" + path.read_bytes()[7:])
    open_archives._archives.clear()  # it knows the chains
    assert main(["restore", lake.as_uri(), "--to", str(back)]) == 1
    assert not back.exists()


@pytest.mark.usefixtures("data")
def test_damage_and_a_full_disk_are_errors(store: ObjectModel) -> None:
    """Of the object, and of the disk; what was restored before is kept for the next call."""
    fs = CrashFileSystem(0, clock=ManualClock())
    fs.make_directory("/disk")
    (name, *_) = sorted(name for name in store.objects if "/1/s/" in name)
    sound = store.objects[name]
    store.objects[name] = sound[:80] + bytes([sound[80] ^ 1]) + sound[81:]
    with pytest.raises(CorruptArchive, match="has other bytes than were archived"):
        restored(fs, store)
    del store.objects[name]
    with pytest.raises(CorruptArchive, match=f"{name} is gone, and the archive has not removed it"):
        restored(fs, store)
    store.objects[name] = sound
    fs.set_free_bytes(100)
    with pytest.raises(KafkaStorageError):
        restored(fs, store)
    fs.set_free_bytes(1 << 30)
    assert len(restored(fs, store)) == 2
    assert not fs.exists(TARGET + BESIDE)


def test_the_command_makes_new_topics_or_continues_the_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new topic has another id and is not archived; a continued one is what it was."""
    data, lake = tmp_path / "data", (tmp_path / "lake").as_uri()
    archived = {**SETTINGS, "remote.storage.enable": "true"}
    with tidelog.open(data) as logs:
        topic_id = logs.create_topic("t", config=archived).topic_id
        logs.append_all("t", [b"%d" % number * 30 for number in range(60)])
        for number in range(60):
            logs.append("t", b"%d" % number * 30)
    assert main(["archive", str(data), "--to", lake]) == 0
    assert main(["restore", lake, "--to", str(tmp_path / "new")]) == 0
    assert main(["restore", lake, "t", "--to", str(tmp_path / "same"), "--keep-ids"]) == 0
    assert main(["restore", str(data), "--to", str(tmp_path / "x")]) == 2
    assert f"is not the URI of an archive, as file://{data} is: tidelog" in capsys.readouterr().err
    assert main(["restore", f"{lake}/t-0", "--to", str(tmp_path / "x")]) == 2
    assert f"t-0 lies in the archive {lake}: name that, and a topic" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    new, same = (tidelog.open_directory_read_only(tmp_path / one) for one in ("new", "same"))

    assert new.topic("t").topic_id != topic_id == same.topic("t").topic_id
    assert new.topic("t").config["retention.ms"] == same.topic("t").config["retention.ms"] == "-1"
    assert "remote.storage.enable" not in new.topic("t").config
    assert same.topic("t").config["remote.storage.enable"] == "true"
    assert main(["archive", str(tmp_path / "same"), "--to", lake]) == 3
    assert main(["archive", str(tmp_path / "same"), "--to", lake, "--continue"]) == 0
    assert os.listdir(tmp_path / "same" / "t-0")


LOST = {**SETTINGS, "remote.storage.enable": "true", "local.retention.ms": "1000"}


def lost_home(store: ObjectModel, monkeypatch: pytest.MonkeyPatch, **config: str) -> ManagerHome:
    """Return a machine with two archived partitions; retention has deleted what it may."""
    monkeypatch.setattr(OpenStores, "opened", lambda _self, _uri: store)
    store.name = URI
    files_with(store, URI)
    home = ManagerHome()
    with home.open(tidelog_archive_uri=URI) as manager:
        manager.create_topic("t", 2, config=LOST | config)
        for number in range(60):
            now_ms = home.clock.now_ms()
            value = b"%d" % number * 30
            manager.partition("t", number % 2).append_records([(now_ms, None, value, ())])
            home.clock.advance(20)
        upkeep(manager)
    return home


def upkeep(manager: LogService) -> None:
    assert manager.tasks.archiving is not None
    manager.tasks.archiving.run()
    manager.tasks.cleanup_logs()


def lose(home: ManagerHome, name: str) -> None:
    remove_directory(home.fs, f"/data/{name}")
    home.fs.sync_directory("/data")


def put_back(
    home: ManagerHome, topics: Sequence[str] = (), number: int | None = None, **how: Any
) -> Any:
    open_archives._archives[URI]._states.clear()
    wanted = LostPartitions(topics, number)
    return restore_lost(archive_at(URI), "/data", wanted, home.machine(), **how)


def values(manager: LogManager, number: int = 0) -> list[tuple[int, bytes | None]]:
    return [(one.offset, one.value) for one in Logs(manager).read("t", number)]


def visible(home: ManagerHome) -> list[int]:
    """Return the offsets that a reader beside the directory is shown."""
    logs = open_directory_read_only("/data", fs=home.fs)
    with logs.open("t", 0) as log:
        assert log.damage is None
        return [one.offset for one in log.records(end_offset=log.high_watermark)]


@pytest.mark.parametrize("local_ms", ["0", "600", "-1"])
def test_a_lost_partition_comes_back_to_its_directory(
    store: ObjectModel, monkeypatch: pytest.MonkeyPatch, local_ms: str
) -> None:
    """It continues its archive, with the segments that the disk is to keep, and the next offset.

    Nothing else in the directory changes, but its lines in the checkpoints.
    """
    home = lost_home(store, monkeypatch, **{"local.retention.ms": local_ms})
    with home.open(tidelog_archive_uri=URI) as manager:
        before = values(manager)
    lose(home, "t-0")
    names = set(home.fs.list("/data"))

    (done,) = put_back(home, ["t"], 0)

    assert set(home.fs.list("/data")) == names | {"t-0"}
    entries = archive_at(URI).all()["t-0"].state.entries
    assert (done.log_start_offset, done.log_end_offset) == (0, entries[-1].end_offset)
    kept = {"0": 1, "600": done.segments, "-1": len(entries)}[local_ms]
    assert done.segments == kept
    assert 1 <= done.segments <= len(entries) - (local_ms != "-1")
    with home.open(tidelog_archive_uri=URI) as manager:
        found = values(manager)
        assert found == before[: done.log_end_offset]
        now_ms = home.clock.now_ms()
        for _ in range(20):
            manager.partition("t", 0).append_records([(now_ms, None, b"new" * 30, ())])
        version = archive_at(URI).all()["t-0"].state.version
        upkeep(manager)
        assert archive_at(URI).all()["t-0"].state.version > version + 1
        assert [offset for offset, _ in values(manager)] == list(range(len(found) + 20))
    assert home.fs.list("/data/t-1")


def test_beside_kafkas_controller_a_restored_log_begins_the_next_epoch(
    store: ObjectModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a later one than the controller's, clients would wait for a leader without an end."""
    home = lost_home(store, monkeypatch)
    lose(home, "t-0")
    home.fs.make_directory("/data/__cluster_metadata-0")

    (done,) = put_back(home, ["t"], 0)

    epochs = read_leader_epochs(home.fs, "/data/t-0/leader-epoch-checkpoint")
    assert epochs == [(0, 0), (1, done.log_end_offset)]


def test_readers_see_a_restored_log_before_it_is_opened_for_writing(
    store: ObjectModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No checkpoint claims what is lost: the restore says that, and an opening not again."""
    home = lost_home(store, monkeypatch)
    lines = read_offsets(home.fs, "/data/replication-offset-checkpoint")
    lose(home, "t-0")

    (done,) = put_back(home, ["t"], 0)

    end = done.log_end_offset
    assert end < lines["t", 0]
    seen = f"log_end_offset={end} high_watermark={lines['t', 0]}"
    assert caplog.messages == [f"log-end-lost directory=/data/t-0 {seen}"]
    now = read_offsets(home.fs, "/data/replication-offset-checkpoint")
    assert now == lines | {("t", 0): end}
    assert visible(home) == [*range(end)]
    with home.open(tidelog_archive_uri=URI):
        assert len(caplog.messages) == 1


def test_what_is_there_or_not_archived_is_not_restored(
    store: ObjectModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is anything changed: a partition that is there, one that never was, a busy directory.

    One of a topic that was deleted on a full disk has not been lost.
    """
    home = lost_home(store, monkeypatch)
    with pytest.raises(InvalidArgument, match="lacks no partition that s3://lake"):
        put_back(home)
    with pytest.raises(InvalidArgument, match="/data/t-1 is there: move it away"):
        put_back(home, ["t"], 1)
    for topics, number in ((["t"], 7), (["u"], None), (["u"], 0)):
        with pytest.raises(UnknownTopicOrPartition, match="the catalogue of /data does not have"):
            put_back(home, topics, number)
    with home.open() as manager:
        manager.create_topic("u")
        with pytest.raises(DirectoryLocked):
            put_back(home, ["t"])
    lose(home, "u-0")
    lose(home, "t-0")
    with pytest.raises(UnknownTopicOrPartition, match="does not have u-0 of this directory"):
        put_back(home, ["u"])
    assert [one.partition for one in put_back(home)] == [0]
    lose(home, "t-0")
    mark_deleted(home.fs, "/data", archive_at(URI).all()["t-0"].topic_id)
    with pytest.raises(UnknownTopicOrPartition, match="the catalogue of /data does not have t"):
        put_back(home, ["t"])


def test_an_archive_that_has_lost_segments_restores_none(
    store: ObjectModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was put back from an older copy: the log would begin again in the middle."""
    home = lost_home(store, monkeypatch)
    newest = max(name for name in store.objects if "/0/m/" in name)
    del store.objects[newest]
    lose(home, "t-0")
    with pytest.raises(CorruptArchive, match="put back from an older copy"):
        put_back(home)
    assert "t-0" not in home.fs.list("/data")


@pytest.mark.parametrize("what", ["m", "s"])
def test_a_lost_partition_comes_back_beside_one_whose_archive_is_damaged(
    store: ObjectModel, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It is reported, and stays lost; alone, and without a report, it is an error."""
    home = lost_home(store, monkeypatch)
    for number in (0, 1):
        lose(home, f"t-{number}")
    for name in store.objects:
        if f"/0/{what}/" in name:
            store.objects[name] = b"damaged" + store.objects[name][7:]
    damaged: dict[TopicPartition, CorruptArchive] = {}

    done = put_back(home, on_damage=damaged.__setitem__)

    assert [(one.topic, one.partition) for one in done] == [("t", 1)]
    assert [*damaged] == [("t", 0)]
    assert "t-1" in home.fs.list("/data")
    assert not any(name.startswith("t-0") for name in home.fs.list("/data"))
    for report in (None, damaged.__setitem__):
        with pytest.raises(CorruptArchive):
            put_back(home, on_damage=report)


@pytest.mark.parametrize("kept", ["all", None])
def test_a_lost_partition_comes_back_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated, kept: Literal["all"] | None
) -> None:
    """With a kill or a power cut at each operation; the next restore deletes what that leaves.

    So does the next service, if the restore had brought the partition back.
    """
    cuts, store = 0, ObjectModel(Random(3))
    lost = lost_home(store, monkeypatch)
    lose(lost, "t-0")
    archived = dict(store.objects)
    while True:
        home = lost.copied(seed=0)
        store.objects.clear()
        store.objects.update(archived)
        home.fs.crash_after(cuts)
        try:
            put_back(home)
        except PowerCut:
            home.fs.power_cut(kept)
        else:
            break
        is_back = "t-0" in home.fs.list("/data")
        if not is_back:
            put_back(home)
            assert not any(name.endswith("-delete") for name in home.fs.list("/data"))
        assert len(visible(home)) > 20
        with home.open(tidelog_archive_uri=URI) as manager:
            assert len(values(manager)) > 20
            home.clock.advance(120_000)
        assert set(home.fs.list("/data")) >= {"t-0", "t-1"}
        assert not any(name.endswith("-delete") for name in home.fs.list("/data"))
        cuts += stride()
    enumerated("ends", cuts // stride(), at_least=20)
