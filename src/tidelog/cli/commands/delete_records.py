"""``tidelog delete-records``: move a partition's log start offset, and free whole segments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.cli.arguments import offset_or_high_watermark
from tidelog.cli.options import (
    add_directory,
    add_dry_run,
    add_json,
    add_now,
    add_partition,
    add_settings,
    add_topic,
    new_parser,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands


def add_parser(commands: Commands) -> None:
    """Add ``tidelog delete-records`` to the command line."""
    text = "delete a topic's records below an offset"
    parser = new_parser(commands, "delete-records", text, run)
    add_topic(parser)
    add_directory(parser, may_be_partition=True)
    parser.add_argument(
        "--before",
        type=offset_or_high_watermark,
        required=True,
        metavar="OFFSET",
        help="the new log start offset; -1: the high watermark",
    )
    add_partition(parser)
    add_dry_run(parser)
    add_now(parser)
    add_settings(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Delete the records below an offset, in one partition or all; if one refuses, in none.

    Returns 1 if a partition of the catalogue is missing.
    """
    from tidelog.cli.operations import files_of, manager_of, print_shrunk_counts, shrunk_printer
    from tidelog.cli.partition_choice import choose_to_change
    from tidelog.cli.service_requests import (
        numbers_by_topic,
        perform,
        perform_here,
        perform_printing,
    )
    from tidelog.env.system_files import SYSTEM_FILES

    chosen = choose_to_change(SYSTEM_FILES, args.directory, [args.topic], args.partition)
    has_loss = chosen.report_missing(args.command)
    places, missing = chosen.places, len(chosen.missing)
    if not places:
        if args.json:
            print_shrunk_counts([], missing=missing)
        return int(has_loss)
    fs = files_of(args)
    act = perform_here if args.dry_run else perform
    arguments = {
        "partitions": numbers_by_topic(places),
        "before": args.before,
        "settings": dict(args.options),
        "now_ms": args.now,
    }
    path = os.path.dirname(places[0].path)
    request = (args.command, path, arguments, lambda: manager_of(args, places, fs))
    show = shrunk_printer(args, "would delete" if args.dry_run else "deleted")
    logs = perform_printing(act, request, show)
    if args.json:
        print_shrunk_counts(logs, missing=missing)
    return int(has_loss)
