"""Settings of Kafka's brokers that tidelog has no use for, and names that Kafka has removed.

A ``server.properties`` is full of the former. Kafka: ``KafkaConfig.configNames``, release 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_FAMILIES: Final = (
    "advertised.",
    "alter.log.dirs.",
    "authorizer.",
    "auto.",
    "broker.",
    "client.quota.",
    "config.providers",
    "connection.",
    "connections.",
    "controlled.",
    "controller.",
    "delegation.token.",
    "fetch.",
    "follower.fetch.",
    "group.",
    "kafka.metrics.",
    "leader.imbalance.",
    "listener.",
    "max.connection",
    "metadata.",
    "metric.",
    "metrics.",
    "offset.metadata.",
    "offsets.",
    "process.roles",
    "queued.",
    "quota.",
    "remote.fetch.",
    "remote.list.",
    "remote.log.index.",
    "remote.log.manager.",
    "remote.log.metadata.",
    "remote.log.reader.",
    "remote.log.storage.",
    "replication.quota.",
    "sasl.",
    "security.",
    "share.",
    "socket.",
    "ssl.",
    "telemetry.",
    "transaction.state.log.",
    "unstable.",
    "zookeeper.",
)
"""No setting of storage begins with one of these."""

_SINGLE: Final = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "alter.config.policy.class.name",
        "create.topic.policy.class.name",
        "default.replication.factor",
        "delete.records.purgatory.purge.interval.requests",
        "delete.topic.enable",
        "early.start.listeners",
        "initial.broker.registration.timeout.ms",
        "inter.broker.listener.name",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "listeners",
        "max.incremental.fetch.session.cache.slots",
        "max.request.partition.size.limit",
        "node.id",
        "num.io.threads",
        "num.network.threads",
        "num.partitions",
        "num.replica.alter.log.dirs.threads",
        "num.replica.fetchers",
        "principal.builder.class",
        "producer.purgatory.purge.interval.requests",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "replica.socket.receive.buffer.bytes",
        "replica.socket.timeout.ms",
        "request.timeout.ms",
        "server.max.startup.time.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.two.phase.commit.enable",
        "unclean.leader.election.interval.ms",
    }
)

REMOVED: Final = {
    "log.message.format.version": "batches always have the newest format; leave it out",
    "message.format.version": "batches always have the newest format; leave it out",
    "inter.broker.protocol.version": "replaced by the feature metadata.version; leave it out",
    "log.message.downconversion.enable": "batches are never converted down; leave it out",
    "message.downconversion.enable": "batches are never converted down; leave it out",
    "log.message.timestamp.difference.max.ms": "replaced by log.message.timestamp.before.max.ms"
    " and log.message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms": "replaced by message.timestamp.before.max.ms and"
    " message.timestamp.after.max.ms",
    "control.plane.listener.name": "replaced by controller.listener.names",
    "host.name": "replaced by listeners",
    "port": "replaced by listeners",
    "log.cleanup.interval.mins": "replaced by log.retention.check.interval.ms",
    "log.file.size": "replaced by log.segment.bytes",
    "log.retention.size": "replaced by log.retention.bytes",
    "log.flush.interval": "replaced by log.flush.interval.messages",
    "log.default.flush.interval.ms": "replaced by log.flush.interval.ms",
    "log.default.flush.scheduler.interval.ms": "replaced by log.flush.scheduler.interval.ms",
    "log.delete.delay.ms": "replaced by log.segment.delete.delay.ms",
    "max.message.size": "replaced by message.max.bytes",
}
"""What Kafka once knew, and what to use instead."""

RENAMED: Final = {"dedupe": "dedupe was renamed: use compact"}
"""Values that Kafka once knew, and what to use instead."""

WITHOUT_EFFECT: Final = (
    "log.dir.failure.timeout.ms",
    "remote.storage.enable",
    "transactional.id.expiration.ms",
)
"""Settings that are accepted and change nothing here."""


def foreign_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``names`` that are settings of a broker but not of its storage, sorted."""
    return tuple(sorted(n for n in names if n in _SINGLE or n.startswith(_FAMILIES)))
