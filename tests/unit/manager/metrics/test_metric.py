"""The text forms of metrics."""

from __future__ import annotations

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
