"""Transactions into a data directory that another process holds: its topics, read without a lock.

Records are staged beside that process, checked by the settings that are found; it, or this process
once the directory is free, commits them, and checks again.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tidelog.codec.compression import Codec
from tidelog.config.broker_config import BrokerConfig
from tidelog.datadir.catalogue import Topic, read_catalogue
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, read_meta_properties
from tidelog.embedded.commits import DEFAULT_TIMEOUT_MS, commit_when_possible
from tidelog.embedded.transaction import Transaction
from tidelog.env.clock import NS_PER_MS
from tidelog.errors import CommitPending, KafkaStorageError
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.staging.commit_wait import POLL_MS
from tidelog.staging.finished import read_finished
from tidelog.staging.journal import has_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self
    from uuid import UUID

    from tidelog.config.log_config import LogConfig
    from tidelog.env.machine import Machine
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.records.new_record import NewRecord
    from tidelog.staging.commit import Transaction as Staged
    from tidelog.staging.directory import CommitPoint
    from tidelog.staging.finished import CommittedTransaction


_LEAST_PAUSE_MS: Final = 25
_MOST_PAUSE_MS: Final = 200


class BusyDirectory:
    """A data directory that another process holds; its topics as they were when first asked for.

    ``more`` are others of that process: topics are known wherever they lie, and transactions go to
    ``path``. ``overrides`` are topic settings under Kafka's names; the holder does not know them.
    ``timeout_ms``: see ``commit_when_possible``. ``defaults`` returns what new topics are born
    with; None: with the defaults, as this process has no others.
    """

    def __init__(
        self,
        path: str,
        *more: str,
        machine: Machine,
        overrides: Mapping[str, str] = NO_SETTINGS,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        defaults: Callable[[], LogConfig] | None = None,
    ) -> None:
        self.config: Final = BrokerConfig(log_dirs=(path,))
        self.machine: Final = machine
        self._path = path
        self._more = more
        self.overrides = overrides
        self._timeout_ms = timeout_ms
        self._defaults = defaults

    def defaults_of_new(self) -> LogConfig:
        """Return what holds for a new topic that sets nothing."""
        return self.config.log_defaults if self._defaults is None else self._defaults()

    def transaction(self, txn: str | None, *, codec: Codec | str) -> Transaction:
        """Return a transaction; as ``Logs.transaction``."""
        return Transaction(self, self._path, txn, codec=codec)

    def look(self, topic: str) -> bool:
        """Look up a topic now, unless it is known; return whether it was not."""
        self._listed  # noqa: B018 - it is kept
        return self._found.look(topic)

    def topics(self) -> dict[str, Topic]:
        """Return every topic by name."""
        return {name: self.topic(name) for name in self._found.topics}

    def topic(self, name: str) -> Topic:
        """Return one topic; raise UnknownTopicOrPartition where there is none."""
        found = self._found.topic(name)
        listed = self._listed.get(name)
        if listed is not None:
            return listed
        if found.topic_id is None:
            raise KafkaStorageError(
                f"the id of topic {name} is not known while {self._path} is in use"
            )
        homes = {number: self._found.part_of(name, number).path for number in found.partitions}
        ids = {number: self.directory_id(path) for number, path in homes.items()}
        return Topic(name, found.topic_id, ids, found.config)

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings in force for a topic."""
        found = self._found.topic(topic)
        return found.config_in_force(self.config.log_defaults, self.overrides)

    def directory_id(self, path: str) -> UUID:
        """Return the ``directory.id``; KafkaStorageError if it cannot be read."""
        meta = read_meta_properties(self.machine.fs, os.path.join(path, META_PROPERTIES_FILE))
        if meta is None or meta.directory_id is None:
            raise KafkaStorageError(f"{path} has no directory.id yet")
        return meta.directory_id

    @property
    def staged_commits(self) -> Self:
        """What commits: this object asks the process that holds the directory."""
        return self

    def finish_transaction(self, path: str, txn: str) -> None:
        """Wait until the holder has applied a transaction of this id, if one is pending.

        Raises CommitPending if it has not in time.
        """
        clock, fs = self.machine.clock, self.machine.fs
        begun_ns = clock.monotonic_ns()
        while has_journal(fs, path, txn) and txn not in read_finished(fs, path):
            if (clock.monotonic_ns() - begun_ns) // NS_PER_MS >= self._timeout_ms:
                raise CommitPending(
                    f"transaction {txn!r} is committed, and the process that holds {path} has not"
                    " applied it yet: try again later"
                )
            self.machine.sleep_ms(POLL_MS)

    def commit(self, path: str, transaction: Staged) -> CommittedTransaction:
        """Let the holder commit, or commit once the directory is free."""
        clock, is_own = self.machine.clock, False

        def note(_: CommitPoint) -> None:
            nonlocal is_own
            is_own = True

        begun_ns = clock.monotonic_ns()
        done = commit_when_possible(
            [path],
            path,
            transaction,
            timeout_ms=self._timeout_ms,
            overrides=self.overrides,
            machine=self.machine,
            on_point=note,
        )
        if is_own:
            # The program that was joined may be starting again: without a pause, one that commits
            # all the time would keep the lock from it.
            took_ms = (clock.monotonic_ns() - begun_ns) // NS_PER_MS
            self.machine.sleep_ms(min(max(took_ms, _LEAST_PAUSE_MS), _MOST_PAUSE_MS))
        return done

    @cached_property
    def _found(self) -> ReadOnlyDirectory:
        return open_directory_read_only(self._path, *self._more, fs=self.machine.fs)

    @cached_property
    def _listed(self) -> Mapping[str, Topic]:
        return read_catalogue(self.machine.fs, self._path).topics


class BusyWriter:
    """Appends records to one topic of a busy directory; each ``flush`` commits a transaction.

    ``records`` counts what was committed. Once the disk has failed, each ``append`` raises
    KafkaStorageError, and so does the next ``flush``, which commits nothing.
    """

    def __init__(self, directory: BusyDirectory, topic: str, *, codec: Codec | str) -> None:
        self._directory = directory
        self._topic = topic
        self._codec = Codec.named(codec)
        self._txn: Transaction | None = None
        self.records = 0

    def append(self, record: NewRecord) -> None:
        """Stage one record; errors as ``Logs.append``."""
        if self._txn is None:
            self._txn = self._directory.transaction(None, codec=self._codec)
            self._txn.is_left_to_owner = True  # after an error it is dropped on purpose
        self._txn.append_record(self._topic, record)

    def flush(self) -> None:
        """Commit what was staged since the last call; errors as ``commit_when_possible``."""
        txn, self._txn = self._txn, None
        if txn is not None:
            self.records += txn.commit().total
