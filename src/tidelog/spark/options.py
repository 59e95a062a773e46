"""The options of the data source: names, forms, and what goes together.

Owns the parsing of options into values. Must not know logs or Spark's classes. Names, forms and
defaults are those of Spark's own Kafka source (``KafkaSourceProvider``) where it has the option.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)

EARLIEST: Final = -2
"""An offset that stands for the log's start. Source: Kafka ListOffsetsRequest."""

LATEST: Final = -1
"""An offset that stands for the log's end."""

TopicPartition = tuple[str, int]
OffsetChoice = int | dict[TopicPartition, int]
"""``EARLIEST`` or ``LATEST`` for all partitions, or an offset (or one of the two) for each."""

MEGABYTE: Final = 1 << 20
DEFAULT_SPLIT_BYTES: Final = 128 * MEGABYTE
DEFAULT_BATCH_BYTES: Final = 64 << 10

_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_READ_OPTIONS: Final = (
    *_STRATEGIES,
    "startingOffsets",
    "endingOffsets",
    "includeHeaders",
    "maxSplitBytes",
    "minPartitions",
)
_WRITE_OPTIONS: Final = (
    "topic",
    "numPartitions",
    "compression",
    "compressionLevel",
    "batchBytes",
    "includeHeaders",
)
_TOPIC_SETTING: Final = "topic."
_SPARK_OPTIONS: Final = ("path", "paths", "location", "owner", "provider")
"""What Spark itself passes, for a path and for a table in its catalogue."""

_OF_A_CONSUMER: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Options of the Kafka source that mean nothing without a broker, accepted and passed over."""


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Which partitions to read: exactly one field is set."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What one ``load()`` reads; ``max_split_bytes`` is how much of a log one task takes."""

    path: str
    choice: TopicChoice
    starting: OffsetChoice = EARLIEST
    ending: OffsetChoice = LATEST
    include_headers: bool = False
    max_split_bytes: int = DEFAULT_SPLIT_BYTES
    min_partitions: int = 1

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read the options of a batch read; raise InvalidArgument that says what does not hold."""
        given = _Given.known(options, _READ_OPTIONS)
        return cls(
            path=given.path(),
            choice=_choice(given),
            starting=_offsets(given, "startingOffsets", default=EARLIEST, refused=LATEST),
            ending=_offsets(given, "endingOffsets", default=LATEST, refused=EARLIEST),
            include_headers=given.flag("includeHeaders"),
            max_split_bytes=given.number("maxSplitBytes", DEFAULT_SPLIT_BYTES, least=1),
            min_partitions=given.number("minPartitions", 1, least=1),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How one ``save()`` writes; ``topic`` None takes each row's own, from its column ``topic``.

    ``compression`` None leaves the codec to the topic's setting. ``num_partitions`` and
    ``topic_config`` (settings under Kafka's names) are for topics that do not exist yet.
    """

    path: str
    topic: str | None = None
    num_partitions: int = 1
    topic_config: Mapping[str, str] = field(default_factory=dict)
    compression: str | None = None
    compression_level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Read the options of a write; raise InvalidArgument that says what does not hold."""
        settings, others = _take_settings(options)
        given = _Given.known(others, _WRITE_OPTIONS)
        given.flag("includeHeaders")  # headers are written whenever there is such a column
        level = given.text("compressionLevel")
        return cls(
            path=given.path(),
            topic=given.text("topic"),
            num_partitions=given.number("numPartitions", 1, least=1),
            topic_config=settings,
            compression=given.text("compression"),
            compression_level=None if level is None else given.number("compressionLevel", 0),
            batch_bytes=given.number("batchBytes", DEFAULT_BATCH_BYTES, least=128),
        )


@dataclass(frozen=True, slots=True)
class _Given:
    """Options as given, by lower-case name: Spark does not keep the case."""

    values: Mapping[str, str]
    known_names: tuple[str, ...] = field(default=())

    @classmethod
    def known(cls, options: Mapping[str, str], names: tuple[str, ...]) -> _Given:
        """Take the options, refusing what is neither ours nor to be passed over."""
        values = {name.lower(): value for name, value in options.items()}
        accepted = {name.lower() for name in (*names, *_SPARK_OPTIONS)}
        for name, value in values.items():
            if name not in accepted:
                _pass_over(name, value, names)
        return cls(values, names)

    def text(self, name: str) -> str | None:
        """Return the option's text, or None when it was not given."""
        return self.values.get(name.lower())

    def flag(self, name: str) -> bool:
        """Return whether a true or false option was given as true."""
        value = (self.text(name) or "false").strip().lower()
        if value not in ("true", "false"):
            raise InvalidArgument(f"option {name} is true or false, not {value!r}")
        return value == "true"

    def number(self, name: str, default: int, least: int | None = None) -> int:
        """Return a whole number, at least ``least``."""
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise InvalidArgument(f"option {name} is a whole number, not {text!r}") from None
        if least is not None and value < least:
            raise InvalidArgument(f"option {name} must be at least {least}, not {value}")
        return value

    def path(self) -> str:
        """Return the data directory: the one path given, which may be a ``file:`` URI."""
        paths = json.loads(self.values.get("paths", "[]"))
        if self.values.get("path"):
            paths = [self.values["path"]]
        if len(paths) != 1:
            raise InvalidArgument(
                f"{len(paths)} paths were given; a read or write takes one data directory: "
                ".load('/path/to/data')"
            )
        return local_path(str(paths[0]))


