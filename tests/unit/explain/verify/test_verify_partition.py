"""What a check of a whole log finds beyond its batches and indexes."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.machinery.log_home import LogHome

from tidelog.codec.checkpoint_file import write_checkpoint
from tidelog.explain.verify.verify_files import CheckpointLines
from tidelog.explain.verify.verify_partition import LogVerifier, verify_partition
from tidelog.log.producers.producer_snapshot import pack_snapshot, unpack_snapshot
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.memory import walk
from tidelog.segment.filenames import parse_topic_partition
from tidelog.segment.index_entries import OFFSET_INDEX_ENTRY

if TYPE_CHECKING:
    from tests.machinery.fields import ProducerFields

    from tidelog.explain.verify.findings import Finding


LOG = "00000000000000000000"
PRODUCER: ProducerFields = {"producer_id": 7, "producer_epoch": 0}


@pytest.fixture
def home() -> LogHome:
    """A closed log: 0-1 of an aborted transaction, its marker at 2, a plain record at 3."""
    home = LogHome()
    records = [(100, None, b"value", ())] * 2
    with home.open() as log:
        data = build_batch(records, leader_epoch=0, base_sequence=0, transactional=True, **PRODUCER)
        log.append_as_follower(data, leader_epoch=0)
        marker = build_marker(
            coordinator_epoch=0,
            is_commit=False,
            timestamp=100,
            base_offset=2,
            leader_epoch=0,
            **PRODUCER,
        )
        log.append_as_follower(marker, leader_epoch=0)
        log.append_records(records[:1])
    home.fs.write("/data/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":1}')
    return home


def findings(home: LogHome) -> list[tuple[str, str]]:
    """Return severity and file of everything found; all logs here have no topic id."""
    verifier = LogVerifier(home.fs, home.directory, clock=home.clock)
    found = [(row.severity.value, row.path.rpartition("/")[2]) for row in verifier.findings()]
    return [row for row in found if row != ("unusual", "partition.metadata")]


def test_a_sound_log_has_no_findings(home: LogHome) -> None:
    """Transactions, snapshots and epochs agree with the batches."""
    assert findings(home) == []


def test_an_aborted_transaction_must_be_in_the_index(home: LogHome) -> None:
    """Without its entry readers of committed records would see what was aborted."""
    home.fs.delete(f"{home.directory}/{LOG}.txnindex")

    assert findings(home) == [("damage", f"{LOG}.txnindex")]


def test_an_entry_without_its_marker_is_damage(home: LogHome) -> None:
    """An entry must name the offset of an abort marker of its producer."""
    entry = bytearray(home.read(f"{LOG}.txnindex"))
    entry[9] ^= 1  # the producer
    home.write(f"{LOG}.txnindex", bytes(entry))

    assert ("damage", f"{LOG}.txnindex") in findings(home)


def test_a_snapshot_must_agree_with_the_batches(home: LogHome) -> None:
    """A producer's last sequence in a snapshot is that of its last batch before it."""
    name = home.files(".snapshot")[-1]
    (entry,) = unpack_snapshot(home.read(name))
    home.write(name, pack_snapshot([entry._replace(last_sequence=9)]))

    assert findings(home) == [("damage", name)]


def test_a_producer_missing_in_a_snapshot_may_have_expired(home: LogHome) -> None:
    """Producers that wrote nothing for long are forgotten by right."""
    home.write(home.files(".snapshot")[-1], pack_snapshot([]))

    assert findings(home) == []


def test_batches_of_an_unknown_epoch_are_damage(home: LogHome) -> None:
    """The leader epochs of batches stand in the checkpoint."""
    home.write("leader-epoch-checkpoint", b"0\n0\n")

    assert findings(home) == [("damage", "leader-epoch-checkpoint")]


def damage_in(home: LogHome) -> list[Finding]:
    """Return what is found damaged."""
    found, _ = verify_partition(home.fs, home.directory, clock=home.clock)
    return [row for row in found if row.severity.value == "damage"]


def test_the_high_watermark_must_lie_in_the_log(home: LogHome) -> None:
    """What readers have seen must still be there."""
    home.fs.write("/data/replication-offset-checkpoint", b"0\n1\nflights 0 9\n")

    assert findings(home) == [("damage", "replication-offset-checkpoint")]


