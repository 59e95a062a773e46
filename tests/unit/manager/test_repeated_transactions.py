"""Repeats of committed ids: what they are compared with, and how an id becomes free again."""

from __future__ import annotations

import errno
import json
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome
from tests.machinery.staging import leave, stage

from tidelog.errors import (
    CommitPending,
    CommitUnfinished,
    InvalidArgument,
    KafkaStorageError,
    TopicAlreadyExists,
    TransactionMismatch,
)
from tidelog.staging.finished import FINISHED_FILE
from tidelog.staging.manifest_names import new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.embedded.logs import Logs
    from tidelog.staging.commit import Transaction as Staged

FULL = OSError(errno.ENOSPC, "no space left")


def write(logs: Logs, txn: str = "job", topic: str = "t", *, creates: bool = False) -> bool:
    """Commit a record; return whether that was a repeat."""
    with logs.transaction(txn) as transaction:
        if creates:
            transaction.create_topic(topic)
        transaction.append(topic, b"a")
    assert transaction.committed is not None
    return transaction.committed.is_repeat


def write_both(logs: Logs) -> None:
    """Commit a record for t and one for u."""
    with logs.transaction("job") as transaction:
        transaction.append("t", b"a")
        transaction.append("u", b"a")


def seen(logs: Logs, topic: str = "t") -> list[bytes | None]:
    """Return the values that readers of a topic see."""
    return [found.value for found in logs.read(topic, 0)]


def recreate(logs: Logs) -> None:
    """Delete the topic t and create it again."""
    logs.delete_topic("t")
    logs.create_topic("t")


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_topic_that_was_created_again_is_another_one(*, is_reopened: bool) -> None:
    """A repeat that was skipped would leave it empty, without a word."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        assert not write(logs)
        assert write(logs)
        recreate(logs)
        if not is_reopened:
            with pytest.raises(TransactionMismatch, match="tidelog staged forget job"):
                write(logs)
    with home.open() as logs:
        with pytest.raises(TransactionMismatch) as caught:
            write(logs)
        assert caught.value.deleted == ("t",)
        assert not write(logs, "another id")
        assert seen(logs) == [b"a"]


@pytest.mark.parametrize("creates", [False, True])
def test_a_repeat_that_names_another_topic_is_refused(*, creates: bool) -> None:
    """Also one that only creates it: a skipped repeat would report what did not happen."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        write(logs)
        if not creates:
            logs.create_topic("u")
        txn = logs.transaction("job")
        if creates:
            txn.create_topic("u")
        else:
            txn.append("u", b"a")
        with pytest.raises(TransactionMismatch):
            txn.commit()
        assert txn.is_repeat


def test_a_repeat_that_would_create_its_topic_finds_that_it_was_deleted() -> None:
    """Whatever id the repeat draws for the topic that it would create."""
    home = DataHome()
    with home.open() as logs:
        assert not write(logs, creates=True)
        assert write(logs, creates=True)
        logs.delete_topic("t")
        with pytest.raises(TransactionMismatch):
            write(logs, creates=True)
        logs.manager.staged_commits.forget(home.path, "job")
        assert not write(logs, creates=True)
        assert seen(logs) == [b"a"]


def test_a_table_of_an_earlier_release_knows_no_topics() -> None:
    """Its ids match, and it keeps them beside entries that have some."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        write(logs)
    content = json.loads(home.text(FINISHED_FILE))
    for entry in content["transactions"]:
        del entry["topicIds"]
    home.write(FINISHED_FILE, json.dumps({"version": 1} | content | {"version": 1}))
    with home.open() as logs:
        recreate(logs)
        assert write(logs)
        write(logs, "next")
        assert write(logs)


def test_a_forgotten_id_is_written_again_and_survives_a_power_cut() -> None:
    """The journal of its first commit is durably gone before the table forgets it."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        write(logs, "kept")
        write(logs)
        recreate(logs)
        before = len(home.fs.operations)
        logs.manager.staged_commits.forget(home.path, "job")
        names = [one.name for one in home.fs.operations[before:]]
        assert names[0] == "sync_directory"
    home.fs.power_cut("none")
    with home.open() as logs:
        assert not write(logs)
        assert seen(logs) == [b"a"]
        with pytest.raises(TransactionMismatch):
            write(logs, "kept")


