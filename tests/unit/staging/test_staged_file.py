"""Staged files: their names, and the check of their runs against the manifest."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.machinery.directory_home import DataHome, record

from tidelog.errors import InvalidArgument, InvalidRecord, KafkaStorageError, MessageTooLarge
from tidelog.records.builder import build_batch
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.staged_file import check_txn, is_staged_name, list_staged, staged_name
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.staged_run import RunLimits, StagedRun, check_run
from tidelog.staging.stream_batch import StreamBatch

LIMIT = 1 << 20
BATCHES = [build_batch([record(b"a"), record(b"b")]), build_batch([record(b"c" * 100)])]


def stage(home: DataHome, batches: list[bytes], *, txn: str = "x", seed: int = 1) -> StagedRun:
    """Write a staged file for t-0."""
    home.fs.make_directory(home.path)
    bundle = BundleWriter(LocalFolder(home.fs, home.path), txn, rng=Random(seed))
    for batch in batches:
        bundle.append("t", 0, batch)
    (run,) = bundle.finish()
    return run


def check(
    home: DataHome, run: StagedRun, max_batch_bytes: int = LIMIT, *, needs_keys: bool = False
) -> None:
    """Check a staged file."""
    limits = RunLimits(max_batch_bytes, needs_keys=needs_keys, is_stamped=False)
    check_run(home.fs, home.path, run, limits)


@pytest.mark.parametrize(
    "txn", ["", " ", "\ud800", "x\udcff", "x" * 256, "\u00e9" * 128, 7], ids=ascii
)
def test_an_id_is_short_text_that_utf8_can_hold(txn: str) -> None:
    """Its bytes of UTF-8 name files: 1 to 255, not blank; anything else is a typed error."""
    with pytest.raises(InvalidArgument, match="is not a transaction id"):
        check_txn(txn)
    check_txn("x" * 255)
    check_txn("\u00e9" * 127)


@pytest.mark.parametrize("query_id", ["", "a query", "a\nb", "6b1d8f0e-1c9b-4c6e-8f0a-0d5b3f3a"])
def test_an_id_is_not_that_of_a_batch_of_a_stream(query_id: str) -> None:
    """Its entry would be taken for the batch's, and the batch's staged files for its own."""
    with pytest.raises(InvalidArgument, match="that of a batch of a stream"):
        check_txn(StreamBatch(query_id, 12).txn)
    for txn in ("stream 7", "stream x batch", "stream x batch y", "upstream x batch 7"):
        check_txn(txn)


def test_a_name_identifies_only_the_transaction() -> None:
    """``tidelog.<hash of txn>.<128 random bits>.staged``: a plain file that Kafka ignores."""
    one, other = staged_name("a txn", Random(1)), staged_name("a txn", Random(2))

    assert one.split(".")[:2] == other.split(".")[:2]
    assert one != other
    assert is_staged_name(one)
    assert staged_name("b", Random(1)).split(".")[1] != one.split(".")[1]


@pytest.mark.parametrize("name", ["tidelog.x.staged", "tidelog.topics.json", "../a.staged", ""])
def test_other_names_are_rejected(name: str) -> None:
    """A manifest cannot make a commit read or delete any other file."""
    run = stage(DataHome(), BATCHES)

    with pytest.raises(InvalidArgument, match="not the name"):
        replace(run, name=name)


def check_keys_of_every_batch() -> None:
    """Check files of two batches for a topic that needs keys."""
    keyed = build_batch([record(b"a", b"k"), record(b"b", b"k")])
    good, bad = DataHome(), DataHome()

    check(good, stage(good, [keyed, keyed]), needs_keys=True)
    run = stage(bad, [keyed, BATCHES[1]])
    with pytest.raises(InvalidRecord, match="key, but the topic is compacted"):
        check(bad, run, needs_keys=True)
    unknown = RunLimits(LIMIT, needs_keys=True, is_stamped=False, is_policy_known=False)
    with pytest.raises(InvalidRecord, match="tidelog alter TOPIC -o"):
        check_run(bad.fs, bad.path, run, unknown)


def test_every_batch_for_a_compacted_topic_needs_keys() -> None:
    """However many batches a file has."""
    check_keys_of_every_batch()


@pytest.mark.usefixtures("kernels")
def test_kernels_check_every_batch_for_a_compacted_topic() -> None:
    """As plain code does."""
    check_keys_of_every_batch()


def test_the_manifest_describes_the_file() -> None:
    """It has topic, partition, records, bytes and the maximum timestamp."""
    home = DataHome()
    run = stage(home, BATCHES)

    assert (run.topic, run.partition, run.records, run.position) == ("t", 0, 3, 0)
    assert run.max_timestamp == record(b"a")[0]
    assert home.fs.stat(f"{home.path}/{run.name}").size_bytes == run.size_bytes


@pytest.mark.parametrize("seed", range(8))
def test_the_bytes_of_a_finished_file_survive_a_power_cut(seed: int) -> None:
    """When ``finish`` returns; the commit makes the name durable."""
    home = DataHome(seed)
    home.write("other", "")
    run = stage(home, BATCHES)
    home.fs.sync_directory(home.path)

    home.fs.power_cut()

    check(home, run)


def test_a_name_is_never_used_twice() -> None:
    """A staged file is created exclusively, so two attempts never share one."""
    home = DataHome()
    first = stage(home, BATCHES, seed=1)

    with pytest.raises(KafkaStorageError, match="File exists"):
        stage(home, BATCHES, seed=1)
    check(home, first)


@pytest.mark.parametrize("change", ["flip", "cut", "none", "batch gone"])
def test_a_changed_file_is_detected(change: str) -> None:
    """Size, digest and number of records must match what the writer recorded."""
    home = DataHome()
    run = stage(home, BATCHES)
    check(home, run)
    data = b"".join(BATCHES)
    home.write(
        run.name,
        {
            "flip": data[:120] + bytes([data[120] ^ 1]) + data[121:],
            "cut": data[:-1],
            "none": b"",
            "batch gone": BATCHES[0],
        }[change],
    )

    with pytest.raises(KafkaStorageError, match="does not match its manifest"):
        check(home, run)


def test_any_changed_byte_is_detected() -> None:
    """But in base offsets and leader epochs, which a commit writes."""
    home = DataHome()
    run = stage(home, BATCHES)
    data = b"".join(BATCHES)
    assigned = {start + at for start in (0, len(BATCHES[0])) for at in (*range(8), *range(12, 16))}
    undetected = set()
    for at in range(len(data)):
        home.write(run.name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            check(home, run)
        except KafkaStorageError:
            continue
        undetected.add(at)

    assert undetected == assigned


def test_any_changed_byte_of_a_copy_is_detected() -> None:
    """A copy keeps its offsets and epochs, so its manifest covers them, too."""
    home = DataHome()
    home.fs.make_directory(home.path)
    copied = [build_batch([record(b"v")], base_offset=at, leader_epoch=3) for at in (5, 9)]
    bundle = BundleWriter(LocalFolder(home.fs, home.path), "x", rng=Random(1), keeps_offsets=True)
    for batch in copied:
        bundle.append("t", 0, batch)
    (run,) = bundle.finish()
    data = b"".join(copied)
    check(home, run)
    for at in range(len(data)):
        home.write(run.name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((KafkaStorageError, InvalidRecord)):
            check(home, run)


def test_a_wrong_number_of_records_is_detected() -> None:
    """A commit reports the manifest's number."""
    home = DataHome()

    with pytest.raises(KafkaStorageError, match="does not match its manifest"):
        check(home, replace(stage(home, BATCHES), records=4))


def test_a_missing_file_is_a_storage_error() -> None:
    """As after a commit that was completed before."""
    home = DataHome()
    run = stage(home, BATCHES)
    home.fs.delete(f"{home.path}/{run.name}")

    with pytest.raises(KafkaStorageError, match="does not exist"):
        check(home, run)


def test_a_batch_larger_than_the_topics_limit_is_rejected() -> None:
    """``max.message.bytes`` may have changed since the file was staged."""
    home = DataHome()
    run = stage(home, BATCHES)

    check(home, run, max(len(batch) for batch in BATCHES))
    with pytest.raises(MessageTooLarge):
        check(home, run, max(len(batch) for batch in BATCHES) - 1)


def test_staged_files_are_listed_by_transaction() -> None:
    """Those of one transaction, or all, but no other files."""
    home = DataHome()
    home.write("tidelog.topics.json", "{}")
    home.write("tidelog.1234.staged", "{}")
    one, other = stage(home, BATCHES, txn="one").name, stage(home, BATCHES, txn="other").name

    assert [one] == list_staged(home.fs, home.path, "one")
    assert sorted([one, other]) == list_staged(home.fs, home.path)
