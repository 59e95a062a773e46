"""One partition whose only replica is this process.

Owns the rule that the high watermark follows the log end: here nobody else must have a record
before readers may see it. Must not know the directory around it. Kafka: ``Partition``.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING

from tidelog.codec.compression import Codec
from tidelog.errors import KafkaError
from tidelog.log.directory_guard import NO_SPACE
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tidelog.codec.layout import Buffer
    from tidelog.config.log_config import LogConfig
    from tidelog.log.append import AppendInfo
    from tidelog.log.log import Log
    from tidelog.manager.metrics.counters import Counters
    from tidelog.records.builder import RecordFields
    from tidelog.staging.staged_file import StagedReader


class Partition:
    """A log of this process, with the offsets its readers see.

    ``lock`` guards ``log`` and makes an append and what it does to the high watermark one step.
    ``counters`` are told of appends; ``check_room`` raises if the disk has none, and ``on_full`` is
    told that one did not take an append.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        log: Log,
        *,
        counters: Counters | None = None,
        check_room: Callable[[Log], None] | None = None,
        on_full: Callable[[Log], None] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.lock = RLock()
        self._log = log
        self._counters = counters
        self._check_room = check_room
        self._on_full = on_full
        self._end: KafkaError | None = None
        log.update_high_watermark(log.log_end_offset)

    @property
    def log(self) -> Log:
        """The log now; another one once the partition has moved to another directory.

        Raises what ``end`` was given.
        """
        if self._end is not None:
            raise self._end
        return self._log

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self.log.config

    def end(self, error: KafkaError) -> None:
        """Let every later use raise ``error``: the partition was deleted, or its disk failed."""
        self._end = error

    def use(self, log: Log) -> None:
        """Go on with ``log``, which holds the same records; with ``lock`` held."""
        log.update_high_watermark(log.log_end_offset)
        self._log = log

    def append(self, batches: Buffer, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendInfo:
        """Append whole batches as the leader; errors as ``Log.append_as_leader``."""
        with self.lock:
            log = self.log
            with self._counted(log, len(batches)) as told:
                info = log.append_as_leader(batches, self.leader_epoch, origin=origin)
                told.append(info)
            log.update_high_watermark(log.log_end_offset)
            return info

    def append_records(
        self,
        records: Iterable[RecordFields],
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> AppendInfo:
        """Append records as one batch; errors as ``Log.append_as_leader``.

        Args:
            records: timestamp in ms (-1 none), key, value and headers of each.
            codec: how the batch is compressed; the topic's ``compression.type`` goes before it.
            level: the codec's level, None for its default.
        """
        with self.lock:
            log = self.log
            with self._counted(log, 0) as told:
                info = log.append_records(
                    records, leader_epoch=self.leader_epoch, codec=codec, level=level
                )
                told.append(info)
            log.update_high_watermark(log.log_end_offset)
            return info

    def append_staged(self, staged: StagedReader) -> None:
        """Append the batches of a staged file, a few at a time, without checking them again."""
        for batches in staged.whole_batches(self.log.config.segment_size_bytes):
            self.append(batches, AppendOrigin.STAGED)

    @property
    def leader_epoch(self) -> int:
        """The epoch new batches are stamped with: the log's latest, 0 for a new log."""
        latest = self._log.latest_epoch
        return 0 if latest is None else latest

    @contextmanager
    def _counted(self, log: Log, size_bytes: int) -> Iterator[list[AppendInfo]]:
        """Count what the body appends, which it puts into the list, or why it was refused."""
        told: list[AppendInfo] = []
        counters = self._counters
        if self._check_room is not None:
            self._check_room(log)
        try:
            yield told
        except KafkaError as error:
            cause = error.__cause__
            if self._on_full and isinstance(cause, OSError) and cause.errno in NO_SPACE:
                self._on_full(log)
            if counters is not None:
                is_compacted = log.config.is_compacted
                counters.refused(self.topic, error, size_bytes, is_compacted=is_compacted)
            raise
        for info in told:
            if counters is not None and not (info.is_duplicate or info.is_empty):
                records = info.last_offset - info.first_offset + 1
                counters.appended(self.topic, records, info.valid_bytes)
