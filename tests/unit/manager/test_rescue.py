"""What a rescue takes from a broken directory, what it leaves out, and what it says of both."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome
from tests.unit.manager.test_mirror import append, transact

from tidelog.codec.crc32c import crc32c
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.env.machine import Machine
from tidelog.env.scheduler import InlineScheduler
from tidelog.explain.verify.findings import Severity
from tidelog.explain.verify.verify_partition import verify_partition
from tidelog.log.loading.cut_files import CutDescription, CutName, topic_part
from tidelog.manager.producer_ids import BLOCK, ProducerIds
from tidelog.manager.producer_ids import FILE_NAME as PRODUCER_IDS_FILE
from tidelog.manager.rescue import rescued_partition
from tidelog.manager.rescue.failing_files import FailingFiles
from tidelog.manager.rescue.rescue import Rescue
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.builder import build_batch
from tidelog.records.isolation import Isolation
from tidelog.staging.finished import FINISHED_FILE, read_finished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.log.log import Log
    from tidelog.manager.rescue.rescued_partition import Rescued, RescuedPartition
    from tidelog.testing.crash_files import CrashFileSystem

DATA, NEW = "/data", "/disk/new"
LOG = f"{DATA}/t-0"
SMALL = {"internal.segment.bytes": "300", "retention.ms": "-1"}


class Home:
    """A directory with topic t of one partition, and a disk for the copy."""

    def __init__(
        self, *values: bytes, partitions: int = 1, settings: Mapping[str, str] = NO_SETTINGS
    ) -> None:
        self.home = DataHome()
        self.fs: CrashFileSystem = self.home.fs
        self.fs.make_directory("/disk")
        self.fs.sync_directory("/")
        with self.home.open() as logs:
            logs.create_topic("t", partitions, config={**SMALL, **settings})
            append(logs.partition("t", 0).log, *values)

    def rescue(self, *sources: str, fs: Any = None, is_new: bool = True) -> Rescued:
        """Rescue the directory, or several; ``is_new``: in place of what was rescued before."""
        if is_new and self.fs.exists(NEW):
            remove(self.fs, NEW)
        paths = sources or (DATA,)
        disk = FailingFiles(fs or self.fs, paths)
        source = open_directory_read_only(*paths, fs=disk, accept=None)
        clock = self.home.clock
        machine = Machine(self.fs, clock, InlineScheduler(), Random(5), clock.advance)
        return Rescue(source, disk, NEW, machine).run()

    def one(self, fs: Any = None) -> RescuedPartition:
        """Rescue the directory; return its first partition."""
        return self.rescue(fs=fs).partitions[0]

    def names(self, directory: str = LOG) -> list[str]:
        """Return the names of segments."""
        return sorted(name for name in self.fs.list(directory) if name.endswith(".log"))

    def values(self, directory: str = NEW, name: str = "t-0") -> dict[int, bytes | None]:
        """Return the records of a partition that verifies, by offset."""
        path = f"{directory}/{name}"
        found = verify_partition(self.fs, path, clock=self.home.clock).findings
        assert [one for one in found if one.severity is Severity.DAMAGE] == []
        source = open_directory_read_only(directory, fs=self.fs)
        topic, _, number = name.rpartition("-")
        with source.open(topic, int(number)) as log:
            records = log.records(log.log_start_offset, log.log_end_offset)
            return {record.offset: record.value for record in records}

    def spoil(self, name: str, at: int = -1, bits: int = 1) -> None:
        """Flip bits of a byte of a segment."""
        data = bytearray(self.fs.read(f"{LOG}/{name}"))
        data[at] ^= bits
        self.fs.write(f"{LOG}/{name}", data)

    def cut(self, number: int, offset: int, data: bytes, at_ms: int = 1) -> str:
        """Keep what a recovery cut off; return the path of the file."""
        topic_id = open_directory_read_only(DATA, fs=self.fs).topic("t").topic_id
        name = str(CutName(topic_part("t", topic_id), 0, offset, number))
        log = f"{offset:020d}.log"
        about = CutDescription("t", 0, str(topic_id), log, 0, len(data), offset, "bad", at_ms)
        self.fs.write(f"{DATA}/{name}", data + about.pack())
        return f"{DATA}/{name}"


def remove(fs: CrashFileSystem, path: str) -> None:
    """Remove a directory with all that is in it."""
    for name in fs.list(path):
        below = f"{path}/{name}"
        if fs.stat(below).is_directory:
            remove(fs, below)
        else:
            fs.delete(below)
    fs.delete_directory(path)


def at(offset: int, *values: bytes, **fields: Any) -> bytes:
    """Return a batch at an offset."""
    records = [(1000, b"k", value, ()) for value in values]
    return build_batch(records, base_offset=offset, **fields)


def reasons(one: RescuedPartition) -> list[str]:
    """Return why things were left out."""
    return [what.reason for what in one.left_out]


def gaps(one: RescuedPartition) -> list[tuple[int, int, bool]]:
    """Return the gaps, and whether records seem to be missing there."""
    return [(gap.start_offset, gap.end_offset, gap.is_loss) for gap in one.gaps]


LETTERS = [bytes([97 + number]) * 40 for number in range(12)]


def test_a_sound_log_is_copied_file_by_file() -> None:
    """Byte for byte; with the topic's id and settings, open transactions, producers, epochs."""
    home = Home(*LETTERS, settings={"max.message.bytes": "999"})
    with home.home.open() as logs:
        log = logs.partition("t", 0).log
        transact(log, 0, is_commit=True)
        log.maybe_assign_epoch(4, log.log_end_offset)
        transact(log, 1, is_commit=False)
        transact(log, 2, is_commit=None)
        topic = logs.topics()["t"]

    rescued = home.rescue()

    (one,) = rescued.partitions
    assert rescued.is_whole
    assert (one.log_start_offset, one.log_end_offset, one.left_out, one.gaps) == (0, 17, (), ())
    assert (one.batches, one.records, one.segments) == (17, 15, len(home.names()))
    assert (one.markers, one.open_transactions) == (2, 1)
    assert home.names(f"{NEW}/t-0") == home.names()
    for name in home.names():
        assert home.fs.read(f"{NEW}/t-0/{name}") == home.fs.read(f"{LOG}/{name}")
    with home.home.open(paths=(NEW,)) as copy, home.home.open() as logs:
        found = copy.topics()["t"]
        assert (found.topic_id, dict(found.config)) == (topic.topic_id, dict(topic.config))
        ours, theirs = copy.partition("t", 0).log, logs.partition("t", 0).log
        assert ours.last_stable_offset == theirs.last_stable_offset < ours.log_end_offset
        assert ours.high_watermark == ours.log_end_offset
        assert ours.latest_epoch == theirs.latest_epoch
        assert ours.active_producers().keys() == theirs.active_producers().keys()
        assert committed(ours) == committed(theirs)
    home.values()


