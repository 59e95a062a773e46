"""A log that is to be reopened, and whose reopening was interrupted: it is closed until then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome

from tidelog.embedded.logs import Logs
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable


def transact(logs: Logs) -> None:
    with logs.transaction(None, "/data") as txn:
        txn.append("t", b"4", partition=1)


def wait(logs: Logs) -> None:
    """Let background tasks run for ten minutes."""
    clock = logs.manager.machine.clock
    assert isinstance(clock, ManualClock)
    clock.advance(600_000)


PATHS = ("/data", "/other")
ACTS: dict[str, Callable[[Logs], object]] = {
    "alter": lambda logs: logs.alter_topic("t", {"retention.bytes": "70"}),
    "append": lambda logs: logs.append("t", b"3", partition=0),
    "compact": lambda logs: logs.compact("c"),
    "count": lambda logs: logs.count_records("t"),
    "create partitions": lambda logs: logs.create_partitions("t", 3),
    "delete": lambda logs: logs.delete_topic("c"),
    "delete records": lambda logs: logs.delete_records("t", 0, 0),
    "describe": lambda logs: logs.describe_log_dirs(),
    "flush": lambda logs: logs.flush(),
    "metrics": lambda logs: logs.metrics(),
    "move": lambda logs: logs.move_partition("t", 0, "/other", wait=False),
    "offsets": lambda logs: logs.offsets("t"),
    "reconfigure": lambda logs: logs.manager.update_config(logs.manager.config),
    "retain": lambda logs: logs.retain(),
    "transaction": transact,
    "wait": wait,
}


def logs_to_reopen() -> Logs:
    """Return open topics, none of whose logs is open."""
    manager = ManagerHome(*PATHS, retention_ms=-1).open()
    logs = Logs(manager)
    manager.create_topic("t", 2, path="/data")
    manager.create_topic("c", config={"cleanup.policy": "compact"}, path="/data")
    for number in (0, 1):
        logs.append("t", b"%d" % number, partition=number)
    logs.append("c", b"2", key=b"k")
    for log in manager.all_logs():
        log.require_reopening("an append was interrupted")
        log.close_handlers()
    return logs


@pytest.mark.parametrize("act", ACTS)
def test_any_act_reopens_it_or_does_without(act: str) -> None:
    """And all records are there afterwards."""
    logs = logs_to_reopen()

    ACTS[act](logs)

    kept = [[one.value for one in logs.read("t", number)][:1] for number in (0, 1)]
    assert kept == [[b"0"], [b"1"]]
    assert logs.manager.live_dirs == list(PATHS)


def test_settings_that_change_meanwhile_hold_once_it_is_reopened() -> None:
    """Those of the topic, and what the service brings for topics without their own."""
    logs = logs_to_reopen()
    manager = logs.manager
    changed: Any = replace(manager.config.log_defaults, flush_messages=7)

    logs.alter_topic("t", {"retention.bytes": "70"})
    manager.update_config(replace(manager.config, log_defaults=changed))

    for number in (0, 1):
        config = logs.partition("t", number).log.config
        assert (config.retention_bytes, config.flush_messages) == (70, 7)
