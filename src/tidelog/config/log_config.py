"""The settings of one log, called topic configs in Kafka.

Kafka: ``LogConfig``, ``TopicConfig``, ``ServerTopicConfigSynonyms``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tidelog.config.deletion_settings import COMPACT, DELETE
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
    options_of,
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
KEEP_ALL: Final = -1
"""A limit that deletes nothing."""
AS_TOTAL: Final = -2
"""A local limit that is the same as the one for the whole log."""

_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")
_throttled_replicas: Final = Check(
    "* or a list of partition:broker",
    lambda value: value == ("*",) or all(map(_REPLICA.fullmatch, value)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one log; the defaults are Kafka's, except that records are kept for ever.

    Source: Kafka LogConfig.
    """

    segment_bytes: Int32 = option(
        "segment.bytes",
        2**30,
        at_least(2**20),
        "Maximum size in bytes of a segment's .log file.",
        synonyms=("log.segment.bytes",),
    )
    internal_segment_bytes: Int32 | None = option(
        "internal.segment.bytes",
        None,
        any_value,
        "Overrides segment.bytes without its lower limit, for tests.",
    )
    segment_ms: int = option(
        "segment.ms",
        7 * DAY_MS,
        at_least(1),
        "Age in ms of a segment at which the next append rolls a new one.",
        synonyms=("log.roll.ms", Synonym("log.roll.hours", HOUR_MS)),
    )
    segment_jitter_ms: int = option(
        "segment.jitter.ms",
        0,
        at_least(0),
        "Maximum random time in ms subtracted from segment.ms, drawn for each segment.",
        synonyms=("log.roll.jitter.ms", Synonym("log.roll.jitter.hours", HOUR_MS)),
    )
    segment_index_bytes: Int32 = option(
        "segment.index.bytes",
        10 * 2**20,
        at_least(4),
        "Maximum size in bytes of an index; a full index rolls a new segment.",
        synonyms=("log.index.size.max.bytes",),
    )
    flush_messages: int = option(
        "flush.messages",
        INT64_MAX,
        at_least(1),
        "Number of appended records after which the log is flushed.",
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms: int = option(
        "flush.ms",
        INT64_MAX,
        at_least(0),
        "Time in ms since the last flush after which the log is flushed.",
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    retention_bytes: int = option(
        "retention.bytes",
        -1,
        any_value,
        "Bytes of a log to keep: its oldest segments are deleted while the others have at least"
        " that; negative: no limit.",
        synonyms=("log.retention.bytes",),
    )
    retention_ms: int = option(
        "retention.ms",
        -1,
        at_least(-1),
        "Age in ms at which a segment is deleted; -1: no limit.",
        kafka_default=7 * DAY_MS,
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
        "Maximum size in bytes of a record batch, as stored.",
        synonyms=("message.max.bytes",),
    )
    index_interval_bytes: Int32 = option(
        "index.interval.bytes",
        4096,
        at_least(0),
        "Minimum number of bytes of batches between two index entries.",
        synonyms=("log.index.interval.bytes",),
    )
    delete_retention_ms: int = option(
        "delete.retention.ms",
        DAY_MS,
        at_least(0),
        "Time in ms for which compaction keeps tombstones and transaction markers.",
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    min_compaction_lag_ms: int = option(
        "min.compaction.lag.ms",
        0,
        at_least(0),
        "Minimum age in ms of a record before it can be compacted.",
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    max_compaction_lag_ms: int = option(
        "max.compaction.lag.ms",
        INT64_MAX,
        at_least(1),
        "Maximum age in ms at which a record becomes eligible for compaction.",
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    file_delete_delay_ms: int = option(
        "file.delete.delay.ms",
        MINUTE_MS,
        at_least(0),
        "Delay in ms between renaming a file to .deleted and deleting it.",
        synonyms=("log.segment.delete.delay.ms",),
    )
    min_cleanable_dirty_ratio: float = option(
        "min.cleanable.dirty.ratio",
        0.5,
        between(0, 1),
        "Ratio of dirty to total bytes of a log at which cleaning starts.",
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    cleanup_policy: tuple[str, ...] = option(
        "cleanup.policy",
        (DELETE,),
        subset_of(COMPACT, DELETE),
        "Whether old segments are deleted, compacted or both; an empty list keeps them forever.",
        synonyms=("log.cleanup.policy",),
    )
    unclean_leader_election_enable: bool = option(
        "unclean.leader.election.enable",
        False,
        any_value,
        "Whether an out-of-sync replica may become leader; not used by storage.",
        synonyms=("unclean.leader.election.enable",),
    )
    min_insync_replicas: Int32 = option(
        "min.insync.replicas",
        1,
        at_least(1),
        "Replicas that must have a batch before acks=all succeeds; not used by storage.",
        synonyms=("min.insync.replicas",),
    )
    compression_type: str = option(
        "compression.type",
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec of stored batches; producer: the codec that the producer used.",
        synonyms=("compression.type",),
    )
    compression_gzip_level: Int32 = option(
        "compression.gzip.level",
        -1,
        between(1, 9, or_else=(-1,)),
        "Compression level of gzip; -1: the library's default.",
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level: Int32 = option(
        "compression.lz4.level",
        9,
        between(1, 17),
        "Compression level of lz4.",
        synonyms=("compression.lz4.level",),
    )
    compression_zstd_level: Int32 = option(
        "compression.zstd.level",
        3,
        between(-(2**17), 22),
        "Compression level of zstd.",
        synonyms=("compression.zstd.level",),
    )
    preallocate: bool = option(
        "preallocate",
        False,
        any_value,
        "Whether the .log file of a new segment is allocated in full when it is created.",
        synonyms=("log.preallocate",),
    )
    message_timestamp_type: str = option(
        "message.timestamp.type",
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whether records keep the producer's timestamp or get the time of the append.",
        synonyms=("log.message.timestamp.type",),
    )
    message_timestamp_before_max_ms: int = option(
        "message.timestamp.before.max.ms",
        INT64_MAX,
        at_least(0),
        "Maximum time in ms by which a producer's timestamp may precede the append.",
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_after_max_ms: int = option(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        at_least(0),
        "Maximum time in ms by which a producer's timestamp may follow the append.",
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = option(
        "leader.replication.throttled.replicas",
        (),
        _throttled_replicas,
        "Replicas throttled on the leader's side; not used by storage.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = option(
        "follower.replication.throttled.replicas",
        (),
        _throttled_replicas,
        "Replicas throttled on the follower's side; not used by storage.",
    )
    remote_storage_enable: bool = option(
        "remote.storage.enable",
        False,
        any_value,
        "Whether closed segments are copied to the archive of `tidelog.archive.uri`.",
    )
    local_retention_ms: int = option(
        "local.retention.ms",
        AS_TOTAL,
        at_least(AS_TOTAL),
        "Age in ms at which a segment that is archived is deleted locally; -2: as retention.ms.",
        synonyms=("log.local.retention.ms",),
    )
    local_retention_bytes: int = option(
        "local.retention.bytes",
        AS_TOTAL,
        at_least(AS_TOTAL),
        "Bytes of a log that is archived to keep locally; -2: as retention.bytes.",
        synonyms=("log.local.retention.bytes",),
    )
    remote_log_copy_disable: bool = option(
        "remote.log.copy.disable", False, any_value, "Whether copying to the archive is stopped."
    )
    remote_log_delete_on_disable: bool = option(
        "remote.log.delete.on.disable",
        False,
        any_value,
        "Whether disabling remote.storage.enable deletes the segments that only the archive has.",
    )

    is_policy_known: bool = True
    """False if the cleanup policy is not known, in which case all segments are kept."""

    def __post_init__(self) -> None:
        check_options(self, self._conflicts())

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> LogConfig:
        """Parse Kafka-style properties; raise one InvalidConfig that names every bad key."""
        return parse_options(cls, properties)

    def with_overrides(self, properties: Mapping[str, str]) -> LogConfig:
        """Return a copy with these settings replaced; errors as for ``parse``."""
        return parse_options(LogConfig, properties, self)

    def without(self, unknown: Collection[str]) -> LogConfig:
        """Return a copy for a log whose ``DELETION_SETTINGS`` in ``unknown`` are not known.

        An unknown limit deletes nothing. If the policy is unknown, nothing is deleted or compacted.
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
        """Return a copy in which old segments are deleted, even if the policy is unknown."""
        return replace(self, cleanup_policy=(DELETE,), is_policy_known=True)

    @classmethod
    def of_kafka(cls) -> LogConfig:
        """Return Kafka's defaults, which hold where a ``server.properties`` is given."""
        return cls(**{known.field: known.kafka_default for known in options_of(cls)})

    def to_properties(self) -> dict[str, str]:
        """Return the settings that differ from their defaults, in the form that ``parse`` reads."""
        return to_properties(self)

    @property
    def segment_size_bytes(self) -> int:
        """Maximum size in bytes of a segment. Source: Kafka LogConfig.segmentSize."""
        internal = self.internal_segment_bytes
        return self.segment_bytes if internal is None else internal

    @property
    def max_segment_ms(self) -> int:
        """Age in ms at which a segment rolls. Source: Kafka LogConfig.maxSegmentMs."""
        lag_ms = self.max_compaction_lag_ms
        return lag_ms if 0 < lag_ms < self.segment_ms and self.is_compacted else self.segment_ms

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch in bytes that an append takes: a segment must hold it, too."""
        return min(self.max_message_bytes, self.segment_size_bytes)

    @property
    def is_stamped(self) -> bool:
        """Whether records get the time of their append (LogAppendTime)."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner keeps only the last record of each key."""
        return COMPACT in self.cleanup_policy

    @property
    def needs_keys(self) -> bool:
        """Whether records without a key are rejected: compaction would drop them."""
        return self.is_compacted or not self.is_policy_known

    @property
    def is_deleted(self) -> bool:
        """Whether segments are deleted by age and size."""
        return DELETE in self.cleanup_policy

    @property
    def is_archived(self) -> bool:
        """Whether closed segments are copied to an archive, and retention here is the local one."""
        return self.remote_storage_enable and not self.remote_log_copy_disable

    def local_limits(self) -> LogConfig:
        """Return these settings with the limits of what is kept on the disk of an archived log."""
        if not self.is_archived:
            return self
        local_ms, local_bytes = self.local_retention_ms, self.local_retention_bytes
        return replace(
            self,
            retention_ms=self.retention_ms if local_ms == AS_TOTAL else local_ms,
            retention_bytes=self.retention_bytes if local_bytes == AS_TOTAL else local_bytes,
        )

    def _conflicts(self) -> Iterator[str]:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            yield (
                f"min.compaction.lag.ms: {self.min_compaction_lag_ms} is more than"
                f" max.compaction.lag.ms, {self.max_compaction_lag_ms}"
            )
        if self.remote_storage_enable and self.is_compacted:
            yield "remote.storage.enable: a compacted log cannot be archived"
        if self.remote_storage_enable:
            yield from _beyond("ms", self.local_retention_ms, self.retention_ms)
            yield from _beyond("bytes", self.local_retention_bytes, self.retention_bytes)


def _beyond(unit: str, local: int, total: int) -> Iterator[str]:
    """Yield a conflict if more were to be kept locally than in all."""
    if total != KEEP_ALL and (local == KEEP_ALL or local > total):
        kept = "all" if local == KEEP_ALL else f"{local} {unit}"
        yield f"local.retention.{unit}: {kept} is more than retention.{unit}, {total}"
