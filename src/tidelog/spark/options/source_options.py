"""The options of the data source: names, forms, and what goes together.

Owns the parsing of options into values. Must not know logs or Spark's classes. Names, forms and
defaults are those of Spark's own Kafka source (``KafkaSourceProvider``) where it has the option.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument
from tidelog.readonly.read_only_log import ReadUpTo
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
from tidelog.spark.options.option_values import Given, json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)

MEGABYTE: Final = 1 << 20
DEFAULT_SPLIT_BYTES: Final = 128 * MEGABYTE
DEFAULT_BATCH_BYTES: Final = 64 << 10
DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60_000

FROM_EARLIEST: Final = OffsetChoice(EARLIEST, option=STARTING_OPTIONS[-1])
TO_LATEST: Final = OffsetChoice(LATEST, option=ENDING_OPTIONS[-1])

_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_ISOLATION: Final = "kafka.isolation.level"
_STREAM_OPTIONS: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
)
_READ_OPTIONS: Final = (
    *_STRATEGIES,
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
    *_STREAM_OPTIONS,
)
_REFUSED: Final = {
    "kafka.auto.offset.reset": "startingOffsets says where to start",
    "kafka.key.deserializer": "keys are bytes; cast them after load()",
    "kafka.value.deserializer": "values are bytes; cast them after load()",
    "kafka.enable.auto.commit": "Spark keeps the offsets of a stream",
    "kafka.interceptor.classes": "there is no consumer for them to look into",
}
"""What Spark's Kafka source refuses too, since a job that sets it expects what does not happen."""

_WRITE_OPTIONS: Final = (
    "topic",
    "numPartitions",
    "compression",
    "compressionLevel",
    "batchBytes",
    "includeHeaders",
)
_TOPIC_SETTING: Final = "topic."


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Which partitions to read: exactly one field is set."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """How much one micro-batch takes: offsets and bytes; None: no limit.

    With ``min_offsets`` a batch waits for that many, ``max_delay_ms`` at most.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    max_delay_ms: int = DEFAULT_TRIGGER_DELAY_MS

    @classmethod
    def parse(cls, given: Given) -> TriggerLimits:
        """Read the options of a stream's limits."""
        limits = cls(
            max_offsets=given.optional_number("maxOffsetsPerTrigger", least=1),
            min_offsets=given.optional_number("minOffsetsPerTrigger", least=0),
            max_bytes=given.optional_number("maxBytesPerTrigger", least=1),
            max_delay_ms=given.duration_ms("maxTriggerDelay", DEFAULT_TRIGGER_DELAY_MS),
        )
        if None not in (limits.min_offsets, limits.max_offsets) and (
            (limits.min_offsets or 0) > (limits.max_offsets or 0)
        ):
            raise InvalidArgument(
                f"minOffsetsPerTrigger ({limits.min_offsets}) is above maxOffsetsPerTrigger "
                f"({limits.max_offsets})"
            )
        return limits


