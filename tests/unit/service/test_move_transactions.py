"""The directory to which a topic moves knows what was committed to the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome
from tests.machinery.staging import stage

from tidelog.embedded.logs import Logs
from tidelog.errors import KafkaStorageError, OldStreamBatch, TransactionMismatch
from tidelog.staging.finished import FINISHED_FILE, read_finished
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService


def write(manager: LogService, path: str, topic: str = "t", txn: str = "job") -> bool:
    """Commit a record from a directory; return whether that was a repeat."""
    with Logs(manager).transaction(txn, path=path) as transaction:
        transaction.append(topic, b"a")
    assert transaction.committed is not None
    return transaction.committed.is_repeat


def write_batch(home: ManagerHome, manager: LogService, path: str, number: int) -> bool:
    """Commit a batch of a stream from a directory; return whether that was a repeat."""
    batch = StreamBatch("query", number)
    ids = {"t": manager.topic("t").topic_id}
    staged = stage(
        *(home.fs, path, batch.txn, {("t", 0): [b"a"]}),
        rng=home.rng,
        topic_ids=ids,
        is_named=False,
        stream=batch,
    )
    return manager.staged_commits.commit(path, staged).is_repeat


def move(home: ManagerHome, manager: LogService, topic: str, path: str) -> None:
    """Move a topic of one partition, at once."""
    manager.move_partition(topic, 0, path)
    home.clock.advance(0)
    assert manager.partition(topic, 0).log.data_dir == path


def end(manager: LogService) -> int:
    """Return the log end of the topic t."""
    return manager.partition("t", 0).log.log_end_offset


def home_with_topics(*topics: str) -> tuple[ManagerHome, LogService]:
    """Return an open service with two directories, and topics in the first one."""
    home = ManagerHome("/a", "/b")
    manager = home.open()
    for topic in topics:
        manager.create_topic(topic)
        if manager.partition(topic, 0).log.data_dir != "/a":
            move(home, manager, topic, "/a")
    return home, manager


def test_a_repeat_is_skipped_where_the_topic_has_moved_to() -> None:
    """Its directory commits it, which must know what the one before has committed."""
    home, manager = home_with_topics("t")
    with manager:
        assert not write(manager, "/a")
        move(home, manager, "t", "/b")

        assert write(manager, "/b")
        assert end(manager) == 1


def test_a_batch_of_a_stream_is_skipped_where_the_topic_has_moved_to() -> None:
    """There and back, the later batch counts."""
    home, manager = home_with_topics("t")
    with manager:
        assert not write_batch(home, manager, "/a", 0)
        move(home, manager, "t", "/b")
        assert write_batch(home, manager, "/b", 0)
        assert not write_batch(home, manager, "/b", 1)
        move(home, manager, "t", "/a")

        assert write_batch(home, manager, "/a", 1)
        with pytest.raises(OldStreamBatch):
            write_batch(home, manager, "/a", 0)
        assert end(manager) == 2


def test_an_id_that_both_directories_know_has_the_topics_of_both() -> None:
    """A repeat of either is skipped; one that writes to a third topic is refused."""
    home, manager = home_with_topics("t", "u", "v")
    with manager:
        move(home, manager, "u", "/b")
        assert not write(manager, "/a", "t")
        assert not write(manager, "/b", "u")
        move(home, manager, "t", "/b")

        assert [write(manager, "/b", topic) for topic in "tu"] == [True, True]
        move(home, manager, "v", "/b")
        with pytest.raises(TransactionMismatch):
            write(manager, "/b", "v")


def test_transactions_of_other_topics_stay_where_they_are() -> None:
    """Those of a deleted topic of the same name stay, too."""
    home, manager = home_with_topics("t", "u")
    with manager:
        write(manager, "/a", "u", "other")
        write(manager, "/a", "t", "of the deleted one")
        manager.delete_topic("t")
        manager.create_topic("t")
        move(home, manager, "t", "/a")
        move(home, manager, "t", "/b")

        assert not read_finished(home.fs, "/b")


def test_a_move_ends_if_what_was_committed_cannot_be_read() -> None:
    """Elsewhere nobody would know of it; the partition stays."""
    home, manager = home_with_topics("t")
    with manager:
        write(manager, "/a")
        home.fs.write(f"/a/{FINISHED_FILE}", b"{")
        manager.move_partition("t", 0, "/b")
        home.clock.advance(0)

        assert manager.partition("t", 0).log.data_dir == "/a"
        assert FINISHED_FILE in manager.why_not_moved("t", 0)
        with pytest.raises(KafkaStorageError):
            write(manager, "/a")
