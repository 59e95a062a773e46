"""The transactional ids of producers, from the files of a data directory."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from tidelog.errors import KafkaError
from tidelog.records.isolation import ReadUpTo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.replayed_transactions import LogTransactions
    from tidelog.readonly.transactional_id import Transaction
    from tidelog.segment.filenames import TopicPartition


class TransactionalIds:
    """Which producer is that of which transactional id, read when it is first asked.

    Without ``__transaction_state``, or where it cannot be read, none is known.
    """

    def __init__(self, directory: ReadOnlyDirectory) -> None:
        self._directory: Final = directory

    def of(self, producer_id: int) -> str | None:
        """Return the transactional id of a producer; None: it has none, or it is not known."""
        return self._names.get(producer_id)

    def named(self, found: LogTransactions) -> LogTransactions:
        """Return the transactions of a log with the transactional ids of their producers."""
        opened = (txn._replace(transactional_id=self.of(txn.producer_id)) for txn in found.open)
        aborted = (txn._replace(transactional_id=self.of(txn.producer_id)) for txn in found.aborted)
        return found._replace(open=tuple(opened), aborted=tuple(aborted))

    @cached_property
    def _names(self) -> dict[int, str]:
        try:
            return {one.producer_id: one.transactional_id for one in _stored(self._directory)}
        except KafkaError:  # verify reports it, and what was asked can be said without
            return {}


def coordinated_in(
    directory: ReadOnlyDirectory, producer_id: int, key: TopicPartition
) -> Transaction | None:
    """Return a producer's transaction that a coordinator has to end in a partition, as stored.

    Raises CorruptMessage and KafkaStorageError where that cannot be read.
    """
    for found in _stored(directory):
        if found.producer_id == producer_id and found.is_to_end_in(key):
            return found
    return None


def _stored(directory: ReadOnlyDirectory) -> Iterator[Transaction]:
    # Few logs have transactions, and the parser of their coordinators' records takes long to load.
    from tidelog.readonly.transactional_id import (  # noqa: PLC0415 - as above
        TRANSACTIONS_TOPIC,
        stored_transactions,
    )

    for log in directory.logs(TRANSACTIONS_TOPIC):
        records = log.settled_records(up_to=ReadUpTo.LOG_END)
        yield from stored_transactions(records, log.directory).values()
