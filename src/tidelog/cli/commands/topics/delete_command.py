"""``tidelog delete``: delete topics."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import DIRECTORY, DRY_RUN, JSON, Command, argument

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
    from tidelog.cli.serving.service_requests import perform, perform_here, perform_printing
    from tidelog.cli.terminal import counted, print_counts
    from tidelog.embedded.doors import open_to_change
    from tidelog.explain.picture import format_bytes

    path = os.path.abspath(args.directory)
    fs = files_of(args)
    act = perform_here if args.dry_run else perform
    verb = "would be deleted" if args.dry_run else "deleted"

    def show(topic: Mapping[str, Any]) -> None:
        if args.json:
            print(json.dumps(topic))
            return
        partitions = counted(topic["partitions"], "partition")
        print(f"{topic['topic']}: {partitions}, {format_bytes(topic['sizeBytes'])} {verb}")

    opened = partial(open_to_change, path, fs=fs, watcher=ShownWork())
    topics = perform_printing(act, (args.command, path, {"topics": args.topics}, opened), show)
    if args.json:
        print_counts(topics=len(topics), freedBytes=sum(topic["sizeBytes"] for topic in topics))
    return 0
