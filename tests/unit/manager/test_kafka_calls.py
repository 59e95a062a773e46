"""Calls of Kafka's log manager that its broker makes, on the log manager itself."""

from __future__ import annotations

import pytest

from tidelog.cleaner.states import IDLE, Phase
from tidelog.errors import InvalidArgument, LogDirNotFound
from tidelog.segment.filenames import TopicPartition
from tidelog.testing.manager_home import ManagerHome

KEY = TopicPartition("t", 0)


def test_a_copy_is_created_in_the_preferred_directory() -> None:
    """The preference is used up by the log that it was for."""
    with ManagerHome("/a", "/b").open() as manager:
        manager.create_topic("t")
        manager.maybe_update_preferred_log_dir(*KEY, "/b")
        copy = manager.get_or_create_log(*KEY, is_future=True)

        assert copy.directory.startswith("/b/t-0.")
        assert copy is manager.get_log(*KEY, is_future=True)
        assert manager._creator._preferred == {}


def test_a_log_that_does_not_exist_yet_is_created_in_the_preferred_directory() -> None:
    """Here the second, although both are empty."""
    with ManagerHome("/a", "/b").open() as manager:
        manager.maybe_update_preferred_log_dir(*KEY, "/b")

        assert manager.get_or_create_log(*KEY, is_new=True).directory == "/b/t-0"


def test_a_directory_that_holds_the_partition_is_not_preferred() -> None:
    """Else a copy would be made where the log lies."""
    with ManagerHome("/a", "/b").open() as manager:
        manager.create_topic("t")
        manager.maybe_update_preferred_log_dir(*KEY, "/a")

        with pytest.raises(InvalidArgument, match="no move was requested"):
            manager.get_or_create_log(*KEY, is_future=True)
        with pytest.raises(LogDirNotFound):
            manager.maybe_update_preferred_log_dir(*KEY, "/c")


def test_cleaning_is_paused_and_resumed_through_the_manager() -> None:
    """Pauses add up; a resumption too many is an error."""
    with ManagerHome().open(log_cleaner_enable=True) as manager:
        manager.create_topic("t", 1, {"cleanup.policy": "compact"})
        cleaner = manager.cleaning.cleaner
        assert cleaner is not None
        states = cleaner.manager
        manager.cleaning.pause(TopicPartition(*KEY))
        manager.cleaning.pause(TopicPartition(*KEY))
        manager.cleaning.resume(TopicPartition(*KEY))
        paused = states.state(KEY).phase
        manager.cleaning.resume(TopicPartition(*KEY))
        manager.cleaning.abort(TopicPartition(*KEY))

        assert (paused, states.state(KEY)) == (Phase.PAUSED, IDLE)
        with pytest.raises(InvalidArgument):
            manager.cleaning.resume(TopicPartition(*KEY))


def test_without_a_cleaner_there_is_nothing_to_pause() -> None:
    """As in Kafka."""
    with ManagerHome().open() as manager:
        manager.create_topic("t")
        manager.cleaning.pause(TopicPartition(*KEY))
        manager.cleaning.resume(TopicPartition(*KEY))