def committed(log: Log) -> list[int]:
    """Return the offsets of committed records."""
    return [record.offset for record in log.records(isolation=Isolation.READ_COMMITTED)]


def test_batches_after_damage_are_copied_and_the_gap_stays() -> None:
    """The report names file, byte, offsets and reason; a torn end is damage, too."""
    home = Home(*LETTERS)
    first, *_, last = home.names()
    home.spoil(first)
    home.fs.write(f"{LOG}/{last}", home.fs.read(f"{LOG}/{last}")[:-1])

    one = home.one()

    lost = [number for number in range(12) if number not in home.values()]
    assert len(lost) == 2
    assert not one.is_whole
    assert gaps(one) == [(lost[0], lost[0] + 1, True), (11, 12, True)]
    assert reasons(one) == [
        "the CRC of a batch is wrong",
        "a batch is cut off by the end of the file",
    ]
    assert [what.start_offset for what in one.left_out] == lost
    assert one.left_out_bytes == sum(what.size_bytes for what in one.left_out)


def test_a_copy_under_another_name_gets_an_id_of_its_own() -> None:
    """A controller refuses two topics with one id; the topic of the catalogue keeps it."""
    home = Home(*LETTERS[:2])
    home.fs.make_directory(f"{DATA}/copy-0")
    for name in home.fs.list(LOG):
        home.fs.write(f"{DATA}/copy-0/{name}", home.fs.read(f"{LOG}/{name}"))
    known = open_directory_read_only(DATA, fs=home.fs).topic("t").topic_id

    done = home.rescue()

    new = open_directory_read_only(NEW, fs=home.fs)
    assert new.topic("t").topic_id == known != new.topic("copy").topic_id
    assert home.values(name="copy-0") == home.values()
    assert done.is_whole
    assert [one.reason for one in done.entries if "copy" in one.reason] == [
        "the id of topic copy, which is that of t: it gets a new one"
    ]


