"""Settings of Kafka's brokers that tidelog has no use for, and names that Kafka has removed.

A ``server.properties`` is full of the former. Kafka: ``KafkaConfig.configNames``, release 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Foreign(NamedTuple):
    """Settings of a broker that concern something else than its storage.

    ``families`` are beginnings of names; no setting of storage begins with one of these.
    """

    what: str
    here: str
    """What there is instead."""
    families: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether a setting is one of these."""
        return name in self.names or name.startswith(self.families)


FOREIGN: Final = (
    Foreign(
        "Network and requests",
        "only `tidelog serve` listens for clients; of these it takes those in the table above",
        (
            *("advertised.", "connection.", "connections.", "fetch.", "listener."),
            *("max.connection", "queued.", "socket."),
        ),
        (
            *("delete.records.purgatory.purge.interval.requests", "early.start.listeners"),
            *("inter.broker.listener.name", "listeners"),
            *("max.incremental.fetch.session.cache.slots", "max.request.partition.size.limit"),
            *("num.io.threads", "num.network.threads"),
            *("producer.purgatory.purge.interval.requests", "request.timeout.ms"),
            "server.max.startup.time.ms",
        ),
    ),
    Foreign(
        "Security",
        "the permissions of the directory's files decide who reads and writes",
        ("authorizer.", "delegation.token.", "sasl.", "security.", "ssl."),
        ("principal.builder.class",),
    ),
    Foreign(
        "Controller and cluster",
        "there is no controller; a `__cluster_metadata` of Kafka's is read and never changed",
        (
            *("broker.", "controlled.", "controller.", "metadata.", "unstable."),
            "zookeeper.",
        ),
        (
            *("initial.broker.registration.timeout.ms", "internal.metadata.delete.delay.millis"),
            *("internal.metadata.log.segment.bytes", "node.id", "process.roles"),
            "internal.metadata.max.batch.size.in.bytes",
        ),
    ),
    Foreign(
        "Replication",
        "a log has one replica, whose high watermark is its log end",
        ("auto.leader.", "follower.fetch.", "leader.imbalance."),
        (
            *("default.replication.factor", "num.replica.fetchers", "replica.fetch.backoff.ms"),
            *("replica.fetch.max.bytes", "replica.fetch.min.bytes"),
            *("replica.fetch.response.max.bytes", "replica.fetch.wait.max.ms"),
            *("replica.lag.time.max.ms", "replica.selector.class"),
            *("replica.socket.receive.buffer.bytes", "replica.socket.timeout.ms"),
            "unclean.leader.election.interval.ms",
        ),
    ),
    Foreign(
        "Topics of clients",
        "`tidelog create` and `create_topic` make topics, of one partition unless they are given a"
        " number; only `tidelog serve` makes those that clients ask for, as its own settings say",
        ("auto.create.",),
        (
            *("alter.config.policy.class.name", "create.topic.policy.class.name"),
            *("delete.topic.enable", "num.partitions"),
        ),
    ),
    Foreign(
        "Groups and transactions",
        "`__consumer_offsets` has the settings of its topic, and positions expire only in `tidelog"
        " serve`; a transaction of a program is committed by a journal at once; `tidelog serve`"
        " coordinates those of clients",
        ("group.", "offset.metadata.", "offsets.", "share.", "transaction.state.log."),
        (
            "add.partitions.to.txn.retry.backoff.max.ms",
            "add.partitions.to.txn.retry.backoff.ms",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            "transaction.two.phase.commit.enable",
        ),
    ),
    Foreign(
        "Quotas",
        "moves between directories are limited by"
        " `replica.alter.log.dirs.io.max.bytes.per.second`, the cleaner by its own settings;"
        " nothing else is",
        ("alter.log.dirs.", "client.quota.", "quota.", "replication.quota."),
        (
            *("follower.replication.throttled.rate", "leader.replication.throttled.rate"),
            "num.replica.alter.log.dirs.threads",
        ),
    ),
    Foreign(
        "Metrics",
        "`tidelog metrics`, `run --http` and `tidelog.metrics.interval.ms`",
        ("auto.include.", "kafka.metrics.", "metric.", "metrics.", "telemetry."),
    ),
    Foreign(
        "Tiered storage",
        "`tidelog.archive.uri` says where the archive is",
        (
            *("remote.fetch.", "remote.list.", "remote.log.index.", "remote.log.metadata."),
            *("remote.log.manager.expiration.", "remote.log.manager.fetch."),
            *("remote.log.manager.follower.", "remote.log.manager.copy.quota."),
            *("remote.log.manager.task.retry.", "remote.log.reader.", "remote.log.storage."),
        ),
        ("remote.log.manager.thread.pool.size",),
    ),
    Foreign(
        "Values from elsewhere",
        "a value such as `${file:...}` is taken as it is written",
        ("config.providers",),
    ),
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

WITHOUT_EFFECT: Final = ("log.dir.failure.timeout.ms",)
"""Settings that are accepted and change nothing here."""


def foreign_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``names`` that are settings of a broker but not of its storage, sorted."""
    return tuple(sorted(name for name in names if any(one.has(name) for one in FOREIGN)))
