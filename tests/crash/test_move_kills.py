"""A move ends at any of its operations, by a kill or a power cut: what each next start finds.

The next start may have both directories, or first one of them alone, as a command that appends.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome, fill, values

from tidelog.config.broker_config import BrokerConfig
from tidelog.errors import KafkaError
from tidelog.manager.log_manager import LogManager
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from tests.conftest import Enumerated

    from tidelog.testing.disk import Kept

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

KEY = TopicPartition("t", 0)
RECORDS = 6
EXPECTED = [b"value %d" % number for number in range(RECORDS)]


def full(source: str) -> tuple[ManagerHome, LogManager]:
    """Return a machine where t-0 lies in ``source``, one of /a and /b."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    manager = home.open()
    manager.create_topic("t", path=source)
    fill(manager, *KEY, RECORDS)
    manager.flush()
    return home, manager


def crashed(source: str, target: str, operations: int, kept: Kept) -> tuple[ManagerHome, bool]:
    """Move t-0 and crash after some operations; return the machine and whether it had moved."""
    home, manager = full(source)
    home.fs.crash_after(operations)
    has_moved = False
    with suppress(PowerCut):
        manager.move_partition(*KEY, target)
        home.clock.advance(0)
        has_moved = True
    home.fs.power_cut(kept)
    home.scheduler.forget()
    return home, has_moved


def appended_alone(home: ManagerHome, path: str) -> bool:
    """Open one directory as a command does, and append; return whether that was accepted."""
    settings = BrokerConfig(log_dirs=(path,), log_defaults=home.defaults)
    try:
        with LogManager(settings, home.machine()) as manager:
            fill(manager, *KEY, 1)
    except KafkaError:
        return False
    return True


def homes(home: ManagerHome) -> dict[str, str]:
    """Return, by directory, where its catalogue says that t-0 lies."""
    ids = {}
    for path in home.paths:
        lines = home.fs.read(f"{path}/meta.properties").decode().splitlines()
        ids[next(line for line in lines if line.startswith("directory.id="))[13:]] = path
    found = {}
    for path in home.paths:
        topics: Any = json.loads(home.fs.read(f"{path}/tidelog.topics.json"))
        text = json.dumps(topics)
        (found[path],) = [ids[one] for one in ids if one in text]
    return found


def check(home: ManagerHome, expected: list[bytes]) -> str:
    """Start a service with both directories; return where t-0 lies. Nothing is left of the move."""
    for _ in range(2):
        with home.open() as manager:
            home.clock.advance(70_000)  # past file.delete.delay.ms
            assert values(manager, *KEY) == expected
            place = manager.partition(*KEY).log.directory.removesuffix("/t-0")
            assert manager.moves() == []
        assert set(homes(home).values()) == {place}
        for path in home.paths:
            names = [name for name in home.files(path) if name.startswith("t-")]
            assert names == (["t-0"] if path == place else [])
            lines = home.lines("recovery-point-offset-checkpoint", path)
            assert lines == ([f"t 0 {len(expected)}"] if path == place else [])
    return place


@pytest.mark.parametrize(("source", "target"), [("/a", "/b"), ("/b", "/a")])
@pytest.mark.parametrize("kept", ["all", "prefix", "none"])
def test_a_crash_in_a_move_leaves_one_directory_that_takes_appends(
    source: str, target: str, kept: Kept, enumerated: Enumerated
) -> None:
    """What either directory alone accepts is there when both are opened; the catalogues agree."""
    operations = accepted = moved = 0
    has_moved = False
    while not has_moved:
        for alone in (None, source, target):
            home, has_moved = crashed(source, target, operations, kept)
            expected = list(EXPECTED)
            if alone is not None and appended_alone(home, alone):
                accepted += 1
                expected.append(b"value 0")
            moved += check(home, expected) == target
        operations += 1
    enumerated("appends accepted", accepted, at_least=10)
    enumerated("moves that continued", moved, at_least=10)