def test_an_id_that_is_not_finished_cannot_be_forgotten() -> None:
    """One that is pending, that a process waits for, or that nobody has used."""
    home = DataHome()
    with home.open() as logs:
        staged = logs.manager.staged_commits
        topic = logs.create_topic("t")
        with pytest.raises(InvalidArgument, match="'x' is not known as committed"):
            staged.forget(home.path, "x")
        write(logs)
        waiting = stage(
            *(home.fs, home.path, "job", {("t", 0): [b"b"]}),
            rng=Random(1),
            topic_ids={"t": topic.topic_id},
        )
        files = ReadyFiles(home.fs, home.path, new_stem("job", Random(2)))
        leave(files, ReadyManifest(waiting, 2**60))
        with pytest.raises(CommitPending, match="a process waits"):
            staged.forget(home.path, "job")
        home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)
        with pytest.raises(CommitUnfinished):
            write(logs, "pending")
        home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)
        with pytest.raises(InvalidArgument, match="not applied yet"):
            staged.forget(home.path, "pending")


def test_a_full_disk_while_the_table_is_written_forgets_nothing() -> None:
    """The old table stays, and the directory online."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        write(logs)
        home.fs.fail("pwrite", f"{FINISHED_FILE}.tmp", FULL)
        with pytest.raises(KafkaStorageError, match="forgetting 'job' in /data failed"):
            logs.manager.staged_commits.forget(home.path, "job")
        assert write(logs)


def staged_in(home: DataHome, stream: StreamBatch, logs: Logs, seed: int) -> Staged:
    """Stage a record of a micro-batch for t."""
    ids = {"t": logs.topic("t").topic_id}
    return stage(
        *(home.fs, home.path, stream.txn, {("t", 0): [b"a"]}),
        rng=Random(seed),
        topic_ids=ids,
        stream=stream,
    )


def test_the_last_batch_of_a_stream_is_not_skipped_for_a_topic_that_was_created_again() -> None:
    """The stream stops with an error instead of leaving its rows out."""
    home = DataHome()
    stream = StreamBatch("q", 3)
    with home.open() as logs:
        logs.create_topic("t")
        logs.commit_transaction(staged_in(home, stream, logs, 1))
        recreate(logs)
        with pytest.raises(TransactionMismatch, match="tidelog staged forget 'stream q batch 3'"):
            logs.commit_transaction(staged_in(home, stream, logs, 2))
        logs.manager.staged_commits.forget(home.path, stream.txn)
        logs.commit_transaction(staged_in(home, stream, logs, 3))
        assert seen(logs) == [b"a"]


def test_what_a_repeat_would_write_twice_is_named_beside_the_command_for_it() -> None:
    """Forgetting the id has it written whole, also to the topics that have its records."""
    home = DataHome()
    with home.open() as logs:
        for topic in ("t", "u"):
            logs.create_topic(topic)
        write_both(logs)
        recreate(logs)
        with pytest.raises(TransactionMismatch, match="again, a second time to u, too, choose"):
            write_both(logs)
        logs.manager.staged_commits.forget(home.path, "job")
        write_both(logs)
        assert (seen(logs), seen(logs, "u")) == ([b"a"], [b"a", b"a"])


# The pending journal of the same id


def fail_catalogue(home: DataHome) -> None:
    """Fill the disk before the topic is in the catalogue."""
    home.fs.fail("pwrite", "tidelog.topics.json.tmp", FULL)


def fail_records(home: DataHome) -> None:
    """Fill the disk after the topic was created."""
    home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)


@pytest.mark.parametrize("fill", [fail_catalogue, fail_records])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_repeat_finishes_what_the_first_try_has_left_before_it_looks_at_topics(
    fill: Callable[[DataHome], None], *, is_reopened: bool
) -> None:
    """The topic that it creates is that of the first try, whose disk was full meanwhile."""
    home = DataHome()
    logs = home.open()
    fill(home)
    with pytest.raises(CommitUnfinished):
        write(logs, creates=True)
    fill(home)
    with pytest.raises(CommitPending, match="committed and not applied yet"):
        write(logs, creates=True)
    if is_reopened:
        logs.close()
        logs = home.open()

    assert write(logs, creates=True)
    assert seen(logs) == [b"a"]
    with pytest.raises(TopicAlreadyExists):
        write(logs, "another id", creates=True)
    logs.close()


def test_a_directory_that_cannot_be_listed_does_not_make_a_transaction_pending() -> None:
    """It is not known then whether its journal is gone: the disk is named, and it is repeated."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t")
        write(logs)
        staged = logs.manager.staged_commits
        for operation in ("list", "stat"):
            home.fs.fail(operation, home.path, OSError(errno.EMFILE, "no descriptor"))
            home.fs.fail(operation, ".intent", OSError(errno.EMFILE, "no descriptor"))
        with pytest.raises(KafkaStorageError, match="no descriptor"):
            staged.forget(home.path, "job")
        home.fs.mend()

        staged.forget(home.path, "job")

        assert not write(logs)
