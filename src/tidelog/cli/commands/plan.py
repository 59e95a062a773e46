"""``tidelog plan``: print what recovery, retention or compaction would do, by their own code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.options import (
    add_full,
    add_json,
    add_now,
    add_settings,
    add_topics,
    new_parser,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands


def add_parser(commands: Commands) -> None:
    """Add ``tidelog plan`` to the command line."""
    text = "print what an operation would do, without changing anything"
    parser = new_parser(commands, "plan", text, run)
    parser.add_argument("operation", choices=("recovery", "retention", "compaction"))
    add_topics(parser)
    add_full(parser)
    add_now(parser)
    add_settings(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Print the plan; that of a recovery returns 1 if something would be lost."""
    from tidelog.cli.commands import compact, recover, retain

    if args.operation == "recovery":
        args.dry_run = True
        return recover.run(args)
    if args.operation == "compaction":
        return compact.apply_compaction(args, is_plan=True)
    return retain.apply_retention(args, is_plan=True)
