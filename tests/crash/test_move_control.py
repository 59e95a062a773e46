"""A move is cancelled while power is cut, or a disk fails, at any of its operations."""

from __future__ import annotations

from contextlib import suppress
from errno import EIO, EMFILE, ENOSPC
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.machinery.manager_home import ManagerHome, fill, values
from tests.machinery.scale import stride

from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.manager.log_manager import LogManager
from tidelog.segment.filenames import TopicPartition
from tidelog.service import copied_log, mover
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tests.conftest import Enumerated

KEY = TopicPartition("t", 0)
RECORDS = 40
EXPECTED = [b"value %d" % number for number in range(RECORDS)]
SLOW: Final[dict[str, Any]] = {"replica_alter_log_dirs_io_max_bytes_per_second": 500}
"""The rate of moves, also after a restart: slow enough to be seen."""
HOLDERS = pytest.mark.parametrize("is_service", [True, False], ids=["service", "command"])
"""Who cancels: the service that moves the partition, or a command when it has ended."""


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a move take several steps."""
    monkeypatch.setattr(copied_log, "PIECE_BYTES", 500)
    monkeypatch.setattr(mover, "NEAR_BYTES", 500)


def moving(seed: int, *, is_service: bool) -> tuple[ManagerHome, LogManager]:
    """Return a machine where t-0 is on its way from /a to /b, and what is to cancel that."""
    home = ManagerHome("/a", "/b", seed=seed, retention_ms=-1)
    manager: LogManager = home.open(**SLOW)
    manager.create_topic("t")
    fill(manager, "t", 0, RECORDS)
    manager.flush()
    manager.move_partition(*KEY, "/b")
    home.clock.advance(2_000)
    if not is_service:
        manager.shutdown()
        home.scheduler.forget()
        manager = LogManager(home.config(), home.machine())
    return home, manager


def count_operations(*, is_service: bool, reads: bool) -> int:
    """Return how many operations of the disk a cancellation needs."""
    home, manager = moving(0, is_service=is_service)
    before = len(home.fs.operations)
    traced = home.fs.trace()
    manager.cancel_move(*KEY)
    return len(traced) if reads else len(home.fs.operations) - before


def check_after_a_cut(home: ManagerHome, *, has_returned: bool) -> bool:
    """Start a service; return whether it continues with the move. No record is lost."""
    with home.open(**SLOW) as manager:
        is_moving = bool(manager.moves())
        assert not (has_returned and is_moving), "a cancelled move continued"
        assert manager.partition(*KEY).log.directory == "/a/t-0"
        assert values(manager, *KEY) == EXPECTED
        manager.throttle_moves(10**9)
        home.clock.advance(200_000)
        assert manager.partition(*KEY).log.directory == ("/b/t-0" if is_moving else "/a/t-0")
        fill(manager, "t", 0, 1)
        assert values(manager, *KEY) == [*EXPECTED, b"value 0"]
        assert copies(home) == []
    return is_moving


def copies(home: ManagerHome) -> list[str]:
    """Return the directories in /b that are neither in service nor wait for deletion."""
    return [name for name in home.files("/b") if name.startswith("t-0.")]


@HOLDERS
def test_a_power_cut_leaves_the_move_whole_or_cancelled(
    enumerated: Enumerated, *, is_service: bool
) -> None:
    """Before the copy is renamed, durably, the next start continues; afterwards it does not."""
    total = count_operations(is_service=is_service, reads=False)
    continued = cuts = 0
    for seed in range(4):
        for operations in range(0, total + 1, stride()):
            home, manager = moving(seed, is_service=is_service)
            home.fs.crash_after(operations)
            has_returned = False
            with suppress(PowerCut):
                manager.cancel_move(*KEY)
                has_returned = True
            home.power_cut()
            continued += check_after_a_cut(home, has_returned=has_returned)
            cuts += 1
    enumerated("cuts after which the move continued", continued, at_least=1)
    enumerated("cuts after which it was cancelled", cuts - continued, at_least=2)


@HOLDERS
@pytest.mark.parametrize("number", [EIO, ENOSPC, EMFILE], ids=["EIO", "ENOSPC", "EMFILE"])
def test_a_cancellation_that_fails_can_be_repeated(
    enumerated: Enumerated, number: int, *, is_service: bool
) -> None:
    """After a restart where the disk has failed; the source never changes."""
    total = count_operations(is_service=is_service, reads=True)
    failed = 0
    for operation in range(0, total, stride()):
        home, manager = moving(0, is_service=is_service)
        home.fs.fail_at(operation, OSError(number, "fault"))
        try:
            manager.cancel_move(*KEY)
        except KafkaStorageError:
            failed += 1
        if len(manager.live_dirs) < len(home.paths):
            home.restart()
            manager = home.open(**SLOW)
        with suppress(InvalidArgument):  # it was renamed, and only that could not be confirmed
            manager.cancel_move(*KEY)
        assert manager.moves() == []
        assert manager.partition(*KEY).log.directory == "/a/t-0"
        manager.shutdown()
        home.scheduler.forget()
        assert not check_after_a_cut(home, has_returned=True)
    enumerated("operations that failed", failed, at_least=2)
