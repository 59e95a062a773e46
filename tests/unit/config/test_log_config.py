"""The settings of a log are Kafka's."""

from __future__ import annotations

import pytest

from tidelog.config.log_config import HOUR_MS, LogConfig
from tidelog.config.option import options_of
from tidelog.errors import InvalidConfig

LONG_MAX = 2**63 - 1
WEEK_MS = 604_800_000

# Name: type, default as text ("" for none or an empty list), strongest broker-level names.
# Source: Kafka 4.3.1, kafka-configs.sh and TopicConfig.
KAFKA = {
    "segment.bytes": ("int", "1073741824", ["log.segment.bytes"]),
    "internal.segment.bytes": ("int", "", []),
    "segment.ms": ("long", f"{WEEK_MS}", ["log.roll.ms", "log.roll.hours"]),
    "segment.jitter.ms": ("long", "0", ["log.roll.jitter.ms", "log.roll.jitter.hours"]),
    "segment.index.bytes": ("int", "10485760", ["log.index.size.max.bytes"]),
    "flush.messages": ("long", f"{LONG_MAX}", ["log.flush.interval.messages"]),
    "flush.ms": (
        "long",
        f"{LONG_MAX}",
        ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
    ),
    "retention.bytes": ("long", "-1", ["log.retention.bytes"]),
    "retention.ms": (
        "long",
        f"{WEEK_MS}",
        ["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
    ),
    "max.message.bytes": ("int", "1048588", ["message.max.bytes"]),
    "index.interval.bytes": ("int", "4096", ["log.index.interval.bytes"]),
    "delete.retention.ms": ("long", "86400000", ["log.cleaner.delete.retention.ms"]),
    "min.compaction.lag.ms": ("long", "0", ["log.cleaner.min.compaction.lag.ms"]),
    "max.compaction.lag.ms": ("long", f"{LONG_MAX}", ["log.cleaner.max.compaction.lag.ms"]),
    "file.delete.delay.ms": ("long", "60000", ["log.segment.delete.delay.ms"]),
    "min.cleanable.dirty.ratio": ("double", "0.5", ["log.cleaner.min.cleanable.ratio"]),
    "cleanup.policy": ("list", "delete", ["log.cleanup.policy"]),
    "unclean.leader.election.enable": ("boolean", "false", ["unclean.leader.election.enable"]),
    "min.insync.replicas": ("int", "1", ["min.insync.replicas"]),
    "compression.type": ("string", "producer", ["compression.type"]),
    "compression.gzip.level": ("int", "-1", ["compression.gzip.level"]),
    "compression.lz4.level": ("int", "9", ["compression.lz4.level"]),
    "compression.zstd.level": ("int", "3", ["compression.zstd.level"]),
    "preallocate": ("boolean", "false", ["log.preallocate"]),
    "message.timestamp.type": ("string", "CreateTime", ["log.message.timestamp.type"]),
    "message.timestamp.before.max.ms": (
        "long",
        f"{LONG_MAX}",
        ["log.message.timestamp.before.max.ms"],
    ),
    "message.timestamp.after.max.ms": (
        "long",
        "3600000",
        ["log.message.timestamp.after.max.ms"],
    ),
    "leader.replication.throttled.replicas": ("list", "", []),
    "follower.replication.throttled.replicas": ("list", "", []),
    "remote.storage.enable": ("boolean", "false", []),
    "local.retention.ms": ("long", "-2", ["log.local.retention.ms"]),
    "local.retention.bytes": ("long", "-2", ["log.local.retention.bytes"]),
    "remote.log.copy.disable": ("boolean", "false", []),
    "remote.log.delete.on.disable": ("boolean", "false", []),
}


def test_names_types_defaults_and_synonyms_are_kafkas() -> None:
    """Every topic setting of Kafka exists under its name, and no other."""
    ours = {
        known.name: (
            known.kind.name,
            "" if known.kafka_default is None else known.kind.format(known.kafka_default),
            [synonym.name for synonym in known.synonyms],
        )
        for known in options_of(LogConfig)
    }

    assert ours == KAFKA


def test_a_field_is_named_after_its_setting() -> None:
    """A field's name is Kafka's with underscores for dots."""
    names = {known.field: known.name.replace(".", "_") for known in options_of(LogConfig)}

    assert list(names) == list(names.values())


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("segment.bytes", "1048576", "1048575"),
        ("segment.ms", "1", "0"),
        ("segment.jitter.ms", "0", "-1"),
        ("segment.index.bytes", "4", "3"),
        ("flush.messages", "1", "0"),
        ("flush.ms", "0", "-1"),
        ("retention.ms", "-1", "-2"),
        ("max.message.bytes", "0", "-1"),
        ("index.interval.bytes", "0", "-1"),
        ("delete.retention.ms", "0", "-1"),
        ("min.compaction.lag.ms", "0", "-1"),
        ("max.compaction.lag.ms", "1", "0"),
        ("file.delete.delay.ms", "0", "-1"),
        ("min.cleanable.dirty.ratio", "1", "1.5"),
        ("min.insync.replicas", "1", "0"),
        ("compression.type", "uncompressed", "none"),
        ("compression.gzip.level", "-1", "0"),
        ("compression.lz4.level", "17", "18"),
        ("compression.zstd.level", "-131072", "-131073"),
        ("message.timestamp.type", "LogAppendTime", "logappendtime"),
        ("message.timestamp.before.max.ms", "0", "-1"),
        ("message.timestamp.after.max.ms", "0", "-1"),
        ("local.retention.ms", "-2", "-3"),
        ("cleanup.policy", "delete,compact", "Compact"),
        ("leader.replication.throttled.replicas", "0:101,1:102", "0:a"),
        ("follower.replication.throttled.replicas", "*", "*,0:1"),
    ],
)
def test_limits_are_kafkas(name: str, good: str, bad: str) -> None:
    """The last value that Kafka accepts is accepted, and the first that it rejects is rejected."""
    assert LogConfig.parse({name: good}) is not None

    with pytest.raises(InvalidConfig) as caught:
        LogConfig.parse({name: bad})
    assert [problem.split(":")[0] for problem in caught.value.problems] == [name]


