"""The options of the data source, parsed into ``ReadOptions`` and ``SinkOptions``.

Where Spark's own Kafka source (``KafkaSourceProvider``) has an option, name, form and default are
the same, so a job moves over with its options.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tidelog.arrow.batch_form import DEFAULT_BATCH_BYTES
from tidelog.arrow.writing.write_options import DEFAULT_BUFFER_BYTES, WriteOptions
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.errors import InvalidArgument, InvalidConfig
from tidelog.readonly.absent_partitions import BY_OPTION
from tidelog.records.isolation import ReadUpTo
from tidelog.spark.options.offset_choice import (
    EARLIEST,
    ENDING_OPTIONS,
    LATEST,
    STARTING_OPTIONS,
    STRATEGY,
    OffsetChoice,
    ending_choice,
    refuse_in_batch,
    starting_choice,
)
from tidelog.spark.options.option_values import OptionMap, json_object
from tidelog.staging.staged_file import check_txn

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.config.log_config import LogConfig

_log = logging.getLogger(__name__)

MEGABYTE: Final = 1 << 20
DEFAULT_SPLIT_BYTES: Final = 128 * MEGABYTE
MIN_SPLIT_BYTES: Final = 64 << 10
DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60_000

FROM_EARLIEST: Final = OffsetChoice(EARLIEST, option=STARTING_OPTIONS[-1])
TO_LATEST: Final = OffsetChoice(LATEST, option=ENDING_OPTIONS[-1])

TABLE: Final = "table"
"""Names a system table, which is read instead of records."""
_ASSIGN: Final = "assign"
STRATEGIES: Final = ("subscribe", "subscribePattern", _ASSIGN)
_ISOLATION: Final = "kafka.isolation.level"
_STREAM_OPTIONS: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
)
_SKIP_DAMAGE: Final = "skipDamage"
ALLOW_PARTIAL: Final = "allowPartialTopics"
"""Reads topics without the partitions that are in other data directories."""
_READ_OPTIONS: Final = (
    *STRATEGIES,
    *reversed(STARTING_OPTIONS),
    *reversed(ENDING_OPTIONS),
    STRATEGY,
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    _ISOLATION,
    "readUpTo",
    "maxSplitBytes",
    "verifyChecksums",
    _SKIP_DAMAGE,
    ALLOW_PARTIAL,
    *_STREAM_OPTIONS,
)
_REFUSED: Final = {
    "kafka.auto.offset.reset": "set startingOffsets instead",
    "kafka.key.deserializer": "keys are bytes; cast them after load()",
    "kafka.value.deserializer": "values are bytes; cast them after load()",
    "kafka.enable.auto.commit": "Spark keeps the offsets of a stream in its checkpoint",
    "kafka.interceptor.classes": "there is no consumer to intercept",
}
"""Options with the reason why they are refused, as Spark's Kafka source refuses them: a job that
sets one relies on an effect that it would not have."""

_REFUSED_IN_WRITES: Final = {
    "kafka.key.serializer": "keys are bytes or strings; cast the column key",
    "kafka.value.serializer": "values are bytes or strings; cast the column value",
    "kafka.partitioner.class": "set the column partition instead",
    "kafka.transactional.id": "each write is a transaction; set txnId to make it repeatable",
    "kafka.interceptor.classes": "there is no producer to intercept",
}
"""The same for writes. Spark: ``KafkaSourceProvider.kafkaParamsForProducer``."""

_PRODUCER_COMPRESSION: Final = "kafka.compression.type"
_STAGING_URI: Final = "stagingUri"
_CREATE_DIRECTORY: Final = "createDirectory"
_WRITE_OPTIONS: Final = (
    _PRODUCER_COMPRESSION,
    "topic",
    "numPartitions",
    "compression",
    "compressionLevel",
    "batchBytes",
    "writeBufferBytes",
    "commitTimeoutMs",
    "includeHeaders",
    _CREATE_DIRECTORY,
    _STAGING_URI,
)
_TXN_ID: Final = "txnId"
_SKIP_OLD_BATCHES: Final = "skipOldBatches"
_ACCEPT_MISSING_BATCHES: Final = "acceptMissingBatches"
_OF_BATCH_WRITES: Final = (_TXN_ID,)
_STREAM_RULES: Final = (_SKIP_OLD_BATCHES, _ACCEPT_MISSING_BATCHES)
_OF_STREAM_WRITES: Final = (*_STREAM_RULES, "checkpointLocation", "queryName")
"""Spark passes its own two on to the sink."""
ONLY_OF_READS: Final = frozenset({*_READ_OPTIONS} - {*_WRITE_OPTIONS})
ONLY_OF_WRITES: Final = frozenset({*_WRITE_OPTIONS, *_OF_BATCH_WRITES} - {*_READ_OPTIONS})
"""A table in Spark's catalog has options for its reads and for its writes."""
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_TOPIC_CONFIG_PREFIX: Final = "config."
ANY_TOPIC_CONFIG: Final = f"{_TOPIC_CONFIG_PREFIX}*"
"""Stands for the settings of topics where an error lists the options there are."""
_OLD_TOPIC_CONFIG_PREFIX: Final = "topic."


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Which partitions to read: exactly one field is set."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None

    def includes(self, topic: str) -> bool:
        """Return whether partitions of a topic are read; a pattern never means internal topics.

        Source: Kafka ``exclude.internal.topics``.
        """
        if self.pattern is not None:
            return topic not in INTERNAL_SETTINGS and self.pattern.search(topic) is not None
        return topic in (self.topics if self.assigned is None else self.assigned)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """How much one micro-batch reads, in offsets and bytes; None: no limit.

    With ``min_offsets`` a batch waits until that many are available, for at most ``max_delay_ms``.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    max_delay_ms: int = DEFAULT_TRIGGER_DELAY_MS

    @classmethod
    def parse(cls, options: OptionMap) -> TriggerLimits:
        """Return the limits of a stream.

        Raises:
            InvalidArgument: a limit is malformed, or the minimum is above the maximum.
        """
        limits = cls(
            max_offsets=options.optional_number("maxOffsetsPerTrigger", minimum=1),
            min_offsets=options.optional_number("minOffsetsPerTrigger", minimum=0),
            max_bytes=options.optional_number("maxBytesPerTrigger", minimum=1),
            max_delay_ms=options.duration_ms("maxTriggerDelay", DEFAULT_TRIGGER_DELAY_MS),
        )
        if None not in (limits.min_offsets, limits.max_offsets) and (
            (limits.min_offsets or 0) > (limits.max_offsets or 0)
        ):
            raise InvalidArgument(
                f"option minOffsetsPerTrigger ({limits.min_offsets}) is above "
                f"maxOffsetsPerTrigger ({limits.max_offsets})"
            )
        return limits

    def names(self) -> list[str]:
        """Return the options of those limits that are set."""
        limits = {
            "maxOffsetsPerTrigger": self.max_offsets,
            "minOffsetsPerTrigger": self.min_offsets,
            "maxBytesPerTrigger": self.max_bytes,
        }
        return [name for name, limit in limits.items() if limit is not None]


NO_LIMITS: Final = TriggerLimits()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one ``load()``.

    ``committed``: read_committed, which leaves out aborted and open transactions.
    ``max_split_bytes``: how many bytes of a log one task reads at most. ``allow_partial``: topics
    are read without the partitions that are in other data directories than ``paths``.
    """

    paths: tuple[str, ...]
    choice: TopicChoice
    starting: OffsetChoice = FROM_EARLIEST
    ending: OffsetChoice = TO_LATEST
    include_headers: bool = False
    fail_on_data_loss: bool = True
    committed: bool = False
    up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK
    max_split_bytes: int = DEFAULT_SPLIT_BYTES
    min_partitions: int = 1
    max_records_per_task: int | None = None
    verify_checksums: bool = True
    skip_damage: bool = False
    allow_partial: bool = False
    limits: TriggerLimits = NO_LIMITS
    is_stream: bool = False

    @property
    def accept(self) -> str | None:
        """How to read topics in part; None: they are, as ``open_directory_read_only`` has it."""
        return None if self.allow_partial else BY_OPTION

    def __post_init__(self) -> None:
        """Raise InvalidArgument for tasks that would be too small."""
        if self.max_split_bytes < MIN_SPLIT_BYTES:
            raise InvalidArgument(
                f"tasks of at most {self.max_split_bytes} bytes are too small: {MIN_SPLIT_BYTES}"
                " is the least"
            )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Return the options of a batch read.

        Raises:
            InvalidArgument: an option is unknown, malformed, or contradicts another.
        """
        checked = _read_options(options)
        read = cls.of_batch(checked)
        of_streams = tuple(name for name in _STREAM_OPTIONS if checked.has(name))
        _log_ignored(checked.ignored + of_streams)
        return read

    @classmethod
    def of_batch(cls, options: OptionMap) -> ReadOptions:
        """Return the options of a batch read; errors as ``parse``."""
        read = cls._parse(options, default_start=EARLIEST)
        refuse_in_batch(read.starting, LATEST)
        refuse_in_batch(read.ending, EARLIEST)
        return read

    @classmethod
    def parse_stream(cls, options: Mapping[str, str]) -> ReadOptions:
        """Return the options of a stream, which starts at the latest offset by default.

        Raises:
            InvalidArgument: an option is unknown, malformed, contradicts another, or sets an end.
        """
        checked = _read_options(options)
        refused = _refused_in_stream(checked)
        if refused is not None:
            raise InvalidArgument(refused)
        _log_ignored(checked.ignored)
        return cls.of_stream(checked)

    @classmethod
    def of_stream(cls, options: OptionMap) -> ReadOptions:
        """Return the options of a stream that sets no end; errors as ``parse_stream``."""
        return replace(cls._parse(options, default_start=LATEST), is_stream=True)

    @classmethod
    def _parse(cls, options: OptionMap, *, default_start: int) -> ReadOptions:
        levels = ("read_uncommitted", "read_committed")
        return cls(
            paths=options.paths(),
            choice=topic_choice(options),
            starting=starting_choice(options, default=default_start),
            ending=ending_choice(options),
            include_headers=options.flag("includeHeaders"),
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            committed=options.one_of(_ISOLATION, levels) == "read_committed",
            up_to=ReadUpTo(options.one_of("readUpTo", tuple(ReadUpTo))),
            max_split_bytes=options.number(
                "maxSplitBytes", DEFAULT_SPLIT_BYTES, minimum=MIN_SPLIT_BYTES
            ),
            min_partitions=options.number("minPartitions", 1, minimum=1),
            max_records_per_task=options.optional_number("maxRecordsPerPartition", minimum=1),
            verify_checksums=options.flag("verifyChecksums", default=True),
            skip_damage=options.flag(_SKIP_DAMAGE),
            allow_partial=options.flag(ALLOW_PARTIAL),
            limits=TriggerLimits.parse(options),
        )


def check_load(options: Mapping[str, str]) -> bool:
    """Check all that ``load()`` can check; return whether ``includeHeaders`` is true.

    Spark does not say then whether a batch or a stream is to be read, so options need to be valid
    for one of them only. A table in its catalog may be for writes only.

    Raises:
        InvalidArgument: an option is unknown, malformed, or contradicts another.
        InvalidConfig: a table's ``config.`` option is unknown or malformed.
    """
    reads = without(options, ONLY_OF_WRITES)
    checked = _read_options(reads)
    if is_catalog_table(options):
        writes = without(options, ONLY_OF_READS)
        if len(writes) > len(without(writes, ONLY_OF_WRITES)):
            SinkOptions.parse(writes).new_topic_config()
    if not is_catalog_table(options) or any(checked.has(name) for name in STRATEGIES):
        if _refused_in_stream(checked) is None:
            ReadOptions.of_stream(checked)
        else:
            ReadOptions.of_batch(checked)
    return checked.flag("includeHeaders")


def _refused_in_stream(options: OptionMap) -> str | None:
    """Return why the options are not those of a stream; None if they may be."""
    for name in ENDING_OPTIONS:
        if options.has(name):
            return f"option {name} is not supported for a stream: it has no end"
    if options.flag(_SKIP_DAMAGE):
        return f"option {_SKIP_DAMAGE} is not supported for a stream"
    return None


def without(options: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the options but those of ``names``, ignoring case.

    With the option ``topic`` the settings of a new topic, such as ``config.retention.ms``, are left
    out, too.
    """
    lower = {name.lower() for name in names}
    settings = (_TOPIC_CONFIG_PREFIX, _OLD_TOPIC_CONFIG_PREFIX) if "topic" in lower else ()
    return {
        name: value
        for name, value in options.items()
        if name.lower() not in lower and not name.lower().startswith(settings)
    }


