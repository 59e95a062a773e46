"""Large staged files, which logs adopt as segments, and copies, which keep their offsets."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.old_batches import build_old
from tests.machinery.staging import power_cut_at

from tidelog.config.log_config import LogConfig
from tidelog.errors import (
    CommitUnfinished,
    InvalidRecord,
    InvalidTxnState,
    KafkaStorageError,
    MessageTooLarge,
    UnexpectedAppendOffset,
)
from tidelog.records.batch import INT64_MAX
from tidelog.records.builder import build_batch
from tidelog.staging import bundle
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction
from tidelog.staging.directory import CommitPoint
from tidelog.staging.journal import journal_name, read_journal
from tidelog.staging.staged_file import is_staged_name
from tidelog.staging.staged_folder import LocalFolder
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidelog.embedded.logs import Logs

SEGMENT_BYTES = 2_000
KEEP = LogConfig(
    segment_index_bytes=1200,
    internal_segment_bytes=SEGMENT_BYTES,
    index_interval_bytes=200,
    retention_ms=-1,
)
VALUES = [b"%d" % number * 100 for number in range(10, 30)]


def home_with_topic(config: Mapping[str, str] | None = None) -> DataHome:
    """Return a directory with a topic t of two partitions, the first with one flushed record."""
    home = DataHome()
    with home.open(defaults=KEEP) as logs:
        logs.create_topic("t", 2, config)
        logs.partition("t", 0).append_records([record(b"before", b"k")])
    return home


def write(logs: Logs, values: Sequence[bytes] = VALUES) -> None:
    """Commit the values to t-0, and one to t-1."""
    with logs.transaction("x") as txn:
        for value in values:
            txn.append("t", value, key=b"k", partition=0)
        txn.append("t", b"small", key=b"k", partition=1)


def interrupted(home: DataHome, point: CommitPoint = CommitPoint.COMMITTED) -> None:
    """End the process at a moment of a commit."""
    logs = home.open(defaults=KEEP)
    logs.manager.staged_commits.on_point = power_cut_at(point)
    with suppress(PowerCut):
        write(logs)
    home.fs.kill()


def test_a_large_file_is_moved_into_its_log() -> None:
    """Its records are written once, when they are staged; a small run is appended."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        traced = home.fs.trace()
        write(logs)
        renamed = [one for one in traced if one.name == "rename" and one.path.endswith(".staged")]
        assert len(logs.partition("t", 0).log.segments) == 4
    written = [one.path for one in traced if one.name == "pwrite" and one.path.endswith(".log")]

    assert home.values("t-0") == [b"before", *VALUES]
    assert home.values("t-1") == [b"small"]
    assert len(renamed) == 3
    assert {os.path.dirname(path) for path in written} == {"/data/t-1"}
    assert home.own_files() == []


def test_records_with_the_time_of_their_append_are_never_adopted() -> None:
    """Their checksums change, so they are written again."""
    home = home_with_topic({"message.timestamp.type": "LogAppendTime"})
    with home.open(defaults=KEEP) as logs:
        home.clock.advance(5_000)
        write(logs)
        now_ms = home.clock.now_ms()
        times = {found.timestamp for found in logs.read("t", 0) if found.offset}

    assert times == {now_ms}


@contextmanager
def cut_at_rename(home: DataHome, suffix: str, number: int = 0) -> Iterator[None]:
    """End the process at the rename with this number to a name that ends in ``suffix``."""
    rename, left = home.fs.rename, [number]

    def cut(source: str, target: str) -> None:
        if target.endswith(suffix):
            if not left[0]:
                raise PowerCut
            left[0] -= 1
        rename(source, target)

    home.fs.rename = cut  # type: ignore[method-assign]  # a power cut
    with suppress(PowerCut):
        yield
    home.fs.rename = rename  # type: ignore[method-assign]  # a power cut
    assert left == [0]
    home.fs.kill()


