"""Mirrors: the same batches at the same offsets, run after run."""

from __future__ import annotations

import errno
import json
import os
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.batches_of_logs import batches_of
from tests.machinery.directory_home import DataHome

from tidelog.config.log_config import LogConfig
from tidelog.datadir.birth import birth_values
from tidelog.datadir.metadata_files import CLEAN_SHUTDOWN_FILE
from tidelog.errors import (
    CommitUnfinished,
    InconsistentTopicId,
    InvalidArgument,
    KafkaStorageError,
    MirrorDiverged,
    PartitionsElsewhere,
    UnknownTopicOrPartition,
)
from tidelog.manager import mirror
from tidelog.manager.directories.log_dir import check_outside
from tidelog.manager.lifecycle.deletion_queue import remove_directory
from tidelog.manager.mirror import Mirror
from tidelog.manager.producer_ids import ProducerIds
from tidelog.manager.staged_commits import StagedCommits
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.staged_file import list_staged
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Enumerated
    from tests.machinery.fields import ProducerFields

    from tidelog.embedded.logs import Logs
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.manager.mirror import MirroredPartition

SOURCE, TARGET = "/data", "/mirror"
SMALL = {"internal.segment.bytes": "700", "retention.ms": "-1"}


@dataclass
class Homes:
    """A source and its mirror on one disk."""

    home: DataHome = field(default_factory=DataHome)

    def source(self) -> Logs:
        """Open the source for writing."""
        return self.home.open(paths=(SOURCE,))

    def target(self) -> Logs:
        """Open the mirror for writing."""
        return self.home.open(paths=(TARGET,))

    def mirror(self, *topics: str, is_plan: bool = False) -> list[MirroredPartition]:
        """Run once."""
        source = open_directory_read_only(SOURCE, fs=self.home.fs)
        with self.target() as logs:
            return Mirror(source, logs.manager, TARGET, is_plan=is_plan).run(topics)

    def batches(self, path: str, name: str = "t-0") -> bytes:
        """Return the batches of a partition from its log start on, byte for byte."""
        directory = open_directory_read_only(path, fs=self.home.fs)
        topic, _, number = name.rpartition("-")
        with directory.open(topic, int(number)) as log:
            return b"".join(batches_of(log, log.log_end_offset))

    def check(self, name: str = "t-0") -> None:
        """Check that the mirror has the bytes of its source, and the same producers."""
        assert self.batches(TARGET, name) == self.batches(SOURCE, name)


def append(log: Log, *values: bytes, **fields: Any) -> None:
    """Append values, one batch each."""
    for value in values:
        batch = build_batch([(1000, b"k", value, ())], **fields)
        log.append_as_leader(batch)
    log.update_high_watermark(log.log_end_offset)


def transact(log: Log, epoch: int, *, is_commit: bool | None) -> None:
    """Append a transaction; None: it stays open."""
    producer: ProducerFields = {"producer_id": 7, "producer_epoch": epoch}
    guard = log.start_verification(7, 0, epoch, supports_epoch_bump=False)
    batch = build_batch([(1000, b"k", b"t", ())], **producer, base_sequence=0, transactional=True)
    log.append_as_leader(batch, verification_guard=guard)
    if is_commit is not None:
        marker = build_marker(**producer, coordinator_epoch=1, is_commit=is_commit, timestamp=1000)
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    log.update_high_watermark(log.log_end_offset)


def homes_with(*values: bytes, **config: str) -> Homes:
    """Return a source with topic t of two partitions, and these values in the first."""
    homes = Homes()
    with homes.source() as logs:
        settings = {**SMALL, **{key.replace("_", "."): one for key, one in config.items()}}
        logs.create_topic("t", 2, config=settings)
        append(logs.partition("t", 0).log, *values)
    return homes


def test_a_gap_larger_than_a_segment_may_have_is_mirrored() -> None:
    """As in a compacted log whose oldest key was written billions of records ago."""
    homes = homes_with(b"old", cleanup_policy="compact")
    with homes.source() as logs:
        log = logs.partition("t", 0).log
        far = build_batch([(1000, b"n", b"new", ())], base_offset=3 << 31, leader_epoch=0)
        log.append_as_follower(far, 0)
        log.update_high_watermark(log.log_end_offset)

    assert homes.mirror()[0].end_offset == (3 << 31) + 1
    homes.check()


