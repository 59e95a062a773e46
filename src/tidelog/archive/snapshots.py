"""Snapshots: a topic as it is now, in closed segments, kept under a name and never changed.

A snapshot is an archive of its own, below the prefix of others, and read as one. Each partition has
a single version, so that it is there as a whole or not at all. Kafka has nothing of this kind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tidelog.archive.chain import Chain
from tidelog.archive.deltas import Add, Claim, Skip, Snapshot, Start
from tidelog.archive.segment_object import SegmentObject
from tidelog.datadir.offset_checkpoints import cleaned_end
from tidelog.errors import ArchiveOvertaken, InvalidArgument

if TYPE_CHECKING:
    from random import Random

    from tidelog.archive.chain_state import ChainState
    from tidelog.archive.copier import ArchivedLog
    from tidelog.archive.deltas import Operation
    from tidelog.env.files import FileSystem
    from tidelog.store.objects import Objects

FOLDER: Final = "snapshots"
MAX_SEGMENTS: Final = 10_000
"""Of a partition: they are named by one version."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_CLAIM: Final = 1


def snapshot_uri(uri: str, name: str) -> str:
    """Return the URI of a snapshot of an archive; InvalidArgument for a name that is not valid."""
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument(
            f"{name[:120]!r} is not the name of a snapshot: at most 100 letters, digits, '_',"
            " '-' and '.', of which the first is not '.'"
        )
    return f"{uri.rstrip('/')}/{FOLDER}/{name}"


def snapshots_below(uri: str, store: Objects) -> list[str]:
    """Return the URIs of the snapshots of an archive, whose objects ``store`` has; StoreError."""
    return [snapshot_uri(uri, name) for name in store.directories(FOLDER) if _NAME.fullmatch(name)]


def copy_to_snapshot(
    fs: FileSystem, store: Objects, log: ArchivedLog, rng: Random, partitions: int
) -> ChainState:
    """Put all closed segments of a log, then the version that names them; return its state.

    A copy that was broken off is deleted, and made again from what is closed then.

    Args:
        fs: the disk.
        store: the snapshot's objects.
        log: the log, whose directory this process holds.
        rng: makes names and nonces.
        partitions: how many the topic has, without which a part of it would pass for all.

    Raises:
        ArchiveOvertaken: another process has made it meanwhile.
        InvalidArgument: the log has too many closed segments.
        StoreError, CorruptMessage: as ``Copier.copy``.
    """
    start = log.log_start_offset
    # What was deleted on request stays on the disk until the next pass of retention.
    segments = [one for one in log.closed_segments() if one.end_offset > start]
    if len(segments) > MAX_SEGMENTS:
        raise InvalidArgument(
            f"{log.topic}-{log.partition} has {len(segments):,} closed segments; a snapshot takes"
            f" {MAX_SEGMENTS:,} of a partition"
        )
    chain = Chain(store, log.topic_id, log.partition, rng)
    claim = Claim(f"{rng.getrandbits(128):032x}", log.topic, dict(log.config))
    operations: list[Operation] = [claim, Snapshot(partitions)]
    if start:
        operations.append(Start(start, "log start"))
    if segments and segments[0].base_offset > start:
        operations.append(Skip(start, segments[0].base_offset, "not in the log"))
    for one in segments:
        made = SegmentObject(fs, log.directory, *one)
        operations.append(Add(chain.put_segment(made, _CLAIM)))
    state = chain.read()
    if state.version:
        _delete_others(store, chain, state)
        raise ArchiveOvertaken(f"another process has made the snapshot of {log.topic}")
    cleaned = cleaned_end(fs, log.data_dir, (log.topic, log.partition), is_tolerant=True)
    chain.commit(state, operations, _CLAIM, cleaned)
    _delete_others(store, chain, state)
    return state


def _delete_others(store: Objects, chain: Chain, state: ChainState) -> None:
    """Delete segments that the only version does not name: nothing will ever name them."""
    for name in chain.segments_beside({entry.name for entry in state.entries}):
        store.delete(chain.name(name))
