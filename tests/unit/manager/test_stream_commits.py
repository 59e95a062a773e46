"""Micro-batches of streams as transactions: each is in the logs once, in order."""

from __future__ import annotations

import json
import logging
import pickle
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome
from tests.machinery.staging import power_cut_at

from tidelog.config.log_config import LogConfig
from tidelog.errors import (
    CommitPending,
    CommitUnfinished,
    CorruptFile,
    MissingStreamBatches,
    OldStreamBatch,
)
from tidelog.records.builder import build_batch
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import (
    FINISHED_FILE,
    FINISHED_VERSION,
    MAX_STREAMS,
    CommittedTransaction,
    read_finished,
    write_finished,
)
from tidelog.staging.journal import journal_name, read_journal
from tidelog.staging.journal_names import list_journals
from tidelog.staging.staged_file import list_staged
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.stream_batch import StreamBatch
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tidelog.embedded.logs import Logs

KEEP = LogConfig(segment_index_bytes=1200, retention_ms=-1)


def home_with_topic() -> DataHome:
    """Return a directory with the empty topics t and u."""
    home = DataHome()
    home.clock.advance(1_000_000)
    with home.open(defaults=KEEP) as logs:
        logs.create_topic("t")
        logs.create_topic("u")
    return home


def staged(
    home: DataHome,
    logs: Logs,
    batch_id: int,
    *values: bytes,
    query: str = "q",
    topic: str = "t",
    skips_old: bool = False,
    accepts_gap: bool = False,
) -> Transaction:
    """Stage a batch of a stream."""
    stream = StreamBatch(query, batch_id)
    bundle = BundleWriter(
        LocalFolder(home.fs, home.path), stream.txn, rng=Random(len(home.fs.operations))
    )
    for value in values:
        bundle.append(topic, 0, build_batch([(1, b"k", value, ())]))
    ids = {topic: logs.topic(topic).topic_id}
    batch = Transaction(stream.txn, True, bundle.finish(), (), ids, stream, skips_old)
    return replace(batch, accepts_gap=accepts_gap)


def commit(home: DataHome, logs: Logs, transaction: Transaction) -> CommittedTransaction:
    """Commit a batch of a stream."""
    return logs.manager.staged_commits.commit(home.path, transaction)


def seen(logs: Logs) -> list[bytes | None]:
    """Return the values of t."""
    return [found.value for found in logs.read("t")]


def test_each_batch_of_a_stream_is_committed_once(caplog: pytest.LogCaptureFixture) -> None:
    """A repeat is skipped whatever it holds, with a line that says what was committed and when."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        commit(home, logs, staged(home, logs, 0, b"a"))
        first = commit(home, logs, staged(home, logs, 1, b"b", b"c"))
    with caplog.at_level(logging.INFO), home.open(defaults=KEEP) as logs:
        again = commit(home, logs, staged(home, logs, 1, b"other", topic="u"))

        assert (first.is_repeat, again.is_repeat) == (False, True)
        assert again == first
        assert seen(logs) == [b"a", b"b", b"c"]
        assert list(logs.read("u")) == []
    assert list_staged(home.fs, home.path) == []
    line = next(one for one in caplog.messages if one.startswith("transaction-skipped"))
    assert f"committed_ms={first.time_ms} records=2" in line


def test_an_earlier_batch_than_the_last_is_an_error() -> None:
    """The checkpoint was rolled back or copied; with skips_old it is skipped."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        last = commit(home, logs, staged(home, logs, 7, b"a"))
        old = pytest.raises(OldStreamBatch, match=r"batch 5 of stream q is older than batch 7")
        with old as caught:
            commit(home, logs, staged(home, logs, 5, b"b"))
        skipped = commit(home, logs, staged(home, logs, 5, b"b", skips_old=True))

        assert (skipped, skipped.is_repeat) == (last, True)
        assert seen(logs) == [b"a"]
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.last_batch_id, copy.records) == (str(caught.value), 7, 1)


