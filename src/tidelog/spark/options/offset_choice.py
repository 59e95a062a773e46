"""Where a read starts and ends: an offset, or a timestamp to look up, for each partition.

Spark: ``KafkaSourceProvider.getKafkaOffsetRangeLimit`` and ``JsonUtils``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument
from tidelog.spark.options.option_values import json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.spark.options.option_values import OptionMap

EARLIEST: Final = -2
"""An offset that stands for the log's start. Source: Kafka ListOffsetsRequest."""

LATEST: Final = -1
"""An offset that stands for the log's end. Source: Kafka ListOffsetsRequest."""

SEPARATOR: Final = "#"
"""Separates a topic from the rest of a name in a checkpoint; no topic's name contains it."""

TopicPartition = tuple[str, int]

STRATEGY: Final = "startingOffsetsByTimestampStrategy"
STARTING_OPTIONS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDING_OPTIONS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
"""In order of precedence: an option overrides those after it."""

_NUMBER: Final = re.compile("0|[1-9][0-9]{0,9}")
"""A partition in JSON. With a zero before it, as 00, one could be named twice."""
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """An offset or a timestamp (ms) for all partitions, or one for each partition.

    ``value`` may hold EARLIEST or LATEST where it holds offsets. ``takes_latest``: a timestamp
    later than that of every record means LATEST; otherwise it is an error. ``option`` is the option
    that made the choice, for error messages.
    """

    value: int | Mapping[TopicPartition, int]
    is_time: bool = False
    takes_latest: bool = True
    option: str = ""

    def of(self, partition: TopicPartition) -> int:
        """Return the offset or timestamp of one partition."""
        return self.value if isinstance(self.value, int) else self.value[partition]

    @property
    def by_partition(self) -> Mapping[TopicPartition, int] | None:
        """The value of each partition, or None if all partitions have the same."""
        return None if isinstance(self.value, int) else self.value


def starting_choice(options: OptionMap, *, default: int) -> OffsetChoice:
    """Return where to start.

    A start timestamp without a record at or after it is an error, unless the option
    ``startingOffsetsByTimestampStrategy`` is ``latest``.
    """
    is_strict = options.one_of(STRATEGY, ("error", "latest")) == "error"
    return _choice(options, STARTING_OPTIONS, default, takes_latest=not is_strict)


def ending_choice(options: OptionMap) -> OffsetChoice:
    """Return where to end, LATEST by default."""
    return _choice(options, ENDING_OPTIONS, LATEST, takes_latest=True)


def refuse_in_batch(choice: OffsetChoice, refused: int) -> None:
    """Raise InvalidArgument for a batch read that starts at LATEST or ends at EARLIEST."""
    word = "latest" if refused == LATEST else "earliest"
    if choice.is_time:
        return
    if choice.value == refused:
        raise InvalidArgument(f"option {choice.option} cannot be {word} in a batch read")
    if choice.by_partition is not None and refused in choice.by_partition.values():
        raise InvalidArgument(
            f"option {choice.option} cannot hold {refused} ({word}) in a batch read"
        )


def _choice(
    options: OptionMap, names: tuple[str, str, str], default: int, *, takes_latest: bool
) -> OffsetChoice:
    for_all, by_time, by_offset = names
    if options.has(for_all):
        return OffsetChoice(
            options.moment(for_all), is_time=True, takes_latest=takes_latest, option=for_all
        )
    if (text := options.text(by_time)) is not None:
        expected = f'option {by_time} must be JSON such as {{"topicA":{{"0":1700000000000}}}}'
        times = _by_partition(text, expected, minimum=0)
        return OffsetChoice(times, is_time=True, takes_latest=takes_latest, option=by_time)
    text = options.text(by_offset)
    if text is None:
        return OffsetChoice(default, option=by_offset)
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return OffsetChoice(word, option=by_offset)
    example = '{"topicA":{"0":23,"1":-2}}'
    expected = f"option {by_offset} must be earliest, latest or JSON such as {example}"
    return OffsetChoice(_by_partition(text, expected, minimum=EARLIEST), option=by_offset)


def _by_partition(text: str, expected: str, *, minimum: int) -> dict[TopicPartition, int]:
    values: dict[TopicPartition, int] = {}
    for topic, partitions in json_object(text, expected).items():
        if SEPARATOR in topic:
            continue
        if not isinstance(partitions, dict):
            raise InvalidArgument(f"{expected}, not {text!r}")
        for partition, value in partitions.items():
            if not _NUMBER.fullmatch(partition) or type(value) is not int or value < minimum:
                raise InvalidArgument(f"{expected}, not {text!r}")
            values[topic, int(partition)] = value
    return values
