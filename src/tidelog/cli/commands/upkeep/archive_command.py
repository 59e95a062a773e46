"""``tidelog archive``: copy closed segments to an object store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import JSON, LOGS, NOW, SERVER_PROPERTIES, SETTINGS, Command, argument
from tidelog.cli.terminal import print_counts, print_row
from tidelog.errors import InvalidArgument
from tidelog.explain.printable_text import counted, format_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

COMMAND: Final = Command(
    "archive",
    "copy the closed segments of topics to an object store, from where they can be read",
    (
        *LOGS,
        argument(
            "--to",
            metavar="URI",
            dest="target",
            required=True,
            help="where the archive is: s3://BUCKET/PREFIX, azure://CONTAINER/PREFIX or"
            " file:///PATH",
        ),
        argument(
            "--continue",
            action="store_true",
            dest="takes_over",
            help="continue an archive that another directory has written, as after this one was"
            " restored from a copy; the other one can then no longer write to it",
        ),
        argument(
            "--follow-start",
            action="store_true",
            dest="follows_start",
            help="let the archive begin where the log does; without it, the archive keeps what"
            " retention has deleted here",
        ),
        argument(
            "--sweep",
            action="store_true",
            dest="sweeps",
            help="delete objects of the archive that nothing needs any more: copies that were"
            " broken off, and what --follow-start left out a day ago or earlier, by the store's"
            " clock",
        ),
        argument(
            "--truncate",
            action="store_true",
            dest="truncates",
            help="remove segments from the archive that the log no longer has, since it was"
            " truncated or put back from an older copy; the records that only the archive has are"
            " lost then",
        ),
        argument(
            "--snapshot",
            metavar="NAME",
            help="copy whole topics to URI/snapshots/NAME instead, compacted ones, too; that is an"
            " archive of its own, which never changes",
        ),
        NOW,
        SETTINGS,
        SERVER_PROPERTIES,
        JSON,
    ),
    epilog="Credentials are not options: each process finds them in its environment, or in the role"
    "\nof its machine.",
)


def run(args: Namespace) -> int:
    """Copy what every chosen log has closed since the last time.

    Returns 1 if a partition of the catalogue is missing.
    """
    from tidelog.cli.partition_choice import chosen_to_change
    from tidelog.cli.serving.service_requests import perform_on, terms_of
    from tidelog.store.store_uri import parse_store_uri

    uri = str(parse_store_uri(args.target))
    others = {
        "takes_over": "--continue",
        "follows_start": "--follow-start",
        "sweeps": "--sweep",
        "truncates": "--truncate",
    }
    for name, option in others.items():
        if args.snapshot is not None and getattr(args, name):
            raise InvalidArgument(f"{option} is for an archive that continues, not for a snapshot")
    chosen = chosen_to_change(args)
    has_loss = chosen.report_missing(args.command)
    arguments = {
        **terms_of(args),
        "are_named": bool(args.topics),
        "to": uri,
        "takes_over": args.takes_over,
        "follows_start": args.follows_start,
        "sweeps": args.sweeps,
        "truncates": args.truncates,
        "snapshot": args.snapshot,
    }
    logs = perform_on(args, chosen.places, arguments, partial(_print, args))
    copied = [segment for row in logs for segment in row["copied"]]
    print_counts(
        args,
        partitions=len(logs),
        segments=len(copied),
        copiedBytes=sum(one["sizeBytes"] for one in copied),
        swept=sum(row["swept"] for row in logs),
        truncated=sum(row["truncated"] for row in logs),
        missing=len(chosen.missing),
    )
    return int(has_loss)


def _print(args: Namespace, row: Mapping[str, Any]) -> None:
    copied = row["copied"]
    size = format_bytes(sum(one["sizeBytes"] for one in copied))
    deleted = f"; deleted {counted(row['swept'], 'object')}" if row["swept"] else ""
    if row["truncated"]:
        deleted = f"; removed {counted(row['truncated'], 'segment')} of another history{deleted}"
    print_row(
        args,
        row,
        f"{row['topic']}-{row['partition']}: copied {counted(len(copied), 'segment')}"
        f"{f' ({size})' if copied else ''}; archived: offsets {row['archiveStartOffset']:,} to"
        f" {row['archiveEndOffset']:,} of {row['logEndOffset']:,};"
        f" {format_bytes(row['waitingBytes'])} not archived yet{deleted}",
    )
