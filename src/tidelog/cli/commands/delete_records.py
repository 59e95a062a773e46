"""``tidelog delete-records``: move a partition's log start offset, and free whole segments."""

from __future__ import annotations

import json
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
from tidelog.errors import InvalidArgument, OffsetOutOfRange

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands
    from tidelog.env.files import FileSystem
    from tidelog.explain.plans.operations import ShrunkLog


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
    """Delete the records below an offset, in one partition or all; if one refuses, in none."""
    from tidelog.cli.operations import print_shrunk, shrunk_as_json
    from tidelog.env.overlay_files import OverlayFiles
    from tidelog.env.system_files import SYSTEM_FILES

    logs = _delete(args, OverlayFiles(SYSTEM_FILES))  # raises before anything is deleted
    if not args.dry_run:
        logs = _delete(args, SYSTEM_FILES)
    for log in logs:
        if args.json:
            print(json.dumps(shrunk_as_json(log)))
        else:
            print_shrunk(log, "would delete" if args.dry_run else "deleted")
    return 0


def _delete(args: Namespace, fs: FileSystem) -> list[ShrunkLog]:
    """Delete the records; over an overlay, the same code finds what would be deleted."""
    from tidelog.cli.operations import open_to_act
    from tidelog.explain.plans.operations import delete_records

    logs = []
    with open_to_act(args, fs, [args.topic], args.partition) as acting:
        for place in acting.places:
            try:
                log = delete_records(acting.manager, *place[:2], args.before)
            except OffsetOutOfRange as error:
                named = error.of_log(f"{place.topic}-{place.partition}")
                raise InvalidArgument(f"{named}; nothing was deleted") from error
            logs.append(log)
    return logs