def test_a_mirror_gives_out_no_id_of_a_producer_that_its_source_gives_out() -> None:
    """The producer may have written nothing yet that is there, and continue at the mirror.

    The first records of another one with its id would be taken for repeats of it, or it for one.
    """
    homes = Homes()
    with homes.source() as logs:
        logs.create_topic("t")
        given = {ProducerIds(logs.manager).next()}
    homes.mirror()
    with homes.source() as logs:
        given.add(ProducerIds(logs.manager).next())
    homes.mirror()
    with homes.target() as logs:
        assert ProducerIds(logs.manager).next() > max(given) + (1 << 59)


def test_no_position_of_a_group_is_mirrored_before_its_records() -> None:
    """Of a source of several directories, whose high watermarks are not of the same moment.

    A position that is beyond the end of its log there does not keep those after it waiting.
    """
    homes, paths = Homes(), ("/data", "/more")

    def mirrored() -> tuple[int, int]:
        source = open_directory_read_only(*paths, fs=homes.home.fs)
        with homes.target() as target:
            Mirror(source, target.manager, TARGET).run()
            with target.reader("t", group="g") as reader:
                position = reader.positions[TopicPartition("t", 0)]
            return position, target.offsets("t")[0].log_end_offset

    def commit(offset: int) -> None:
        reader.seek("t", 0, offset)
        with logs.transaction(path="/more") as txn:
            reader.commit(within=txn)

    with homes.home.open(paths=paths) as logs:
        logs.create_topic("t")
        logs.append_all("t", [b"a", b"b"])
        with logs.reader("t", group="g") as reader:
            commit(1)
            logs.append("t", b"c")
            commit(2)
            commit(3)
            assert mirrored() == (2, 2)
            logs.flush()
            assert mirrored() == (3, 3)
            commit(9)
            commit(1)
            assert mirrored() == (1, 3)


def test_a_mirror_has_the_batches_and_offsets_of_its_source() -> None:
    """With timestamps, producers, transactions, epochs, the topic's id and its settings."""
    homes = homes_with(b"a", b"b" * 500, b"c")
    with homes.source() as logs:
        log = logs.partition("t", 0).log
        transact(log, 0, is_commit=True)
        log.maybe_assign_epoch(4, log.log_end_offset)
        transact(log, 1, is_commit=False)
        transact(log, 2, is_commit=None)
        topic = logs.topics()["t"]

    done = homes.mirror()

    homes.check()
    assert [(one.partition, one.is_new_topic, one.batches) for one in done] == [
        (0, True, 8),
        (1, True, 0),
    ]
    with homes.target() as logs, homes.source() as source:
        found = logs.topics()["t"]
        ours, theirs = logs.partition("t", 0).log, source.partition("t", 0).log
        assert (found.topic_id, dict(found.config)) == (topic.topic_id, dict(topic.config))
        assert ours.last_stable_offset == theirs.last_stable_offset < ours.log_end_offset
        epoch = theirs.latest_epoch
        assert epoch is not None
        assert ours.end_offset_for_epoch(epoch) == theirs.end_offset_for_epoch(epoch)
        assert ours.active_producers().keys() == theirs.active_producers().keys()
        seen = [
            [record.offset for record in log.records(isolation=Isolation.READ_COMMITTED)]
            for log in (ours, theirs)
        ]
        assert seen[0] == seen[1]


def test_a_second_run_copies_only_what_is_new() -> None:
    """And one without news copies nothing; new partitions and topics come along."""
    homes = homes_with(b"a", b"b")
    homes.mirror()
    with homes.source() as logs:
        append(logs.partition("t", 0).log, b"c")
        logs.create_partitions("t", 3)
        append(logs.partition("t", 2).log, b"d")
        logs.create_topic("u", config=SMALL)

    second, third = homes.mirror(), homes.mirror()

    assert [(one.topic, one.start_offset, one.end_offset, one.batches) for one in second] == [
        ("t", 2, 3, 1),
        ("t", 0, 0, 0),
        ("t", 0, 1, 1),
        ("u", 0, 0, 0),
    ]
    assert [one.batches for one in third] == [0] * 4
    homes.check()
    homes.check("t-2")


