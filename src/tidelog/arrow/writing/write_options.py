"""How rows of a table are written to the topics of a data directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidelog.arrow.batch_form import DEFAULT_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.config.log_config import LogConfig

DEFAULT_BUFFER_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of one write.

    ``topic`` None: each row names its topic in the column ``topic``. ``compression`` None: not set.
    ``num_partitions`` (None: not set) and ``topic_config`` (settings by Kafka's names) apply to
    topics that the write creates. ``write_buffer_bytes``: about the memory of a task.
    ``commit_timeout_ms``: how long the commit waits for the directory's lock; None: not set.
    ``txn_id``: the transaction's id, by which a repeat is recognized; None: not set.
    ``staging_uri``: the object store where tasks stage that do not see ``path``; None: they see it.
    ``create_directory``: whether to make a data directory where there is nothing at ``path``.
    """

    path: str
    topic: str | None = None
    num_partitions: int | None = None
    topic_config: Mapping[str, str] = field(default_factory=dict)
    compression: str | None = None
    compression_level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    write_buffer_bytes: int = DEFAULT_BUFFER_BYTES
    commit_timeout_ms: int | None = None
    txn_id: str | None = None
    skip_old_batches: bool = False
    accept_missing_batches: bool = False
    staging_uri: str | None = None
    create_directory: bool = True

    def new_topic_config(self) -> LogConfig:
        """Return the config of a topic that the write creates; InvalidConfig for a bad one."""
        from tidelog.config.log_config import LogConfig  # noqa: PLC0415 - not for tasks

        return LogConfig.parse(self.topic_config)
