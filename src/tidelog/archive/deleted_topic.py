"""Ends the archive of a topic that was deleted: noted there, then its objects are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.archive.chain import Chain
from tidelog.archive.claim_file import claim_file
from tidelog.archive.copier import Copier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from tidelog.archive.chain_state import ChainState
    from tidelog.archive.copier import ClosedSegment
    from tidelog.env.machine import Machine
    from tidelog.store.objects import Objects


class _NoLog:
    """A partition of a deleted topic as ``ArchivedLog``: it has no segments, and lacks none."""

    log_start_offset = 0
    directory = ""
    is_tiered = False

    def __init__(self, found: ChainState, topic_id: UUID, partition: int, data_dir: str) -> None:
        self.topic: Final = found.topic
        self.local_start_offset: Final = found.end
        self.log_end_offset: Final = found.end
        self.topic_id: Final = topic_id
        self.partition: Final = partition
        self.data_dir: Final = data_dir
        self.config: Final[Mapping[str, str]] = found.config

    def closed_segments(self) -> Sequence[ClosedSegment]:
        return ()


def end_archive(machine: Machine, store: Objects, data_dir: str, part: tuple[UUID, int]) -> bool:
    """Let the archive of a partition end; return whether nothing of it is left to delete.

    ``part``: topic id and number. The claim file in ``data_dir`` is deleted then. Until it is, this
    is to be called again: objects of removed segments stay for a day, for readers that have begun
    before. Raises as ``Copier.copy``.
    """
    topic_id, partition = part
    fs, rng = machine.fs, machine.rng
    found = Chain(store, topic_id, partition, rng).read()
    if found.version:
        log = _NoLog(found, topic_id, partition, data_dir)
        # One that has ended never continues, so what is left of it is anybody's to delete: also
        # for a disk that was put back as it was before it ended it.
        copier = Copier(fs, store, log, rng, takes_over=found.is_deleted)
        copier.look()
        copier.end_archive()
        copier.sweep(machine.clock.now_ms())
        if copier.state.removed:
            return False
    fs.delete(claim_file(data_dir, topic_id, partition))
    fs.sync_directory(data_dir)
    return True
