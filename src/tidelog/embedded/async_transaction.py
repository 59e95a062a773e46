"""Transactions for asyncio programs, with the methods of ``Transaction``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.embedded.async_twins import Twin, twin
from tidelog.embedded.transaction import Transaction
from tidelog.env.event_loop import in_thread

if TYPE_CHECKING:
    from typing import Self

    from tidelog.staging.finished import CommittedTransaction


class AsyncTransaction(Twin[Transaction]):
    """Records that are committed together; used by one task, in an ``async with``.

    Leaving the block commits, and an exception in it, cancellation among them, drops everything.
    A task that is cancelled while it commits waits for the end of the commit, and ends then:
    ``committed`` says that it was made. Arguments and errors are those of ``Transaction``.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self.transaction: Final = transaction
        transaction.is_left_to_owner = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        # The thread is not left while it commits: the next reader of a group would read again what
        # is being committed.
        await in_thread(partial(self.transaction.__exit__, *error))  # type: ignore[arg-type]  # three of them

    @property
    def txn(self) -> str:
        """The id."""
        return self.transaction.txn

    @property
    def is_repeat(self) -> bool:
        """Whether the id was committed before this began."""
        return self.transaction.is_repeat

    @property
    def committed(self) -> CommittedTransaction | None:
        """What was committed under the id, in this process or an earlier one; None: nothing yet."""
        return self.transaction.committed

    append = twin(Transaction.append)
    append_record = twin(Transaction.append_record)
    create_topic = twin(Transaction.create_topic)
    has_topic = twin(Transaction.has_topic)
    commit = twin(Transaction.commit)
    check_repeat = twin(Transaction.check_repeat)
    abort = twin(Transaction.abort)