def test_a_topic_in_several_directories_is_mirrored_from_one_after_another() -> None:
    """If asked to copy a part; a topic that has no partition in a directory is left out there."""
    homes, other = Homes(), "/other"
    with homes.home.open(paths=(SOURCE, other)) as logs:
        logs.manager.create_topic("t", 4, SMALL, is_spread=True)
        logs.manager.create_topic("u", 1, SMALL, path=other)
        for number in range(4):
            append(logs.partition("t", number).log, b"%d" % number)
        append(logs.partition("u", 0).log, b"u")

    found = []
    for path in (SOURCE, other):
        source = open_directory_read_only(path, fs=homes.home.fs, accept=None)
        with homes.target() as logs:
            done = Mirror(source, logs.manager, TARGET).run()
            found += [(one.topic, one.partition) for one in done if one.batches]

    assert sorted(found) == [*(("t", number) for number in range(4)), ("u", 0)]
    with homes.target() as logs:
        values = [next(iter(logs.partition("t", at).log.records())).value for at in range(4)]
    assert values == [b"0", b"1", b"2", b"3"]


def test_a_topic_of_another_directory_cannot_be_named() -> None:
    """Nothing of it would be copied, and nobody would notice."""
    homes, other = Homes(), "/other"
    with homes.home.open(paths=(SOURCE, other)) as logs:
        logs.manager.create_topic("u", 1, SMALL, path=other)

    source = open_directory_read_only(SOURCE, fs=homes.home.fs)
    with homes.target() as logs, pytest.raises(PartitionsElsewhere, match="u-0 is in /other"):
        Mirror(source, logs.manager, TARGET).run(["u"])


def test_a_mirror_names_what_to_do_where_a_topic_lies_in_part_beside_it() -> None:
    """It copies whole topics, so that no choice of a partition helps; nothing is staged."""
    homes = homes_with(b"a")
    homes.mirror()
    with homes.home.open(paths=(TARGET, "/other")) as logs:
        logs.create_partitions("t", 3, is_spread=True)
    with homes.source() as logs:
        logs.create_partitions("t", 3)

    with pytest.raises(UnknownTopicOrPartition, match=r"t-2 lies in .*: name the topics to mirror"):
        homes.mirror()

    assert list_staged(homes.home.fs, TARGET) == []


def test_a_source_is_read_beside_its_writer() -> None:
    """Up to the high watermark that it has written into its checkpoint."""
    homes = homes_with(b"a", b"b")
    with homes.source() as logs:
        append(logs.partition("t", 0).log, b"c")

        assert homes.mirror()[0].end_offset == 2
        logs.flush()
        assert homes.mirror()[0].end_offset == 3
    homes.check()


def test_only_the_topics_that_are_named_are_copied() -> None:
    """The others may follow later; one that is named twice is copied once."""
    homes = homes_with(b"a")
    with homes.source() as logs:
        logs.create_topic("u", config=SMALL)
        append(logs.partition("u", 0).log, b"a")

    assert [(one.topic, one.batches) for one in homes.mirror("u", "u")] == [("u", 1)]
    with homes.target() as logs:
        assert set(logs.topics()) == {"u"}


def test_a_plan_changes_nothing() -> None:
    """It counts what a run copies."""
    homes = homes_with(b"a", b"b")
    homes.mirror()
    with homes.source() as logs:
        append(logs.partition("t", 0).log, b"c")
    before = homes.batches(TARGET)

    plan = homes.mirror(is_plan=True)

    assert homes.batches(TARGET) == before
    assert homes.mirror() == plan


def test_batches_above_the_high_watermark_are_left_for_a_later_run() -> None:
    """They may be truncated yet; only whole batches are copied."""
    homes = homes_with(b"a", b"b", b"c")
    home = homes.home
    home.fs.write(f"{SOURCE}/replication-offset-checkpoint", b"0\n1\nt 0 2\n")

    assert homes.mirror()[0].end_offset == 2
    home.fs.write(f"{SOURCE}/replication-offset-checkpoint", b"0\n1\nt 0 3\n")
    assert homes.mirror()[0].end_offset == 3
    homes.check()


