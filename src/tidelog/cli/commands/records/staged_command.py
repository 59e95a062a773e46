"""``tidelog staged``: transactions that are staged, or committed and not applied yet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import DIRECTORY, Command, argument, json_option
from tidelog.cli.terminal import print_counts, print_line, print_row
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.explain.printable_text import format_bytes, format_time, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.env.files import FileStat

_NOT_LOOKED_AT: Final = {"sizeBytes": None, "lastWrittenMs": None}
"""Of the files of a transaction: they stay until it is applied."""

COMMAND: Final = Command(
    "staged",
    "list, finish or drop transactions that are not applied yet; forget committed ones",
    (
        argument("action", choices=("list", "commit", "drop", "forget")),
        *DIRECTORY,
        argument("txn", metavar="TXN", nargs="?", help="the transaction to drop or forget"),
        json_option("list: print JSON lines instead of text"),
    ),
    epilog="list: committed transactions that are not applied yet, those that wait for the"
    " process\nthat holds the directory, with their deadlines, and staged files\n"
    "commit: apply what is committed; every command that writes does so, too\n"
    "drop: give up what is left of a committed transaction, or one that waits; what is in the\n"
    "logs stays\n"
    "forget: let the id of a finished transaction be used again, as for a topic that was\n"
    "deleted and created again; a repeat of it is then written",
)


def run(args: Namespace) -> int:
    """Do one of the four; 3 if a transaction cannot be applied."""
    if (args.action in {"drop", "forget"}) is (args.txn is None):
        raise InvalidArgument(
            "drop and forget need the id of a transaction; list and commit take none"
        )
    acts = {"list": _list, "commit": _commit, "drop": _drop, "forget": _forget}
    return acts[args.action](args)


def _list(args: Namespace) -> int:
    counts = {"committed": 0, "waiting": 0, "files": 0}
    for row in _rows(os.path.abspath(args.directory)):
        counts["files"] += len(row["files"])
        if row["state"] in counts:
            counts[row["state"]] += 1
        by_topic = (f"{topic}: {count:,}" for topic, count in row["records"].items())
        what = ", ".join(by_topic) or _files_of(row)
        text = f"{row['state']}  {row['txn'] or '(no journal)'}  {what}{_until(row)}"
        print_row(args, row, printable(text))
    print_counts(args, **counts)
    return 0


def _files_of(row: dict[str, Any]) -> str:
    """Return the names of files; of those that no transaction names, also size, age and end."""
    names = ", ".join(row["files"])
    if row["lastWrittenMs"] is None:
        return names
    return (
        f"{format_bytes(row['sizeBytes'])}, last written {format_time(row['lastWrittenMs'])}; a"
        f" service deletes it tidelog.staged.retention.ms (a week) later: {names}"
    )


def _until(row: dict[str, Any]) -> str:
    if row["deadlineMs"] is None:
        return ""
    end = format_time(row["deadlineMs"])
    if row["state"] == "waiting":
        return f"  until {end}"
    return f"  in the logs; the process that waited until {end} has not seen it"


def _rows(directory: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each journal and for each transaction that waits for the directory.

    Then one for each attempt whose staged files none of them names.
    """
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.staging.journal import journals
    from tidelog.staging.ready import waiting
    from tidelog.staging.ready_expiry import applied

    named: set[str] = set()
    for journal in journals(SYSTEM_FILES, directory):
        named |= journal.files
        yield {
            "txn": journal.txn,
            "state": "committed",
            "timeMs": journal.time_ms,
            "deadlineMs": None,
            "records": dict(journal.records),
            "partitions": [list(key) for key in journal.keys],
            "files": sorted(journal.files),
            **_NOT_LOOKED_AT,
        }
    for manifest in filter(None, waiting(SYSTEM_FILES, directory)):
        one, done = manifest.transaction, applied(SYSTEM_FILES, directory, manifest.transaction)
        if done is not None:
            yield {
                "txn": one.txn,
                "state": "applied",
                "timeMs": done.time_ms,
                "deadlineMs": manifest.deadline_ms,
                "records": dict(done.records),
                "partitions": [list(key) for key in one.keys],
                "files": [],
                **_NOT_LOOKED_AT,
            }
            continue
        files = {run.name for run in one.runs} - named
        if not files and one.runs:
            continue  # it is committed by now
        named |= files
        yield {
            "txn": one.txn,
            "state": "waiting",
            "timeMs": None,
            "deadlineMs": manifest.deadline_ms,
            "records": one.records,
            "partitions": [list(key) for key in one.keys],
            "files": sorted(files),
            **_NOT_LOOKED_AT,
        }
    yield from _attempts(directory, named)


def _attempts(directory: str, named: set[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each attempt whose staged files are not ``named``."""
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.staging.staged_file import attempt_of, list_staged

    attempts: dict[str, list[str]] = {}
    for name in list_staged(SYSTEM_FILES, directory):
        if name not in named:
            attempts.setdefault(attempt_of(name), []).append(name)
    for names in attempts.values():
        found = list(filter(None, (_stat(directory, name) for name in names)))
        if found:  # else they were deleted by now
            yield {
                "txn": None,
                "state": "staged",
                "timeMs": None,
                "deadlineMs": None,
                "records": {},
                "partitions": [],
                "files": names,
                "sizeBytes": sum(one.size_bytes for one in found),
                "lastWrittenMs": max(one.mtime_ms for one in found),
            }


def _stat(directory: str, name: str) -> FileStat | None:
    from tidelog.env.system_files import SYSTEM_FILES

    try:
        return SYSTEM_FILES.stat(os.path.join(directory, name))
    except FileNotFoundError:  # its writer has just deleted it
        return None


def _committed(directory: str) -> list[dict[str, Any]]:
    """Return the rows of journals."""
    return [row for row in _rows(directory) if row["state"] == "committed"]


def _commit(args: Namespace) -> int:
    from tidelog.cli.progress import ShownWork
    from tidelog.embedded.doors import open_briefly

    before = [row["txn"] for row in _committed(os.path.abspath(args.directory))]
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

    with open_briefly(args.directory, watcher=ShownWork()) as logs:
        logs.manager.staged_commits.drop(os.path.abspath(args.directory), args.txn)
    print_line(f"{args.txn}: dropped; what is in the logs stays")
    return 0


def _forget(args: Namespace) -> int:
    from tidelog.embedded.doors import open_briefly

    with open_briefly(args.directory) as logs:
        logs.manager.staged_commits.forget(os.path.abspath(args.directory), args.txn)
    print_line(f"{args.txn}: forgotten; a repeat of it is written")
    return 0
