"""A broker without sockets: all handlers over the logs of one process. Kafka: ``KafkaApis``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.broker.client_request import Refusal
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.data.appends import Appends
from tidelog.broker.data.archive_reads import ArchiveReads
from tidelog.broker.data.arrivals import Arrivals
from tidelog.broker.data.fetch import Fetch
from tidelog.broker.data.flushes import Flushes
from tidelog.broker.data.list_offsets import OffsetQueries
from tidelog.broker.data.produce import Produce
from tidelog.broker.dispatch import Dispatcher
from tidelog.broker.groups.classic_group import GroupState
from tidelog.broker.groups.committed_offsets import CommittedOffsets
from tidelog.broker.groups.group_admin import GroupAdmin
from tidelog.broker.groups.group_coordinator import GroupCoordinator
from tidelog.broker.node import node_of
from tidelog.broker.sasl_handshake import SaslHandshake
from tidelog.broker.topics.cluster import Cluster
from tidelog.broker.topics.config_admin import ConfigAdmin
from tidelog.broker.topics.placement_admin import PlacementAdmin
from tidelog.broker.topics.topic_admin import TopicAdmin
from tidelog.broker.topics.topic_names import TopicNames
from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transactions.transaction_requests import TransactionRequests
from tidelog.broker.transactions.verification import Verification
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.env.event_loop import LoopTimers
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError
from tidelog.manager.group_home import internal_topic
from tidelog.readonly.group_positions import OFFSETS_TOPIC

if TYPE_CHECKING:
    from tidelog.broker.client_request import Answer, Handler, Request
    from tidelog.broker.groups.classic_group import Timers
    from tidelog.config.serve_config import ServeConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.env.scheduler import Handle
    from tidelog.manager.log_manager import LogManager

_log = logging.getLogger(__name__)


class Broker:
    """Answers requests. Only the event loop that made it uses it.

    ``timers`` run what is due later; None: by the time of the loop.
    """

    def __init__(
        self, manager: LogManager, config: ServeConfig, timers: Timers | None = None
    ) -> None:
        self._manager = manager
        self._positions = manager.staged_commits.groups
        self._config = config
        self._node = node_of(manager)
        self._names = TopicNames(manager)
        self._arrivals = Arrivals()
        self._archive = ArchiveReads()
        self._appends = Appends()
        self._flushes = Flushes(config.flush_policy)
        self._timers = timers or LoopTimers()
        self._expiry: Handle | None = None
        self._coordinator = GroupCoordinator(
            manager, self._positions, self._appends, self._timers, config
        )
        self._transactions = TransactionCoordinator(
            manager, self._appends, self._flushes, self._timers
        )
        self._verification = Verification(self._transactions)
        self._offsets = CommittedOffsets(
            manager,
            self._positions,
            self._coordinator,
            config,
            appends=self._appends,
            flushes=self._flushes,
        )
        self._expiring = self._offsets.expire()
        self._produce = Produce(manager, self._appends, self._flushes, self._verification)
        handlers = {
            **self._data(),
            **self._topics(),
            **self._groups(),
            **self._producers(),
        }
        self.dispatcher = Dispatcher(handlers, config.most_request_bytes, self._produce)

    def _data(self) -> dict[str, Handler]:
        manager = self._manager
        archive, most_bytes = self._archive, self._config.fetch_max_bytes
        fetch = Fetch(manager, self._names, self._arrivals, archive, most_bytes)
        offsets = OffsetQueries(manager, archive)
        return {
            "Produce": self._produce.handle,
            "Fetch": fetch.handle,
            "ListOffsets": offsets.list_offsets,
            "OffsetForLeaderEpoch": offsets.epoch_ends,
            "SaslHandshake": SaslHandshake(manager.machine.clock).handle,
        }

    def _topics(self) -> dict[str, Handler]:
        create = self._create if self._config.auto_create_topics_enable else None
        cluster = Cluster(self._manager, self._node, self._names, create)
        manager, node = self._manager, self._node
        topics = TopicAdmin(manager, node, self._names, self._config.num_partitions)
        configs = ConfigAdmin(manager, node, self._config)
        placement = PlacementAdmin(manager, node)
        return {
            "Metadata": cluster.metadata,
            "DescribeTopicPartitions": cluster.describe_partitions,
            "DescribeCluster": cluster.describe_cluster,
            "CreateTopics": topics.create,
            "DeleteTopics": topics.delete,
            "CreatePartitions": topics.add_partitions,
            "DeleteRecords": topics.delete_records,
            "DescribeConfigs": configs.describe,
            "ListConfigResources": configs.list_resources,
            "AlterConfigs": configs.alter,
            "IncrementalAlterConfigs": configs.alter_some,
            "DescribeLogDirs": placement.describe_log_dirs,
            "AlterReplicaLogDirs": placement.alter,
            "ElectLeaders": placement.elect,
            "AlterPartitionReassignments": placement.reassign,
            "ListPartitionReassignments": placement.reassignments,
            "DescribeAcls": _describe_acls,
        }

    def _groups(self) -> dict[str, Handler]:
        coordinator, offsets = self._coordinator, self._offsets
        admin = GroupAdmin(coordinator, self._positions, offsets)
        return {
            "FindCoordinator": Coordinators(
                self._manager, self._node, coordinator, self._transactions
            ).find,
            "JoinGroup": coordinator.join,
            "SyncGroup": coordinator.sync,
            "Heartbeat": coordinator.heartbeat,
            "LeaveGroup": coordinator.leave,
            "OffsetCommit": offsets.commit,
            "OffsetFetch": offsets.fetch,
            "OffsetDelete": offsets.delete,
            "ListGroups": admin.list_groups,
            "DescribeGroups": admin.describe,
            "DeleteGroups": admin.delete,
        }

    def _producers(self) -> dict[str, Handler]:
        requests = TransactionRequests(
            self._manager,
            self._transactions,
            self._verification,
            groups=self._coordinator,
            offsets=self._offsets,
            positions=self._positions,
            appends=self._appends,
            flushes=self._flushes,
        )
        return {
            "InitProducerId": requests.init_producer_id,
            "AddPartitionsToTxn": requests.add_partitions,
            "AddOffsetsToTxn": requests.add_offsets,
            "EndTxn": requests.end,
            "TxnOffsetCommit": requests.commit_offsets,
            "DescribeTransactions": requests.describe,
            "ListTransactions": requests.list_all,
            "DescribeProducers": requests.describe_producers,
        }

    def _create(self, name: str) -> Topic:
        if name in INTERNAL_SETTINGS:
            return internal_topic(self._manager, name)
        return self._manager.create_topic(name, self._config.num_partitions)

    def sizes(self) -> dict[str, int]:
        """Return how many groups there are with members, by Kafka's names; on any thread."""
        groups = tuple(self._coordinator.groups.values())
        return {
            "NumGroups": len(groups),
            "NumGroupsStable": sum(group.state is GroupState.STABLE for group in groups),
        }

    async def start(self) -> None:
        """Take up the groups that were written down; until then their members try again."""
        await self._coordinator.load()
        await self._transactions.load()
        self._expire_later(self._config.offsets_retention_check_interval_ms)

    def _expire_later(self, delay_ms: int) -> None:
        self._expiry = self._timers.schedule("offsets-expiry", self._expire, delay_ms=delay_ms)

    def _expire(self) -> None:
        delay_ms = self._config.offsets_retention_check_interval_ms
        try:
            for _ in self._expiring:
                delay_ms = 0  # after what has come meanwhile
                break
        except KafkaError as error:  # such as a full disk: the next time it may be another
            _log.warning("positions-not-expired topic=%s reason=%s", OFFSETS_TOPIC, error)
        finally:
            if delay_ms:
                self._expiring = self._offsets.expire()
            self._expire_later(delay_ms)

    async def close(self) -> None:
        """Answer who waits, and stop the timers and threads."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._coordinator.close()
        self._transactions.close()
        await self._appends.close()
        self._flushes.close()
        self._archive.close()


def _describe_acls(_: Request) -> Answer:
    """Say that there are none, as Kafka without an authorizer: MirrorMaker copies none then."""
    raise Refusal(ErrorCode.SECURITY_DISABLED, "there are no access rules (ACLs) here")
