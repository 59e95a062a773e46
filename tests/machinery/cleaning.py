"""A compacted log on a fake disk, with short calls for producers and transactions."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.machinery.log_home import LogHome, all_records

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.throttle import CleanerIo
from tidelog.log.producers.producer_state import ProducerStateConfig
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.cleaner.cleaner import CleaningResult
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.log import Log
    from tidelog.records.batch import BatchHeader
    from tidelog.records.record import Record

DAY_MS: Final = 86_400_000
SMALL: Final[dict[str, Any]] = {
    "cleanup_policy": ("compact",),
    "internal_segment_bytes": 1024,
    "index_interval_bytes": 200,
    "segment_index_bytes": 400,
    "retention_ms": -1,
}
PRODUCERS: Final = ProducerStateConfig(
    producer_id_expiration_ms=1000 * DAY_MS, transaction_verification=False
)


class CleanerHome(LogHome):
    """A log to be compacted; ``settings`` override those of ``SMALL``."""

    def __init__(self, seed: int = 0, **settings: Any) -> None:  # noqa: ANN401 - LogConfig checks them
        super().__init__(seed, **{**SMALL, **settings})

    def open(self, *, clean: bool = True, **how: Any) -> Log:  # noqa: ANN401 - Log.open checks them
        """Open the log and make all of it visible to readers; producers never expire."""
        log = super().open(clean=clean, **{"producer_config": PRODUCERS, **how})
        log.update_high_watermark(log.log_end_offset)
        return log

    def append(
        self,
        log: Log,
        *records: tuple[object, object],
        **fields: Any,  # noqa: ANN401 - of BatchSpec
    ) -> int:
        """Append one batch of (key, value) pairs, None for null; return its first offset."""
        now_ms = self.clock.now_ms()
        batch = build_batch(
            [(now_ms, to_bytes(key), to_bytes(value), ()) for key, value in records], **fields
        )
        return _append(log, batch, AppendOrigin.CLIENT)

    def end_transaction(self, log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        """Append the marker that ends a producer's transaction; return its offset."""
        marker = build_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=0,
            is_commit=commit,
            timestamp=self.clock.now_ms(),
        )
        return _append(log, marker, AppendOrigin.COORDINATOR)

    def cleaner(
        self,
        *,
        map_bytes: int = 24 * 1000,
        load_factor: float = 0.9,
        check: Callable[[], None] = lambda: None,
        scheduler: Scheduler | None = None,
    ) -> Cleaner:
        """Return a cleaner whose offset map has room for 900 keys.

        By default it uses the home's scheduler, which runs nothing during a cleaning, so that
        everything written in the background is written as late as possible.
        """
        settings = CleanerSettings(map_bytes, load_factor)
        io = CleanerIo(512, check)
        return Cleaner(
            settings,
            clock=self.clock,
            scheduler=scheduler or self.scheduler,
            rng=Random(0),
            io=io,
        )

    def clean(
        self,
        log: Log,
        *,
        first_dirty: int = 0,
        end: int | None = None,
        **settings: Any,  # noqa: ANN401 - of ``cleaner``
    ) -> CleaningResult:
        """Clean up to ``end``, by default the active segment, at the clock's time."""
        stop = log.segments.active.base_offset if end is None else end
        cleanable = OffsetsToClean(first_dirty, stop)
        return self.cleaner(**settings).clean(log, cleanable, self.clock.now_ms())

    def producer(self, log: Log, producer_id: int, *, epoch: int = 0) -> Producer:
        """Return a producer that assigns sequence numbers to its batches."""
        return Producer(self, log, producer_id, epoch)


class Producer:
    """An idempotent or transactional producer of one log."""

    def __init__(self, home: CleanerHome, log: Log, producer_id: int, epoch: int) -> None:
        self._home = home
        self._log = log
        self._fields = {"producer_id": producer_id, "producer_epoch": epoch}
        self.sequence = 0

    def send(self, *records: tuple[object, object], transactional: bool = False) -> int:
        """Append one batch; return its first offset."""
        offset = self._home.append(
            self._log,
            *records,
            base_sequence=self.sequence,
            transactional=transactional,
            **self._fields,
        )
        self.sequence += len(records)
        return offset

    def end(self, *, commit: bool) -> int:
        """End the transaction; return the marker's offset."""
        return self._home.end_transaction(
            self._log,
            self._fields["producer_id"],
            commit=commit,
            epoch=self._fields["producer_epoch"],
        )


def _append(log: Log, batch: bytes, origin: AppendOrigin) -> int:
    info = log.append_as_leader(batch, origin=origin, transaction_version=0)
    log.update_high_watermark(log.log_end_offset)
    return info.first_offset


def to_bytes(value: object) -> bytes | None:
    """Return the bytes of a key or value given as text, number or None."""
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def kept(
    log: Log, isolation: Isolation = Isolation.LOG_END
) -> list[tuple[int, str | None, str | None]]:
    """Return offset, key and value, as text, of the records in the log."""
    return [
        (record.offset, _text(record.key), _text(record.value))
        for record in all_records(log, isolation)
    ]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def last_values(log: Log) -> dict[bytes, bytes]:
    """Return the last value of each key, as a read_committed reader sees them."""
    values: dict[bytes, bytes] = {}
    for record in all_records(log, Isolation.READ_COMMITTED):
        if record.key is None:
            continue
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
    return values


def batch_headers(log: Log) -> Iterator[BatchHeader]:
    """Yield the header of each batch in the log."""
    for segment in log.segments:
        for _, header in segment.file_records().headers():
            yield header


def offsets_of(records: Sequence[Record]) -> list[int]:
    """Return the offsets of records."""
    return [record.offset for record in records]
