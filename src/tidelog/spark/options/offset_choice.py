"""Where a read begins and ends, as options say it: offsets, or times that stand for offsets.

Owns the forms of those options and which goes before which. Must not know logs. Spark:
``KafkaSourceProvider.getKafkaOffsetRangeLimit`` and ``JsonUtils``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument
from tidelog.spark.options.option_values import json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.spark.options.option_values import Given

EARLIEST: Final = -2
"""An offset that stands for the log's start. Source: Kafka ListOffsetsRequest."""

LATEST: Final = -1
"""An offset that stands for the log's end."""

TopicPartition = tuple[str, int]

STRATEGY: Final = "startingOffsetsByTimestampStrategy"
STARTING_OPTIONS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDING_OPTIONS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
"""Each one goes before those behind it."""

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """One offset or time (ms) for all partitions, or one each; offsets may be EARLIEST or LATEST.

    ``takes_latest``: a time later than every record means LATEST rather than an error. ``option``
    names where it comes from, for messages.
    """

    value: int | Mapping[TopicPartition, int]
    is_time: bool = False
    takes_latest: bool = True
    option: str = ""

    def of(self, place: TopicPartition) -> int:
        """Return the offset or time for one partition."""
        return self.value if isinstance(self.value, int) else self.value[place]

    @property
    def by_partition(self) -> Mapping[TopicPartition, int] | None:
        """One for each partition named, or None where one is for all."""
        return None if isinstance(self.value, int) else self.value


def starting_choice(given: Given, *, default: int) -> OffsetChoice:
    """Return where to start; a time without a later record is an error unless told otherwise."""
    is_strict = given.one_of(STRATEGY, ("error", "latest")) == "error"
    return _choice(given, STARTING_OPTIONS, default, takes_latest=not is_strict)


def ending_choice(given: Given) -> OffsetChoice:
    """Return where to end, LATEST by default."""
    return _choice(given, ENDING_OPTIONS, LATEST, takes_latest=True)


def refuse_in_batch(choice: OffsetChoice, refused: int) -> None:
    """Raise InvalidArgument for a batch read that starts at LATEST or ends at EARLIEST."""
    word = "latest" if refused == LATEST else "earliest"
    if choice.is_time:
        return
    if choice.value == refused:
        raise InvalidArgument(f"{choice.option} cannot be {word} in a batch read")
    if choice.by_partition is not None and refused in choice.by_partition.values():
        raise InvalidArgument(f"{choice.option}: {refused} ({word}) is not for a batch read")


def _choice(
    given: Given, options: tuple[str, str, str], default: int, *, takes_latest: bool
) -> OffsetChoice:
    for_all, by_time, by_offset = options
    if given.has(for_all):
        time_ms = given.number(for_all, 0, least=0)
        return OffsetChoice(time_ms, is_time=True, takes_latest=takes_latest, option=for_all)
    if (text := given.text(by_time)) is not None:
        form = f'{by_time} takes JSON such as {{"topicA":{{"0":1700000000000}}}}'
        times = _by_partition(text, form, least=0)
        return OffsetChoice(times, is_time=True, takes_latest=takes_latest, option=by_time)
    text = given.text(by_offset)
    if text is None:
        return OffsetChoice(default, option=by_offset)
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return OffsetChoice(word, option=by_offset)
    form = f'{by_offset} takes earliest, latest or JSON such as {{"topicA":{{"0":23,"1":-2}}}}'
    return OffsetChoice(_by_partition(text, form, least=EARLIEST), option=by_offset)


def _by_partition(text: str, form: str, *, least: int) -> dict[TopicPartition, int]:
    values: dict[TopicPartition, int] = {}
    for topic, partitions in json_object(text, form).items():
        if not isinstance(partitions, dict):
            raise InvalidArgument(f"{form}, not {text}")
        for partition, value in partitions.items():
            if not partition.isdecimal() or type(value) is not int or value < least:
                raise InvalidArgument(f"{form}, not {text}")
            values[topic, int(partition)] = value
    return values
