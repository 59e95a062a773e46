"""An append, from the bytes of a request to records in the log. Kafka: ``UnifiedLog.append``.

Headers and checksums are checked before the lock is taken. ``records.validation`` has the rules for
batches and records, ``producer_append`` those for producers. A rejected append may have rolled a
segment, as in Kafka, but leaves leader epochs as they were, and no segment above the log's end.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.layout import byte_view
from tidelog.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    InvariantError,
    KafkaError,
    MessageTooLarge,
    OffsetsOutOfOrder,
    RecordListTooLarge,
    UnexpectedAppendOffset,
)
from tidelog.kernels import rows
from tidelog.log.append_info import NO_GUARD, AppendInfo
from tidelog.log.directory_guard import is_interrupt
from tidelog.log.flushing import flush, flush_records, roll_locked, take_back_gap
from tidelog.log.offsets import check_offsets_left
from tidelog.log.producers.producer_append import UNKNOWN_TRANSACTION_VERSION
from tidelog.log.producers.producer_updates import ProducerUpdates
from tidelog.log.producers.replay import producer_batches
from tidelog.log.state import Change
from tidelog.log.trace import is_traced, trace_append
from tidelog.records.batch import INT32_MAX, MAGIC_V2, NO_TIMESTAMP, UNKNOWN_OFFSET
from tidelog.records.batch_columns import survey
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.validation.accept import (
    Accepted,
    AcceptedTogether,
    accept,
    accept_together,
)
from tidelog.records.validation.analyze import Analyzed, analyze
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.records.validation.own_records import OwnRecords
from tidelog.records.validation.rejection import Rejection, ignore_rejections
from tidelog.records.validation.validate import validate_for_leader
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.segment.roll import RollParams

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer
    from tidelog.log.append_info import Appended, HighWatermarkRule
    from tidelog.log.context import LogContext
    from tidelog.log.leader_epoch import EpochEntry
    from tidelog.log.offsets import LogOffsets
    from tidelog.log.producers.producer_append import ProducerBatch
    from tidelog.log.producers.producer_entry import BatchMetadata
    from tidelog.log.state import LogState
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.validation.rejection import OnRejected

    _Found = Analyzed | Accepted | AcceptedTogether

_NEAR_THE_END: Final = 1 << 62
"""An append takes fewer offsets than remain above this."""

_SHOWN_BATCHES: Final = 10
"""Batches named in the error about an append below the log end."""

_log = logging.getLogger(__name__)


class AppendRequest(NamedTuple):
    """How batches are to be appended; ``on_rejected`` is called before an error is raised.

    ``flushes_before_roll``: records are durable before a later segment can be, so that a crash
    leaves no gap, and none lies between segments. ``keeps_segment``: neither size nor age begins
    the next one. ``high_watermark_rule`` is the owner's: by it the high watermark moves together
    with the log end. ``may_change``: the bytes may be stamped where they lie, and not in a copy.
    """

    leader_epoch: int
    origin: AppendOrigin
    transaction_version: int = UNKNOWN_TRANSACTION_VERSION
    verification_guard: int = NO_GUARD
    on_rejected: OnRejected = ignore_rejections
    high_watermark_rule: HighWatermarkRule | None = None
    flushes_before_roll: bool = False
    may_change: bool = False
    keeps_segment: bool = False

    @property
    def assigns_offsets(self) -> bool:
        """Whether the log gives the offsets; a replica and the KRaft leader bring theirs."""
        return not self.origin.brings_offsets


class _Batches(NamedTuple):
    """Batches as they will be stored, with offsets; ``data`` holds nothing else.

    ``first`` has the 14 fields of the first batch. ``came_bytes`` is what the batches took as they
    came, ``leader_epoch`` the last one's. ``is_uniform``: all have one leader epoch and one magic.
    ``records_converted``: in batches that were built again.
    """

    data: Buffer
    columns: BatchColumns
    first: list[int]
    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    came_bytes: int
    leader_epoch: int
    is_uniform: bool
    has_producer: bool
    records_converted: int = 0


def append(state: LogState, data: Appended, request: AppendRequest) -> AppendInfo:
    """Append whole batches, or records as one.

    See ``Log.append_as_leader`` and ``append_as_follower``.

    Checksums and headers are checked before the lock is taken, under the settings of that moment.
    If they have changed by then, the batches are checked again: after a change of settings has
    returned, nothing is appended under the old ones. The time of the append is taken under the
    lock, so that the stamps of two threads are stored in order.
    """
    context = state.context
    # In this order: ``LogContext.use`` replaces the policy first.
    config, policy = context.config, context.policy
    try:
        state.topic_id.flush()
        if isinstance(data, OwnRecords) and data.accepted_by == (policy, config.max_message_bytes):
            found: _Found | None = data.accepted  # prepared before any lock
        else:
            found = _check(context, data, request)
        if found is None:
            return AppendInfo(-1, -1, -1, -1, state.whole_start, 0, -1)
        with state.notices, state.lock, Change(state, "appending") as change:
            change.is_whole = True
            state.check_appendable()
            if context.config is not config or context.policy is not policy:
                found = _check(context, data, request) or found
            info = _append_locked(state, data, found, request, change)
            state.is_traced = is_traced()
            if state.is_traced:
                trace_append(context, info, state.offsets.log_end_offset, info.valid_bytes)
            return info
    except KafkaError as error:
        error.of_log(context.log_name)
        raise


def _check(context: LogContext, data: Appended, request: AppendRequest) -> _Found | None:
    """Check what needs no lock; None if there is nothing to append."""
    limit_bytes, policy = context.config.max_message_bytes, context.policy
    if isinstance(data, OwnRecords):
        return data.accept(policy, limit_bytes, context.clock.now_ms(), request.on_rejected)
    if isinstance(data, list):
        now_ms = context.clock.now_ms()
        found = accept_together(data, policy=policy, max_batch_bytes=limit_bytes, now_ms=now_ms)
        if found is None:
            raise InvalidRecord("one of these batches has to be appended by itself")
        return found
    if request.origin is AppendOrigin.CLIENT:
        now_ms = context.clock.now_ms()
        taken = accept(data, policy=policy, max_batch_bytes=limit_bytes, now_ms=now_ms)
        if taken is not None:
            return taken
    analyzed = analyze(
        data,
        origin=request.origin,
        leader_epoch=request.leader_epoch,
        max_batch_bytes=None if request.origin is AppendOrigin.REPLICATION else limit_bytes,
        require_offsets_monotonic=not request.assigns_offsets,
        on_rejected=request.on_rejected,
        log_name=context.log_name,
    )
    return analyzed if analyzed.valid_bytes > 0 else None


def _append_locked(
    state: LogState,
    data: Appended,
    found: _Found,
    request: AppendRequest,
    change: Change,
) -> AppendInfo:
    now_ms = state.context.clock.now_ms()
    if isinstance(found, Accepted):
        batches = _placed(state, found, request, now_ms)
    elif isinstance(found, AcceptedTogether):
        batches = _placed_together(state, found, request)
    elif isinstance(data, (OwnRecords, list)):
        raise InvariantError("records of this process were not accepted as a batch")
    elif request.assigns_offsets:
        batches = _assigned(state, data, found, request, now_ms)
    else:
        batches = _as_given(state, data, found)
    before, epochs = state.offsets, state.epochs.entries
    try:
        change.is_whole = False
        _assign_epochs(state, batches)
        _make_room(state, batches, now_ms, request)
        updates = duplicate = None
        if batches.has_producer:
            updates = ProducerUpdates(state.producers, request.origin, request.transaction_version)
            duplicate = _check_producers(state, batches, request, updates)
        if duplicate is None:
            _write(state, batches, updates, request.high_watermark_rule)
        change.is_whole = True
    except BaseException as error:
        change.is_whole = _settle(state, before, epochs, error)
        raise
    offsets = state.offsets
    start, came_bytes, epoch = state.whole_start, batches.came_bytes, batches.leader_epoch
    if duplicate is not None:
        first, last = duplicate.first_offset, duplicate.last_offset
        when = duplicate.timestamp
        return AppendInfo(first, last, when, when, start, came_bytes, epoch, is_duplicate=True)
    unflushed = offsets.log_end.offset - offsets.recovery_point
    if unflushed >= state.context.config.flush_messages:
        # The batches are in the log: a producer that gets an error must not append them again.
        with state.context.guard.watch("flushing", must_finish=True):
            flush(state)
    return AppendInfo(
        batches.first_offset,
        batches.last_offset,
        batches.max_timestamp,
        batches.log_append_time,
        start,
        came_bytes,
        epoch,
        False,  # is_duplicate
        found.source_codec if isinstance(found, Analyzed) else found.codec,
        found.last_offset_of_first_batch,
        batches.records_converted,
    )


def _settle(
    state: LogState, before: LogOffsets, epochs: tuple[EpochEntry, ...], error: BaseException
) -> bool:
    """Undo an append that has failed; return whether nothing of it is left half done.

    An interrupt may come when readers can see the records: then the append stands, and listeners
    hear of it.
    """
    if state.offsets.log_end_offset != before.log_end_offset:
        state.tell_again(before)
        return True
    if is_interrupt(error) and not state.is_settled:
        return False
    # Several epochs that are assigned again would replace those before them.
    state.epochs.restore(epochs)
    take_back_gap(state)
    return True


def _placed(state: LogState, accepted: Accepted, request: AppendRequest, now_ms: int) -> _Batches:
    """Give a batch that was accepted at once the offsets from the log's end on."""
    first_offset, epoch = state.offsets.log_end.offset, request.leader_epoch
    if first_offset > _NEAR_THE_END:
        check_offsets_left(first_offset, accepted.row[rows.LAST_OFFSET] + 1)
    data, columns, row = accepted.placed(first_offset, epoch, now_ms, may_change=request.may_change)
    return _Batches(  # without names, which would take as long again: most appends come here
        data,
        columns,
        row,
        first_offset,
        row[rows.LAST_OFFSET],
        row[rows.MAX_TIMESTAMP],
        now_ms if accepted.is_append_time else NO_TIMESTAMP,
        len(data),
        epoch,
        True,  # is_uniform
        row[rows.PRODUCER_ID] >= 0,
    )