def test_a_torn_end_is_damage_only_after_a_clean_shutdown(home: LogHome) -> None:
    """A crash leaves torn batches, and a writer at work; an orderly shutdown does not."""
    home.write(f"{LOG}.log", home.read(f"{LOG}.log") + b"torn")

    assert ("damage", f"{LOG}.log") in findings(home)
    home.fs.delete("/data/.kafka_cleanshutdown")
    assert findings(home) == [("unusual", f"{LOG}.log")]


def test_progress_counts_the_bytes_of_records(home: LogHome) -> None:
    """At the end all bytes of the .log files have been reported."""
    told: list[int] = []
    verifier = LogVerifier(home.fs, home.directory, clock=home.clock, on_progress=told.append)

    list(verifier.findings())

    assert told[-1] == len(home.read(f"{LOG}.log"))


def test_the_snapshots_of_two_shutdowns_are_normal(home: LogHome) -> None:
    """Opening keeps the one of the shutdown before, and the next shutdown adds its own."""
    for _ in range(3):
        with home.open() as log:
            log.append_records([(100, None, b"value", ())])

    assert home.files(".snapshot") == [f"{offset:020}.snapshot" for offset in (6, 7)]
    assert findings(home) == []


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("log-start-offset-checkpoint", "begin with their first segments"),
        ("recovery-point-offset-checkpoint", "checked from their start"),
        ("replication-offset-checkpoint", "up to its end"),
        ("cleaner-offset-checkpoint", "cleaned from their start"),
    ],
)
def test_what_follows_if_a_malformed_checkpoint_is_deleted_is_told(
    home: LogHome, name: str, what: str
) -> None:
    """It differs by the file, and of one of them deleted records come back."""
    home.fs.write(f"/data/{name}", b"garbage")

    (found,) = damage_in(home)

    assert found.path.endswith(name)
    assert what in found.remedy


def test_indexes_are_checked_up_to_a_damaged_batch(home: LogHome) -> None:
    """Entries after it may be right: nothing is said of them."""
    log = f"{home.directory}/{0:020d}.log"
    data = bytearray(home.fs.read(log))
    first = int(walk(bytes(data)).batches.size[0])
    data[first + 30] ^= 1
    home.fs.write(log, data)
    entries = np.array([(0, 7), (9, 3 * first + 1)], OFFSET_INDEX_ENTRY.dtype)
    home.fs.write(log.replace(".log", ".index"), entries.tobytes())

    found = [row.what for row in damage_in(home) if row.path.endswith(".index")]

    assert found == ["entry 0 points at a byte where no batch starts"]


def test_a_checkpoint_that_cannot_be_read_is_not_to_be_deleted(home: LogHome) -> None:
    """Nothing is known of what it holds; with the one of log starts, deleted records return."""
    name = "log-start-offset-checkpoint"
    home.fs.write(f"/data/{name}", b"0\n1\nflights 0 1\n")
    home.fs.fail("open", name, OSError(errno.EACCES, "Permission denied"), count=100)

    (found,) = set(damage_in(home))
    assert found.remedy == "make the file readable, then verify again"
    assert found.path not in found.what


def test_a_damaged_snapshot_that_opening_leaves_alone_can_be_deleted() -> None:
    """Opening reads the newest one only: none of the others is dropped by it."""
    home = LogHome(internal_segment_bytes=200)
    for _ in range(2):
        with home.open() as log:
            for _ in range(6):
                log.append_records([(100, None, b"x" * 60, ())])
        oldest = home.files(".snapshot")[0]
        home.write(oldest, b"no snapshot")

    (found,) = damage_in(home)
    assert found.path.endswith(oldest)
    assert found.remedy.startswith("delete the file")
    home.fs.delete(found.path)
    home.open().close()

    assert damage_in(home) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_what_has_the_place_of_an_index_is_to_be_moved(home: LogHome, suffix: str) -> None:
    """Opening cannot replace a directory, also where it would build the index again."""
    home.fs.delete("/data/.kafka_cleanshutdown")
    home.fs.delete(f"{home.directory}/{LOG}{suffix}")
    home.fs.make_directory(f"{home.directory}/{LOG}{suffix}")

    (found,) = damage_in(home)
    assert found.remedy.startswith("move it elsewhere; then delete the segment's .index file")
    home.fs.delete_directory(found.path)
    if suffix != ".index":
        home.fs.delete(f"{home.directory}/{LOG}.index")
    home.open().close()

    assert damage_in(home) == []


