"""Adopting a file of batches as a segment of a log: one rename, and no byte is written twice.

Kafka has no counterpart; its segments are only ever appended to.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import InvalidArgument
from tidelog.log.flushing import flush_records, roll_locked, take_back_gap
from tidelog.log.producers.producer_updates import ProducerUpdates
from tidelog.log.producers.replay import epoch_changes
from tidelog.records.array_rows import every
from tidelog.records.batch import MAGIC_V2
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.segment.offset_metadata import LogOffsetMetadata
from tidelog.segment.segment_recovery import Recovered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.codec.layout import Buffer
    from tidelog.log.leader_epoch import EpochEntry
    from tidelog.log.state import LogState
    from tidelog.records.batch_columns import BatchColumns


class _Survey(NamedTuple):
    """What a file holds: its indexes, and what it does to epochs and producers."""

    recovered: Recovered
    epochs: list[EpochEntry]
    producers: ProducerUpdates


def adopt_locked(state: LogState, path: str, pieces: Iterable[tuple[Buffer, BatchColumns]]) -> None:
    """Make the file ``path`` the active segment; see ``Log.adopt_segment``.

    All that lies before it is durable before the file is moved: a recovery deletes the segments
    after one that it cuts, and this is the only copy. From the rename on an error takes the log
    offline; a recovery builds what is missing then from the records.
    """
    context = state.context
    state.topic_id.flush()
    flush_records(state)
    read = iter(pieces)
    first = next(read, None)
    if first is None:
        raise InvalidArgument(f"{path} has no batches to adopt")
    first_offset = first[1].first_offset
    base_offset = _base_offset(state, first_offset)
    found = _survey(state, chain([first], read), base_offset)
    size_bytes = context.fs.stat(path).size_bytes
    if size_bytes != found.recovered.valid_bytes:
        raise InvalidArgument(
            f"{path} has {size_bytes} bytes, of which {found.recovered.valid_bytes} are batches"
        )
    before = state.epochs.entries
    try:
        _roll(state)
        state.epochs.assign_all(found.epochs)
        context.fs.rename(path, state.local.segments.active.path)
    except OSError:
        state.epochs.restore(before)
        if context.fs.exists(path):
            take_back_gap(state)
        raise
    with context.guard.watch("adopting a segment", must_finish=True):
        # The log's directory first: a power cut between the two leaves the file under both names,
        # and not under neither.
        context.fs.sync_directory(context.directory)
        context.fs.sync_directory(path.rpartition("/")[0])
        _use(state, found)


def _base_offset(state: LogState, first_offset: int) -> int:
    """Return the base offset of the segment that the file becomes.

    The log's end, also where the file begins behind a gap: between two segments that would pass for
    a file that is lost.
    """
    log_end_offset = state.offsets.log_end_offset
    if first_offset < log_end_offset:
        raise InvalidArgument(
            f"{state.context.log_name}: a file from offset {first_offset} on cannot be adopted"
            f" below the log end {log_end_offset}"
        )
    active = state.local.segments.active
    return log_end_offset if _must_roll(state) else active.base_offset


def _must_roll(state: LogState) -> bool:
    """Whether the active segment has records, or lies above the log's end."""
    active = state.local.segments.active
    return active.size_bytes > 0 or active.base_offset > state.offsets.log_end_offset


def _roll(state: LogState) -> None:
    """Make the active segment an empty one, with a durable producer snapshot at its base."""
    if _must_roll(state):
        roll_locked(state, syncs_snapshot=True)
    else:
        state.producers.take_snapshot_if_room()
        state.producers.snapshots.sync_all()


def _survey(
    state: LogState, pieces: Iterator[tuple[Buffer, BatchColumns]], base_offset: int
) -> _Survey:
    """Read the headers of all batches; nothing in the log changes."""
    recovered = Recovered.nothing(base_offset)
    recovered.next_offset = state.offsets.log_end_offset
    latest = state.epochs.latest
    epoch = -1 if latest is None else latest.epoch
    epochs: list[EpochEntry] = []
    updates = ProducerUpdates(state.producers)
    interval_bytes = state.context.config.index_interval_bytes
    for data, batches in pieces:
        last_offset = recovered.next_offset - 1
        bounds = OffsetBounds.of_segment(base_offset).after(last_offset)
        is_sound = bounds.first_unsound(batches) is None
        if not (every(batches.magic == MAGIC_V2) and is_sound):
            raise InvalidArgument(
                f"{state.context.log_name}: batches after offset {last_offset} cannot be adopted in"
                f" the segment {base_offset}: their offsets do not follow, or they are of an old"
                " format"
            )
        if int(batches.leader_epoch.min()) < epoch:
            raise InvalidArgument(
                f"{state.context.log_name}: batches after offset {last_offset} cannot be adopted:"
                f" their leader epoch is below {epoch}"
            )
        shift = recovered.valid_bytes - int(batches.position[0])
        updates.add_all(data, batches, base_offset=base_offset, position=shift)
        recovered.append(batches, interval_bytes)
        epochs.extend(epoch_changes(batches, epoch))
        epoch = int(batches.leader_epoch.max())
    recovered.aborted = updates.aborted(state.producers)
    return _Survey(recovered, epochs, updates)


def _use(state: LogState, found: _Survey) -> None:
    """Replace the empty active segment, whose file was renamed over, by one with the batches."""
    segments, producers = state.local.segments, state.producers
    empty = segments.active
    segment = state.context.open_segment(empty.base_offset)
    try:
        segment.reindex(found.recovered)
        segment.become_active()
    except BaseException:
        segment.close_handlers()
        raise
    segments.add(segment)
    empty.close_handlers()
    found.producers.apply_to(producers)
    next_offset = found.recovered.next_offset
    producers.map_end_offset = next_offset
    log_end = LogOffsetMetadata(next_offset, segment.base_offset, segment.size_bytes)
    state.move(state.offsets.with_log_end(log_end))
    state.synced = state.cuts, next_offset
    producers.take_snapshot_if_room()
