"""Requests when a process ends, or the disk fails, at any of its operations.

Whatever happens, a request is carried out at most once, the process that asks learns of it, and no
file of it stays.
"""

from __future__ import annotations

from collections import Counter
from errno import EIO, EMFILE, ENOSPC
from functools import partial
from os import strerror
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from tests.machinery.requesting import Requesting

from tidelog.errors import OutcomeUnknown, RequestFailed, RequestNotTaken
from tidelog.service.requests.request_service import KEPT_MS
from tidelog.testing.faults import PowerCut

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.testing.disk import Kept

CREATE: Final = "create", {"topic": "new", "partitions": 1, "settings": {}}
ALTER: Final = "alter", {"topic": "t", "settings": {"retention.ms": "7"}, "unset": []}
COMMANDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {"create": CREATE, "alter": ALTER}
SWEPT_MS: Final = KEPT_MS + 60_000


class Killed(BaseException):
    """The process that asks was killed."""


class KilledAt:
    """A file system whose user is killed at its ``number``-th operation, before or after it."""

    def __init__(self, below: object, number: int, *, is_after: bool) -> None:
        self._below = below
        self._left = number
        self._is_after = is_after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._below, name)

        def counted(*args: Any, **how: Any) -> Any:
            self._left -= 1
            if self._left < 0 and not self._is_after:
                raise Killed
            result = found(*args, **how)
            if self._left < 0:
                raise Killed
            return result

        return counted


def prepared() -> Requesting:
    """Return a service with a topic t."""
    asking = Requesting()
    asking.manager.create_topic("t", path="/a")
    asking.begun = 0
    return asking


def is_done(asking: Requesting) -> bool:
    """Return whether a command of ``COMMANDS`` was carried out."""
    topics = asking.manager.topics()
    return "new" in topics or bool(topics["t"].config)


def check_end(asking: Requesting) -> None:
    """Check what is left once everything has had its time."""
    asking.pass_time(SWEPT_MS)
    assert asking.requests() == []
    assert asking.begun + asking.here <= 1
    assert asking.begun + asking.here == is_done(asking)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("is_after", [False, True])
def test_the_process_that_asks_is_killed_at_any_operation(command: str, *, is_after: bool) -> None:
    """A request is carried out whole or not at all, and what is left of it is swept."""
    found: Counter[bool] = Counter()
    number = 0
    while True:
        asking = prepared()
        below = KilledAt(asking.home.fs, number, is_after=is_after)
        try:
            asking.ask(*COMMANDS[command], fs=cast("FileSystem", below))
        except Killed:
            asking.home.clock.advance(3_000)
            found[is_done(asking)] += 1
            check_end(asking)
            number += 1
        else:
            break

    print(f"{command}: {number} kills, {dict(found)}")  # noqa: T201 - how much was tried
    assert number >= 10
    assert found[True] >= 3
    assert found[False] >= 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kept", ["all", "none", "prefix", "any"])
def test_the_service_dies_at_any_operation(command: str, kept: Kept) -> None:
    """The outcome is the answer, or unknown after a claim; the next service repeats nothing."""
    found: Counter[str] = Counter()
    number = 0
    while True:
        asking = prepared()
        asking.kept = kept
        asking.after(0, partial(asking.home.fs.crash_after, number))
        try:
            asking.ask(*COMMANDS[command])
        except OutcomeUnknown:
            found["unknown"] += 1
        except PowerCut:  # the answer was read
            asking.recover()
        else:
            found["answered"] += 1
            assert is_done(asking)
        died = asking.has_died
        asking.home.fs.crash_after(1 << 40)  # whatever comes later
        asking.pass_time(SWEPT_MS)
        assert asking.requests() == []
        assert asking.begun <= 1
        if not died:
            break
        number += 1

    print(f"{command}, {kept}: {number} power cuts, {dict(found)}")  # noqa: T201 - as above
    assert number >= 8
    assert found["unknown"] >= 3


FAULTS: Final = {
    "full disk": (ENOSPC, {"open", "pwrite", "write", "truncate", "rename", "make_directory"}),
    "no descriptor": (EMFILE, {"open", "read", "list"}),
    "bad disk": (EIO, {"open", "pread", "pwrite", "rename", "delete", "list", "stat"}),
    "failed fsync": (EIO, {"sync", "sync_directory"}),
}

LEAVING: Final = {"open", "pwrite", "write", "truncate", "rename", "sync", "sync_directory"}
"""The operations that leave a request."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_operation(command: str, fault: str) -> None:
    """It is an error of the process that asks, of the command, or a delay; never a hang.

    A lack of space or descriptors takes no directory offline. The error of a disk is none that
    only has a number: it reports whether anything was done.
    """
    code, names = FAULTS[fault]
    asking = prepared()
    traced = asking.home.fs.trace()
    asking.ask(*COMMANDS[command])
    chosen = [number for number, one in enumerate(traced) if one.name in names]
    found: Counter[str] = Counter()
    for number in chosen:
        asking = prepared()
        asking.home.fs.fail_at(number, OSError(code, strerror(code), traced[number].path))
        try:
            asking.ask(*COMMANDS[command])
            found["done"] += 1
            assert asking.here or is_done(asking)
        except (OutcomeUnknown, RequestFailed, RequestNotTaken) as error:
            found[type(error).__name__] += 1
        except OSError as error:
            found[type(error).__name__] += traced[number].name not in LEAVING
        assert asking.begun <= 1
        assert asking.home.clock.elapsed_ms() <= 40_000
        if code != EIO:
            assert asking.manager.live_dirs == ["/a", "/b"]
        if "/a" in asking.manager.live_dirs:
            asking.pass_time(SWEPT_MS)
            assert asking.requests() == []

    print(f"{command}, {fault}: {len(chosen)} faults, {dict(found)}")  # noqa: T201 - as above
    assert len(chosen) >= 3
    assert 0 not in found.values()
