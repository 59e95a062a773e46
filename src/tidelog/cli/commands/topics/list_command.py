"""``tidelog list``: a line for each partition: offsets, segments, size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import JSON, LOGS, Command, argument
from tidelog.cli.terminal import print_message, table
from tidelog.codec.shown_rows import as_json
from tidelog.explain.printable_text import format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from tidelog.cli.partition_choice import Place
    from tidelog.explain.listed_partition import ListedPartition

_COLUMNS: Final = (
    *("partition", "log start", "last stable", "high watermark", "log end", "segments", "size"),
)
_SORTS: Final[dict[str, Callable[[ListedPartition], int]]] = {
    "size": lambda facts: facts.size_bytes,
    "segments": lambda facts: facts.segments,
    "offsets": lambda facts: facts.log_end_offset - facts.log_start_offset,
}
"""What a sort by something other than the name goes by, the greatest first."""


COMMAND: Final = Command(
    "list",
    "list partitions, one per line: offsets, segments, size",
    (
        *LOGS,
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
    """Print a line for each partition; return 1 if one is damaged or missing.

    A data directory without partitions has a line of titles only.
    """
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.explain.listed_partition import list_partition

    chosen = chosen_by(args)
    chosen.report_missing(args.command)

    def facts_of(place: Place) -> ListedPartition:
        with chosen.open(place) as log:
            return list_partition(log)

    rows: list[tuple[str, ...]] = [_COLUMNS]

    def show(place: Place, facts: ListedPartition) -> bool:
        if facts.damage is not None:
            print_message(args.command, facts.damage)
        if args.json:
            print(json.dumps(as_json(facts)))
        else:
            numbers, size = facts[2:7], format_bytes(facts.size_bytes)
            rows.append((printable(str(place.key)), *(f"{one:,}" for one in numbers), size))
        return facts.damage is not None

    code = chosen.show_each(args, _sorted(chosen.look(args.command, facts_of), args.sort), show)
    if not args.json:
        print(table(rows, names=1), end="")
    return code


def _sorted(
    found: Iterable[tuple[Place, ListedPartition]], by: str
) -> Iterable[tuple[Place, ListedPartition]]:
    """Return partitions with the most first; of equal ones, and by name, as they come."""
    if by == "name":
        return found
    amount = _SORTS[by]
    return sorted(found, key=lambda one: amount(one[1]), reverse=True)