def test_a_segment_that_is_lost_is_a_gap_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The mirror has all that is left; a gap that is there already is not reported again."""
    homes = homes_with(*(b"%d" % number * 600 for number in range(4)), cleanup_policy="delete")
    names = [name for name in homes.home.files("t-0") if name.endswith(".log")]
    homes.home.fs.delete(f"{SOURCE}/t-0/{names[1]}")

    with caplog.at_level("WARNING", logger="tidelog"):
        homes.mirror()
        homes.mirror()

    gap = f"offset-gap directory={SOURCE}/t-0 start_offset=1 end_offset=2"
    assert caplog.text.count(gap) == 1
    homes.check()


def test_no_gap_of_the_source_lies_between_segments_of_the_mirror() -> None:
    """There it would pass for a file that is lost, where the topic is compacted no longer."""
    homes = homes_with(b"a" * 600, b"b" * 600, cleanup_policy="compact")
    homes.mirror()
    with homes.source() as logs:
        append(logs.partition("t", 0).log, *(b"%d" % number * 600 for number in range(4)))
        logs.manager.on_demand.compact(("t", 0))
        logs.alter_topic("t", {"cleanup.policy": "delete"})
    homes.mirror()

    with homes.target() as logs:
        logs.alter_topic("t", {"cleanup.policy": "delete"})
        assert [record.offset for record in logs.read("t", 0)][-1] == 5
    target = open_directory_read_only(TARGET, fs=homes.home.fs)
    with target.open("t", 0) as log:
        assert [one.base_offset for one in log.segments] == [0, 1, 2, 5]
        assert not target.unexplained_holes(log)


def test_the_log_start_moves_along() -> None:
    """Also past what was not copied yet, which leaves a gap of offsets in the mirror."""
    homes = homes_with(b"a", b"b" * 500, b"c" * 500)
    homes.mirror()
    with homes.source() as logs:
        log = logs.partition("t", 0).log
        append(log, b"d" * 500, b"e")
        log.delete_records(4)

    done = homes.mirror()[0]

    assert (done.start_offset, done.end_offset, done.log_start_offset) == (4, 5, 4)
    homes.check()
    with homes.target() as logs:
        assert logs.partition("t", 0).log.log_start_offset == 4


@pytest.mark.parametrize("is_new", [True, False])
def test_a_mirror_ends_where_a_source_without_records_does(*, is_new: bool) -> None:
    """Else appends after a hand-over would get offsets that consumers have read already."""
    homes = homes_with(b"a", b"b")
    if not is_new:
        homes.mirror()
    with homes.source() as logs:
        log = logs.partition("t", 0).log
        append(log, b"c")
        log.maybe_increment_log_start_offset(3)

    planned, _ = homes.mirror(is_plan=True)
    done, _ = homes.mirror()

    assert (planned.end_offset, planned.log_start_offset) == (3, 3)
    assert (done.batches, done.start_offset, done.end_offset, done.log_start_offset) == (0, 3, 3, 3)
    with homes.target() as logs:
        log = logs.partition("t", 0).log
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (3, 3, 3)
    with homes.source() as logs:
        append(logs.partition("t", 0).log, b"d")
    assert homes.mirror()[0].end_offset == 4
    homes.check()


def test_what_compaction_took_from_the_source_stays_a_gap() -> None:
    """Records copied before the compaction stay in the mirror until it is compacted, too."""
    homes = homes_with(b"a", cleanup_policy="compact")
    homes.mirror()
    with homes.source() as logs:
        append(logs.partition("t", 0).log, *(b"%d" % number * 400 for number in range(5)))
        logs.manager.on_demand.compact(("t", 0))

    homes.mirror()

    with homes.target() as logs:
        offsets = [record.offset for record in logs.partition("t", 0).log.records()]
    assert offsets[0] == 0
    assert len(offsets) < 6
    assert offsets[-1] == 5
    assert homes.mirror()[0].batches == 0


def test_a_source_that_was_truncated_is_refused() -> None:
    """Whether it is shorter than the mirror, or has other records since; nothing is changed."""
    homes = homes_with(b"a", b"b", b"c")
    homes.mirror()
    with homes.source() as logs:
        logs.partition("t", 0).log.truncate_to(2)
    with pytest.raises(
        MirrorDiverged, match=r"source ends at 2; only .* from offset 2 on: keep it"
    ):
        homes.mirror()
    with homes.source() as logs:
        append(logs.partition("t", 0).log, b"x", b"y")

    with pytest.raises(MirrorDiverged, match="another batch") as caught:
        homes.mirror()

    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 3)
    with homes.target() as logs:
        assert logs.partition("t", 0).log.log_end_offset == 3


@pytest.mark.parametrize("what", ["its last batch", "its directory"])
def test_a_mirror_that_lost_its_end_gets_it_again(what: str) -> None:
    """The leader epoch that begins at the loss would be above those of the source's batches."""
    homes = homes_with(b"a", b"b")
    homes.mirror()
    fs, directory = homes.home.fs, f"{TARGET}/t-0"
    if what == "its directory":
        remove_directory(fs, directory)
    else:
        with closing(fs.open(f"{directory}/00000000000000000000.log", "w")) as file:
            file.truncate(file.size() - 1)
        fs.delete(f"{TARGET}/{CLEAN_SHUTDOWN_FILE}")
    with homes.source() as logs:
        append(logs.partition("t", 0).log, b"c")

    done, _ = homes.mirror()

    assert done.end_offset == 3
    homes.check()
    with homes.target() as logs:
        assert logs.partition("t", 0).log.end_offset_for_epoch(0) == (3, 0)


