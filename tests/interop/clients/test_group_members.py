"""Members of a group share the partitions of a topic, with each library."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.interop.clients.conftest import PATIENCE_S
from tests.interop.clients.group_members import Group

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.clients.conftest import Client
    from tests.interop.clients.group_members import Member
    from tests.machinery.brokers import Served

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries

PARTITIONS = 4


def append(broker: Served, name: str) -> list[bytes]:
    """Append ten records to each partition; return their values."""
    found = []
    for number in range(10 * PARTITIONS):
        found.append(b"%s-%d" % (name.encode(), number))
        broker.logs.append("tides", found[-1], partition=number % PARTITIONS)
    return found


def wait(*members: Member, until: Callable[[list[set[int]]], bool]) -> list[set[int]]:
    """Let members do their work until they have what is wanted; return their partitions."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = [one.poll() for one in members]
        if until(found) or time.monotonic() > end:
            return found


def test_partitions_move_with_those_who_come_and_go(broker: Served, client: Client) -> None:
    """One has all, two have halves, the other then has all; each record comes to one of them."""
    broker.logs.create_topic("tides", partitions=PARTITIONS)
    everything = set(range(PARTITIONS))
    with Group(client, broker.bootstrap, "g") as group:
        first = group.join("tides")
        assert wait(first, until=lambda found: found == [everything]) == [everything]

        second = group.join("tides")
        shared = wait(first, second, until=lambda found: len(found[0]) == len(found[1]) == 2)
        assert [len(one) for one in shared] == [2, 2]
        assert shared[0] | shared[1] == everything
        values = append(broker, "both")
        wait(first, second, until=lambda _: len(first.got) + len(second.got) >= len(values))
        group.leave(first)
        assert wait(second, until=lambda found: found == [everything]) == [everything]
        values += append(broker, "one")
        wait(second, until=lambda _: len(first.got) + len(second.got) >= len(values))
        group.leave(second)

    assert sorted(first.got + second.got) == sorted(values)
    assert len(first.got) == 2 * 10
    positions = broker.logs.groups.committed("g").values()
    assert [one.position.offset for one in positions] == [20] * PARTITIONS
