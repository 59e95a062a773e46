"""Transactions that are staged, or committed and not applied yet, from a directory's files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from tidelog.codec.shown_rows import Stored
from tidelog.staging.journal import journals
from tidelog.staging.ready import waiting
from tidelog.staging.ready_expiry import applied
from tidelog.staging.staged_file import attempt_of, list_staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import FileStat, FileSystem


@dataclass(frozen=True, slots=True)
class StagedTransaction:
    """A transaction, or the staged files that no transaction names."""

    txn: Annotated[str | None, "Id of the transaction; null: none names these files."]
    state: Annotated[
        Literal["committed", "waiting", "applied", "staged"],
        "committed: not applied yet; waiting: for the process that holds the directory; applied: in"
        " the logs, and its process has not seen that; staged: not committed.",
    ]
    time_ms: Annotated[int | None, Stored.TIME, "When it was committed; null: it is not."] = None
    deadline_ms: Annotated[
        int | None, Stored.TIME, "When it is not committed any more; null: none waits."
    ] = None
    records: Annotated[dict[str, Annotated[int, "Number of records."]], "Records by topic."] = (
        field(default_factory=dict)
    )
    partitions: Annotated[
        tuple[tuple[str, int], ...],
        "Partitions that it writes to, each a list of topic and number.",
    ] = ()
    files: Annotated[
        tuple[Annotated[str, "Name of a file."], ...], "Files that hold its records."
    ] = ()
    size_bytes: Annotated[
        int | None, "Size of files that no transaction names, in bytes; null: one names them."
    ] = None
    last_written_ms: Annotated[
        int | None, Stored.TIME, "When these were last written to; null: as above."
    ] = None


def staged_transactions(fs: FileSystem, directory: str) -> Iterator[StagedTransaction]:
    """Yield each journal, and each transaction that waits for the directory.

    Then each attempt whose staged files none of them names.
    """
    named: set[str] = set()
    for journal in journals(fs, directory):
        named |= journal.files
        yield StagedTransaction(
            journal.txn,
            "committed",
            time_ms=journal.time_ms,
            records=dict(journal.records),
            partitions=tuple(journal.keys),
            files=tuple(sorted(journal.files)),
        )
    for manifest in filter(None, waiting(fs, directory)):
        one, done = manifest.transaction, applied(fs, directory, manifest.transaction)
        files = set() if done is not None else {run.name for run in one.runs} - named
        if done is None and not files and one.runs:
            continue  # it is committed by now
        named |= files
        yield StagedTransaction(
            one.txn,
            "waiting" if done is None else "applied",
            time_ms=None if done is None else done.time_ms,
            deadline_ms=manifest.deadline_ms,
            records=dict(one.records if done is None else done.records),
            partitions=tuple(one.keys),
            files=tuple(sorted(files)),
        )
    yield from _attempts(fs, directory, named)


def _attempts(fs: FileSystem, directory: str, named: set[str]) -> Iterator[StagedTransaction]:
    """Yield each attempt whose staged files are not ``named``."""
    attempts: dict[str, list[str]] = {}
    for name in list_staged(fs, directory):
        if name not in named:
            attempts.setdefault(attempt_of(name), []).append(name)
    for names in attempts.values():
        found = list(filter(None, (_stat(fs, directory, name) for name in names)))
        if found:  # else they were deleted by now
            yield StagedTransaction(
                None,
                "staged",
                files=tuple(names),
                size_bytes=sum(one.size_bytes for one in found),
                last_written_ms=max(one.mtime_ms for one in found),
            )


def _stat(fs: FileSystem, directory: str, name: str) -> FileStat | None:
    try:
        return fs.stat(os.path.join(directory, name))
    except FileNotFoundError:  # its writer has just deleted it
        return None
