"""The one broker of this cluster: its id, and the cluster's. Kafka: ``BrokerServer``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.client_request import Refusal
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, read_meta_properties
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from tidelog.manager.log_manager import LogManager

DEFAULT_NODE_ID = 1


class Node(NamedTuple):
    """Who answers."""

    node_id: int
    cluster_id: str

    def check_replicas(self, ids: list[int]) -> None:
        """Refuse replicas of a partition that are not this broker alone."""
        if ids != [self.node_id]:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the one broker is {self.node_id}, not {ids}"
            )


def node_of(manager: LogManager) -> Node:
    """Return the identity in the ``meta.properties`` of the directories.

    Where they name none, as those of tidelog alone, the cluster has the id of the first directory.
    Raises KafkaStorageError: one cannot be read.
    """
    fs, paths = manager.machine.fs, manager.live_dirs
    files = [os.path.join(path, META_PROPERTIES_FILE) for path in paths]
    try:
        found = [read_meta_properties(fs, file) for file in files]
    except OSError as error:
        raise KafkaStorageError(f"the identity of the broker cannot be read: {error}") from error
    node_ids = [one.node_id for one in found if one is not None and one.node_id is not None]
    cluster_ids = [one.cluster_id for one in found if one is not None and one.cluster_id]
    return Node(
        node_ids[0] if node_ids else DEFAULT_NODE_ID,
        cluster_ids[0] if cluster_ids else format_uuid(manager.directory_id(paths[0])),
    )
