"""Requests to move a partition, left as files for a running service."""

from __future__ import annotations

import json
from errno import EACCES
from typing import TYPE_CHECKING

import pytest

from tidelog.manager.directories.log_dirs import parent_of
from tidelog.testing.manager_home import ManagerHome, fill

if TYPE_CHECKING:
    from tidelog.manager.log_manager import LogManager

PATH = f"/a/tidelog.{'1' * 32}.move"
REQUEST = {"topic": "t", "partition": 0, "target": "/b"}


def place_after(content: dict[str, object]) -> tuple[ManagerHome, str]:
    """Return where the partition lies after a service met a request of this content."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
        home.fs.write(PATH, json.dumps(content).encode())
        answer(home, manager)
        return home, parent_of(manager.partition("t", 0).log)


def answer(home: ManagerHome, manager: LogManager) -> None:
    """Let the service look for requests, and do what they ask."""
    manager.tasks.answer_move_requests()
    home.clock.advance(0)


@pytest.mark.parametrize("version", [{}, {"version": 1}])
def test_a_request_is_answered_once(version: dict[str, object]) -> None:
    """The first release wrote no version."""
    home, place = place_after({**version, **REQUEST})

    assert (place, home.fs.exists(PATH)) == ("/b", False)


def test_a_request_of_a_newer_release_is_left_alone() -> None:
    """It may mean what this one does not know."""
    home, place = place_after({"version": 99, **REQUEST})

    assert (place, home.fs.exists(PATH), home.fs.exists(f"{PATH}-refused")) == ("/a", True, False)


@pytest.mark.parametrize(
    "content",
    [{}, {**REQUEST, "more": 1}, {**REQUEST, "topic": "nobody"}, {**REQUEST, "target": "/c"}],
)
def test_what_cannot_be_done_is_answered_with_the_reason(content: dict[str, object]) -> None:
    """The request is deleted, and a file with the reason left for its author."""
    home, place = place_after(content)

    assert (place, home.fs.exists(PATH), home.fs.exists(f"{PATH}-refused")) == ("/a", False, True)


@pytest.mark.parametrize("partition", [0.0, False, "0", None])
def test_a_partition_is_a_whole_number(partition: object) -> None:
    """A float equals a number, and would make a directory that no start can read."""
    home, place = place_after({**REQUEST, "partition": partition})

    assert (place, home.fs.exists(f"{PATH}-refused")) == ("/a", True)


def test_a_request_nested_without_end_is_refused() -> None:
    """It ends neither the pass nor the service."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        home.fs.write(PATH, b"[" * 200_000)
        answer(home, manager)

        assert (home.fs.exists(PATH), manager.live_dirs) == (False, ["/a", "/b"])


def test_a_request_that_cannot_be_read_takes_nothing_offline() -> None:
    """Its file is not the disk; it is left alone from then on."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        home.fs.write(PATH, b"{}")
        home.fs.fail("read", PATH, OSError(EACCES, "not permitted"))
        answer(home, manager)
        answer(home, manager)

        assert (home.fs.exists(PATH), manager.live_dirs) == (True, ["/a", "/b"])
