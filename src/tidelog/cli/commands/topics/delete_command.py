"""``tidelog delete``: delete topics."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import DIRECTORY, DRY_RUN, JSON, Command, argument
from tidelog.cli.terminal import print_counts, print_row
from tidelog.explain.printable_text import counted, format_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping


COMMAND: Final = Command(
    "delete",
    "delete topics with all their records",
    (*DIRECTORY, argument("topics", metavar="TOPIC", nargs="+"), DRY_RUN, JSON),
)


def run(args: Namespace) -> int:
    """Delete the topics with all their records, or with ``--dry-run`` print their sizes only."""
    from tidelog.cli.operations import files_of
    from tidelog.cli.progress import ShownWork
    from tidelog.cli.serving.service_requests import perform
    from tidelog.embedded.doors import open_to_change

    path = os.path.abspath(args.directory)
    fs = files_of(args)
    verb = "would be deleted" if args.dry_run else "deleted"

    def show(topic: Mapping[str, Any]) -> None:
        size = f"{counted(topic['partitions'], 'partition')}, {format_bytes(topic['sizeBytes'])}"
        print_row(args, topic, f"{topic['topic']}: {size} {verb}")

    opened = partial(open_to_change, path, fs=fs, watcher=ShownWork())
    arguments = {"topics": args.topics}
    topics = perform(args.command, path, arguments, opened, show=show, is_plan=args.dry_run)
    freed = sum(topic["sizeBytes"] for topic in topics)
    print_counts(args, topics=len(topics), freedBytes=freed)
    return 0