def _placed_together(
    state: LogState, accepted: AcceptedTogether, request: AppendRequest
) -> _Batches:
    """Give the batches of several requests the offsets from the log's end on."""
    first_offset, epoch = state.offsets.log_end.offset, request.leader_epoch
    if first_offset > _NEAR_THE_END:
        check_offsets_left(first_offset, int(accepted.columns.records_count.sum()))
    columns, next_offset = accepted.placed(first_offset, epoch)
    return _Batches(
        accepted.data,
        columns,
        columns.row(0),
        first_offset,
        next_offset - 1,
        accepted.max_timestamp,
        NO_TIMESTAMP,
        len(accepted.data),
        epoch,
        True,  # is_uniform
        accepted.has_producer,
    )


def _assigned(
    state: LogState, data: Buffer, analyzed: Analyzed, request: AppendRequest, now_ms: int
) -> _Batches:
    """Check batches and records as a leader does, and give them the offsets from the end on."""
    first_offset = state.offsets.log_end_offset
    validate = partial(
        validate_for_leader,
        analyzed=analyzed,
        config=state.context.policy,
        leader_epoch=request.leader_epoch,
        now_ms=now_ms,
        origin=request.origin,
        on_rejected=request.on_rejected,
    )
    if first_offset > _NEAR_THE_END:
        # Only validation finds how many records an old or compressed batch holds.
        check_offsets_left(first_offset, validate(bytes(data), first_offset=0).next_offset)
    validated = validate(data, first_offset=first_offset)
    if validated.are_sizes_changed:
        limit_bytes = state.context.config.max_message_bytes
        _check_sizes(validated.batches, limit_bytes, len(byte_view(data)), request.on_rejected)
    return _Batches(
        validated.data,
        validated.batches,
        validated.batches.row(0),
        first_offset,
        validated.next_offset - 1,
        validated.max_timestamp,
        validated.log_append_time,
        analyzed.valid_bytes,
        request.leader_epoch,
        *_seen(validated.batches),
        records_converted=validated.next_offset - first_offset
        if validated.are_sizes_changed
        else 0,
    )


