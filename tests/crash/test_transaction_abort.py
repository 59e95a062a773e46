"""Power is cut, or a disk fails, at every operation of an abort and of its undoing."""

from __future__ import annotations

from contextlib import suppress
from errno import EIO, EMFILE, ENOSPC
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome
from tests.machinery.scale import stride

from tidelog.errors import CannotUndo, InvalidArgument, KafkaStorageError
from tidelog.records.builder import build_batch
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tests.conftest import Enumerated

    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)
COMMANDS: dict[str, dict[str, Any]] = {
    "abort-transaction": {"partitions": {"t": [0]}, "producer_id": 9, "first_offset": 1},
    "undo-abort": {"partitions": {"t": [0]}},
}
END = {"abort-transaction": 4, "undo-abort": 3}
"""Where the log ends after each command; before it, where it ends after the other."""
ACTS = pytest.mark.parametrize("command", COMMANDS)


def opened(home: ManagerHome) -> LogService:
    """Open the directory as a service without a coordinator."""
    return home.open(transaction_partition_verification_enable=False)


def prepared(command: str, seed: int = 0) -> tuple[ManagerHome, LogService]:
    """Return a log of 0, an open transaction of producer 9 at 1, and 2; aborted, for the undo."""
    home = ManagerHome("/a", seed=seed, retention_ms=-1)
    manager = opened(home)
    manager.create_topic("t")
    for producer in ({}, {"producer_id": 9, "producer_epoch": 3, "base_sequence": 0}, {}):
        fields: dict[str, Any] = {**producer, "transactional": bool(producer)}
        record = (home.clock.now_ms(), b"k", b"v", ())
        manager.partition(*KEY).append(build_batch([record], **fields))
    manager.flush()
    if command == "undo-abort":
        act(home, manager, "abort-transaction")
        manager.flush()
    return home, manager


def act(home: ManagerHome, manager: LogService, command: str) -> None:
    """Carry a command out."""
    carry_out(Home(manager, home.machine(), "/a"), command, COMMANDS[command])


def count_operations(command: str, *, reads: bool) -> int:
    """Return how many operations of the disk a command needs."""
    home, manager = prepared(command)
    before = len(home.fs.operations)
    traced = home.fs.trace()
    act(home, manager, command)
    return len(traced) if reads else len(home.fs.operations) - before


def check_whole(manager: LogService) -> int:
    """Check that the marker is there or not, as a whole; return the log end."""
    log = manager.partition(*KEY).log
    seen = [record.offset for record in log.records(isolation=Isolation.READ_COMMITTED)]
    open_offsets = [entry.txn_first_offset for entry in log.active_producers().values()]
    if log.log_end_offset == END["abort-transaction"]:
        assert (seen, open_offsets) == ([0, 2], [None])
    else:
        assert log.log_end_offset == END["undo-abort"]
        assert (seen, open_offsets) == ([0], [1])
    return log.log_end_offset


@ACTS
def test_a_power_cut_leaves_the_marker_whole_or_none(enumerated: Enumerated, command: str) -> None:
    """What was reported as done stays done; either way the other command works afterwards."""
    total = count_operations(command, reads=False)
    ends = []
    for seed in range(4):
        for operations in range(0, total + 1, stride()):
            home, manager = prepared(command, seed)
            home.fs.crash_after(operations)
            has_returned = False
            with suppress(PowerCut):
                act(home, manager, command)
                has_returned = True
            home.power_cut()
            with opened(home) as again:
                end = check_whole(again)
                assert not has_returned or end == END[command]
                if end != END[command]:
                    act(home, again, command)
                    assert check_whole(again) == END[command]
                if command == "abort-transaction":
                    act(home, again, "undo-abort")
                    assert check_whole(again) == END["undo-abort"]
            ends.append(end)
    enumerated("cuts that left the log as before", sum(e != END[command] for e in ends), at_least=4)
    enumerated("cuts that left it changed", sum(e == END[command] for e in ends), at_least=4)


@ACTS
@pytest.mark.parametrize("number", [EIO, ENOSPC, EMFILE], ids=["EIO", "ENOSPC", "EMFILE"])
def test_a_command_that_fails_can_be_repeated(
    enumerated: Enumerated, command: str, number: int
) -> None:
    """The log holds the marker or not, and a repetition brings what was wanted."""
    failed = 0
    for operation in range(0, count_operations(command, reads=True), stride()):
        home, manager = prepared(command)
        home.fs.fail_at(operation, OSError(number, "fault"))
        try:
            act(home, manager, command)
        except (KafkaStorageError, CannotUndo):
            failed += 1
        manager.shutdown()
        home.restart()
        with opened(home) as again:
            check_whole(again)
            with suppress(InvalidArgument, CannotUndo):  # it was done, except the report of it
                act(home, again, command)
            assert check_whole(again) == END[command]
    enumerated("operations that failed", failed, at_least=3)
