"""What clients ask beside records: topics, their settings, offsets by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.interop.clients.conftest import Client
    from tests.machinery.brokers import Served

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries


def test_topics_are_created_changed_and_deleted(broker: Served, client: Client) -> None:
    """As the owner of the directory sees them."""
    broker.logs.create_topic("old")
    wanted = {"retention.ms": "5000", "segment.ms": "777777"}

    assert client.administer("tides") == wanted
    assert list(broker.logs.topics()) == ["tides"]
    assert broker.logs.topic("tides").config == wanted
    assert list(broker.logs.topic("tides").partitions) == [0, 1, 2]


def test_offsets_are_found_by_time(broker: Served, client: Client) -> None:
    """The first record at a time, or after it."""
    broker.logs.create_topic("tides")
    for number in range(10):
        broker.logs.append("tides", b"%d" % number, timestamp=1_700_000_000_000 + 1000 * number)

    assert client.offset_at("tides", 1_700_000_003_000) == 3
    assert client.offset_at("tides", 1_700_000_003_500) == 4
