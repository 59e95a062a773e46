"""One partition as its owner serves it: leading or following, in some directory.

The log under it may be replaced while it is in use, when the partition moves to another directory;
appends, listeners and the high watermark carry over. Kafka: ``Partition``.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.codec.compression import Codec
from tidelog.codec.one_line import Told
from tidelog.env.forks import OfOneProcess
from tidelog.errors import (
    CommitPending,
    FencedLeaderEpoch,
    InvalidArgument,
    KafkaError,
    NotLeaderOrFollower,
    UnexpectedAppendOffset,
)
from tidelog.log.append_info import NO_GUARD
from tidelog.log.directory_guard import lacks_space
from tidelog.log.listeners import Listeners
from tidelog.log.producers.producer_append import UNKNOWN_TRANSACTION_VERSION
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.own_records import OwnRecords
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.codec.layout import Buffer
    from tidelog.config.log_config import LogConfig
    from tidelog.log.append_info import Appended, AppendInfo, HighWatermarkRule
    from tidelog.log.listeners import LogListener
    from tidelog.log.log import Log
    from tidelog.manager.metrics.counters import Counters
    from tidelog.records.builder import RecordFields
    from tidelog.records.validation.rejection import Rejection

T = TypeVar("T")


def only_replica(log_end: LogOffsetMetadata) -> LogOffsetMetadata:
    """Return the log end: no other replica has to hold a record before readers see it."""
    return log_end


class Hold(NamedTuple):
    """A committed transaction that is not applied yet: it writes from ``base_offset`` on.

    ``is_shown``: all its records are there, and readers see them. ``seen_offset``: below it readers
    saw records before, such as those of a transaction whose process ended right before its end.
    """

    txn: str
    base_offset: int
    is_shown: bool = False
    seen_offset: int = 0

    @property
    def visible_offset(self) -> int:
        """The offset below which readers see records: what they saw is not taken back."""
        return max(self.base_offset, self.seen_offset)


class Partition(OfOneProcess, Told):
    """A log with the role of this process in it, and the offsets its readers see.

    It leads from the start, in the latest epoch of its log, until ``lead`` or ``follow`` is called.
    ``lock`` guards the log and the role, and makes an append and what follows from it for the high
    watermark one step; it is taken as ``with partition.listeners, partition.lock:``, so that
    listeners are called once it is released. ``counters`` count appends and rejections.
    ``check_room`` raises if the disk has too little space for an append, and ``on_full`` is called
    when an append failed for that. Under a ``hold`` it takes no appends, and readers see nothing of
    the transaction.
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
        high_watermark_rule: HighWatermarkRule = only_replica,
        hold: Hold | None = None,
    ) -> None:
        self.topic: Final = topic
        self.partition: Final = partition
        self.lock: Final = RLock()
        self.listeners: Final = Listeners(self.lock, self.__str__)
        self._log = log
        self._counters: Final = counters
        self._check_room: Final = check_room
        self._on_full: Final = on_full
        self._high_watermark_rule: Final = high_watermark_rule
        self._error: KafkaError | None = None
        self._at_end: list[Callable[[], None]] = []
        self._hold: Hold | None = None
        self._is_leader = True
        self._leader_epoch: int | None = None
        log.report_to(self.listeners)
        self.hold(hold)
        self.maybe_increment_high_watermark()

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def _told(self) -> str:
        role = "leader" if self._is_leader else "follower"
        life = "" if self._error is None else ", ended"
        return f"{str(self)!r}: {role}{life}, {self._log!r}"

    @property
    def log(self) -> Log:
        """The log now; another one once the partition has moved to another directory.

        Raises the error that ``end`` was called with.
        """
        if self._error is not None:
            raise self._error
        return self._log

    @property
    def held_log(self) -> Log:
        """The log that is held open, also after ``end``: its owner still flushes and closes it."""
        return self._log

    @property
    def is_online(self) -> bool:
        """Whether the log takes calls: it has neither ended nor gone offline."""
        return self._error is None and not self._log.is_offline

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self.log.config

    @property
    def has_ended(self) -> bool:
        """Whether ``end`` was called: then every use of the log raises."""
        return self._error is not None

    def end(self, error: KafkaError) -> None:
        """Let every later use raise ``error``: the partition was deleted, or its disk failed."""
        self._error = error
        for call in tuple(self._at_end):
            call()

    def call_at_end(self, call: Callable[[], None]) -> None:
        """Call something when the partition has ended, on any thread, perhaps with locks held."""
        self._at_end.append(call)
        if self._error is not None:  # just now, so that nobody else may have seen ``call``
            call()

    def use(self, log: Log) -> None:
        """Continue with ``log``, which holds the same records; listeners move to it.

        The caller holds ``lock``. The high watermark does not go back.
        """
        old = self._log
        log.update_high_watermark(old.high_watermark)
        log.begin_epoch_with_append(old.leader_epoch)
        log.pin(None if self._hold is None else self._hold.base_offset)
        self._log = log
        if self._is_leader:
            self.maybe_increment_high_watermark()
        old.report_to(None)
        self.listeners.note(old, log)
        log.report_to(self.listeners)

    def add_listener(self, listener: LogListener) -> None:
        """Call ``listener`` with each new offset from now on, also after the partition moves.

        As with ``Log.add_listener``, but the lock of the partition is released before, too.
        """
        self.listeners.add(listener)

    def remove_listener(self, listener: LogListener) -> None:
        """Stop calling ``listener``; an unknown one changes nothing."""
        self.listeners.remove(listener)

    def hold(self, hold: Hold | None) -> None:
        """Begin or end to wait for a committed transaction; the high watermark follows."""
        with self.listeners, self.lock:
            self._hold = hold
            self._log.pin(None if hold is None else hold.base_offset)
            # A log that needs reopening may be closed: the one in its place catches up in ``use``.
            if self._is_leader and self._error is None and not self._log.needs_reopening:
                self.maybe_increment_high_watermark()

    def call_locked(self, call: Callable[[], T], patience_s: float = 0.0) -> tuple[T] | None:
        """Call something with all locks of an append held; return what it returns.

        None: one of them is not free within ``patience_s``, and nothing was called. Listeners are
        called at the end.
        """
        with self.listeners:
            if not self.lock.acquire(timeout=patience_s):
                return None
            try:
                log = self._log
                if not log.try_lock(patience_s):
                    return None
                try:
                    return (call(),)
                finally:
                    log.unlock()
            finally:
                self.lock.release()

    # The role

    @property
    def leader_epoch(self) -> int:
        """The epoch of ``lead`` or ``follow``; before them that which the log continues in."""
        return self._log.leader_epoch if self._leader_epoch is None else self._leader_epoch

    @property
    def begins_epoch(self) -> bool:
        """Whether the next append begins a leader epoch, for which it writes and syncs a file."""
        log, epoch = self._log, self._leader_epoch
        return log.begins_epoch if epoch is None else log.latest_epoch != epoch

    @property
    def has_own_epochs(self) -> bool:
        """Whether nobody else gives it leader epochs, by ``lead`` or ``follow``."""
        return self._leader_epoch is None

    def lead(self, leader_epoch: int) -> None:
        """Become the leader in ``leader_epoch``, which begins at the log end.

        Raises FencedLeaderEpoch for an epoch below the current one.
        """
        with self.listeners, self.lock:
            log = self._log_in(leader_epoch)
            log.maybe_assign_epoch(leader_epoch, log.log_end_offset)
            self._leader_epoch, self._is_leader = leader_epoch, True
            self.maybe_increment_high_watermark()

    def follow(self, leader_epoch: int) -> None:
        """Become a follower of the leader of ``leader_epoch``.

        Raises FencedLeaderEpoch for an epoch below the current one.
        """
        with self.listeners, self.lock:
            self._log_in(leader_epoch)
            self._leader_epoch, self._is_leader = leader_epoch, False

    def _log_in(self, leader_epoch: int) -> Log:
        """Return the log if the partition may enter ``leader_epoch``.

        An epoch that the log would have begun with an append does not count: no record is in it.
        """
        log, current = self.log, self._leader_epoch
        if current is None:
            current = log.latest_epoch or 0
        if leader_epoch < 0:
            raise InvalidArgument(f"leader epoch {leader_epoch} of {self} is negative")
        if leader_epoch < current:
            raise FencedLeaderEpoch(f"{self} is in leader epoch {current}, above {leader_epoch}")
        log.begin_epoch_with_append(0)
        return log

    def _log_as(self, *, leader: bool) -> Log:
        """Return the log; raise NotLeaderOrFollower if the partition has the other role."""
        if self._error is not None:
            raise self._error
        log = self._log
        if self._is_leader is not leader:
            role, wanted = ("leader", "follower") if self._is_leader else ("follower", "leader")
            raise NotLeaderOrFollower(
                f"{self} is a {role} in leader epoch {self.leader_epoch}, not a {wanted}"
            )
        return log

    def maybe_increment_high_watermark(self) -> bool:
        """Raise a leader's high watermark as far as the owner's rule allows; return whether.

        Called after each append of the leader, and by the owner when other replicas advance.
        """
        with self.listeners, self.lock:
            log = self._log_as(leader=True)
            place = self._high_watermark_rule(log.log_end)
            hold = self._hold
            if place is not None and hold is not None and not hold.is_shown:
                # Readers see no further than below a transaction that is not applied yet.
                held = LogOffsetMetadata(min(hold.visible_offset, log.log_end_offset))
                place = place if place.offset <= hold.visible_offset else held
            return place is not None and log.maybe_increment_high_watermark(place) is not None

    # Appending

    def append(
        self,
        batches: Buffer,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
        verification_guard: int = NO_GUARD,
    ) -> AppendInfo:
        """Append whole batches as the leader; arguments and errors as ``Log.append_as_leader``.

        Raises NotLeaderOrFollower while the partition follows.
        """
        with self.listeners, self.lock:
            return self.append_locked(batches, origin, transaction_version, verification_guard)

    def append_records(
        self,
        records: Iterable[RecordFields],
        *,
        codec: Codec | str = Codec.NONE,
    ) -> AppendInfo:
        """Append records as one batch; errors as ``append``.

        Args:
            records: timestamp in ms (-1 none), key, value and headers of each.
            codec: how the batch is compressed; the topic's ``compression.type`` takes precedence.
        """
        own = OwnRecords(records, codec)
        # Before the lock is taken: others who append need not wait while this is compressed.
        self.log.prepare(own, self._count_rejected)
        with self.listeners, self.lock:
            return self.append_locked(own)

    def append_locked(
        self,
        records: Appended,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
        verification_guard: int = NO_GUARD,
        *,
        may_change: bool = False,
    ) -> AppendInfo:
        """As ``append``, with the lock held, as by ``call_locked``."""
        log = self._log_to_append(leader=True)
        try:
            info = log.append_as_leader(
                records,
                self.leader_epoch,
                origin=origin,
                transaction_version=transaction_version,
                verification_guard=verification_guard,
                on_rejected=self._count_rejected,
                high_watermark_rule=self._high_watermark_rule,
                may_change=may_change,
            )
        except KafkaError as error:
            self._report_full(log, error)
            raise
        if info.is_duplicate or info.is_empty:
            self.maybe_increment_high_watermark()  # the log end has not moved, but others may
        elif self._counters is not None:
            self._counters.appended(self.topic, info.offset_count, info.valid_bytes)
        return info

    def append_as_follower(
        self, batches: Buffer, *, high_watermark: int, log_start_offset: int | None = None
    ) -> AppendInfo:
        """Append batches fetched from the leader; errors as ``Log.append_as_follower``.

        Args:
            batches: with the leader's offsets; may be empty. If the leader deleted records inside
                its first batch, that batch begins below the start of an empty log; it is taken
                whole, and the log start stays.
            high_watermark: the leader's; bounded by this log's end.
            log_start_offset: the leader's, if the log start is to follow it.

        Raises NotLeaderOrFollower while the partition leads, and OffsetOutOfRange if
        ``log_start_offset`` is above the high watermark.
        """
        with self.listeners, self.lock:
            log = self._log_to_append(leader=False)
            start = log.log_start_offset
            try:
                info = self._copied(log, batches, start)
            except KafkaError as error:
                self._report_full(log, error)
                raise
            log.maybe_update_high_watermark(high_watermark)
            log.maybe_increment_log_start_offset(min(start, log.high_watermark))
            if log_start_offset is not None:
                log.maybe_increment_log_start_offset(log_start_offset)
            return info

    def _copied(self, log: Log, batches: Buffer, start: int) -> AppendInfo:
        """Append to a log that starts at ``start``, or again where a batch begins below that."""
        epoch, count = self.leader_epoch, self._count_rejected
        try:
            return log.append_as_follower(batches, epoch, on_rejected=count)
        except UnexpectedAppendOffset as error:
            is_empty = start == log.log_end_offset
            if not is_empty or not error.first_offset < start <= error.last_offset:
                raise
            log.truncate_fully_and_start_at(error.first_offset)
            return log.append_as_follower(batches, epoch, on_rejected=count)

    def _count_rejected(self, kind: Rejection, count: int) -> None:
        if self._counters is not None:
            self._counters.rejected(self.topic, kind, count)

    def _log_to_append(self, *, leader: bool) -> Log:
        """Return the log if it takes appends of this role now, and its disk has room."""
        log = self._log_as(leader=leader)
        if self._hold is not None:
            raise CommitPending(
                f"transaction {self._hold.txn!r} is committed and not applied yet; try again later"
            ).of_log(str(self))
        if self._check_room is not None:
            self._check_room(log)
        return log

    def _report_full(self, log: Log, error: KafkaError) -> None:
        if self._on_full and lacks_space(error):
            self._on_full(log)