def local_path(path: str) -> str:
    """Return a path on this machine from a path or a ``file:`` URI."""
    parts = urlsplit(path)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    if "://" in path:
        raise InvalidArgument(f"{path} is not on this machine; only local directories are read")
    return path


def _pass_over(name: str, value: str, names: tuple[str, ...]) -> None:
    """Take note of an option that means nothing here, or refuse one that nobody knows."""
    if name == "kafka.isolation.level" and value != "read_uncommitted":
        raise InvalidArgument(
            f"kafka.isolation.level={value} is not read yet: aborted records show"
        )
    if name.startswith("kafka.") or name in {known.lower() for known in _OF_A_CONSUMER}:
        _log.info("option-passed-over: %s means nothing without a broker", name)
        return
    spelled = {known.lower(): known for known in names}
    near = [spelled[match] for match in get_close_matches(name, spelled)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
    raise InvalidArgument(f"unknown option {name}; {hint}")


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


def _choice(given: _Given) -> TopicChoice:
    chosen = [name for name in _STRATEGIES if given.text(name) is not None]
    if len(chosen) != 1:
        what = " and ".join(chosen) + " contradict each other" if chosen else "no topic was chosen"
        raise InvalidArgument(f"{what}; give exactly one of {', '.join(_STRATEGIES)}")
    text = given.text(chosen[0]) or ""
    if chosen[0] == "assign":
        return TopicChoice(assigned=_assigned(text))
    if chosen[0] == "subscribePattern":
        try:
            return TopicChoice(pattern=re.compile(text))
        except re.error as error:
            raise InvalidArgument(f"subscribePattern {text!r} does not hold: {error}") from None
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise InvalidArgument("subscribe names no topic; it takes names with commas between")
    return TopicChoice(topics=topics)


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    form = 'assign takes JSON such as {"topicA":[0,1],"topicB":[2,4]}'
    chosen = _json_object(text, form)
    for partitions in chosen.values():
        if not isinstance(partitions, list) or not all(type(p) is int for p in partitions):
            raise InvalidArgument(f"{form}, not {text}")
    if not any(chosen.values()):
        raise InvalidArgument(f"{form}; {text} names no partition")
    return {topic: tuple(dict.fromkeys(partitions)) for topic, partitions in chosen.items()}


def _offsets(given: _Given, name: str, *, default: int, refused: int) -> OffsetChoice:
    text = given.text(name)
    words = {"earliest": EARLIEST, "latest": LATEST}
    refused_word = "latest" if refused == LATEST else "earliest"
    if text is None:
        return default
    choice = words.get(text.strip().lower())
    if choice is None:
        choices = _offsets_by_partition(name, text)
        if refused in choices.values():
            raise InvalidArgument(f"{name}: {refused} ({refused_word}) is not for a batch read")
        return choices
    if choice == refused:
        raise InvalidArgument(f"{name} cannot be {refused_word} in a batch read")
    return choice


def _offsets_by_partition(name: str, text: str) -> dict[TopicPartition, int]:
    form = f'{name} takes earliest, latest or JSON such as {{"topicA":{{"0":23,"1":-2}}}}'
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(text, form).items():
        if not isinstance(partitions, dict):
            raise InvalidArgument(f"{form}, not {text}")
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST:
                raise InvalidArgument(f"{form}, not {text}")
            offsets[topic, int(partition)] = offset
    return offsets


def _json_object(text: str, form: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidArgument(f"{form}, not {text}")
    return value