@pytest.mark.parametrize(
    "name",
    [
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "message.downconversion.enable",
        "log.retention.ms",
        "retention_ms",
    ],
)
def test_other_names_are_unknown(name: str) -> None:
    """Settings that Kafka 4 removed, broker-level names and field names are not topic settings."""
    with pytest.raises(InvalidConfig, match="unknown"):
        LogConfig.parse({name: "1"})


def test_the_lags_of_compaction_must_not_cross() -> None:
    """A record must not be withheld from the cleaner longer than it may stay uncleaned."""
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms: 5 is more than"):
        LogConfig.parse({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})


def test_a_compacted_log_is_not_tiered() -> None:
    """Tiering needs a log that is deleted, or kept forever."""
    with pytest.raises(InvalidConfig, match=r"remote\.storage\.enable"):
        LogConfig.parse({"remote.storage.enable": "true", "cleanup.policy": "compact"})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("delete", (False, True)),
        ("compact", (True, False)),
        ("compact,delete", (True, True)),
        ("", (False, False)),
    ],
)
def test_policies_are_independent(policy: str, expected: tuple[bool, bool]) -> None:
    """A log may be compacted, deleted, both, or kept forever."""
    config = LogConfig.parse({"cleanup.policy": policy})

    assert (config.is_compacted, config.is_deleted) == expected


@pytest.mark.parametrize("smaller", ["max.message.bytes", "segment.bytes"])
def test_a_batch_is_as_large_as_the_topic_and_a_segment_take(smaller: str) -> None:
    """Whichever of the two limits is lower counts."""
    limits = {"max.message.bytes": "3000000", "segment.bytes": "3000000", smaller: "2000000"}

    assert LogConfig.parse(limits).max_batch_bytes == 2_000_000


def test_the_internal_segment_size_takes_precedence() -> None:
    """Tests can use segments smaller than a topic's minimum."""
    config = LogConfig(segment_bytes=2**20, internal_segment_bytes=100)

    assert (LogConfig().segment_size_bytes, config.segment_size_bytes) == (2**30, 100)


@pytest.mark.parametrize(
    ("policy", "expected"), [(("compact",), HOUR_MS), (("delete",), WEEK_MS), ((), WEEK_MS)]
)
def test_a_compacted_log_rolls_within_its_lag(policy: tuple[str, ...], expected: int) -> None:
    """The active segment is never compacted, so it must roll before a record stays too long."""
    config = LogConfig(cleanup_policy=policy, max_compaction_lag_ms=HOUR_MS)

    assert config.max_segment_ms == expected


def test_overrides_keep_the_other_settings() -> None:
    """Changing one setting keeps those changed before."""
    config = LogConfig.parse({"retention.ms": "1", "flush.ms": "2"})

    changed = config.with_overrides({"flush.ms": "3"})

    assert changed.to_properties() == {"flush.ms": "3", "retention.ms": "1"}


def test_tidelog_keeps_records_for_ever_where_kafka_keeps_them_for_a_week() -> None:
    """That is the only default that differs; nothing is deleted by a rule that nobody gave."""
    ours, theirs = LogConfig(), LogConfig.of_kafka()

    assert (ours.retention_ms, theirs.retention_ms) == (-1, WEEK_MS)
    assert ours.with_overrides({"retention.ms": f"{WEEK_MS}"}) == theirs
