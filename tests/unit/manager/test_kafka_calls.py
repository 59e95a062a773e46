"""Calls of Kafka's log manager that its broker makes, on the log manager itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import pytest
from tests.machinery.manager_home import Loading, ManagerHome, fill

from tidelog.cleaner.states import IDLE, Phase
from tidelog.errors import InvalidArgument
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.log_manager import LogManager

Opened = TypeVar("Opened", bound="LogManager")
KEY = TopicPartition("t", 0)


def test_cleaning_is_paused_and_resumed_through_the_manager() -> None:
    """Pauses add up; a resumption too many is an error."""
    with ManagerHome().open(log_cleaner_enable=True) as manager:
        manager.create_topic("t", 1, {"cleanup.policy": "compact"})
        cleaner = manager.cleaning.cleaner
        assert cleaner is not None
        states = cleaner.manager
        manager.cleaning.manager.abort_and_pause(KEY)
        manager.cleaning.manager.abort_and_pause(KEY)
        manager.cleaning.manager.resume([KEY])
        paused = states.state(KEY).phase
        manager.cleaning.manager.resume([KEY])
        manager.cleaning.manager.abort(KEY)

        assert (paused, states.state(KEY)) == (Phase.PAUSED, IDLE)
        with pytest.raises(InvalidArgument):
            manager.cleaning.manager.resume([KEY])


def test_without_a_cleaner_there_is_nothing_to_pause() -> None:
    """As in Kafka."""
    with ManagerHome().open() as manager:
        manager.create_topic("t")
        manager.cleaning.manager.abort_and_pause(KEY)
        manager.cleaning.manager.resume([KEY])


ACTS: Final[dict[str, Callable[[LogManager], object]]] = {
    "truncate_to": lambda manager: manager.truncation.truncate_to({KEY: 4}),
    "truncate_fully": lambda manager: manager.truncation.truncate_fully_and_start_at(KEY, 4),
    "delete_records": lambda manager: manager.on_demand.delete_records(KEY, 4),
    "recover_log": lambda manager: manager.recover_log(*KEY).roll(),
    "retain": lambda manager: manager.on_demand.retain("t"),
    "retain_log": lambda manager: manager.on_demand.retain_log(KEY),
    "compact": lambda manager: manager.on_demand.compact("t"),
    "partition": lambda manager: manager.partition(*KEY).log.roll(),
    "flush": lambda manager: manager.flush(),
}


def interrupted(manager: Opened) -> Opened:
    """Give a manager a log of nine records in which a change was not completed; return it."""
    manager.create_topic("t", 1, {"cleanup.policy": "compact,delete"})
    fill(manager, "t", 0, 9)
    manager.partition(*KEY).log.require_reopening("an append was interrupted")
    return manager


@pytest.mark.parametrize("loading", Loading)
@pytest.mark.parametrize("act", ACTS)
def test_a_log_that_waits_to_be_reopened_is_reopened_by_whoever_needs_it(
    act: str, loading: Loading
) -> None:
    """Whatever takes a log to change it does so, at once."""
    with interrupted(ManagerHome("/a", "/b").open_as(loading)) as manager:
        ACTS[act](manager)

        log = manager.get_log(*KEY)
        assert log is not None
        assert not log.needs_reopening


def test_a_log_that_waits_to_be_reopened_can_be_moved() -> None:
    """Its copy is made of the log as it was reopened."""
    home = ManagerHome("/a", "/b")
    with interrupted(home.open()) as manager:
        manager.move_partition(*KEY, "/b")
        home.clock.advance(1_000)

        log = manager.partition(*KEY).log
        assert (log.directory, log.log_end_offset) == ("/b/t-0", 9)


def test_a_log_that_waits_to_be_reopened_can_be_deleted() -> None:
    """It need not be made whole for that."""
    home = ManagerHome()
    with interrupted(home.open()) as manager:
        manager.delete_topic("t")

        assert manager.get_log(*KEY) is None
        renamed = [name for name in home.files() if name.startswith("t-0.")]
        assert [name.rpartition("-")[2] for name in renamed] == ["delete"]
