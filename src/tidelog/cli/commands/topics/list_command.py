"""``tidelog list``: a line for each partition, or topic: offsets, segments, size."""

from __future__ import annotations

import json
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.cli.options import JSON, LOGS, Command, argument
from tidelog.cli.terminal import print_message, table
from tidelog.codec.shown_rows import as_json
from tidelog.explain.printable_text import format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Sequence

    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.explain.listed_partition import ListedPartition, ListedTopic

T = TypeVar("T")
_COLUMNS: Final = (
    *("partition", "log start", "last stable", "high watermark", "log end", "segments", "size"),
)
_TOPIC_COLUMNS: Final = ("topic", "partitions", "offsets", "segments", "size")
_SORTS: Final[dict[str, Callable[[ListedPartition | ListedTopic], int]]] = {
    "size": lambda facts: facts.size_bytes,
    "segments": lambda facts: facts.segments,
    "offsets": lambda facts: facts.offsets,
}
"""What a sort by something other than the name goes by, the greatest first."""


COMMAND: Final = Command(
    "list",
    "list partitions, or topics, one per line: offsets, segments, size",
    (
        *LOGS,
        argument(
            "--topics",
            action="store_true",
            dest="by_topic",
            help="a line for each topic: the sums of its partitions",
        ),
        argument(
            "--sort",
            choices=("name", *_SORTS),
            default="name",
            help="size, segments or offsets: those with the most first (default name)",
        ),
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """Print a line for each partition, or topic; return 1 if a partition is damaged or missing.

    It is 3 if the store of an archive does not answer; partitions in it have no line then. A data
    directory without partitions has a line of titles only.
    """
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.errors import CorruptArchive
    from tidelog.explain.listed_partition import ListedPartition, list_partition

    chosen = chosen_by(args)
    chosen.report_missing(args.command)

    def listed(place: Place) -> ListedPartition:
        try:
            with chosen.open(place) as log:
                return list_partition(log)
        except CorruptArchive as error:  # nothing is known of it; the others are not affected
            return ListedPartition(*place.key, 0, 0, 0, 0, 0, 0, str(error))

    found = chosen.look_past_damage(args.command, listed)
    if args.by_topic:
        return _print_topics(args, chosen, list(found))
    rows: list[tuple[str, ...]] = [_COLUMNS]

    def show(place: Place, facts: ListedPartition) -> bool:
        if args.json:
            print(json.dumps(as_json(facts)))
        else:
            numbers, size = facts[2:7], format_bytes(facts.size_bytes)
            rows.append((printable(str(place.key)), *(f"{one:,}" for one in numbers), size))
        return _report_damage(args, facts)

    key: Callable[[tuple[Place, ListedPartition]], ListedPartition] = itemgetter(1)
    code = chosen.show_each(args, _sorted(found, args.sort, key), show)
    if not args.json:
        print(table(rows, names=1), end="")
    return code


def _print_topics(
    args: Namespace, chosen: ChosenPartitions, found: Sequence[tuple[Place, ListedPartition]]
) -> int:
    """Print a line for each topic; return the exit code."""
    from tidelog.explain.listed_partition import ListedTopic

    by_topic = groupby((facts for _, facts in found), key=attrgetter("topic"))
    topics = [ListedTopic.of(name, list(partitions)) for name, partitions in by_topic]
    rows: list[tuple[str, ...]] = [_TOPIC_COLUMNS]
    for one in _sorted(topics, args.sort, lambda topic: topic):
        if args.json:
            print(json.dumps(as_json(one)))
        numbers, size = one[1:4], format_bytes(one.size_bytes)
        rows.append((printable(one.topic), *(f"{number:,}" for number in numbers), size))
    if not args.json:
        print(table(rows, names=1), end="")
    return chosen.show_each(args, found, lambda _, facts: _report_damage(args, facts))


def _report_damage(args: Namespace, facts: ListedPartition) -> bool:
    """Print what damage a partition has; return whether it has any."""
    if facts.damage is not None:
        print_message(args.command, facts.damage)
    return facts.damage is not None


def _sorted(
    found: Iterable[T], by: str, facts: Callable[[T], ListedPartition | ListedTopic]
) -> Iterable[T]:
    """Return what was found with the most first; of equal ones, and by name, as they come."""
    if by == "name":
        return found
    amount = _SORTS[by]
    return sorted(found, key=lambda one: amount(facts(one)), reverse=True)
