"""Staged files: batches, without offsets, that wait to be committed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tidelog.errors import InvalidArgument, KafkaStorageError, MessageTooLarge
from tidelog.records.builder import build_batch
from tidelog.staging.staged_file import (
    StagedFile,
    StagedReader,
    StagedWriter,
    is_staged_name,
    list_staged,
    staged_name,
)
from tidelog.testing.directory_home import DataHome, record

LIMIT = 1 << 20
BATCHES = [build_batch([record(b"a"), record(b"b")]), build_batch([record(b"c" * 100)])]


def stage(home: DataHome, batches: list[bytes], *, records: int = 3, txn: str = "x") -> StagedFile:
    """Write a staged file for t-0."""
    writer = open_writer(home, txn)
    for number, batch in enumerate(batches):
        writer.append(batch, records=records if not number else 0, max_timestamp=number)
    return writer.finish()


def open_writer(home: DataHome, txn: str = "x", seed: int = 1) -> StagedWriter:
    """Open a staged file for t-0."""
    home.fs.make_directory(home.path)
    return StagedWriter(home.fs, home.path, txn, topic="t", partition=0, rng=Random(seed))


def check(home: DataHome, staged: StagedFile, max_batch_bytes: int = LIMIT) -> None:
    """Check a staged file."""
    with StagedReader(home.fs, home.path, staged) as reader:
        reader.check(max_batch_bytes)


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
    staged = stage(DataHome(), BATCHES)

    with pytest.raises(InvalidArgument, match="not the name"):
        replace(staged, name=name)


def test_the_manifest_describes_the_file() -> None:
    """It has topic, partition, records, bytes and the maximum timestamp."""
    home = DataHome()
    staged = stage(home, BATCHES)

    assert (
        staged.topic,
        staged.partition,
        staged.records,
        staged.max_timestamp,
    ) == ("t", 0, 3, 1)
    assert home.fs.stat(f"{home.path}/{staged.name}").size_bytes == staged.size_bytes


@pytest.mark.parametrize("seed", range(8))
def test_a_finished_file_survives_a_power_cut(seed: int) -> None:
    """When ``finish`` returns, bytes and name are durable."""
    home = DataHome(seed)
    home.write("other", "")
    staged = stage(home, BATCHES)

    home.fs.power_cut()

    check(home, staged)


def test_a_name_is_never_used_twice() -> None:
    """A staged file is created exclusively, so two attempts never share one."""
    home = DataHome()
    open_writer(home, seed=1)

    with pytest.raises(FileExistsError):
        open_writer(home, seed=1)


def test_an_abandoned_file_is_deleted() -> None:
    """A task that fails removes its file."""
    home = DataHome()
    open_writer(home).abandon()

    assert home.files() == []


def test_all_batches_come_back_in_order() -> None:
    """They come in whole batches up to the requested size, unless a single one is larger."""
    home = DataHome()
    staged = stage(home, BATCHES)
    with StagedReader(home.fs, home.path, staged) as reader:
        whole = list(reader.whole_batches(LIMIT))
        single = list(reader.whole_batches(100))

    assert [bytes(data) for data in whole] == [b"".join(BATCHES)]
    assert [bytes(data) for data in single] == BATCHES


@pytest.mark.parametrize("change", ["flip", "cut", "longer", "none", "batch gone"])
def test_a_changed_file_is_detected(change: str) -> None:
    """Size, digest and number of records must match what the writer recorded."""
    home = DataHome()
    staged = stage(home, BATCHES)
    data = b"".join(BATCHES)
    home.write(
        staged.name,
        {
            "flip": data[:90] + bytes([data[90] ^ 1]) + data[91:],
            "cut": data[:-1],
            "longer": data + b"\0",
            "none": b"",
            "batch gone": BATCHES[0],
        }[change],
    )

    with pytest.raises(KafkaStorageError, match="does not match its manifest"):
        check(home, staged)


def test_bytes_that_are_not_batches_are_detected() -> None:
    """They are rejected even if they are unchanged since they were written."""
    home = DataHome()
    staged = stage(home, [BATCHES[0], b"rubbish instead of a batch"], records=2)

    with pytest.raises(KafkaStorageError, match="does not match its manifest"):
        check(home, staged)


def test_a_wrong_number_of_records_is_detected() -> None:
    """A commit reports the manifest's number."""
    home = DataHome()

    with pytest.raises(KafkaStorageError, match="does not match its manifest"):
        check(home, stage(home, BATCHES, records=4))


def test_a_missing_file_is_a_storage_error() -> None:
    """This happens after a commit that was already completed."""
    home = DataHome()
    staged = stage(home, BATCHES)
    home.fs.delete(f"{home.path}/{staged.name}")

    with pytest.raises(KafkaStorageError, match="does not exist"):
        check(home, staged)


def test_a_batch_larger_than_the_topics_limit_is_rejected() -> None:
    """``max.message.bytes`` may have changed since the file was staged."""
    home = DataHome()
    staged = stage(home, BATCHES)

    check(home, staged, max(len(batch) for batch in BATCHES))
    with pytest.raises(MessageTooLarge):
        check(home, staged, max(len(batch) for batch in BATCHES) - 1)


def test_an_empty_file_has_no_batches() -> None:
    """A task without rows can stage nothing."""
    home = DataHome()
    staged = stage(home, [])
    check(home, staged)
    with StagedReader(home.fs, home.path, staged) as reader:
        assert list(reader.whole_batches(LIMIT)) == []


def test_staged_files_are_listed_by_transaction() -> None:
    """Those of one transaction, or all, but no other files."""
    home = DataHome()
    home.write("tidelog.topics.json", "{}")
    home.write("tidelog.1234.staged", "{}")
    one, other = stage(home, BATCHES, txn="one").name, stage(home, BATCHES, txn="other").name

    assert [one] == list_staged(home.fs, home.path, "one")
    assert sorted([one, other]) == list_staged(home.fs, home.path)