def is_catalog_table(options: Mapping[str, str]) -> bool:
    """Return whether these are the options of a table in Spark's catalog."""
    return any(name.lower() == "provider" for name in options)


def is_table_read(options: Mapping[str, str]) -> bool:
    """Return whether the options name a system table."""
    return any(name.lower() == TABLE for name in options)


@dataclass(frozen=True, slots=True)
class SinkOptions(WriteOptions):
    """The options of one ``save()``, or of a stream's ``start()``."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool = False) -> SinkOptions:
        """Return the options of a batch write, or of a stream's sink.

        Raises:
            InvalidArgument: an option is unknown or malformed.
        """
        topic_config, others = split_topic_config(options)
        known = (*_WRITE_OPTIONS, *_OF_BATCH_WRITES, *_OF_STREAM_WRITES, ANY_TOPIC_CONFIG)
        checked = OptionMap.checked(others, known)
        _refuse(checked, _REFUSED_IN_WRITES)
        if is_stream and checked.has(_TXN_ID):
            raise InvalidArgument(
                f"option {_TXN_ID} is not supported for a stream: the id of a batch is made of the"
                " query's id and the batch's number"
            )
        for name in () if is_stream else filter(checked.has, _STREAM_RULES):
            raise InvalidArgument(f"option {name} is for streams only")
        txn_id, staging_uri = checked.text(_TXN_ID), checked.text(_STAGING_URI)
        if txn_id is not None:
            check_txn(txn_id)
        if staging_uri is not None:
            from tidelog.store.store_uri import parse_store_uri

            staging_uri = str(parse_store_uri(staging_uri))
        _log_ignored(checked.ignored)
        # Headers are written whenever there is such a column; the option is only checked.
        checked.flag("includeHeaders")
        return cls(
            path=checked.path(),
            topic=checked.text("topic"),
            num_partitions=checked.optional_number("numPartitions", minimum=1),
            topic_config=topic_config,
            compression=checked.optional_one_of("compression", _CODECS)
            or checked.optional_one_of(_PRODUCER_COMPRESSION, _CODECS),
            compression_level=checked.optional_number("compressionLevel"),
            batch_bytes=checked.number("batchBytes", DEFAULT_BATCH_BYTES, minimum=128),
            write_buffer_bytes=checked.number(
                "writeBufferBytes", DEFAULT_BUFFER_BYTES, minimum=MEGABYTE
            ),
            commit_timeout_ms=checked.optional_number("commitTimeoutMs", minimum=0),
            txn_id=txn_id,
            skip_old_batches=checked.flag(_SKIP_OLD_BATCHES),
            accept_missing_batches=checked.flag(_ACCEPT_MISSING_BATCHES),
            staging_uri=staging_uri,
            create_directory=checked.flag(_CREATE_DIRECTORY, default=True),
        )

    def new_topic_config(self) -> LogConfig:
        """Return the config of a new topic; InvalidConfig for a bad ``config.`` option."""
        try:
            return WriteOptions.new_topic_config(self)
        except InvalidConfig as error:
            options = (f"option {_TOPIC_CONFIG_PREFIX}{problem}" for problem in error.problems)
            raise InvalidConfig(tuple(options)) from None


def _read_options(options: Mapping[str, str]) -> OptionMap:
    checked = OptionMap.checked(options, (*_READ_OPTIONS, TABLE))
    _refuse(checked, _REFUSED)
    return _narrowed(checked) if is_catalog_table(options) else checked


def _narrowed(options: OptionMap) -> OptionMap:
    """Return the options of a query that names partitions of the topics of its table.

    Spark passes those of the table and those of ``WITH`` as one.

    Raises:
        InvalidArgument: ``assign`` names a topic that is not one of the table.
    """
    others = {name.lower() for name in STRATEGIES if name != _ASSIGN and options.has(name)}
    if len(others) != 1 or not options.has(_ASSIGN):
        return options
    rest = {name: value for name, value in options.values.items() if name != _ASSIGN}
    of_table = topic_choice(replace(options, values=rest))
    for topic in _assigned(options.text(_ASSIGN) or ""):
        if not of_table.includes(topic):
            raise InvalidArgument(
                f"option assign names topic {topic}, which is not one of the table"
            )
    narrowed = {name: value for name, value in options.values.items() if name not in others}
    return replace(options, values=narrowed)


def _refuse(options: OptionMap, refused: Mapping[str, str]) -> None:
    for name, reason in refused.items():
        if options.has(name):
            raise InvalidArgument(f"option {name} is not supported: {reason}")


def _log_ignored(names: tuple[str, ...]) -> None:
    """Log, in one line, which options have no effect.

    A warning, since Spark's planner shows nothing below that level from Python's logging.
    """
    if names:
        _log.warning("options-ignored: %s", ", ".join(names))


def split_topic_config(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into settings of a new topic, such as ``config.retention.ms``, and others.

    The prefix was ``topic.`` in earlier releases, which still works.
    """
    topic_config: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in options.items():
        prefix, _, setting = name.lower().partition(".")
        if setting and f"{prefix}." in (_TOPIC_CONFIG_PREFIX, _OLD_TOPIC_CONFIG_PREFIX):
            topic_config[setting] = value
        else:
            others[name] = value
    return topic_config, others


