"""``tidelog plan``: say what recovery, retention or compaction would do, by their own code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.commands import compact, recover, retain

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Print the plan; that of a recovery returns 1 if something would be lost."""
    if args.operation == "recovery":
        args.dry_run = True
        return recover.run(args)
    if args.operation == "compaction":
        return compact.apply_compaction(args, is_plan=True)
    return retain.apply_retention(args, is_plan=True)
