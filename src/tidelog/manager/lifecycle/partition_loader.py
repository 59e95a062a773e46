"""The one way by which the log of a partition comes into service.

A start, a first use, a repeated try and a creation differ in how they find or make the log; what
follows is said here. (The end of a move gives another log to a partition that is in service.)
Kafka: parts of ``LogManager.loadLog`` and ``getOrCreateLog``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.manager.lifecycle.lost_offsets import warn_of_lost_end

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.partition import Partition
    from tidelog.segment.filenames import TopicPartition


def take_in(
    shared: Shared,
    key: TopicPartition,
    log_dir: LogDir,
    topic_id: UUID | None,
    open_log: Callable[[], Log],
) -> Partition:
    """Open a log, give it the id of its topic, and serve it.

    Records that readers saw and that it lacks are logged and counted.

    Args:
        shared: of the manager that serves it; the caller holds its registry's ``change_lock``.
        key: the partition.
        log_dir: where its log lies.
        topic_id: the id of its topic, None if that is not known.
        open_log: opens the log.

    After an error, which is that of ``open_log`` or of the disk, the log is closed, and its data
    directory is not clean until a later try succeeds.
    """
    registry = shared.registry
    registry.begin_loading(key)
    path = log_dir.path_of(*key)
    try:
        log = open_log()
        try:
            if topic_id is not None:
                log.assign_topic_id(topic_id)
            if log_dir.checkpoints.recovery_point(key) > log.log_end_offset:
                # A recovery would begin at the line once the log has grown past it, and take what
                # lies below for flushed.
                with log.watch("lowering its recovery point"):
                    log_dir.checkpoints.lower(key, log.recovery_point)
            shared.cleaning.settle_line(log, key)
            log.begin_epoch_with_append(log_dir.least_epoch)
            # Before it is served: after that the checkpoint of what readers saw is written again.
            seen = log_dir.checkpoints.high_watermark(key)
            is_cut = warn_of_lost_end(log.directory, end=log.log_end_offset, seen=seen)
            if is_cut or log.has_lost(seen):
                registry.lost.add(key)
                log.begin_epoch_after_loss()
            elif key in registry.lost and log.latest_epoch is None:
                log.begin_epoch_after_loss()  # its directory was lost, and this is a new one
            partition = registry.serve(key, log)
        except BaseException:
            if registry.current(key) is not log:  # an interrupt may come just after that
                log.close_handlers()
            raise
    except BaseException:
        # Its files may be half recovered: a start that took them for clean would not look.
        log_dir.doubted.add(path)
        raise
    log_dir.doubted.discard(path)
    return partition