@pytest.mark.parametrize("copied", [0, 2])
def test_positions_beyond_a_mirror_can_be_told_once_it_is_the_source(copied: int) -> None:
    """Its own appends are of another leader epoch, as after records that a log has lost.

    Else a reader of the source, with a position beyond what was copied, would pass over them.
    """
    homes = homes_with(*[b"a"] * copied)
    homes.mirror()
    homes.mirror()  # a run without news changes nothing of it
    with homes.source() as logs:
        read = logs.partition("t", 0)
        append(read.log, b"b", b"c")
        position = read.log.log_end_offset, read.leader_epoch

    with homes.target() as logs:
        partition = logs.partition("t", 0)
        for value in (b"x", b"y", b"z"):
            partition.append(build_batch([(1000, b"k", value, ())]))
        end = partition.log.end_offset_for_epoch(position[1])
        assert partition.log.log_end_offset > position[0]
        assert end == (copied, 0 if copied else position[1])


def test_a_run_begins_no_epoch_where_one_without_records_begins() -> None:
    """The file of the epochs is written with records only, not every few seconds."""
    homes = homes_with(b"a")
    homes.mirror()
    with homes.target() as logs:
        known = [logs.partition("t", number).log.latest_epoch for number in range(2)]

    homes.mirror()

    with homes.target() as logs:
        assert [logs.partition("t", number).log.latest_epoch for number in range(2)] == known


def test_a_topic_that_was_created_again_is_refused() -> None:
    """Its id is another one."""
    homes = homes_with(b"a")
    homes.mirror()
    with homes.source() as logs:
        logs.delete_topic("t")
    with homes.source() as logs:
        logs.create_topic("t")

    with pytest.raises(InconsistentTopicId, match="created again"):
        homes.mirror()


def test_a_mirror_that_was_written_to_is_refused() -> None:
    """Its own records would be lost, or those of the source."""
    homes = homes_with(b"a")
    homes.mirror()
    with homes.target() as logs:
        append(logs.partition("t", 0).log, b"ours")
    with homes.source() as logs:
        append(logs.partition("t", 0).log, b"b")

    with pytest.raises(MirrorDiverged):
        homes.mirror()


def test_a_topic_of_kafka_with_unknown_settings_is_kept_forever() -> None:
    """In a mirror nothing is deleted by a guess."""
    homes = homes_with(b"a")
    homes.home.fs.delete(f"{SOURCE}/tidelog.topics.json")

    homes.mirror()

    with homes.target() as logs:
        topic = logs.topics()["t"]
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    assert dict(topic.config) == kept
    homes.check()