def test_no_offset_is_given_again() -> None:
    """The log ends where readers have seen its end, though its last records are lost."""
    home = Home(*LETTERS)
    *_, last = home.names()
    home.fs.write(f"{LOG}/{last}", b"")

    one = home.one()

    with home.home.open(paths=(NEW,)) as copy:
        log = copy.partition("t", 0).log
        assert log.log_end_offset == one.log_end_offset == 12
        append(log, b"next")
    assert home.values()[12] == b"next"
    assert gaps(one) == [(int(last[:20]), 12, True)]


@pytest.mark.parametrize("is_known", [True, False])
def test_no_id_of_a_producer_is_given_again(is_known: bool) -> None:
    """Also where it is not known which ones the broken directory has given out.

    A broker of Kafka notes them elsewhere, and a producer may have written nothing yet.
    """
    home = Home(*LETTERS)
    with home.home.open() as logs:
        given = ProducerIds(logs.manager).next()
    if not is_known:
        home.fs.delete(f"{DATA}/{PRODUCER_IDS_FILE}")

    home.rescue()

    with home.home.open(paths=(NEW,)) as copy:
        found = ProducerIds(copy.manager).next()
    assert found >= given + BLOCK
    assert (found < 1 << 40) == is_known


def test_an_empty_log_keeps_its_offsets() -> None:
    """Of which retention has deleted all records."""
    home = Home(*LETTERS)
    with home.home.open() as logs:
        log = logs.partition("t", 0).log
        log.roll()
        log.maybe_increment_log_start_offset(12)
        log.delete_segments_below_start()

    one = home.one()

    assert (one.log_start_offset, one.log_end_offset, one.is_whole) == (12, 12, True)


def test_a_log_without_any_segment_is_not_whole() -> None:
    """Kafka begins one at the log start; what it held is not known. A new one was at 0."""
    home = Home()
    home.fs.delete(f"{LOG}/{home.names()[0]}")
    assert home.one().is_whole
    home.fs.write(f"{DATA}/log-start-offset-checkpoint", b"0\n1\nt 0 50\n")

    one = home.one()

    assert (one.log_start_offset, one.log_end_offset, one.is_whole) == (50, 50, False)
    assert reasons(one) == [
        "no segment is there, and the checkpoint says that the log starts at 50"
    ]


def test_zeros_are_no_loss_where_nothing_is_missing() -> None:
    """At the end of a preallocated file; a zeroed page between batches is one."""
    home = Home(*LETTERS)
    first, *_, last = home.names()
    home.fs.write(f"{LOG}/{last}", home.fs.read(f"{LOG}/{last}") + bytes(5000))
    assert [what.is_loss for what in home.one().left_out] == [False]
    assert home.one().is_whole
    data = home.fs.read(f"{LOG}/{first}")
    home.fs.write(f"{LOG}/{first}", bytes(200) + data[200:])
    assert not home.one().is_whole


def test_swapped_and_wrong_names_are_seen_by_the_batches() -> None:
    """Where two batches of a file agree; of one alone nobody knows whether the name is wrong."""
    home = Home(*LETTERS)
    one, two = home.names()[:2]
    first, second = home.fs.read(f"{LOG}/{one}"), home.fs.read(f"{LOG}/{two}")
    home.fs.write(f"{LOG}/{one}", second)
    home.fs.write(f"{LOG}/{two}", first)

    done = home.one()

    assert (done.is_whole, done.batches) == (True, 12)
    assert list(home.values()) == list(range(12))

    home.fs.write(f"{LOG}/{one}", first)
    home.fs.write(f"{LOG}/{two}", at(1 << 40, b"alone"))
    done = home.one()
    assert not done.is_whole
    assert 1 << 40 not in home.values()
    assert "impossible offsets" in reasons(done)[0]


def test_a_name_of_another_form_is_left_out_and_named() -> None:
    """With what is in it; a file without batches holds nothing that may be missing."""
    home = Home(*LETTERS[:2])
    home.fs.write(f"{LOG}/7.log", at(7, b"x", b"y"))
    home.fs.write(f"{LOG}/empty.log", b"")
    home.fs.write(f"{LOG}/notes.txt", b"mine")

    done = home.one()

    assert [(what.path, what.batches, what.is_loss) for what in done.left_out] == [
        (f"{LOG}/7.log", 1, True),
        (f"{LOG}/empty.log", 0, False),
    ]
    assert (done.left_out[0].start_offset, done.left_out[0].end_offset) == (7, 9)
    assert "rename it" in done.left_out[0].reason


