"""``tidelog list``: a line for each partition: offsets, segments, size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import add_json, add_topics, new_parser

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands
    from tidelog.cli.partition_choice import Place

_COLUMNS: Final = (
    *("partition", "log start", "last stable", "high watermark", "log end", "segments", "size"),
)


def add_parser(commands: Commands) -> None:
    """Add ``tidelog list`` to the command line."""
    text = "list partitions: offsets, segments, size, a line each"
    parser = new_parser(commands, "list", text, run)
    add_topics(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Print a line for each partition; return 1 if one is damaged or missing."""
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.cli.terminal import print_message, printable, table
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.picture import format_bytes

    chosen = choose_partitions(SYSTEM_FILES, args.directory, args.topics)
    has_loss = chosen.report_missing(args.command)

    def facts_of(place: Place) -> tuple[dict[str, Any], str | None]:
        with chosen.open(place) as log:
            offsets = log.offsets()
            facts = {
                "topic": place.topic,
                "partition": place.partition,
                "logStartOffset": offsets.log_start_offset,
                "lastStableOffset": offsets.last_stable_offset,
                "highWatermark": offsets.high_watermark,
                "logEndOffset": offsets.log_end_offset,
                "segments": len(log.segments),
                "sizeBytes": log.size_bytes,
            }
            return facts, None if log.damage is None else str(log.damage)

    rows: list[tuple[str, ...]] = [_COLUMNS]
    for place, (facts, damage) in chosen.look(args.command, facts_of):
        if damage is not None:
            has_loss = True
            print_message(args.command, damage)
        if args.json:
            print(json.dumps(facts))
            continue
        numbers = list(facts.values())[2:-1]
        size = format_bytes(facts["sizeBytes"])
        rows.append((printable(str(place.key)), *(f"{one:,}" for one in numbers), size))
    if not args.json:
        print(table(rows, names=1), end="")
    return int(has_loss)
