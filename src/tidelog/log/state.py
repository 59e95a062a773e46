"""What one open log holds, and the one place where its offsets change.

Kafka: the fields of ``UnifiedLog``.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.log.directory_guard import is_interrupt
from tidelog.log.listeners import Listeners
from tidelog.log.reading.log_reads import LogView, resolve
from tidelog.log.trace import is_traced, trace_high_watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from tidelog.config.log_config import LogConfig
    from tidelog.log.archived import ArchivedOffsets
    from tidelog.log.context import LogContext
    from tidelog.log.contradicted import OpenContradiction
    from tidelog.log.leader_epoch import LeaderEpochCache
    from tidelog.log.local_log import LocalLog
    from tidelog.log.offsets import LogOffsets
    from tidelog.log.producers.producer_state import ProducerStateManager
    from tidelog.log.topic_id import TopicIdFile
    from tidelog.segment.offset_metadata import LogOffsetMetadata

T = TypeVar("T")

UNLOCKED_LOOKS: Final = 4
"""How often a log that changes is looked at without its lock."""

CHANGED_FILES: Final = frozenset({errno.EBADF, errno.ENOENT})
"""Errors of one who works without the lock on files that another closes, deletes or renames."""


class LogState:
    """The parts of one open log.

    ``lock`` guards every change: of ``local`` (the segments), ``producers``, ``epochs``,
    ``last_flush_ms``, ``is_closed`` and, through ``move`` alone, of ``offsets``. ``cuts`` counts
    truncations, ``is_being_cut`` is true during one. ``replaced_end``: the offset below which the
    cleaner may have dropped records since this was opened. ``is_traced``: new high watermarks are
    logged; asked at each append. ``pinned_from``: records from there on are neither deleted,
    compacted nor truncated; None: all may be. ``synced``: ``cuts`` and the log end when all records
    were last made durable without their indexes. ``archived``: what an archive holds of the log;
    None: there is none. ``emptied_from``: where the log began that its opening has emptied; None:
    it has not. ``least_epoch``: what is appended next is of this leader epoch at least.
    ``owners_listeners`` hear of this log, too, for as long as its owner uses it.
    Readers take ``view``, which is immutable, and never lock. The lock is reentrant, since a
    scheduler may run a task of the log on the thread that schedules it.
    """

    def __init__(
        self,
        context: LogContext,
        local: LocalLog,
        offsets: LogOffsets,
        *,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        topic_id: TopicIdFile,
        contradiction: OpenContradiction | None = None,
    ) -> None:
        self.context = context
        self.local = local
        self.producers = producers
        self.epochs = epochs
        self.lock = RLock()
        self.listeners = Listeners(self.lock, lambda: context.directory)
        self.owners_listeners: Listeners | None = None
        self.notices: Final = _Notices(self)
        self.is_closed = False
        self.cuts = 0
        self.is_being_cut = False
        self.replaced_end = 0
        self.pinned_from: int | None = None
        self.synced = (0, 0)
        self.archived: ArchivedOffsets | None = None
        self.emptied_from: int | None = None
        self.least_epoch = 0
        self._contradiction = contradiction
        self.is_traced = is_traced()
        self.last_flush_ms = context.clock.now_ms()
        self.topic_id = topic_id
        self.offsets = offsets
        self.move(offsets)

    @property
    def whole_start(self) -> int:
        """The first offset of the log, which may lie in an archive only."""
        archived, start = self.archived, self.offsets.log_start_offset
        return start if archived is None else archived.whole_start(start)

    @property
    def archived_end(self) -> int:
        """The offset below which the archive has every closed segment of the disk; 0: no archive.

        Retention of an archived log deletes nothing here from there on.
        """
        return 0 if self.archived is None else self.archived.equal_end

    @property
    def deletable_end(self) -> int:
        """The offset from which on nothing is deleted."""
        end = self.offsets.high_watermark
        return end if self.pinned_from is None else min(end, self.pinned_from)

    def retention_end(self, config: LogConfig) -> int:
        """Return the offset from which on limits delete nothing here: first the archive has it."""
        end = self.deletable_end
        return min(end, self.archived_end) if config.is_archived else end

    @property
    def contradiction(self) -> OpenContradiction | None:
        """The contradiction that keeps the log from taking appends; None: there is none.

        It has ended, too, once its segment was deleted.
        """
        kept = self._contradiction
        if kept is not None and self.local.segments.get(kept.base_offset) is None:
            kept = self._contradiction = None
        return kept

    def end_contradiction(self) -> None:
        """Take appends again: what the contradiction was about is no longer in the log."""
        self._contradiction = None

    @property
    def flushable_end(self) -> int:
        """The offset that the recovery point does not pass; else no start would find that again."""
        end, kept = self.offsets.log_end_offset, self.contradiction
        return end if kept is None else min(end, kept.next_offset)

    @property
    def view(self) -> LogView:
        """Segments and offsets now. Offsets are taken first: what they show, the segments hold."""
        offsets = self.offsets
        return LogView(self.local.segments.all, offsets)

    def check_open(self) -> None:
        """Raise KafkaStorageError if the log was closed, or its disk failed."""
        self.context.guard.check_online()
        if self.is_closed:
            self.check_not_closed()

    def check_not_closed(self) -> None:
        """Raise KafkaStorageError if the log was closed; for changes that touch no file."""
        if self.is_closed:
            raise KafkaStorageError(f"{self.context.directory} is closed")

    def check_appendable(self) -> None:
        """Raise DamagedLog if the log takes no appends; the caller has found it to be open."""
        if self._contradiction is not None and (kept := self.contradiction) is not None:
            raise kept.error(self.context.log_name)

    def changing(self, doing: str) -> Change:
        """Return the context of a change of the log's files, named by ``doing`` in errors.

        It is the innermost of three: ``with state.notices, state.lock, state.changing(...):``. An
        OSError of the body becomes KafkaStorageError. An interrupt of the body takes the log
        offline for reopening, unless it ``is_whole``, while the lock is still held: a thread that
        waits for the lock must not build on half a change.
        """
        return Change(self, doing)

    def look(self, doing: str, question: Callable[[LogView], T]) -> T:
        """Call ``question`` with a view of the log, without the lock; ``doing`` names it in errors.

        If the log changes meanwhile so that this fails (a segment was deleted or truncated, the
        directory renamed), it is called again with a new view, once the change has ended. As any
        append is a change, the last call is made with the lock held: else damage would be read
        again for as long as records come. A closed log raises KafkaStorageError.
        """
        with self.context.guard.watch(doing):
            for _ in range(UNLOCKED_LOOKS):
                cuts, view, directory = self.cuts, self.view, self.context.directory
                try:
                    return self._ask(question, view)
                except (OSError, CorruptMessage) as error:
                    if self.is_being_cut or getattr(error, "errno", None) in CHANGED_FILES:
                        self.wait_for_change()
                    self.check_open()
                    is_same = view == self.view and directory == self.context.directory
                    if is_same and cuts == self.cuts:
                        raise
            with self.lock:
                self.check_open()
                return self._ask(question, self.view)

    def _ask(self, question: Callable[[LogView], T], view: LogView) -> T:
        try:
            return question(view)
        except OffsetOutOfRange as error:
            error.of_log(self.context.log_name)
            raise

    def wait_for_change(self) -> None:
        """Wait until the change that is under way, if any, has ended."""
        with self.lock:
            pass

    def look_uncut(self, doing: str, question: Callable[[LogView], T]) -> T:
        """Do as ``look``, and again if the log was truncated meanwhile.

        For answers that name places: one that came from files which were being cut could be wrong
        without failing. A truncation that is under way is waited for.
        """
        cuts = self.cuts
        if not self.is_being_cut:
            answer = self.look(doing, question)
            if cuts == self.cuts and not self.is_being_cut:
                return answer
        with self.lock:
            return self.look(doing, question)

    @contextmanager
    def cutting(self) -> Iterator[None]:
        """Let readers know that the body truncates the log; the lock is held."""
        self.is_being_cut = True
        try:
            yield
        finally:
            self.cuts += 1
            self.is_being_cut = False

    def move(self, offsets: LogOffsets) -> None:
        """Make ``offsets`` the log's; what follows from them follows here.

        A new high watermark lets producer state forget replicated transactions; the first unstable
        offset is asked of it each time. Listeners hear of the changes once the lock is released.
        Only this method changes the offsets.
        """
        old = self.offsets
        high_watermark = offsets.high_watermark_metadata.offset
        if high_watermark != old.high_watermark_metadata.offset:
            self.producers.on_high_watermark_updated(high_watermark)
            if self.is_traced:
                trace_high_watermark(self.context, offsets.high_watermark_metadata)
        unstable = self.producers.first_unstable_offset
        moved = offsets
        if unstable != offsets.first_unstable:
            moved = offsets.with_first_unstable(unstable)
        if moved.first_unstable is not None and moved.first_unstable.is_offset_only:
            # Readers look the place up themselves if it is unknown, and get the error.
            with suppress(OSError, CorruptMessage):
                place = resolve(LogView(self.local.segments.all, moved), moved.first_unstable)
                moved = moved.with_first_unstable(place)
        self.offsets = moved
        self._note(old, moved)

    def _note(self, old: LogOffsets, new: LogOffsets) -> None:
        self.listeners.note(old, new)
        if self.owners_listeners is not None:
            self.owners_listeners.note(old, new)

    @property
    def is_settled(self) -> bool:
        """Whether the offsets end where the files end; not between a write and ``move``."""
        end, active = self.offsets.log_end, self.local.segments.active
        return end[1:] == (active.base_offset, active.size_bytes)

    def tell_again(self, before: LogOffsets) -> None:
        """Let listeners hear what has changed since ``before``, after an interrupt."""
        self._note(before, self.offsets)

    def resolve_high_watermark(self, view: LogView) -> LogOffsetMetadata:
        """Return the high watermark with its place; look it up, and keep it, if it is not known."""
        place = view.offsets.high_watermark_metadata
        if not place.is_offset_only:
            return place
        place = resolve(view, place)
        if place.is_offset_only:
            return place
        is_mine = False
        try:
            # A reader does not wait: the holder of the lock may be about to move it anyway.
            is_mine = self.lock.acquire(blocking=False)
            # Set again meanwhile, it may be elsewhere: the log may have been truncated.
            if (
                is_mine
                and self.offsets.high_watermark_metadata is view.offsets.high_watermark_metadata
            ):
                self.move(self.offsets.with_high_watermark(place))
        finally:
            if is_mine:
                self.lock.release()
        return place


class _Notices:
    """The outermost context of a change, ``LogState.notices``.

    At its end listeners are called with what has changed, unless this thread still holds the lock.
    """

    def __init__(self, state: LogState) -> None:
        self._state: Final = state

    def __enter__(self) -> None:
        """Begin; the lock is taken after this, so that it is released before the end."""

    def __exit__(self, *_: object) -> None:
        own, owners = self._state.listeners, self._state.owners_listeners
        if own.news:
            own.notify()
        if owners is None or not owners.news:
            return
        # The owner's lock first: while it holds that, as in its appends, it notifies by itself.
        if not owners.is_lock_held() and not own.is_lock_held():
            owners.notify()


class Change:
    """What ``LogState.changing`` returns.

    ``is_whole``: at this moment nothing is half done, so that an interrupt does no harm.
    """

    __slots__ = ("_doing", "_state", "is_whole")

    def __init__(self, state: LogState, doing: str) -> None:
        self._state: Final = state
        self._doing: Final = doing
        self.is_whole = False

    def __enter__(self) -> Self:
        self._state.check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        guard = self._state.context.guard
        if is_interrupt(error) and not self.is_whole:
            guard.take_offline(error)
        guard.watch(self._doing).__exit__(kind, error, trace)