def test_the_check_goes_on_after_what_cannot_be_read() -> None:
    """Each file that fails is one finding, and everything that can be read is checked."""
    home = LogHome(internal_segment_bytes=200)
    with home.open() as log:
        for _ in range(6):
            log.append_records([(100, None, b"x" * 60, ())])
    bases = [int(name[:20]) for name in home.files(".log")]
    assert len(bases) >= 4
    unreadable = f"{bases[1]:020}.log"
    home.fs.fail("open", unreadable, OSError(errno.EIO, "bad disk"), count=100)
    for name in (f"{bases[2]:020}.index", f"{bases[2]:020}.txnindex", home.files(".snapshot")[-1]):
        if name in home.files():
            home.fs.delete(f"{home.directory}/{name}")
        home.fs.make_directory(f"{home.directory}/{name}")
    home.write("leader-epoch-checkpoint", b"0\n1\nx y\n")
    home.write("partition.metadata", b"version: x")
    last = f"{bases[-1]:020}.log"
    home.write(last, home.read(last)[:-1] + b"!")
    home.fs.write("/data/cleaner-offset-checkpoint", b"x")
    home.fs.write("/data/.kafka_cleanshutdown", b"")

    found, checked = verify_partition(home.fs, home.directory, clock=home.clock)

    damaged = {row.path.rpartition("/")[2] for row in found if row.severity.value == "damage"}
    assert damaged >= {
        unreadable,
        f"{bases[2]:020}.index",
        last,
        "leader-epoch-checkpoint",
        "partition.metadata",
        "cleaner-offset-checkpoint",
    }
    assert checked.segments == len(bases)
    assert checked.records == checked.batches == 4


@pytest.mark.parametrize("line", ["-3 5", "0 -5"])
def test_a_negative_epoch_is_damage(home: LogHome, line: str) -> None:
    """The log cannot be loaded with it."""
    home.write("leader-epoch-checkpoint", f"0\n1\n{line}\n".encode())

    assert ("damage", "leader-epoch-checkpoint") in findings(home)


def test_checks_of_many_partitions_read_a_checkpoint_once(home: LogHome) -> None:
    """Each file has a line for every partition."""
    path = "/data/replication-offset-checkpoint"
    write_checkpoint(home.fs, path, {("t", 0): 4, ("t", 1): 4})
    checkpoints, traced = CheckpointLines(home.fs), home.fs.trace()

    for _ in range(3):
        verify_partition(home.fs, home.directory, clock=home.clock, checkpoints=checkpoints)

    assert [one.path for one in traced if one.name == "open"].count(path) == 1


def test_a_checkpoint_that_was_replaced_meanwhile_is_read_again(home: LogHome) -> None:
    """Beside a writer a log must not be judged by older lines, though size and time are equal."""
    path = "/data/replication-offset-checkpoint"
    key = parse_topic_partition(os.path.basename(home.directory))
    checkpoints = CheckpointLines(home.fs)

    def damaged() -> bool:
        check = verify_partition(home.fs, home.directory, clock=home.clock, checkpoints=checkpoints)
        return any(row.severity.value == "damage" and row.path == path for row in check.findings)

    found = []
    for high_watermark in (4, 5, 4):
        write_checkpoint(home.fs, path, {key: high_watermark})
        found.append(damaged())
    home.fs.delete(path)
    found.append(damaged())

    assert found == [False, True, False, False]


def test_files_that_wait_for_deletion_are_one_finding(home: LogHome) -> None:
    """Retention and cleaning leave them in a healthy log; there may be thousands."""
    for name in (f"{base:020}{kind}" for base in range(3) for kind in (".log", ".index")):
        home.write(f"{name}.deleted", b"")
    verifier = LogVerifier(home.fs, home.directory, clock=home.clock)

    found = [row.what for row in verifier.findings() if ".deleted" in row.path]

    assert found == [f"{LOG}.log.deleted and 5 other files wait for deletion"]


def test_a_partition_that_cannot_be_looked_at_is_damage(home: LogHome) -> None:
    """It is not taken for one that was deleted meanwhile, and the check of others continues."""
    failed = OSError(errno.EIO, "the disk failed")
    home.fs.fail("list", home.directory, failed, count=9)
    home.fs.fail("exists", home.directory, failed, count=9)

    found = verify_partition(home.fs, home.directory, clock=home.clock)

    assert "the disk failed" in found.findings[0].what
