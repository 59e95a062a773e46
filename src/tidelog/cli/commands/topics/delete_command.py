"""``tidelog delete``: delete topics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import DRY_RUN, JSON, WHOLE_DIRECTORIES, Command, argument
from tidelog.cli.terminal import print_counts, print_row
from tidelog.explain.printable_text import counted, format_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping


COMMAND: Final = Command(
    "delete",
    "delete topics with all their records",
    (*WHOLE_DIRECTORIES, argument("topics", metavar="TOPIC", nargs="+"), DRY_RUN, JSON),
)


def run(args: Namespace) -> int:
    """Delete the topics with all their records, or with ``--dry-run`` print their sizes only."""
    from tidelog.cli.operations import files_of
    from tidelog.cli.progress import ShownWork
    from tidelog.cli.serving.service_directories import with_others_in_use
    from tidelog.cli.serving.service_requests import perform
    from tidelog.embedded.doors import open_to_change
    from tidelog.env.paths import absolute_path

    paths = list(dict.fromkeys(absolute_path(one) for one in args.directories))
    if args.dry_run:  # a service deletes from all of its directories, whichever is named
        paths = with_others_in_use(paths)
    fs = files_of(args)
    verb = "would be deleted" if args.dry_run else "deleted"

    def show(topic: Mapping[str, Any]) -> None:
        size = f"{counted(topic['partitions'], 'partition')}, {format_bytes(topic['sizeBytes'])}"
        print_row(args, topic, f"{topic['topic']}: {size} {verb}")

    opened = partial(open_to_change, *paths, fs=fs, watcher=ShownWork())
    arguments = {"topics": args.topics}
    topics = perform(args.command, paths[0], arguments, opened, show=show, is_plan=args.dry_run)
    freed = sum(topic["sizeBytes"] for topic in topics)
    print_counts(args, topics=len(topics), freedBytes=freed)
    return 0