def test_a_batch_that_does_not_follow_the_last_one_is_an_error() -> None:
    """The directory was restored from an older copy; with accepts_gap it is committed."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        commit(home, logs, staged(home, logs, 4, b"a"))  # the first one that is known here
        with pytest.raises(MissingStreamBatches, match=r"batch 7 of stream q.*batch 4") as caught:
            commit(home, logs, staged(home, logs, 7, b"b"))
        assert seen(logs) == [b"a"]
        commit(home, logs, staged(home, logs, 7, b"c", accepts_gap=True))
        commit(home, logs, staged(home, logs, 8, b"d"))
        with pytest.raises(MissingStreamBatches):
            commit(home, logs, staged(home, logs, 10, b"e"))

        assert seen(logs) == [b"a", b"c", b"d"]
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.last_batch_id, copy.batch_id) == (str(caught.value), 4, 7)


def test_a_batch_without_records_is_followed_by_the_next() -> None:
    """Its number is kept, and nothing is written; a repeat of it is skipped."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        for batch_id in (0, 1, 2):
            commit(home, logs, replace(staged(home, logs, batch_id), topic_ids={}))
        assert commit(home, logs, staged(home, logs, 2, b"a")).is_repeat
        commit(home, logs, staged(home, logs, 3, b"b"))

        assert seen(logs) == [b"b"]
        assert list_journals(home.fs, home.path) == []


def test_an_entry_of_an_earlier_release_may_be_followed_by_any_later_batch() -> None:
    """That kept no batch without records, so numbers are missing where no record is."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        for query in ("q", "r"):
            commit(home, logs, staged(home, logs, 1, b"a", query=query))
    table = json.loads(home.text(FINISHED_FILE))
    for entry in table["transactions"]:
        del entry["stream"]["followsAll"]
    home.write(FINISHED_FILE, json.dumps(table | {"version": 3}))

    with home.open(defaults=KEEP) as logs:
        for query in ("q", "r"):
            commit(home, logs, staged(home, logs, 5, b"b", query=query))
            with pytest.raises(MissingStreamBatches):
                commit(home, logs, staged(home, logs, 7, b"c", query=query))


def test_an_id_of_a_user_that_an_earlier_release_took_is_no_batch() -> None:
    """It has the form of the batch's; the batch is new all the same, and known from then on."""
    home = home_with_topic()
    entry = {"txn": "stream q batch 5", "named": True, "timeMs": 1, "records": {"u": 1}}
    home.write(FINISHED_FILE, json.dumps({"version": 4, "transactions": [entry]}))

    with home.open(defaults=KEEP) as logs:
        first, again = (commit(home, logs, staged(home, logs, 5, b"a")) for _ in range(2))

        assert (first.is_repeat, again.is_repeat) == (False, True)
        assert seen(logs) == [b"a"]
    assert sorted(read_finished(home.fs, home.path)) == ["stream q batch 5"]


def test_streams_do_not_disturb_each_other() -> None:
    """Each query counts for itself, and the table has one line for each."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        for batch_id in range(3):
            for query in ("q", "r"):
                commit(home, logs, staged(home, logs, batch_id, b"a", query=query))
        with logs.transaction("x") as txn:
            txn.append("t", b"b")

        assert len(seen(logs)) == 7
    known = read_finished(home.fs, home.path)
    assert sorted(known) == ["stream q batch 2", "stream r batch 2", "x"]


def test_a_stream_is_known_for_ever() -> None:
    """It may be started again after months, and then repeats its last batch."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        commit(home, logs, staged(home, logs, 1, b"a"))
        home.clock.advance(400 * 24 * 3_600_000)
        with logs.transaction("x") as txn:
            txn.append("t", b"b")

        assert commit(home, logs, staged(home, logs, 1, b"a")).is_repeat


def test_of_very_many_streams_the_latest_are_known() -> None:
    """So the table stays small."""
    home = home_with_topic()
    many = [
        CommittedTransaction(f"{n}", n, {}, stream=StreamBatch(f"{n}", 0))
        for n in range(MAX_STREAMS)
    ]
    added = CommittedTransaction("x", 5, {}, stream=StreamBatch("new", 0))
    write_finished(home.fs, home.path, {one.txn: one for one in many}, added)

    known = read_finished(home.fs, home.path)
    assert len(known) == MAX_STREAMS
    assert "x" in known
    assert "0" not in known