NO_LIMITS: Final = TriggerLimits()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What one ``load()`` reads; ``max_split_bytes`` is how much of a log one task takes.

    ``committed`` leaves out aborted transactions and what is not decided yet.
    """

    path: str
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
    limits: TriggerLimits = NO_LIMITS

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read the options of a batch read; raise InvalidArgument that says what does not hold."""
        given = _read_options(options)
        unused = tuple(name for name in _STREAM_OPTIONS if given.has(name))
        _tell_passed_over(given.passed_over + unused)
        read = cls._parse(given, default_start=EARLIEST)
        refuse_in_batch(read.starting, LATEST)
        refuse_in_batch(read.ending, EARLIEST)
        return read

    @classmethod
    def parse_stream(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read the options of a stream, which starts at the latest offset unless told."""
        given = _read_options(options)
        for name in ENDING_OPTIONS:
            if given.has(name):
                raise InvalidArgument(f"{name} is not for a stream, which has no end")
        _tell_passed_over(given.passed_over)
        return cls._parse(given, default_start=LATEST)

    @classmethod
    def _parse(cls, given: Given, *, default_start: int) -> ReadOptions:
        levels = ("read_uncommitted", "read_committed")
        return cls(
            path=given.path(),
            choice=_choice(given),
            starting=starting_choice(given, default=default_start),
            ending=ending_choice(given),
            include_headers=given.flag("includeHeaders"),
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            committed=given.one_of(_ISOLATION, levels) == "read_committed",
            up_to=ReadUpTo(given.one_of("readUpTo", tuple(ReadUpTo))),
            max_split_bytes=given.number("maxSplitBytes", DEFAULT_SPLIT_BYTES, least=1),
            min_partitions=given.number("minPartitions", 1, least=1),
            max_records_per_task=given.optional_number("maxRecordsPerPartition", least=1),
            verify_checksums=given.flag("verifyChecksums", default=True),
            limits=TriggerLimits.parse(given),
        )


def wants_headers(options: Mapping[str, str]) -> bool:
    """Return whether a read's options, which must have known names, ask for headers."""
    return _read_options(options).flag("includeHeaders")


def is_of_catalogue(options: Mapping[str, str]) -> bool:
    """Return whether these are the options of a table that Spark's catalogue keeps."""
    return any(name.lower() == "provider" for name in options)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How one ``save()`` writes; ``topic`` None takes each row's own, from its column ``topic``.

    ``compression`` None leaves the codec to the topic's setting. ``num_partitions`` (None: not
    given) and ``topic_config`` (settings under Kafka's names) are for topics that do not exist yet.
    """

    path: str
    topic: str | None = None
    num_partitions: int | None = None
    topic_config: Mapping[str, str] = field(default_factory=dict)
    compression: str | None = None
    compression_level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Read the options of a write; raise InvalidArgument that says what does not hold."""
        settings, others = _take_settings(options)
        given = Given.known(others, _WRITE_OPTIONS)
        _tell_passed_over(given.passed_over)
        given.flag("includeHeaders")  # headers are written whenever there is such a column
        return cls(
            path=given.path(),
            topic=given.text("topic"),
            num_partitions=given.optional_number("numPartitions", least=1),
            topic_config=settings,
            compression=given.text("compression"),
            compression_level=given.optional_number("compressionLevel"),
            batch_bytes=given.number("batchBytes", DEFAULT_BATCH_BYTES, least=128),
        )


def _read_options(options: Mapping[str, str]) -> Given:
    given = Given.known(options, _READ_OPTIONS)
    for name, reason in _REFUSED.items():
        if given.has(name):
            raise InvalidArgument(f"option {name} is not supported: {reason}")
    return given


def _tell_passed_over(names: tuple[str, ...]) -> None:
    """Log, in one line, which options mean nothing here.

    A warning, since that is the only level at which Spark's planner shows what Python logs.
    """
    if names:
        _log.warning("options-passed-over: %s", ", ".join(names))


def _take_settings(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Part the settings of a new topic, such as ``topic.retention.ms``, from other options."""
    settings: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in options.items():
        if name.lower().startswith(_TOPIC_SETTING):
            settings[name.lower().removeprefix(_TOPIC_SETTING)] = value
        else:
            others[name] = value
    return settings, others


def _choice(given: Given) -> TopicChoice:
    chosen = [name for name in _STRATEGIES if given.text(name) is not None]
    if len(chosen) != 1:
        what = " and ".join(chosen) + " contradict each other" if chosen else "no topic was chosen"
        raise InvalidArgument(f"{what}; give exactly one of {', '.join(_STRATEGIES)}")
    text = given.text(chosen[0]) or ""
    if chosen[0] == "assign":
        return TopicChoice(assigned=_assigned(text))
    if chosen[0] == "subscribePattern":
        return TopicChoice(pattern=_pattern(text.strip()))
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise InvalidArgument("subscribe names no topic; it takes names with commas between")
    return TopicChoice(topics=topics)


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise InvalidArgument("subscribePattern is empty; it takes a regular expression")
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"subscribePattern {text!r} does not hold: {error}") from None


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    form = 'assign takes JSON such as {"topicA":[0,1],"topicB":[2,4]}'
    chosen = json_object(text, form)
    for partitions in chosen.values():
        if not isinstance(partitions, list) or not all(type(p) is int for p in partitions):
            raise InvalidArgument(f"{form}, not {text}")
    if not any(chosen.values()):
        raise InvalidArgument(f"{form}; {text} names no partition")
    return {topic: tuple(dict.fromkeys(partitions)) for topic, partitions in chosen.items()}
