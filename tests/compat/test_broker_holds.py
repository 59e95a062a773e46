"""Transactions into a data directory that an Apache Kafka broker holds: it commits for nobody."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.main import main
from tidelog.codec.compression import Codec
from tidelog.embedded.busy_directory import BusyDirectory
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.machine import brief_machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CommitTimeout

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Kafka

    from tidelog.staging.finished import CommittedTransaction

pytestmark = pytest.mark.compat

VALUES = [b"high", b"low", b"slack"]


def write(path: Path, txn: str, timeout_ms: int) -> CommittedTransaction:
    """Commit the values to partition 0 of topic flights, once that is possible."""
    machine = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
    busy = BusyDirectory(str(path), machine=machine, timeout_ms=timeout_ms)
    with busy.transaction(txn, codec=Codec.NONE) as transaction:
        for value in VALUES:
            transaction.append("flights", value, partition=0)
        return transaction.commit()


def files_of_transactions(path: Path) -> list[str]:
    """Name what a transaction has left in a data directory, except the table of finished ones."""
    return [
        one.name
        for one in path.glob("tidelog.*")
        if one.suffix in {".staged", ".ready", ".claimed", ".withdrawn", ".refused", ".intent"}
    ]


def test_a_transaction_waits_until_the_broker_has_stopped(
    kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused within its time while the broker runs; committed once when the broker has stopped."""
    lines = tmp_path / "lines"
    lines.write_bytes(b"\n".join(VALUES))
    committed: list[CommittedTransaction] = []
    waiter = threading.Thread(
        target=lambda: committed.append(write(kafka.directory, "waits", 120_000))
    )
    with kafka.running():
        kafka.ask("create flights retention.ms=-1,cleanup.policy=delete", "produce flights none 10")
        with pytest.raises(CommitTimeout):
            write(kafka.directory, "gives up", 2_000)
        assert files_of_transactions(kafka.directory) == []
        words = ["append", "flights", str(lines), "-d", str(kafka.directory), "--txn", "refused"]
        assert main(words) == 3
        assert "in use" in capsys.readouterr().err
        waiter.start()
        while not [one for one in files_of_transactions(kafka.directory) if one.endswith(".ready")]:
            waiter.join(0.05)
            assert waiter.is_alive()

    waiter.join(120)
    assert committed[0].total == len(VALUES)
    assert write(kafka.directory, "waits", 2_000).is_repeat
    assert files_of_transactions(kafka.directory) == []
    with kafka.running():
        values = [record[3] for record in kafka.consume("flights")]
    assert values[10:] == VALUES
    assert len(values) == 10 + len(VALUES)