@pytest.mark.parametrize("adopted", range(3))
def test_a_replay_goes_on_where_files_were_adopted(adopted: int) -> None:
    """The name that is gone is looked for in the log, whatever the crash left."""
    home = home_with_topic()
    interrupted(home)
    with cut_at_rename(home, ".log", adopted), home.open(defaults=KEEP):
        pass
    with home.open(defaults=KEEP) as logs:
        write(logs)

    assert home.values("t-0") == [b"before", *VALUES]
    assert home.own_files() == []


def test_a_torn_patch_is_written_again() -> None:
    """The bytes that a commit writes into a staged file are in no checksum."""
    home = home_with_topic()
    interrupted(home)
    for name in home.own_files():
        path = f"{home.path}/{name}"
        if is_staged_name(name) and home.fs.stat(path).size_bytes > 500:
            data = home.fs.read(path)
            home.fs.write(path, b"\0\0\0\0\0\1\2\3" + data[8:12] + b"\0\0\1\1" + data[16:])
    with home.open(defaults=KEEP) as logs:
        assert [found.offset for found in logs.read("t", 0)] == list(range(21))

    assert home.values("t-0") == [b"before", *VALUES]


@pytest.mark.parametrize("at", [100, 400])
def test_a_file_that_was_damaged_after_the_commit_is_not_adopted(at: int) -> None:
    """The error names it, and the transaction stays pending."""
    home = home_with_topic()
    interrupted(home)
    journal = read_journal(home.fs, home.path, journal_name("x"))
    path = f"{home.path}/{journal.moves_of(('t', 0))[0].run.name}"
    data = home.fs.read(path)
    home.fs.write(path, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with home.open(defaults=KEEP) as logs:
        ((_, reason),) = logs.manager.staged_commits.pending.values()

    assert path in reason
    assert home.values("t-0") == [b"before"]
    assert len([one for one in home.files("t-0") if one.endswith(".log")]) == 1


def test_a_file_that_is_gone_and_not_in_the_log_is_an_error() -> None:
    """What a user deleted is never taken for adopted."""
    home = home_with_topic()
    interrupted(home)
    moves = read_journal(home.fs, home.path, journal_name("x")).moves_of(("t", 0))
    home.fs.delete(f"{home.path}/{moves[0].run.name}")
    with home.open(defaults=KEEP) as logs:
        ((_, reason),) = logs.manager.staged_commits.pending.values()
        assert f"{moves[0].run.name} does not exist" in reason

    stored = home_with_topic()
    interrupted(stored, CommitPoint.PLACED)
    journal = f"{stored.path}/{journal_name('x')}"
    text = stored.text(journal_name("x")).replace(moves[0].run.digest, "00" * 16)
    stored.write(journal.rpartition("/")[2], text)
    with stored.open(defaults=KEEP) as logs:
        ((_, reason),) = logs.manager.staged_commits.pending.values()

    assert "does not hold the file" in reason
    assert "tidelog staged drop" in reason


def test_a_file_whose_old_name_came_back_is_adopted_once() -> None:
    """Some file systems keep both names of a rename in two directories when the power fails."""
    home = home_with_topic()
    interrupted(home)
    moves = read_journal(home.fs, home.path, journal_name("x")).moves_of(("t", 0))
    names = [f"{home.path}/{move.run.name}" for move in moves]
    for name in names:
        home.fs.write(f"{name}.kept", home.fs.read(name))
    with cut_at_rename(home, "tidelog.transactions.json"), home.open(defaults=KEEP):
        pass
    for name in names:
        home.fs.rename(f"{name}.kept", name)
    with home.open(defaults=KEEP):
        pass

    assert home.values("t-0") == [b"before", *VALUES]
    assert home.own_files() == []


def test_adopted_files_follow_what_another_writer_appended() -> None:
    """A new journal names their new places first."""
    home = home_with_topic()
    interrupted(home)
    journal = f"{home.path}/{journal_name('x')}"
    home.fs.rename(journal, f"{journal}.hidden")
    with home.open(defaults=KEEP) as logs:
        logs.partition("t", 0).append_records([record(b"other", b"k")])
    home.fs.rename(f"{journal}.hidden", journal)
    with home.open(defaults=KEEP) as logs:
        assert [found.offset for found in logs.read("t", 0)] == list(range(22))

    assert home.values("t-0") == [b"before", b"other", *VALUES]


def test_a_full_disk_needs_room_only_for_what_is_appended() -> None:
    """Adopted files are on the disk already."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        txn = logs.transaction("x")
        for value in VALUES:
            txn.append("t", value, key=b"k", partition=0)
        home.fs.set_free_bytes(sum(map(len, VALUES)) + 8_000)
        txn.commit()

    assert home.values("t-0") == [b"before", *VALUES]


def test_a_full_disk_after_a_file_was_moved_is_mended_by_the_next_try() -> None:
    """The log goes offline until then, since its indexes lack the file."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        home.fs.fail("pwrite", "1.timeindex", OSError(errno.ENOSPC, "no space left"))
        with pytest.raises(CommitUnfinished):
            write(logs)
        logs.manager.staged_commits.finish_all()
        assert [found.value for found in logs.read("t", 0)] == [b"before", *VALUES]

    assert home.values("t-0") == [b"before", *VALUES]


# Copies


def copy(offset: int, value: bytes = b"v", epoch: int = 0, **fields: Any) -> bytes:
    """Return a batch as another log holds it."""
    return build_batch([record(value)], base_offset=offset, leader_epoch=epoch, **fields)


def mirror(
    home: DataHome, logs: Logs, batches: Sequence[bytes], *, segment_bytes: int | None = None
) -> None:
    """Commit batches to t-0 as they are."""
    bundle = BundleWriter(LocalFolder(home.fs, home.path), "m", rng=Random(3), keeps_offsets=True)
    for batch in batches:
        bundle.append("t", 0, batch, segment_bytes=segment_bytes)
    ids = {"t": logs.topic("t").topic_id}
    logs.manager.staged_commits.commit(home.path, Transaction("m", True, bundle.finish(), (), ids))


def batches_of(home: DataHome) -> bytes:
    """Return the bytes of t-0 from its second batch on."""
    logs = [home.fs.read(f"{home.path}/t-0/{name}") for name in home.files("t-0") if ".log" in name]
    return b"".join(logs)[len(build_batch([record(b"before", b"k")])) :]


@pytest.mark.parametrize("segment_bytes", [None, SEGMENT_BYTES])
def test_a_copy_keeps_every_byte(segment_bytes: int | None) -> None:
    """Offsets with gaps, epochs, producers, append times: appended or adopted."""
    home = home_with_topic({"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"})
    batches = [
        copy(3, b"a" * 300),
        copy(7, b"b" * 300, 2, producer_id=9, producer_epoch=1, base_sequence=4),
        copy(2**31, b"c" * 300, 2),
    ]
    with home.open(defaults=KEEP) as logs:
        mirror(home, logs, batches, segment_bytes=segment_bytes)
        log = logs.partition("t", 0).log
        assert (log.log_end_offset, log.high_watermark) == (2**31 + 1, 2**31 + 1)
        assert [entry.epoch for entry in log.epochs.entries] == [0, 2]
        assert log.producers.last_entry(9) is not None

    assert batches_of(home) == b"".join(batches)
    assert home.own_files() == []


def test_a_copy_far_behind_the_log_end_gets_a_segment_of_its_own() -> None:
    """Whether it is appended or adopted: offsets in a segment have 31 bits."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        logs.partition("t", 0).log.roll()
        mirror(home, logs, [copy(2**31 + 9, b"b" * 300)], segment_bytes=SEGMENT_BYTES)
        log = logs.partition("t", 0).log
        assert log.segments.base_offsets[-1] == 2**31 + 9
        assert log.high_watermark == 2**31 + 10

    assert batches_of(home) == copy(2**31 + 9, b"b" * 300)


@pytest.mark.parametrize(
    ("batches", "error"),
    [
        ([copy(0)], UnexpectedAppendOffset),
        ([copy(4), copy(4)], InvalidRecord),
        ([copy(4, epoch=1), copy(5, epoch=0)], InvalidRecord),
        ([build_old(1, [(1, b"k", b"v")], base_offset=4)], InvalidRecord),
        ([copy(4, b"v" * SEGMENT_BYTES)], MessageTooLarge),
        (
            [
                copy(4, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
                copy(5, producer_id=1, producer_epoch=0, base_sequence=1),
            ],
            InvalidTxnState,
        ),
    ],
)
def test_a_copy_that_a_follower_would_refuse_is_refused(
    batches: list[bytes], error: type[Exception]
) -> None:
    """Before the commit point: nothing was changed."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        with pytest.raises(error):
            mirror(home, logs, batches)

        assert logs.manager.staged_commits.pending == {}
    assert home.values("t-0") == [b"before"]


def test_a_copy_whose_offsets_are_too_far_apart_for_a_segment_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier release may have staged it: now it is divided where it is staged."""
    monkeypatch.setattr(bundle, "INT32_MAX", INT64_MAX)
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs, pytest.raises(InvalidRecord, match="too far apart"):
        mirror(home, logs, [copy(4), copy(2**31 + 4)])


def test_a_copy_of_an_older_epoch_is_refused() -> None:
    """The log has a leader of its own."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        logs.partition("t", 0).lead(4)
        with pytest.raises(InvalidRecord, match=r"leader epoch 3 of a staged batch is below .* 4"):
            mirror(home, logs, [copy(5, epoch=3)])


@pytest.mark.parametrize("segment_bytes", [None, SEGMENT_BYTES])
def test_a_copy_is_never_placed_anew(segment_bytes: int | None) -> None:
    """If another writer has taken its offsets meanwhile, it is left to the user."""
    home = home_with_topic()
    logs = home.open(defaults=KEEP)

    logs.manager.staged_commits.on_point = power_cut_at(CommitPoint.COMMITTED)
    with suppress(PowerCut):
        mirror(home, logs, [copy(3, b"a" * 300)], segment_bytes=segment_bytes)
    home.fs.kill()
    journal = f"{home.path}/{journal_name('m')}"
    home.fs.rename(journal, f"{journal}.hidden")
    with home.open(defaults=KEEP) as logs:
        for _ in range(5):
            logs.partition("t", 0).append_records([record(b"other", b"k")])
    home.fs.rename(f"{journal}.hidden", journal)
    with home.open(defaults=KEEP) as logs:
        ((_, reason),) = logs.manager.staged_commits.pending.values()
        assert "has other records or epochs from 3 on" in reason
        logs.manager.staged_commits.drop(home.path, "m")

    assert home.values("t-0") == [b"before", *[b"other"] * 5]


def test_a_file_of_an_old_journal_is_read() -> None:
    """One without the fields for adoption and copies, as the first release wrote it."""
    home = home_with_topic()
    interrupted(home)
    text = home.text(journal_name("x")).replace('"adopted": true,', "")
    lines = [one for one in text.splitlines() if "_offset" not in one]
    home.write(journal_name("x"), "\n".join(lines).replace('",\n   }', '"\n   }'))
    with home.open(defaults=KEEP):
        pass

    assert home.values("t-0") == [b"before", *VALUES]


def test_a_journal_with_impossible_offsets_is_not_read() -> None:
    """What is read from a file is input."""
    home = home_with_topic()
    interrupted(home)
    text = home.text(journal_name("x")).replace('"first_offset": -1', '"first_offset": 7')
    home.write(journal_name("x"), text)
    with pytest.raises(KafkaStorageError, match="cannot be read"):
        read_journal(home.fs, home.path, journal_name("x"))
