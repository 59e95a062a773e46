"""What a service does while a transaction is committed and cannot be applied yet."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome, fill, values

from tidelog.embedded.logs import Logs
from tidelog.errors import CommitPending, CommitUnfinished
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import FINISHED_FILE

if TYPE_CHECKING:
    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)
LOG = "t-0/00000000000000000000.log"
FULL = OSError(errno.ENOSPC, "no space left")
SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS


def commit(home: ManagerHome, manager: LogService, failures: int, path: str = "/a") -> None:
    """Commit a transaction to t-0, whose log then meets a full disk as often as this."""
    home.fs.fail("pwrite", LOG, FULL, failures)
    with pytest.raises(CommitUnfinished), Logs(manager).transaction("x", path) as txn:
        txn.append("t", b"staged")


def test_a_service_tries_again_ever_more_rarely() -> None:
    """Each try compares the logs with all that was staged; it ends as soon as one succeeds."""
    home = ManagerHome("/a")
    with home.open() as manager:
        manager.create_topic("t")
        tries: list[int] = []
        began_ms = home.clock.now_ms()

        def note(point: CommitPoint) -> None:
            if point is CommitPoint.CREATED:
                tries.append((home.clock.now_ms() - began_ms) // SECOND_MS)

        commit(home, manager, 12)
        manager.staged_commits.on_point = note
        home.clock.advance(62 * MINUTE_MS)
        assert tries == [10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030, 3630]
        assert values(manager, "t", 0) == []

        home.clock.advance(40 * MINUTE_MS)
        assert len(tries) == 12
        assert manager.partition("t", 0).log.high_watermark == 1


def test_a_partition_does_not_move_while_a_transaction_is_to_be_written_to_it() -> None:
    """Its staged files lie in the old directory; the error is retriable."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        commit(home, manager, 1)
        with pytest.raises(CommitPending, match="t-0: transaction 'x' is committed") as caught:
            manager.move_partition(*KEY, "/b")
        assert caught.value.code.retriable
        manager.staged_commits.finish_all()
        manager.move_partition(*KEY, "/b")
        home.clock.advance(0)

        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert values(manager, "t", 0)[3:] == [b"staged"]


def test_a_move_that_has_begun_waits_for_the_transaction() -> None:
    """However long that takes; the copy gets its records."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        manager.move_partition(*KEY, "/b")
        commit(home, manager, 6)
        home.clock.advance(5 * MINUTE_MS)
        assert manager.partition("t", 0).log.directory == "/a/t-0"
        home.clock.advance(20 * MINUTE_MS)

        assert manager.partition("t", 0).log.directory == "/b/t-0"
        assert manager.partition("t", 0).log.high_watermark == 4


def test_ids_are_known_for_as_long_as_the_setting_says() -> None:
    """``tidelog.staged.retention.ms``, for staged files and for finished transactions."""
    home = ManagerHome("/a")
    with home.open(tidelog_staged_retention_ms=30 * MINUTE_MS) as manager:
        manager.create_topic("t")
        for txn, minutes in (("one", 20), ("two", 20), ("three", 0)):
            with Logs(manager).transaction(txn, "/a") as writing:
                writing.append("t", txn.encode())
            home.clock.advance(minutes * MINUTE_MS)
    known = json.loads(home.fs.read(f"/a/{FINISHED_FILE}"))["transactions"]

    assert [one["txn"] for one in known] == ["two", "three"]