def _check_sizes(
    columns: BatchColumns, limit_bytes: int, came_bytes: int, on_rejected: OnRejected
) -> None:
    largest = int(columns.size.max(initial=0))
    if largest > limit_bytes:
        on_rejected(Rejection.BYTES_REJECTED, came_bytes)
        raise MessageTooLarge("a batch as it is stored", largest, limit_bytes, "max.message.bytes")


def _as_given(state: LogState, data: Buffer, analyzed: Analyzed) -> _Batches:
    """Take batches as they are.

    UnexpectedAppendOffset if they begin below the log's end, OffsetsOutOfOrder if they overlap.
    """
    log_end_offset = state.offsets.log_end_offset
    first = analyzed.first_offset
    if first == UNKNOWN_OFFSET:
        first = analyzed.last_offset_of_first_batch
    if first < log_end_offset:
        raise UnexpectedAppendOffset(
            first,
            analyzed.last_offset,
            log_end_offset,
            state.offsets.log_start_offset,
            tuple(analyzed.batches.base_offset[:_SHOWN_BATCHES].tolist()),
        )
    check_offsets_left(analyzed.last_offset, 1)
    bounds = OffsetBounds(log_end_offset)
    wrong = bounds.first_unsound(analyzed.batches)
    if wrong is not None:  # Kafka compares last offsets only: no reader here would take the rest
        if wrong:
            bounds = bounds.after(int(analyzed.batches.last_offset[wrong - 1]))
        row = analyzed.batches.row(wrong)
        raise OffsetsOutOfOrder(bounds.reason(row[rows.BASE_OFFSET], row[rows.LAST_OFFSET]))
    return _Batches(
        byte_view(data)[: analyzed.valid_bytes],
        analyzed.batches,
        analyzed.batches.row(0),
        analyzed.first_offset,
        analyzed.last_offset,
        analyzed.max_timestamp,
        NO_TIMESTAMP,
        analyzed.valid_bytes,
        analyzed.last_leader_epoch,
        *_seen(analyzed.batches),
    )