@pytest.mark.parametrize("is_of_kafka", [False, True])
def test_a_mirror_has_the_birth_values_of_its_source(*, is_of_kafka: bool) -> None:
    """Never what the process brings that mirrors; a broker's topic was born with Kafka's."""
    homes = Homes()
    with homes.home.open(paths=(SOURCE,), defaults=LogConfig(retention_ms=5, segment_ms=6)) as logs:
        append(logs.partition(logs.create_topic("t").name, 0).log, b"a")
    if is_of_kafka:
        homes.home.fs.delete(f"{SOURCE}/tidelog.topics.json")

    homes.mirror()

    with homes.target() as logs:
        birth = logs.topics()["t"].birth
    born = LogConfig.of_kafka() if is_of_kafka else LogConfig(retention_ms=5, segment_ms=6)
    assert birth == birth_values(born)


@pytest.mark.parametrize("change", [{"version": 99}, {"topics": "elsewhere"}])
def test_no_topic_is_mirrored_without_its_settings(change: dict[str, Any]) -> None:
    """A catalogue that a newer release wrote, or that is damaged, is refused."""
    homes = homes_with(b"a", cleanup_policy="compact")
    catalogue = f"{SOURCE}/tidelog.topics.json"
    content = json.loads(homes.home.fs.read(catalogue))
    homes.home.fs.write(catalogue, json.dumps({**content, **change}).encode())

    with pytest.raises(KafkaStorageError, match=r"tidelog\.topics\.json"):
        homes.mirror()

    with homes.target() as logs:
        assert logs.topics() == {}


def test_a_tiered_topic_is_mirrored_without_the_settings_of_remote_storage() -> None:
    """They are named, once; what the local log holds is copied."""
    homes = homes_with(b"a", b"b", local_retention_ms="5")
    catalogue, fs = f"{SOURCE}/tidelog.topics.json", homes.home.fs
    with_tiers = b'"remote.storage.enable": "true", "retention.ms"'
    fs.write(catalogue, fs.read(catalogue).replace(b'"retention.ms"', with_tiers))

    done = homes.mirror()

    left_out = ("local.retention.ms", "remote.storage.enable")
    assert [one.settings_left_out for one in done] == [left_out] * 2
    with homes.target() as logs:
        assert dict(logs.topics()["t"].config) == SMALL
    homes.check()
    assert [one.settings_left_out for one in homes.mirror()] == [(), ()]


def test_a_directory_is_not_its_own_mirror() -> None:
    """Nor is one inside or around it, and the directory of one partition is not a source."""
    homes = homes_with(b"a")
    source = open_directory_read_only(SOURCE, fs=homes.home.fs)

    with pytest.raises(InvalidArgument, match="is in the source"):
        check_outside(source, homes.home.fs, SOURCE)
    with pytest.raises(InvalidArgument, match="is in the source"):
        check_outside(source, homes.home.fs, f"{SOURCE}/copy")
    check_outside(source, homes.home.fs, f"{SOURCE}-copy")
    with pytest.raises(InvalidArgument, match="contains the source"):
        check_outside(source, homes.home.fs, os.path.dirname(SOURCE))
    partition = open_directory_read_only(f"{SOURCE}/t-0", fs=homes.home.fs)
    with pytest.raises(InvalidArgument, match="one partition"):
        check_outside(partition, homes.home.fs, TARGET)


def ready_to_copy(seed: int) -> Homes:
    """Return a mirror whose source has news in two partitions and a new topic."""
    homes = Homes(DataHome(seed))
    with homes.source() as logs:
        logs.create_topic("t", 2, config=SMALL)
        append(logs.partition("t", 0).log, b"a")
    homes.mirror()
    with homes.source() as logs:
        append(logs.partition("t", 0).log, *(b"%d" % number * 300 for number in range(3)))
        transact(logs.partition("t", 1).log, 0, is_commit=True)
        logs.create_topic("u", config=SMALL)
        append(logs.partition("u", 0).log, b"u")
    return homes


def ends(homes: Homes) -> Sequence[int]:
    """Return the log ends of the mirror."""
    with homes.target() as logs:
        names = [("t", 0), ("t", 1), *([("u", 0)] if "u" in logs.topics() else [])]
        return [logs.partition(*key).log.log_end_offset for key in names]


