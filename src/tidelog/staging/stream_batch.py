"""Micro-batches of streams, as transactions: a stream numbers its batches from 0 on.

A stream repeats the last batch of which it does not know that it was committed, perhaps with other
records. So a directory needs to remember only the last batch of each stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidelog.datadir.versioned_file import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

_TXN: Final = re.compile(r"stream .* batch [0-9]+", re.DOTALL)


def is_batch_txn(txn: str) -> bool:
    """Return whether a transaction id has the form of those of batches of streams."""
    return _TXN.fullmatch(txn) is not None


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A micro-batch: the id of its query, which lives in the checkpoint, and its number there.

    Spark: ``StreamExecution.id`` and ``batchId``.
    """

    query_id: str
    batch_id: int

    @property
    def txn(self) -> str:
        """The transaction id of the batch."""
        return f"stream {self.query_id} batch {self.batch_id}"

    def as_json(self) -> dict[str, Any]:
        """Return the batch as it is written into files."""
        return {"queryId": self.query_id, "batchId": self.batch_id}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> StreamBatch:
        """Read a batch; raise KeyError, TypeError or ValueError for another form."""
        query_id = entry["queryId"]
        if not isinstance(query_id, str):
            raise TypeError(f"{entry!r} is not a batch of a stream")
        return cls(query_id, whole(entry["batchId"], "the number of a batch"))