def topic_choice(options: OptionMap) -> TopicChoice:
    """Return which partitions are chosen; InvalidArgument unless by exactly one option."""
    chosen = [name for name in STRATEGIES if options.text(name) is not None]
    if len(chosen) != 1:
        found = f"not {' and '.join(chosen)}" if chosen else "none is set"
        raise InvalidArgument(f"set exactly one of {', '.join(STRATEGIES)}; {found}")
    text = options.text(chosen[0]) or ""
    if chosen[0] == _ASSIGN:
        return TopicChoice(assigned=_assigned(text))
    if chosen[0] == "subscribePattern":
        return TopicChoice(pattern=_pattern(text.strip()))
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise InvalidArgument(f"option subscribe must be topics separated by commas, not {text!r}")
    return TopicChoice(topics=topics)


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise InvalidArgument("option subscribePattern must be a regular expression; it is empty")
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument(
            f"option subscribePattern {text!r} is not a valid regular expression: {error}"
        ) from None


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    expected = 'option assign must be JSON such as {"topicA":[0,1],"topicB":[2,4]}'
    chosen = json_object(text, expected)
    for partitions in chosen.values():
        if not isinstance(partitions, list) or not all(type(p) is int for p in partitions):
            raise InvalidArgument(f"{expected}, not {text!r}")
    if not any(chosen.values()):
        raise InvalidArgument(f"{expected}; {text!r} names no partition")
    return {topic: tuple(dict.fromkeys(partitions)) for topic, partitions in chosen.items()}
