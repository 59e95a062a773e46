"""Commits of transactions whose files are staged, also into a directory that is in use."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.machine import brief_machine
from tidelog.env.signals import process_mark, program_of
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.unix_sockets import ring_in
from tidelog.errors import InvalidArgument
from tidelog.mailbox.wait import Desk
from tidelog.manager.log_manager import LogManager
from tidelog.staging.commit_wait import CommitWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tidelog.env.machine import Machine
    from tidelog.staging.commit import Transaction
    from tidelog.staging.commit_wait import Commit
    from tidelog.staging.directory import CommitPoint
    from tidelog.staging.finished import CommittedTransaction

DEFAULT_TIMEOUT_MS: Final = 60_000
"""Time in ms to wait for the process that holds the directory."""


def commit_when_possible(
    data_dirs: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    transaction: Transaction,
    *,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    overrides: Mapping[str, str] = NO_SETTINGS,
    machine: Machine | None = None,
    on_point: Callable[[CommitPoint], None] = lambda _: None,
) -> CommittedTransaction:
    """Commit a transaction as soon as the directory is free, or let its holder commit it.

    A running service, or a program that has called ``tidelog.open``, commits it within about a
    second. Kafka does not; nor does a process that writes and ends, after which it is committed
    here. A transaction that was committed before is skipped, even while the directory is in use.
    Its staged files are deleted if it fails, except by CommitUnfinished.

    Args:
        data_dirs: all data directories that hold partitions of the topics.
        path: the one of them that holds the staged files, and the partitions to be written.
        transaction: its staged files are complete.
        timeout_ms: how long to wait while another process holds a directory, and again once that
            process has begun to commit; 0: not at all.
        overrides: topic settings that take precedence over a topic's own, for a commit by this
            process.
        machine: disk, clock and the rest; None: this machine's.
        on_point: called with each moment that the commit reaches.

    Raises:
        DirectoryLocked: another process holds a directory; CommitTimeout, which is one, if it was
            waited for. Nothing was written, and nothing will be.
        CommitOutcomeUnknown: the holder began to commit, and has not reported whether it did;
            repeat the transaction with the same id.
        CommitUnfinished: it is committed, but not all is in place yet.
        TransactionMismatch, OldStreamBatch, KafkaError, InvalidArgument: refused, by this process
            or by the holder; nothing was written.
    """
    paths = tuple(os.path.abspath(one) for one in data_dirs)
    data_dir = os.path.abspath(path)
    if data_dir not in paths:
        raise InvalidArgument(f"{data_dir} is not one of {', '.join(paths)}")
    here = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK) if machine is None else machine
    settings = BrokerConfig(log_dirs=paths)

    @contextmanager
    def open_here() -> Iterator[Commit]:
        with LogManager(settings, here, overrides=overrides) as manager:
            manager.staged_commits.on_point = on_point
            yield lambda one: manager.staged_commits.commit(data_dir, one)

    wait = CommitWait(
        data_dir,
        transaction,
        open_here,
        timeout_ms=timeout_ms,
        desk=Desk(
            *(here.fs, here.clock, here.rng, here.sleep_ms), program_of, ring_in, process_mark
        ),
    )
    return wait.run()
