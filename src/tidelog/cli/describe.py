"""``tidelog describe``: show topics, their segments, sizes and offsets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.places import find_places
from tidelog.cli.screen import screen_width
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.explain.describe import describe_log
from tidelog.explain.picture import draw_log, format_bytes

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.explain.describe import LogFacts

_COLUMNS = ("base offset", "end offset", ".log", ".index", ".timeindex", ".txnindex")


def run(args: Namespace) -> int:
    """Print a picture and a table of segments for every chosen log; return 1 on damage."""
    width = screen_width()
    is_damaged = False
    for number, place in enumerate(find_places(SYSTEM_FILES, args.directory, args.topics)):
        facts = describe_log(SYSTEM_FILES, place.path)
        is_damaged |= facts.damage is not None
        if args.json:
            print(json.dumps(facts.as_json()))
        else:
            print(("\n" if number else "") + draw_log(facts, width) + _table(facts), end="")
    return int(is_damaged)


def _table(facts: LogFacts) -> str:
    rows = [_COLUMNS]
    rows += [
        (
            f"{segment.base_offset:,}",
            f"{segment.end_offset:,}",
            format_bytes(segment.log_bytes),
            format_bytes(segment.index_bytes),
            format_bytes(segment.time_index_bytes),
            format_bytes(segment.txn_index_bytes),
        )
        for segment in facts.segments
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "".join(f"  {line}\n" for line in lines)