def _seen(columns: BatchColumns) -> tuple[bool, bool]:
    """Return whether the batches are uniform, and whether one has a producer."""
    found = survey(columns)
    return bool(found.is_uniform), found.greatest_producer_id >= 0


def _assign_epochs(state: LogState, batches: _Batches) -> None:
    """Assign the epochs of the batches. A batch of magic 0 or 1 has none, and clears the cache.

    Only the first batch of each run with one epoch is read.
    """
    firsts, columns = [batches.first], batches.columns
    if not batches.is_uniform:
        epoch, magic = columns.leader_epoch, columns.magic
        changes = (epoch[1:] != epoch[:-1]) | (magic[1:] != magic[:-1])
        firsts += [columns.row(index + 1) for index in changes.nonzero()[0].tolist()]
    for first in firsts:
        if first[rows.MAGIC] >= MAGIC_V2:
            state.epochs.assign(first[rows.LEADER_EPOCH], first[rows.BASE_OFFSET])
        elif state.epochs.latest is not None:
            _log.warning("leader-epochs-cleared directory=%s", state.context.directory)
            state.epochs.clear_and_flush()


def _make_room(state: LogState, batches: _Batches, now_ms: int, request: AppendRequest) -> None:
    """Roll if the batches do not fit the active segment."""
    config = state.context.config
    size_bytes, limit_bytes = len(batches.data), config.segment_size_bytes
    stays = request.keeps_segment
    if size_bytes > limit_bytes and not stays:
        raise RecordListTooLarge("an append", size_bytes, limit_bytes, "segment.bytes")
    incoming = RollParams(size_bytes, batches.last_offset, batches.max_timestamp, now_ms)
    try:
        active = state.local.segments.active
        is_due = active.should_roll(incoming, config, only_if_full=stays)
    except CorruptMessage as error:  # it is the log that is damaged, not what is appended
        raise state.context.guard.error(str(error)) from error
    if is_due:
        first = batches.first_offset
        # Of old batches only the last offset is known: the segment may begin as low as this.
        expected = first if first != UNKNOWN_OFFSET else batches.last_offset - INT32_MAX
        if request.flushes_before_roll:
            flush_records(state)
            log_end = state.offsets.log_end_offset
            # A gap of the source between two segments would pass for a file that is lost.
            expected = log_end if batches.last_offset - log_end <= INT32_MAX else expected
        roll_locked(state, expected)


