"""The text forms of metrics."""

from __future__ import annotations

import pytest

from tidelog.manager.metrics.metric import Metric, as_prometheus, parse_prometheus

SIZE = Metric("kafka.log", "Log", "Size", (("topic", 'a"b\\c'), ("partition", "0")), 7)
COUNT = Metric("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", (), 3, "counter")


def test_a_metric_has_the_name_that_jmx_shows() -> None:
    """Group, type, name and tags, in Kafka's order."""
    plain = SIZE._replace(tags=(("topic", "t"), ("partition", "0")))

    assert plain.kafka_name == "kafka.log:type=Log,name=Size,topic=t,partition=0"


def test_prometheus_names_are_words_in_small_letters() -> None:
    """What only grows ends in total, as Prometheus has it."""
    assert SIZE.family == "kafka_log_log_size"
    assert COUNT.family == "kafka_server_broker_topic_metrics_bytes_in_per_sec_total"


def test_what_is_written_is_read() -> None:
    """Signs that mean something are escaped."""
    found = list(parse_prometheus(as_prometheus([SIZE, COUNT])))

    assert found == [
        ("kafka_log_log_size", {"topic": 'a"b\\c', "partition": "0"}, 7.0),
        ("kafka_server_broker_topic_metrics_bytes_in_per_sec_total", {}, 3.0),
    ]


@pytest.mark.parametrize("sign", ["\n", "\r", "\x0b", "\x1c", "\x85", "\u2028", "\\", '"', "} 1"])
def test_a_name_with_any_sign_is_read_as_it_was(sign: str) -> None:
    """A group may have any name; only a line feed ends a line."""
    lag = Metric("kafka", "consumergroup", "lag", (("consumergroup", f"a{sign}b"),), 7)

    found = list(parse_prometheus(as_prometheus([lag, COUNT])))

    assert [value for _, _, value in found] == [7.0, 3.0]
    assert found[0][1] == {"consumergroup": f"a{sign}b"}


def test_a_path_that_is_not_utf8_is_written_as_an_escape() -> None:
    """The text format is UTF-8, and knows no escapes but its own."""
    full = Metric("tidelog", "LogManager", "LogDirectoryFull", (("logDirectory", "/\udcff"),), 1)

    text = as_prometheus([full])

    assert text.encode().splitlines()[-1] == (
        rb'tidelog_log_manager_log_directory_full{log_directory="/\\udcff"} 1'
    )