def test_a_replacement_fills_what_segments_lack() -> None:
    """Of a cleaning that a crash interrupted; where both have batches, those of segments count."""
    home = Home(*LETTERS)
    names = home.names()
    whole = b"".join(home.fs.read(f"{LOG}/{name}") for name in names[:3])
    home.fs.write(f"{LOG}/{names[0]}.swap", whole)
    home.fs.delete(f"{LOG}/{names[0]}")

    done = home.one()

    assert (done.is_whole, done.batches, done.log_start_offset) == (True, 12, 0)
    assert set(reasons(done)) == {"the same batches are in another file"}
    assert list(home.values()) == list(range(12))


def test_remains_are_left_out() -> None:
    """What was deleted, and what a cleaning had not finished; unless its segment is missing."""
    home = Home(*LETTERS)
    first, second, *_ = home.names()
    data = home.fs.read(f"{LOG}/{first}")
    home.fs.write(f"{LOG}/{first}.cleaned", data)
    home.fs.write(f"{LOG}/{second}.deleted", data)
    assert home.one().is_whole
    assert len(home.one().left_out) == 2
    home.fs.delete(f"{LOG}/{first}")
    assert not home.one().is_whole


def test_what_was_cut_off_comes_back() -> None:
    """Where the log has nothing; of two recoveries the newest counts, and what differs is named."""
    home = Home(*LETTERS[:3])
    home.cut(1, 3, at(3, b"old") + at(4, b"old") + at(6, b"old"), at_ms=1)
    newest = home.cut(2, 2, at(2, b"never") + at(3, b"new"), at_ms=2)

    done = home.one()

    values = [home.values()[offset] for offset in (2, 3, 4, 6)]
    assert values == [LETTERS[2], b"new", b"old", b"old"]
    assert gaps(done) == [(5, 6, True)]
    assert [(what.path == newest, what.start_offset) for what in done.left_out] == [
        (True, 2),
        (False, 3),
    ]
    assert set(reasons(done)) == {"other batches have these offsets"}
    assert not done.is_whole
    assert home.rescue().entries == ()


def test_what_was_cut_off_nobody_knows_what_is_named() -> None:
    """Cut files of other topics, and those of newer releases."""
    home = Home(*LETTERS[:3])
    path = home.cut(1, 3, at(3, b"x"))
    data = bytearray(home.fs.read(path))
    data[-9] = 2
    home.fs.write(path, data)
    home.fs.write(f"{DATA}/tidelog.{'0' * 32}-0.{3:020d}.1.cut", at(3, b"x"))

    rescued = home.rescue()

    assert [one.reason[-40:] for one in rescued.entries] == [
        "it was cut off a partition that is not here"[-40:],
        "has version 2; this release reads up to 1"[-40:],
    ]
    assert not rescued.is_whole


@pytest.mark.parametrize("is_listed", [True, False])
def test_what_was_cut_off_another_topic_of_the_name_stays_out(*, is_listed: bool) -> None:
    """It has another id, as after a deletion: nobody wants its records in the topic of today."""
    home = Home(*LETTERS[:3])
    path = home.cut(1, 3, at(3, b"former"))
    with home.home.open() as logs:
        logs.delete_topic("t")
        logs.create_topic("t", 1, config=SMALL)
        append(logs.partition("t", 0).log, b"a")
    if not is_listed:
        home.fs.delete(f"{DATA}/tidelog.topics.json")

    rescued = home.rescue()

    assert home.values() == {0: b"a"}
    (left,) = (one for one in rescued.entries if one.path == path)
    assert left.reason == "it was cut off another topic named t, which has another id"
    assert not rescued.is_whole


def test_batches_that_cannot_be_read_are_left_out() -> None:
    """Though their checksums are right: no log with one of them can be opened, or read."""
    home = Home(*LETTERS[:2])
    name = home.names()[-1]
    broken = bytearray(at(2, b"x" * 20))
    broken[61] = 0x7F
    broken[17:21] = crc32c(memoryview(broken)[21:]).to_bytes(4, "big")
    inside = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    bytes_of_log = home.fs.read(f"{LOG}/{name}") + broken
    bytes_of_log += at(3, b"begun", **inside, transactional=True)
    bytes_of_log += at(4, b"plain", **{**inside, "base_sequence": 1})
    home.fs.write(f"{LOG}/{name}", bytes_of_log + at(5, b"sound"))

    done = home.one()

    assert list(home.values()) == [0, 1, 3, 5]
    assert gaps(done) == [(2, 3, True), (4, 5, True)]
    assert reasons(done)[0].startswith("records cannot be read: ")
    assert reasons(done)[1] == "a plain batch inside a transaction of its producer"


