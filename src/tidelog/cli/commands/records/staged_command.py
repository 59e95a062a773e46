"""``tidelog staged``: transactions that are staged, or committed and not applied yet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import DIRECTORY, Command, argument, json_option
from tidelog.cli.terminal import print_counts, print_line, print_row
from tidelog.codec.shown_rows import as_json
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.explain.printable_text import format_bytes, format_time, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.explain.staged_transactions import StagedTransaction

ACTIONS: Final = ("list", "commit", "drop", "forget")
COMMAND: Final = Command(
    "staged",
    "list, finish or drop transactions that are not applied yet; forget committed ones",
    (
        argument("action", choices=ACTIONS, metavar=f"{{{','.join(ACTIONS)}}}"),
        *DIRECTORY,
        argument(
            "txn",
            metavar="TXN",
            nargs="?",
            help="the transaction to drop or forget, or a staged file to drop",
        ),
        json_option("list: print JSON lines instead of text"),
    ),
    epilog="list: committed transactions that are not applied yet, those that wait for the"
    " process\nthat holds the directory, with their deadlines, and staged files\n"
    "commit: apply what is committed; every command that writes does so, too\n"
    "drop: give up what is left of a committed transaction, or one that waits; what is in the\n"
    "logs stays. With the name of a file of (no journal), delete what that attempt has staged\n"
    "forget: let the id of a finished transaction be used again, as for a topic that was\n"
    "deleted and created again; a repeat of it is then written",
)


def run(args: Namespace) -> int:
    """Do one of the four; 3 if a transaction cannot be applied."""
    if (args.action in {"drop", "forget"}) is (args.txn is None):
        raise InvalidArgument(
            "drop and forget need the id of a transaction; list and commit take none"
        )
    if args.json and args.action != "list":
        raise InvalidArgument("--json is for staged list")
    acts = {"list": _list, "commit": _commit, "drop": _drop, "forget": _forget}
    return acts[args.action](args)


def _list(args: Namespace) -> int:
    counts = {"committed": 0, "waiting": 0, "files": 0}
    for row in _rows(args):
        counts["files"] += len(row.files)
        if row.state in counts:
            counts[row.state] += 1
        by_topic = (f"{topic}: {count:,}" for topic, count in row.records.items())
        what = ", ".join(by_topic) or _files_of(row)
        text = f"{row.state}  {row.txn or '(no journal)'}  {what}{_until(row)}"
        print_row(args, as_json(row), printable(text))
    print_counts(args, **counts)
    return 0


def _rows(args: Namespace) -> Iterator[StagedTransaction]:
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.staged_transactions import staged_transactions

    return staged_transactions(SYSTEM_FILES, os.path.abspath(args.directory))


def _files_of(row: StagedTransaction) -> str:
    """Return the names of files; of those that no transaction names, also size, age and end."""
    names = ", ".join(row.files)
    if row.last_written_ms is None or row.size_bytes is None:
        return names
    return (
        f"{format_bytes(row.size_bytes)}, last written {format_time(row.last_written_ms)}; a"
        f" service deletes it tidelog.staged.retention.ms (a week) later, tidelog staged drop at"
        f" once: {names}"
    )


def _until(row: StagedTransaction) -> str:
    if row.deadline_ms is None:
        return ""
    end = format_time(row.deadline_ms)
    if row.state == "waiting":
        return f"  until {end}"
    return f"  in the logs; the process that waited until {end} has not seen it"


def _commit(args: Namespace) -> int:
    from tidelog.cli.progress import ShownWork
    from tidelog.embedded.doors import open_briefly

    before = [row.txn for row in _rows(args) if row.state == "committed"]
    with open_briefly(args.directory, watcher=ShownWork()) as logs:
        logs.manager.staged_commits.settle_manifests()
        pending = logs.manager.staged_commits.pending
        left = {txn: reason for (_, txn), (_, reason) in pending.items()}
    for txn in before:
        if txn not in left:
            print_line(f"{txn}: applied")
    if left:
        raise KafkaStorageError("; ".join(f"{txn}: {reason}" for txn, reason in left.items()))
    return 0


def _drop(args: Namespace) -> int:
    from tidelog.cli.progress import ShownWork
    from tidelog.embedded.doors import open_briefly
    from tidelog.staging.staged_file import is_staged_name

    path, name = os.path.abspath(args.directory), os.path.basename(args.txn)
    is_file = is_staged_name(name)
    with open_briefly(args.directory, watcher=ShownWork()) as logs:
        logs.manager.staged_commits.drop(path, name if is_file else args.txn)
    stays = "dropped; what is in the logs stays"
    print_line(f"{args.txn}: {'deleted, with the rest of its attempt' if is_file else stays}")
    return 0


def _forget(args: Namespace) -> int:
    from tidelog.embedded.doors import open_briefly

    with open_briefly(args.directory) as logs:
        logs.manager.staged_commits.forget(os.path.abspath(args.directory), args.txn)
    print_line(f"{args.txn}: forgotten; a repeat of it is written")
    return 0
