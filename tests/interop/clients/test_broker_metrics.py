"""What a service shows of its clients, under Kafka's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.manager.metrics.metric import as_prometheus, parse_prometheus

if TYPE_CHECKING:
    from tests.interop.clients.conftest import Client
    from tests.machinery.brokers import Served

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries


def test_requests_connections_and_groups_are_counted(broker: Served, client: Client) -> None:
    """In the text that Prometheus scrapes."""
    broker.logs.create_topic("t")
    client.produce("t", [b"a", b"b"], partition=0)
    client.read_as_group("t", "g", 2)

    text = as_prometheus(broker.logs.metrics())

    found = {(name, tags.get("request")): value for name, tags, value in parse_prometheus(text)}
    assert found["kafka_network_request_metrics_requests_per_sec_total", "Produce"] >= 1
    assert found["kafka_network_request_metrics_requests_per_sec_total", "JoinGroup"] >= 1
    assert found["kafka_network_request_metrics_total_time_ms_count", "Fetch"] >= 1
    assert found["kafka_network_request_metrics_total_time_ms_sum", "Fetch"] > 0
    assert found["kafka_coordinator_group_group_metadata_manager_num_groups", None] == 1
    assert found["tidelog_broker_connections_closed_count_total", None] == 0
