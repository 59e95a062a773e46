"""Opening logs with all that they need.

Owns the doors and settings that every log of a process shares. Must not know which logs there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.log.flush_times import FlushTimes
from tidelog.log.loading.load_watch import SILENT
from tidelog.log.log import DEFAULT_PRODUCER_CONFIG, Log

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random
    from uuid import UUID

    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.log.producers.producer_state import ProducerStateConfig
    from tidelog.manager.directories.live_dirs import LiveDir
    from tidelog.segment.filenames import TopicPartition


class LogFactory:
    """Opens logs. ``config_of`` gives the settings of a topic, ``on_failure`` is told of disks.

    ``flush_times`` sums up the flushes of all of them.
    """

    def __init__(
        self,
        *,
        fs: FileSystem,
        clock: Clock,
        scheduler: Scheduler,
        rng: Random,
        config_of: Callable[[str], LogConfig],
        on_failure: Callable[[str, OSError], None],
        producer_config: ProducerStateConfig = DEFAULT_PRODUCER_CONFIG,
    ) -> None:
        self.flush_times = FlushTimes()
        self._fs = fs
        self._clock = clock
        self._scheduler = scheduler
        self._rng = rng
        self._config_of = config_of
        self._on_failure = on_failure
        self._producer_config = producer_config

    def load(
        self, home: LiveDir, key: TopicPartition, path: str, watcher: LoadWatcher = SILENT
    ) -> Log:
        """Open a log that is there, as its directory was left; errors as ``Log.open``."""
        return self._open(
            key,
            path,
            log_start_offset=home.checkpoints.log_start_offset(key),
            recovery_point=home.checkpoints.recovery_point(key),
            clean_shutdown=home.log_dir.was_clean,
            watcher=watcher,
        )

    def create(self, key: TopicPartition, path: str, topic_id: UUID | None) -> Log:
        """Open a new, empty log; errors as ``Log.open``."""
        return self._open(key, path, topic_id=topic_id)

    def _open(
        self,
        key: TopicPartition,
        path: str,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean_shutdown: bool = True,
        topic_id: UUID | None = None,
        watcher: LoadWatcher = SILENT,
    ) -> Log:
        return Log.open(
            path,
            fs=self._fs,
            clock=self._clock,
            scheduler=self._scheduler,
            rng=self._rng,
            config=self._config_of(key.topic),
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean_shutdown=clean_shutdown,
            topic_id=topic_id,
            on_failure=self._on_failure,
            producer_config=self._producer_config,
            watcher=watcher,
            flush_times=self.flush_times,
        )
