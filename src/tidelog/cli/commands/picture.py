"""``tidelog picture``: draw logs as text; with ``--json``, the same facts as ``describe``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.arguments import columns
from tidelog.cli.options import add_json, add_topics, new_parser

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands


def add_parser(commands: Commands) -> None:
    """Add ``tidelog picture`` to the command line."""
    text = "draw logs as text: segments, offsets, watermarks"
    parser = new_parser(commands, "picture", text, run)
    add_topics(parser)
    parser.add_argument(
        "--width",
        type=columns,
        metavar="COLUMNS",
        help="width of the drawing (default: the terminal's)",
    )
    add_json(parser)


def run(args: Namespace) -> int:
    """Draw every chosen log; return 1 if one is damaged, lacks a segment, or is missing."""
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.cli.terminal import screen_width
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.picture import draw_log

    width = args.width or screen_width()
    chosen = choose_partitions(SYSTEM_FILES, args.directory, args.topics)
    has_loss = False
    shown = chosen.describe(args.command, is_printed=not args.json)
    for number, (_, facts) in enumerate(shown):
        if args.json:
            print(json.dumps(facts.as_json()))
        else:
            print(("\n" if number else "") + draw_log(facts, width), end="")
        has_loss |= facts.has_loss
    has_loss |= chosen.report_missing(args.command)
    return int(has_loss)