def test_what_killed_runs_staged_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many transactions are known: each look lists the whole directory."""
    homes = ready_to_copy(0)
    looks = list[str]()

    def look(fs: FileSystem, path: str, txn: str | None = None) -> list[str]:
        looks.append(path)
        return list_staged(fs, path, txn)

    monkeypatch.setattr(mirror, "list_staged", look)
    homes.mirror()
    homes.mirror()

    assert looks == [TARGET] * 2


@pytest.mark.slow
def test_a_run_that_is_cut_off_is_whole_or_not_there_and_can_be_repeated(
    enumerated: Enumerated,
) -> None:
    """Power is cut at each operation of the disk; what a killed run staged is deleted."""
    homes = ready_to_copy(0)
    before = len(homes.home.fs.operations)
    homes.mirror()
    total = len(homes.home.fs.operations) - before
    outcomes = []
    for operations in range(total):
        homes = ready_to_copy(operations)
        homes.home.fs.crash_after(operations)
        with pytest.raises(PowerCut):
            homes.mirror()
        homes.home.fs.power_cut()
        found = list(ends(homes))
        outcomes.append(found)
        assert found in ([1, 0], [4, 2, 1])
        homes.mirror()
        for name in ("t-0", "t-1", "u-0"):
            homes.check(name)
        left = [name for name in homes.home.fs.list(TARGET) if name.endswith(".staged")]
        assert left == []
    enumerated("power cuts", total, at_least=20)
    assert [1, 0] in outcomes
    assert [4, 2, 1] in outcomes


@pytest.mark.parametrize("is_masked", [False, True])
def test_the_files_of_a_mirror_stay_once_it_is_committed(
    is_masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever error follows, the next opening of the target completes it."""
    homes = homes_with(b"a", b"b")
    commit = StagedCommits.commit

    def commit_or_fail(*given: Any) -> object:
        try:
            return commit(*given)
        except CommitUnfinished:
            if is_masked:
                raise KafkaStorageError("another error") from None
            raise

    monkeypatch.setattr(StagedCommits, "commit", commit_or_fail)
    no_descriptor = OSError(errno.EMFILE, "too many open files")
    homes.home.fs.fail("open", ".staged", no_descriptor, skipped=2)
    homes.home.fs.fail("open", ".intent", no_descriptor)
    with pytest.raises(KafkaStorageError, match="another error" if is_masked else "is committed"):
        homes.mirror()

    assert list_staged(homes.home.fs, TARGET) != []
    homes.target().close()
    homes.check()
    assert list_staged(homes.home.fs, TARGET) == []


def with_incomplete_deletion() -> Homes:
    """Return a mirror whose topic was deleted by a process that was killed half-way."""
    homes = homes_with(b"1", b"2", b"3")
    homes.mirror()
    homes.home.fs.fail("rename", f"{TARGET}/t-0", OSError(errno.ENOSPC, "full"))
    logs = homes.target()
    logs.manager.delete_topic("t")
    homes.home.fs.kill()
    return homes


def test_a_topic_whose_deletion_in_the_target_is_not_complete_is_mirrored_again() -> None:
    """Under its id, which is that of the source, after the deletion is completed."""
    homes = with_incomplete_deletion()
    assert "t-0" in homes.home.fs.list(TARGET)

    assert [done.end_offset for done in homes.mirror(is_plan=True)] == [3, 0]
    assert [done.end_offset for done in homes.mirror()] == [3, 0]
    homes.check()


def test_a_deletion_in_the_target_that_cannot_be_completed_keeps_the_topic_from_a_mirror() -> None:
    """With nothing staged or committed; a later run copies everything."""
    homes = with_incomplete_deletion()
    homes.home.fs.fail("rename", f"{TARGET}/t-0", OSError(errno.ENOSPC, "full"))
    with pytest.raises(KafkaStorageError, match="full"):
        homes.mirror()

    assert list_staged(homes.home.fs, TARGET) == []
    homes.mirror()
    homes.check()


def test_a_deletion_that_another_directory_keeps_incomplete_is_named() -> None:
    """Part of the topic may lie in the directory that is offline."""
    homes = with_incomplete_deletion()
    source = open_directory_read_only(SOURCE, fs=homes.home.fs)
    homes.home.fs.fail("lock", "/other/.lock", OSError(errno.EIO, "bad"))
    logs = homes.home.open(paths=(TARGET, "/other"))
    with logs, pytest.raises(KafkaStorageError, match="deletion of topic t is not complete"):
        Mirror(source, logs.manager, TARGET).run()