def _check_producers(
    state: LogState, batches: _Batches, request: AppendRequest, updates: ProducerUpdates
) -> BatchMetadata | None:
    """Check every batch that has a producer; return the one that is known already, if any is."""
    segment = state.local.segments.active
    for start, batch in producer_batches(batches.columns, batches.data):
        if request.origin is AppendOrigin.CLIENT:
            duplicate = _find_duplicate(state, batch)
            if duplicate is not None:
                return duplicate
        place = None
        if batch.is_transactional:
            _check_transaction(state, batch, request)
            position = segment.size_bytes + start
            place = LogOffsetMetadata(batch.base_offset, segment.base_offset, position)
        updates.add(batch, place)
    return None


def _find_duplicate(state: LogState, batch: ProducerBatch) -> BatchMetadata | None:
    known = state.producers.last_entry(batch.producer_id)
    if known is None:
        return None
    return known.find_duplicate(batch.producer_epoch, batch.base_sequence, batch.last_sequence)


def _check_transaction(state: LogState, batch: ProducerBatch, request: AppendRequest) -> None:
    """Reject the first batch of a transaction that its coordinator does not know (KIP-890)."""
    producers = state.producers
    if request.origin not in {AppendOrigin.CLIENT, AppendOrigin.COORDINATOR}:
        return
    if producers.is_txn_open(batch.producer_id, batch.producer_epoch):
        return
    known = producers.last_entry(batch.producer_id)
    if known is not None and batch.producer_epoch < known.producer_epoch:
        raise InvalidProducerEpoch(
            f"epoch {batch.producer_epoch} of producer {batch.producer_id} is stale; "
            f"{known.producer_epoch} is known"
        )
    if not producers.config.transaction_verification or batch.is_control:
        return
    if not producers.is_verified(batch.producer_id, request.verification_guard):
        raise InvalidTxnState(
            f"producer {batch.producer_id} has no verified transaction in {state.context.directory}"
        )


def _write(
    state: LogState,
    batches: _Batches,
    updates: ProducerUpdates | None,
    rule: HighWatermarkRule | None,
) -> None:
    """Write the batches with all index entries, then let memory follow, which cannot fail.

    On an error of the disk nothing has changed.
    """
    segment, producers = state.local.segments.active, state.producers
    aborted = () if updates is None else updates.aborted(producers)
    segment.append(batches.last_offset, batches.data, batches.columns, aborted)
    if updates is not None:
        updates.apply_to(producers)
    producers.map_end_offset = batches.last_offset + 1
    log_end = LogOffsetMetadata(batches.last_offset + 1, segment.base_offset, segment.size_bytes)
    watermark = None if rule is None else rule(log_end)
    if watermark is None:
        state.move(state.offsets.with_log_end(log_end))
    else:
        state.move(state.offsets.appended(log_end, watermark))
