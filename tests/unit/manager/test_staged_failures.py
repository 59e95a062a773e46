"""What a commit leaves behind when the disk or the process fails, and what follows from it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from tidelog.embedded.logs import Logs
from tidelog.errors import CommitUnfinished, KafkaStorageError
from tidelog.staging.staged_file import is_staged_name
from tidelog.testing.manager_home import ManagerHome, values

if TYPE_CHECKING:
    from tidelog.staging.finished import CommittedTransaction
    from tidelog.staging.transaction import Transaction

FULL = OSError(errno.ENOSPC, "no space left")


def staged_files(home: ManagerHome) -> list[str]:
    """Name the staged files."""
    return [name for name in home.files() if is_staged_name(name)]


def test_a_transaction_keeps_its_files_while_its_journal_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever error the commit raises: without them the journal could never be applied."""
    home = ManagerHome()
    manager = home.open()
    manager.create_topic("t")
    commit = manager.commit_transaction

    def masked(path: str, transaction: Transaction) -> CommittedTransaction:
        try:
            return commit(path, transaction)
        except CommitUnfinished:
            raise KafkaStorageError("another error") from None

    monkeypatch.setattr(manager, "commit_transaction", masked)
    home.fs.fail("pwrite", "t-0/00000000000000000000.log", FULL)
    with pytest.raises(KafkaStorageError, match="another"), Logs(manager).transaction("x") as txn:
        txn.append("t", b"a")

    assert len(staged_files(home)) == 1
    manager.staged_commits.finish_all()
    assert values(manager, "t", 0) == [b"a"]
    assert staged_files(home) == []
