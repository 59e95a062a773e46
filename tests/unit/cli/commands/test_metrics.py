"""``tidelog metrics``: of a running service, or of files that lie still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tidelog
from tidelog.manager.metrics.metrics_file import MetricsFiles

if TYPE_CHECKING:
    from conftest import Cli


def test_logs_that_lie_still_have_their_gauges(cli: Cli) -> None:
    """Nothing is locked and nothing changed for them."""
    cli.on("create", "t")
    cli.append("a", "b")
    answer = cli.on("metrics")

    assert 'kafka_log_log_log_end_offset{topic="t",partition="0"} 2' in answer.out.splitlines()


def test_json_has_names_tags_and_values(cli: Cli) -> None:
    """One line a number; a whole one has no point."""
    cli.on("create", "t")
    cli.append("a")
    answer = cli.on("metrics", "--json")
    rows = {row["name"]: row for row in answer.rows}

    assert rows["kafka_log_log_num_log_segments"] == {
        "name": "kafka_log_log_num_log_segments",
        "tags": {"topic": "t", "partition": "0"},
        "value": 1,
    }
    assert ".0}" not in answer.out


def test_a_running_service_tells_more(cli: Cli) -> None:
    """What it last wrote is printed, and is gone when it has stopped."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        files = MetricsFiles(logs.manager)
        files.start()
        during = cli.on("metrics").out
        files.stop()
    after = cli.on("metrics").out

    name = "kafka_server_broker_topic_metrics_messages_in_per_sec_total"
    assert f"{name} 1" in during.splitlines()
    assert name not in after