def test_compaction_explains_gaps() -> None:
    """By the topic's policy, or below the offset that the cleaner has come to."""
    for policy, cleaner, is_loss in (
        ("delete", "0\n0\n", True),
        ("delete", "0\n1\nt 0 9\n", False),
        ("delete", "nonsense", True),
        ("compact", "0\n0\n", False),
    ):
        home = Home(*LETTERS[:2], settings={"cleanup.policy": policy})
        name = home.names()[-1]
        home.fs.write(f"{LOG}/{name}", home.fs.read(f"{LOG}/{name}") + at(4, b"x"))
        home.fs.write(f"{DATA}/cleaner-offset-checkpoint", cleaner.encode())
        assert gaps(home.one()) == [(2, 4, is_loss)]


def test_the_log_start_is_carried_unless_it_is_impossible() -> None:
    """Records below it are still there; one after all records is ignored, and named."""
    home = Home(*LETTERS)
    for start, expected in ((5, 5), (12, 12), (1183, 0)):
        home.fs.write(f"{DATA}/log-start-offset-checkpoint", b"0\n1\nt 0 %d\n" % start)
        done = home.one()
        assert done.log_start_offset == expected
        assert done.batches == 12
        assert len(done.left_out) == (expected == 0)
    home.fs.write(f"{DATA}/log-start-offset-checkpoint", b"nonsense")
    done = home.one()
    assert (done.log_start_offset, done.is_whole, len(done.left_out)) == (0, True, 1)


def test_a_report_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ranges are counted, and the first of each kind are listed."""
    monkeypatch.setattr(rescued_partition, "MOST_LISTED", 2)
    home = Home(*LETTERS, settings={"internal.segment.bytes": "100000"})
    (name,) = home.names()
    size = len(home.fs.read(f"{LOG}/{name}")) // 12
    for number in range(1, 11, 2):
        home.spoil(name, size * number + 70)

    done = home.one()

    assert (done.left_out_count, done.gap_count, done.gap_offsets) == (5, 5, 5)
    assert (len(done.left_out), len(done.gaps)) == (2, 2)
    assert done.left_out_bytes == 5 * size


def test_segments_begin_again_where_an_int32_is_too_small() -> None:
    """Old versions of Kafka wrote such segments; one batch may take all offsets of one."""
    home = Home(b"a")
    far, end = 1 << 31, 1 << 40
    records = [(1000, b"k", b"wide", ())] * 2
    wide = build_batch(records, base_offset=1, offsets=[1, far])
    name = home.names()[-1]
    log = home.fs.read(f"{LOG}/{name}") + wide + at(far + 1, b"far") + at(end, b"end")
    home.fs.write(f"{LOG}/{name}", log)

    done = home.one()

    bases = [0, 1, far + 1, end]
    assert home.names(f"{NEW}/t-0") == [f"{base:020d}.log" for base in bases]
    assert b"".join(home.fs.read(f"{NEW}/t-0/{base:020d}.log") for base in bases) == log
    assert (done.batches, done.records, done.segments) == (4, 5, 4)
    assert gaps(done) == [(far + 2, end, True)]


def test_repeats_of_all_directories_are_known() -> None:
    """One of a transaction that the second directory committed would be written again."""
    one = Home(b"a")
    with one.home.open(paths=(DATA, "/other")) as logs:
        logs.create_topic("u")
        for path, topic in ((DATA, "t"), ("/other", "u")):
            with logs.transaction(f"job of {topic}", path=path) as transaction:
                transaction.append(topic, b"b")

    assert one.rescue(DATA, "/other").is_whole
    with one.home.open(paths=(NEW,)) as logs:
        for topic in ("t", "u"):
            with logs.transaction(f"job of {topic}") as transaction:
                transaction.append(topic, b"b")
            assert transaction.is_repeat


def test_transactions_that_cannot_be_read_are_named() -> None:
    """A repeat of one of them would be written again; the others are known."""
    one = Home(b"a")
    with one.home.open() as logs, logs.transaction("job") as transaction:
        transaction.append("t", b"b")
    one.fs.make_directory("/other")
    one.fs.write(f"/other/{FINISHED_FILE}", b"{")

    found = one.rescue("/other", DATA)

    assert [(entry.path, entry.is_loss) for entry in found.entries] == [
        (f"/other/{FINISHED_FILE}", True)
    ]
    assert [*read_finished(one.fs, NEW)] == ["job"]
