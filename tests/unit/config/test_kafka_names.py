"""Names of Kafka's that do not concern storage, or that Kafka has removed."""

from __future__ import annotations

import logging

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.kafka_names import REMOVED, WITHOUT_EFFECT, foreign_names
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of
from tidelog.config.sources import broker_config
from tidelog.errors import InvalidConfig

OURS = {known.name for known in (*options_of(BrokerConfig), *options_of(LogConfig))} | {
    synonym.name for known in options_of(LogConfig) for synonym in known.synonyms
}
SAMPLE = (
    *("process.roles", "node.id", "controller.quorum.bootstrap.servers", "listeners"),
    *("inter.broker.listener.name", "advertised.listeners", "controller.listener.names"),
    *("listener.security.protocol.map", "num.network.threads", "num.io.threads"),
    *("socket.send.buffer.bytes", "socket.request.max.bytes", "num.partitions"),
    *("offsets.topic.replication.factor", "transaction.state.log.replication.factor"),
    *("transaction.state.log.min.isr", "group.initial.rebalance.delay.ms"),
    *("zookeeper.connect", "broker.id"),
    *("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
)
"""What the files that come with Kafka set beside storage."""


def test_what_does_not_concern_storage_is_known() -> None:
    """The names in Kafka's own files are recognised."""
    assert foreign_names(SAMPLE) == tuple(sorted(SAMPLE))


def test_no_setting_of_storage_is_passed_over() -> None:
    """Nor is a misspelt one."""
    assert foreign_names(OURS) == ()
    assert foreign_names(["log.retenton.ms", "retention.m", "num.recovery.thread"]) == ()


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_a_removed_name_is_refused_with_what_replaced_it(name: str) -> None:
    """The error is of more use than a similar name."""
    with pytest.raises(InvalidConfig) as caught:
        broker_config({name: "1"})

    assert caught.value.problems == (f"{name}: unknown, removed from Kafka: {REMOVED[name]}",)
    assert name not in OURS


def test_what_is_accepted_without_effect_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One line names the settings; no line where none is given."""
    with caplog.at_level(logging.WARNING):
        broker_config({"log.retention.ms": "5", "transactional.id.expiration.ms": "5"})
        BrokerConfig.parse({"log.dir.failure.timeout.ms": "5", "log.retention.ms": "5"})

    assert caplog.messages == ["settings-without-effect settings=log.dir.failure.timeout.ms"]
    assert set(WITHOUT_EFFECT) <= OURS
