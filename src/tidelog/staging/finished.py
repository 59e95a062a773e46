"""The transactions that a data directory has committed: ``tidelog.transactions.json``.

A repeat of one of them is skipped. Those that a user named are kept for ``RETENTION_MS``, others
until the next commit.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.checkpoint_file import read_small_file, replace_file
from tidelog.errors import CorruptFile, TransactionMismatch
from tidelog.staging.journal import check_version

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.env.files import FileSystem
    from tidelog.staging.journal import Journal

FINISHED_FILE: Final = "tidelog.transactions.json"
FINISHED_VERSION: Final = 1
RETENTION_MS: Final = 7 * 24 * 3_600_000
"""Time in ms for which a transaction that a user named is known."""


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """What a transaction wrote: when in ms, and the number of records by topic.

    ``is_named``: the user chose ``txn`` and may repeat it.
    """

    txn: str
    time_ms: int
    records: Mapping[str, int]
    is_named: bool = True

    @property
    def total(self) -> int:
        """Number of records."""
        return sum(self.records.values())

    def check_topics(self, topics: Collection[str]) -> None:
        """Raise TransactionMismatch if a repeat writes to a topic that the transaction did not."""
        others = sorted(set(topics) - set(self.records))
        if others:
            raise TransactionMismatch(self.txn, tuple(others), tuple(sorted(self.records)))


def finished_of(journal: Journal) -> CommittedTransaction:
    """Return the entry of a journal's transaction."""
    return CommittedTransaction(journal.txn, journal.time_ms, journal.records, journal.is_named)


def read_finished(fs: FileSystem, data_dir: str) -> dict[str, CommittedTransaction]:
    """Return the finished transactions by id; none if there is no file.

    Raises:
        CorruptFile: the file is malformed.
        KafkaStorageError: a newer version of tidelog wrote it.
    """
    path = os.path.join(data_dir, FINISHED_FILE)
    try:
        content = json.loads(read_small_file(fs, path))
        check_version(content["version"], FINISHED_VERSION, path)
        found = [_from_json(entry) for entry in content["transactions"]]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(f"{path} cannot be read: {error}") from error
    return {entry.txn: entry for entry in found}


def write_finished(
    fs: FileSystem,
    data_dir: str,
    known: Mapping[str, CommittedTransaction],
    added: CommittedTransaction,
) -> None:
    """Add a transaction durably; drop those that nobody can repeat any more.

    These are the expired ones, and those without a name of the user's: their journals were deleted
    durably by the time that the journal of ``added`` was written.
    """
    kept = [
        one
        for one in known.values()
        if one.is_named and one.time_ms + RETENTION_MS >= added.time_ms and one.txn != added.txn
    ]
    content = {
        "version": FINISHED_VERSION,
        "transactions": [_as_json(one) for one in (*kept, added)],
    }
    text = json.dumps(content, indent=1) + "\n"
    replace_file(fs, os.path.join(data_dir, FINISHED_FILE), text.encode())


def _as_json(one: CommittedTransaction) -> dict[str, Any]:
    return {
        "txn": one.txn,
        "named": one.is_named,
        "timeMs": one.time_ms,
        "records": dict(sorted(one.records.items())),
    }


def _from_json(entry: Mapping[str, Any]) -> CommittedTransaction:
    records = {str(topic): int(count) for topic, count in entry["records"].items()}
    return CommittedTransaction(
        str(entry["txn"]), int(entry["timeMs"]), records, bool(entry["named"])
    )