def test_a_transaction_of_no_stream_leaves_as_many_streams_known() -> None:
    """It takes none of their room."""
    home = home_with_topic()
    many = [
        CommittedTransaction(f"{n}", n, {}, stream=StreamBatch(f"{n}", 0))
        for n in range(MAX_STREAMS)
    ]
    added = CommittedTransaction("x", 5, {})
    write_finished(home.fs, home.path, {one.txn: one for one in many}, added)

    known = read_finished(home.fs, home.path)
    assert {*(one.txn for one in many), "x"} == set(known)


def test_a_batch_that_was_interrupted_is_finished_once() -> None:
    """The journal names the stream, so the repeat after the restart is skipped."""
    home = home_with_topic()
    logs = home.open(defaults=KEEP)
    commit(home, logs, staged(home, logs, 4, b"a"))
    logs.manager.staged_commits.on_point = power_cut_at(CommitPoint.COMMITTED)
    with suppress(PowerCut):
        commit(home, logs, staged(home, logs, 5, b"b"))
    home.fs.kill()
    batch = StreamBatch("q", 5)
    assert read_journal(home.fs, home.path, journal_name(batch.txn)).stream == batch

    with home.open(defaults=KEEP) as logs:
        assert commit(home, logs, staged(home, logs, 5, b"b")).is_repeat
        assert seen(logs) == [b"a", b"b"]


def test_a_journal_that_comes_back_is_not_applied_again() -> None:
    """As of a batch before the last one: a disk may undo a deletion."""
    home = home_with_topic()
    logs = home.open(defaults=KEEP)
    logs.manager.staged_commits.on_point = power_cut_at(CommitPoint.COMMITTED)
    with suppress(PowerCut):
        commit(home, logs, staged(home, logs, 5, b"a"))
    home.fs.kill()
    name = journal_name(StreamBatch("q", 5).txn)
    text = home.text(name)
    with home.open(defaults=KEEP) as logs:
        commit(home, logs, staged(home, logs, 6, b"b"))
    home.write(name, text)

    with home.open(defaults=KEEP) as logs:
        assert seen(logs) == [b"a", b"b"]
    assert list_journals(home.fs, home.path) == []


def test_a_pending_batch_stops_the_next_of_its_stream() -> None:
    """Also if that writes elsewhere: batches are committed in order."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        transaction = staged(home, logs, 1, b"a")
        log = f"t-0/{0:020}.log"
        home.fs.fail("pwrite", log, OSError(28, "no space left"))
        with pytest.raises(CommitUnfinished):
            commit(home, logs, transaction)
        home.fs.fail("pwrite", log, OSError(28, "no space left"))
        with pytest.raises(CommitPending):
            commit(home, logs, staged(home, logs, 2, b"b", topic="u"))


def test_the_table_names_topics_by_id_so_an_earlier_release_refuses_it() -> None:
    """It would drop the ids, by which a topic that was created again is recognized."""
    home = home_with_topic()
    with home.open(defaults=KEEP) as logs:
        with logs.transaction("x") as txn:
            txn.append("t", b"b")
        commit(home, logs, staged(home, logs, 1, b"a"))

    table = json.loads(home.text(FINISHED_FILE))
    assert table["version"] == FINISHED_VERSION
    assert all(entry["topicIds"].keys() == {"t"} for entry in table["transactions"])


@pytest.mark.parametrize("stream", [{}, {"queryId": 1, "batchId": 1}, {"queryId": "q"}, 7])
def test_a_damaged_stream_is_refused(stream: object) -> None:
    """What was committed is not guessed."""
    home = home_with_topic()
    entry = {"txn": "x", "named": True, "timeMs": 1, "records": {}, "stream": stream}
    home.write(FINISHED_FILE, json.dumps({"version": 2, "transactions": [entry]}))

    with pytest.raises(CorruptFile):
        read_finished(home.fs, home.path)
