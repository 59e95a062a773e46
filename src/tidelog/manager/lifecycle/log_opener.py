"""Opening logs with the disk, clock, settings and callbacks that all logs of a process share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.archive.claim_file import ClaimFile, claim_file, delete_leftovers, read_claim
from tidelog.log.archived import ArchivedOffsets
from tidelog.log.flush_times import FlushTimes
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.log.loading.load_watch import SILENT
from tidelog.log.log import Log
from tidelog.log.producers.producer_state import ProducerStateConfig
from tidelog.log.topic_id import PARTITION_METADATA_FILE, read_partition_metadata
from tidelog.manager.manager_part import ManagerPart

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.manager_part import Shared
    from tidelog.segment.filenames import TopicPartition


class RecoveryRules(NamedTuple):
    """How the logs of a process are recovered.

    ``distrusts_all``: every log is checked from its first segment on, whatever was flushed or
    closed. ``keep_cuts``: whether what is cut off a log is kept. ``cuts_contradictions``: whether a
    log is cut also where one damaged batch explains offsets that contradict each other; else it
    takes no appends.
    """

    distrusts_all: bool = False
    keep_cuts: KeepCuts = KeepCuts.IF_SPACE
    cuts_contradictions: bool = False


USUAL_RECOVERY: Final = RecoveryRules()


class LogOpener(ManagerPart):
    """Opens logs; ``recovery`` says how they are recovered."""

    def __init__(self, shared: Shared, recovery: RecoveryRules) -> None:
        super().__init__(shared)
        self.flush_times = FlushTimes()
        """The flushes of all logs."""
        config = shared.config()
        self._producer_config = ProducerStateConfig(
            config.producer_id_expiration_ms,
            config.producer_id_expiration_check_interval_ms,
            config.transaction_max_timeout_ms,
            config.transaction_partition_verification_enable,
        )
        self._recovery = recovery

    def load(
        self,
        log_dir: LogDir,
        key: TopicPartition,
        path: str,
        watcher: LoadWatcher = SILENT,
        *,
        is_retry: bool = False,
        threads: int = 1,
    ) -> Log:
        """Open a log in the state its directory was left in; errors as ``Log.open``.

        ``threads``: how many may check it together, if it must be recovered. ``is_retry``: this
        process has tried before, and may have left it half recovered. Raises KafkaStorageError for
        a link to another partition's directory, as all methods do.
        """
        checkpoints, is_trusted = log_dir.checkpoints, not self._recovery.distrusts_all
        line = checkpoints.log_start_offset(key)
        log = self._open(
            key,
            path,
            log_start_offset=line,
            # No line is written where retention has deleted on the disk what the archive has: what
            # lies below one was deleted on request, perhaps of a program that knows no archives.
            whole_start=line,
            recovery_point=checkpoints.recovery_point(key) if is_trusted else 0,
            clean_shutdown=log_dir.was_clean and is_trusted and not is_retry,
            watcher=watcher,
            threads=threads,
        )
        if log_dir.had_failed:
            try:
                log.write_unflushed_again()
            except BaseException:
                log.close_handlers()
                raise
        return log

    def create(self, key: TopicPartition, path: str, topic_id: UUID | None) -> Log:
        """Open a new, empty log; errors as ``Log.open``."""
        return self._open(key, path, topic_id=topic_id)

    def reopen(
        self,
        key: TopicPartition,
        log: Log,
        recovery: RecoveryRules | None = None,
        watcher: LoadWatcher = SILENT,
    ) -> Log:
        """Open a log again whose last change was not completed, and recover it.

        ``log`` is closed. ``recovery``: the rules, None: the usual ones. Errors as ``Log.open``.
        """
        return self._open(
            key,
            log.directory,
            log_start_offset=log.local_log_start_offset,
            whole_start=log.log_start_offset,
            recovery_point=log.recovery_point,
            clean_shutdown=False,
            watcher=watcher,
            recovery=recovery,
        )

    def _open(
        self,
        key: TopicPartition,
        path: str,
        *,
        log_start_offset: int = 0,
        whole_start: int = 0,
        recovery_point: int = 0,
        clean_shutdown: bool = True,
        topic_id: UUID | None = None,
        watcher: LoadWatcher = SILENT,
        recovery: RecoveryRules | None = None,
        threads: int = 1,
    ) -> Log:
        machine, rules = self._machine, recovery or self._recovery
        with self._log_dirs.failing(os.path.dirname(path), f"opening {key}"):
            self._log_dirs.links.check(path)
        config = self._topics.config_of(key.topic)
        claim = self._claim_of(key, path) if config.remote_storage_enable else ClaimFile()
        archive = claim.archive
        if archive is not None:  # records below its start were deleted
            log_start_offset = max(log_start_offset, archive.start)
            if not clean_shutdown:
                with self._log_dirs.failing(os.path.dirname(path), f"opening {key}"):
                    delete_leftovers(machine.fs, path, claim)
        log = Log.open(
            path,
            fs=machine.fs,
            clock=machine.clock,
            scheduler=machine.scheduler,
            rng=machine.rng,
            config=config,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean_shutdown=clean_shutdown,
            topic_id=topic_id,
            on_failure=self._log_dirs.take_offline,
            producer_config=self._producer_config,
            watcher=watcher,
            keep_cuts=rules.keep_cuts,
            cuts_contradictions=rules.cuts_contradictions,
            recovery_threads=threads,
            flush_times=self.flush_times,
            keeps_epoch_at_end=True,
        )
        if archive is not None:
            log.note_archived(ArchivedOffsets(max(archive.start, whole_start), archive.end))
        return log

    def _claim_of(self, key: TopicPartition, path: str) -> ClaimFile:
        """Return what the file beside a log says of its archive."""
        fs, data_dir = self._machine.fs, os.path.dirname(path)
        with self._log_dirs.failing(data_dir, f"reading the claim of the archive of {key}"):
            topic_id = read_partition_metadata(fs, os.path.join(path, PARTITION_METADATA_FILE))
            if topic_id is None:
                return ClaimFile()
            return read_claim(fs, claim_file(data_dir, topic_id, key.partition))
