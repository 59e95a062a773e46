"""Transactions that the disk, or an interrupt, keeps from staging all of their records."""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.codec.compression import Codec
from tidelog.embedded.busy_directory import BusyDirectory, BusyWriter
from tidelog.env.machine import Machine
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.records.new_record import NewRecord
from tidelog.records.validation.own_records import OwnRecords
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.finished import read_finished
from tidelog.staging.staged_file import list_staged

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.embedded.transaction import Transaction

MODULE = "tidelog.embedded.transaction"
FULL = OSError(errno.ENOSPC, "full")


def home_with_topic(monkeypatch: pytest.MonkeyPatch) -> DataHome:
    """Return a directory with topic t of two partitions, where each batch is staged at once."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 2)
    monkeypatch.setattr(f"{MODULE}.BundleWriter", partial(BundleWriter, buffer_bytes=1))
    return home


def large(number: int) -> NewRecord:
    """Return a record of which few fill a batch."""
    return NewRecord(None, b"%02d" % number + bytes(20_000), partition=number % 2)


def append_some(append: Callable[[NewRecord], None]) -> None:
    """Append records that fill several batches."""
    for number in range(20):
        append(large(number))


def append_each(txn: Transaction, count: int = 20) -> list[int]:
    """Append records whatever is raised; return those that were refused."""
    refused = []
    for number in range(count):
        try:
            txn.append_record("t", large(number))
        except KafkaStorageError:
            refused.append(number)
    return refused


def check_nothing_is_left(home: DataHome) -> None:
    """Check that no record is in the logs, no id is known and no file is staged."""
    assert home.values("t-0") == home.values("t-1") == []
    assert read_finished(home.fs, home.path) == {}
    assert list_staged(home.fs, home.path) == []


def test_a_program_that_goes_on_after_a_full_disk_commits_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All records or none, though it caught the error of one: each later one is refused too."""
    home = home_with_topic(monkeypatch)
    with home.open() as logs:
        home.fs.fail("pwrite", ".staged", FULL)
        txn = logs.transaction("x")
        with pytest.raises(KafkaStorageError, match="failed before") as raised, txn:
            refused = append_each(txn)

        assert refused == list(range(refused[0], 20))
        assert raised.value.__cause__ is FULL
        assert txn.committed is None
    check_nothing_is_left(home)


def test_only_an_abort_is_left_after_a_failed_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else says why; afterwards the transaction has ended, and its id is free."""
    home = home_with_topic(monkeypatch)
    with home.open() as logs:
        home.fs.fail("open", ".staged", OSError(errno.EMFILE, "too many"))
        txn = logs.transaction("x")
        with pytest.raises(KafkaStorageError, match="too many"):
            append_some(partial(txn.append_record, "t"))
        with pytest.raises(KafkaStorageError, match="too many"):
            txn.append("t", b"small")
        with pytest.raises(KafkaStorageError, match="too many"):
            txn.create_topic("new")
        with pytest.raises(KafkaStorageError, match="too many"):
            txn.commit()
        with pytest.raises(InvalidArgument, match="has ended"):
            txn.commit()
        txn.abort()
        check_nothing_is_left(home)

        with logs.transaction("x") as txn:
            txn.append("t", b"a", partition=0)
    assert home.values("t-0") == [b"a"]


@pytest.mark.parametrize("operation", ["open", "pwrite", "sync"])
def test_a_disk_that_fails_at_the_commit_is_a_typed_error(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Small transactions are staged only then."""
    home = home_with_topic(monkeypatch)
    with home.open() as logs:
        home.fs.fail(operation, ".staged", OSError(errno.EIO, "broken"))
        txn = logs.transaction()
        txn.append("t", b"a")
        with pytest.raises(KafkaStorageError, match=r"staging in /data failed: .*broken"):
            txn.commit()
    check_nothing_is_left(home)


def test_records_that_were_taken_before_an_interrupt_are_not_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that catches Ctrl-C and commits what it has gets an error, not a gap."""
    home = home_with_topic(monkeypatch)

    def interrupted(*_: object) -> OwnRecords:
        monkeypatch.setattr(f"{MODULE}.OwnRecords", OwnRecords)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{MODULE}.OwnRecords", interrupted)
    with home.open() as logs:
        txn = logs.transaction()
        with suppress(KeyboardInterrupt):
            append_each(txn)
        with pytest.raises(KafkaStorageError, match="KeyboardInterrupt"), txn:
            txn.append("t", b"last")
    check_nothing_is_left(home)


def test_a_writer_of_a_busy_directory_commits_nothing_after_a_failed_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All records staged since the last flush are dropped; then they can be repeated."""
    home = home_with_topic(monkeypatch)
    machine = Machine(home.fs, home.clock, InlineScheduler(), Random(1), home.clock.advance)
    writer = BusyWriter(BusyDirectory(home.path, machine=machine), "t", codec=Codec.NONE)
    home.fs.fail("pwrite", ".staged", FULL)
    with pytest.raises(KafkaStorageError, match="full"):
        append_some(writer.append)
    with pytest.raises(KafkaStorageError, match="failed before"):
        writer.append(large(0))
    assert list_staged(home.fs, home.path) == []
    with pytest.raises(KafkaStorageError, match="failed before"):
        writer.flush()
    assert writer.records == 0
    check_nothing_is_left(home)

    writer.append(large(0))
    writer.flush()
    assert (writer.records, len(home.values("t-0"))) == (1, 1)
