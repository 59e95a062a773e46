"""Requests to move a partition, as earlier releases leave them for a running service."""

from __future__ import annotations

import json
from contextlib import closing
from errno import EACCES, EMFILE, ENOENT, ENOSPC
from typing import TYPE_CHECKING

import pytest
from tests.machinery.manager_home import ManagerHome, fill

from tidelog.codec.checkpoint_file import MAX_FILE_BYTES

if TYPE_CHECKING:
    from tidelog.segment.filenames import TopicPartition
    from tidelog.service.log_service import LogService

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
        return home, manager.partition("t", 0).log.data_dir


def answer(home: ManagerHome, manager: LogService) -> None:
    """Let the service look for requests, and do what they ask."""
    manager.tasks.answer_requests()
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
        home.fs.fail("open", PATH, OSError(EACCES, "not permitted"))
        answer(home, manager)
        answer(home, manager)

        assert (home.fs.exists(PATH), manager.live_dirs) == (True, ["/a", "/b"])


@pytest.mark.parametrize(
    ("name", "error"),
    [("open", OSError(EMFILE, "no descriptor")), ("rename", OSError(ENOSPC, "full"))],
)
def test_a_request_is_answered_once_descriptors_and_space_are_back(
    name: str, error: OSError
) -> None:
    """A lack that passes must not make the service deaf to the request until its restart."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        home.fs.write(PATH, json.dumps(REQUEST).encode())
        home.fs.fail(name, PATH, error)
        manager.tasks.answer_requests()
        answer(home, manager)

        assert manager.partition("t", 0).log.data_dir == "/b"


def test_a_request_that_is_far_too_large_is_left_alone() -> None:
    """It is not read whole, and the requests beside it are answered."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        home.fs.write(PATH, json.dumps(REQUEST).encode())
        large = PATH.replace("1", "0")
        with closing(home.fs.open(large, "w")) as file:
            file.truncate(MAX_FILE_BYTES + 1)
        answer(home, manager)

        assert manager.partition("t", 0).log.data_dir == "/b"
        assert home.fs.exists(large)


def test_a_request_that_is_being_answered_cannot_be_withdrawn() -> None:
    """Its author waits for the answer instead of reporting that nobody answers."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        home.fs.write(PATH, json.dumps(REQUEST).encode())
        seen: list[tuple[bool, bool]] = []
        move = manager._mover.move

        def watched(key: TopicPartition, path: str) -> bool:
            seen.append((home.fs.exists(f"{PATH}-claimed"), home.fs.exists(PATH)))
            return move(key, path)

        manager._mover.move = watched  # type: ignore[method-assign]  # to look in the middle
        answer(home, manager)

        assert (seen, home.fs.exists(f"{PATH}-claimed")) == ([(True, False)], False)
        assert manager.partition("t", 0).log.data_dir == "/b"


def test_a_request_withdrawn_while_it_is_read_is_not_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A missing file says nothing about the disk, and is not worth a warning."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        home.fs.write(PATH, json.dumps(REQUEST).encode())
        home.fs.fail("rename", PATH, FileNotFoundError(ENOENT, "withdrawn"))
        manager.tasks.answer_requests()

        assert manager.get_log("t", 0, is_future=True) is None
        assert manager.live_dirs == ["/a", "/b"]
    assert "move-request" not in caplog.text


def test_a_request_that_an_earlier_process_claimed_is_answered() -> None:
    """That process may have ended before it began the move."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        home.fs.write(f"{PATH}-claimed", json.dumps(REQUEST).encode())
        answer(home, manager)

        assert manager.partition("t", 0).log.data_dir == "/b"
        assert [name for name in home.files("/a") if ".move" in name] == []
