"""The settings of one log, which Kafka calls topic configs.

Owns their names, defaults, checks and broker-level synonyms. Must not know where values come from.
Kafka: ``LogConfig``, ``TopicConfig``, ``ServerTopicConfigSynonyms``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tidelog.config.option import (
    INT64_MAX,
    Check,
    Int32,
    Synonym,
    any_value,
    at_least,
    between,
    check_options,
    one_of,
    option,
    parse_options,
    subset_of,
    to_properties,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

COMPACT: Final = "compact"
DELETE: Final = "delete"

DELETION_SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
"""The settings that decide what is deleted or compacted, by Kafka's names."""

_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")
_throttled_replicas: Final = Check(
    "* or a list of partition:broker",
    lambda value: value == ("*",) or all(map(_REPLICA.fullmatch, value)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one log; a default is Kafka's unless docs/decisions says why not.

    Source: Kafka LogConfig.
    """

    segment_bytes: Int32 = option(
        "segment.bytes",
        2**30,
        at_least(2**20),
        "Size in bytes that one segment's .log file does not pass.",
        synonyms=("log.segment.bytes",),
    )
    internal_segment_bytes: Int32 | None = option(
        "internal.segment.bytes",
        None,
        any_value,
        "Replaces segment.bytes without its lower limit, for tests.",
    )
    segment_ms: int = option(
        "segment.ms",
        7 * DAY_MS,
        at_least(1),
        "Age in ms at which the next append starts a new segment.",
        synonyms=("log.roll.ms", Synonym("log.roll.hours", HOUR_MS)),
    )
    segment_jitter_ms: int = option(
        "segment.jitter.ms",
        0,
        at_least(0),
        "Up to so many ms are taken off segment.ms, at random for each segment.",
        synonyms=("log.roll.jitter.ms", Synonym("log.roll.jitter.hours", HOUR_MS)),
    )
    segment_index_bytes: Int32 = option(
        "segment.index.bytes",
        10 * 2**20,
        at_least(4),
        "Size in bytes of an index of the active segment; a full index starts a new segment.",
        synonyms=("log.index.size.max.bytes",),
    )
    flush_messages: int = option(
        "flush.messages",
        INT64_MAX,
        at_least(1),
        "Records after which an append flushes the log.",
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms: int = option(
        "flush.ms",
        INT64_MAX,
        at_least(0),
        "Time in ms after which the flusher flushes the log.",
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    retention_bytes: int = option(
        "retention.bytes",
        -1,
        any_value,
        "Size in bytes of a log above which its oldest segments expire; negative: no limit.",
        synonyms=("log.retention.bytes",),
    )
    retention_ms: int = option(
        "retention.ms",
        7 * DAY_MS,
        at_least(-1),
        "Age in ms at which a segment expires; -1: never.",
        synonyms=(
            "log.retention.ms",
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
    )
    max_message_bytes: Int32 = option(
        "max.message.bytes",
        2**20 + 12,
        at_least(0),
        "Size in bytes of the largest record batch that is accepted, as it is stored.",
        synonyms=("message.max.bytes",),
    )
    index_interval_bytes: Int32 = option(
        "index.interval.bytes",
        4096,
        at_least(0),
        "Bytes of batches between two index entries, at least.",
        synonyms=("log.index.interval.bytes",),
    )
    delete_retention_ms: int = option(
        "delete.retention.ms",
        DAY_MS,
        at_least(0),
        "Time in ms that compaction keeps a tombstone or a transaction marker.",
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    min_compaction_lag_ms: int = option(
        "min.compaction.lag.ms",
        0,
        at_least(0),
        "Age in ms below which a record is not compacted.",
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    max_compaction_lag_ms: int = option(
        "max.compaction.lag.ms",
        INT64_MAX,
        at_least(1),
        "Age in ms at which a record must become fit for compaction.",
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    file_delete_delay_ms: int = option(
        "file.delete.delay.ms",
        MINUTE_MS,
        at_least(0),
        "Time in ms between renaming a file to .deleted and deleting it.",
        synonyms=("log.segment.delete.delay.ms",),
    )
    min_cleanable_dirty_ratio: float = option(
        "min.cleanable.dirty.ratio",
        0.5,
        between(0, 1),
        "Dirty share of a log's bytes at which cleaning starts.",
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    cleanup_policy: tuple[str, ...] = option(
        "cleanup.policy",
        (DELETE,),
        subset_of(COMPACT, DELETE),
        "What happens to old segments; an empty list keeps them for ever.",
        synonyms=("log.cleanup.policy",),
    )
    unclean_leader_election_enable: bool = option(
        "unclean.leader.election.enable",
        False,
        any_value,
        "Whether a replica that is behind may lead; no rule of storage.",
        synonyms=("unclean.leader.election.enable",),
    )
    min_insync_replicas: Int32 = option(
        "min.insync.replicas",
        1,
        at_least(1),
        "Replicas that must have a batch before acks=all succeeds; no rule of storage.",
        synonyms=("min.insync.replicas",),
    )
    compression_type: str = option(
        "compression.type",
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec that batches are stored with; producer: as they come.",
        synonyms=("compression.type",),
    )
    compression_gzip_level: Int32 = option(
        "compression.gzip.level",
        -1,
        between(1, 9, or_else=(-1,)),
        "Level of gzip; -1: the library's own.",
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level: Int32 = option(
        "compression.lz4.level",
        9,
        between(1, 17),
        "Level of lz4.",
        synonyms=("compression.lz4.level",),
    )
    compression_zstd_level: Int32 = option(
        "compression.zstd.level",
        3,
        between(-(2**17), 22),
        "Level of zstd.",
        synonyms=("compression.zstd.level",),
    )
    preallocate: bool = option(
        "preallocate",
        False,
        any_value,
        "Whether a new segment's .log file is made segment.bytes long at once.",
        synonyms=("log.preallocate",),
    )
    message_timestamp_type: str = option(
        "message.timestamp.type",
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose time a record has: the producer's or the append's.",
        synonyms=("log.message.timestamp.type",),
    )
    message_timestamp_before_max_ms: int = option(
        "message.timestamp.before.max.ms",
        INT64_MAX,
        at_least(0),
        "Time in ms that a producer's timestamp may lie before the append.",
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_after_max_ms: int = option(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        at_least(0),
        "Time in ms that a producer's timestamp may lie after the append.",
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = option(
        "leader.replication.throttled.replicas",
        (),
        _throttled_replicas,
        "Replicas whose leader side is throttled; no rule of storage.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = option(
        "follower.replication.throttled.replicas",
        (),
        _throttled_replicas,
        "Replicas whose follower side is throttled; no rule of storage.",
    )
    remote_storage_enable: bool = option(
        "remote.storage.enable", False, any_value, "Whether segments are tiered."
    )
    local_retention_ms: int = option(
        "local.retention.ms",
        -2,
        at_least(-2),
        "Age in ms at which a tiered segment leaves this disk; -2: as retention.ms.",
        synonyms=("log.local.retention.ms",),
    )
    local_retention_bytes: int = option(
        "local.retention.bytes",
        -2,
        at_least(-2),
        "Bytes of a tiered log kept on this disk; -2: as retention.bytes.",
        synonyms=("log.local.retention.bytes",),
    )
    remote_log_copy_disable: bool = option(
        "remote.log.copy.disable", False, any_value, "Whether tiering copies no more segments."
    )
    remote_log_delete_on_disable: bool = option(
        "remote.log.delete.on.disable",
        False,
        any_value,
        "Whether turning tiering off deletes what is tiered.",
    )

    is_policy_known: bool = True
    """False: nobody has said what becomes of old records, so all of them stay."""

    def __post_init__(self) -> None:
        check_options(self, self._conflicts())

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> LogConfig:
        """Read Kafka-style properties; raise one InvalidConfig that names every bad key."""
        return parse_options(cls, properties)

    def with_overrides(self, properties: Mapping[str, str]) -> LogConfig:
        """Return these settings with some replaced; raises as ``parse``."""
        return parse_options(LogConfig, properties, self)

    def without(self, unknown: Collection[str]) -> LogConfig:
        """Return these settings for a log of which some ``DELETION_SETTINGS`` are unknown.

        An unknown limit deletes nothing. With an unknown policy nothing is deleted or compacted.
        """
        config = self
        if "retention.ms" in unknown:
            config = replace(config, retention_ms=-1)
        if "retention.bytes" in unknown:
            config = replace(config, retention_bytes=-1)
        if "cleanup.policy" in unknown:
            config = replace(config, cleanup_policy=(), is_policy_known=False)
        return config

    def deleting(self) -> LogConfig:
        """Return these settings for a log whose old segments expire, whatever was known of it."""
        return replace(self, cleanup_policy=(DELETE,), is_policy_known=True)

    def to_properties(self) -> dict[str, str]:
        """Return the settings that differ from their defaults; ``parse`` reads them back."""
        return to_properties(self)

    @property
    def segment_size_bytes(self) -> int:
        """The size a segment does not pass. Source: Kafka LogConfig.segmentSize."""
        internal = self.internal_segment_bytes
        return self.segment_bytes if internal is None else internal

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment rolls. Source: Kafka LogConfig.maxSegmentMs."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner keeps only the last record of each key."""
        return COMPACT in self.cleanup_policy

    @property
    def needs_keys(self) -> bool:
        """Whether records without a key are refused: a cleaner would drop them."""
        return self.is_compacted or not self.is_policy_known

    @property
    def is_deleted(self) -> bool:
        """Whether segments expire by age and size."""
        return DELETE in self.cleanup_policy

    def _conflicts(self) -> Iterator[str]:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            yield (
                f"min.compaction.lag.ms: {self.min_compaction_lag_ms} is more than"
                f" max.compaction.lag.ms, {self.max_compaction_lag_ms}"
            )
        if self.remote_storage_enable and self.is_compacted:
            yield "remote.storage.enable: a compacted log cannot be tiered"
