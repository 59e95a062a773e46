"""On how many threads the logs of a directory are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from tidelog.testing.manager_home import ManagerHome
from tidelog.testing.manual_time import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.testing.manual_time import ManualClock


T = TypeVar("T")


class ToldScheduler(ManualScheduler):
    """Keeps how many threads were asked for, by the name of the work."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.threads: dict[str, int] = {}

    def run_all(self, name: str, tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
        """Run all tasks on this thread, whatever was asked for."""
        self.threads[name] = threads
        return super().run_all(name, tasks, threads)


@pytest.mark.parametrize(("size_bytes", "threads"), [(3 << 20, 1), (20 << 20, 4)])
def test_threads_share_the_logs_of_a_directory_where_there_is_much_to_check(
    size_bytes: int, threads: int
) -> None:
    """Around small logs it is Python that takes the time, which one thread at a time can run."""
    home = ManagerHome()
    home.scheduler = told = ToldScheduler(home.clock)
    for partition in range(2):
        home.fs.make_directory(f"/data/t-{partition}")
        home.fs.write(f"/data/t-{partition}/{0:020}.log", bytes(size_bytes))

    with home.open(num_recovery_threads_per_data_dir=4) as manager:
        assert len(manager.all_logs()) == 2

    assert told.threads["log-recovery-/data"] == threads
