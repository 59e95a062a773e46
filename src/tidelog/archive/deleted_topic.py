"""Deletes what is left of an archive whose topic was deleted, or is archived no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.archive.chain import Chain
from tidelog.archive.claim_file import claim_file, read_claim
from tidelog.archive.copier import Copier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from tidelog.archive.chain_state import ChainState
    from tidelog.archive.copier import ClosedSegment
    from tidelog.env.machine import Machine
    from tidelog.store.objects import Objects


class _NoLog:
    """A partition that is archived no longer as ``ArchivedLog``: no segments, and none missing."""

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
    fs, path = machine.fs, claim_file(data_dir, *part)
    copier = _found(machine, store, data_dir, part)
    if copier is not None:
        left = read_claim(fs, path).left
        # What was copied by hand after the log had left it stays, as other copies by hand do.
        if left is None or left.uri != store.name or left.end == copier.state.end:
            copier.end_archive()
        copier.sweep(machine.clock.now_ms())
        if copier.state.removed:
            return False
    fs.delete(path)
    # Durable before this is reported: a claim that comes back would end the archive again.
    fs.sync_directory(data_dir)
    return True


def sweep_archive(machine: Machine, store: Objects, data_dir: str, part: tuple[UUID, int]) -> bool:
    """Sweep an archive that its log has left; return whether nothing removed is left to delete.

    Whatever the log holds now. Otherwise as ``end_archive``.
    """
    copier = _found(machine, store, data_dir, part)
    if copier is None:
        return True
    copier.sweep(machine.clock.now_ms())
    return not copier.state.removed


def _found(
    machine: Machine, store: Objects, data_dir: str, part: tuple[UUID, int]
) -> Copier | None:
    """Return the archive of a partition, to be changed; None if there is none."""
    topic_id, partition = part
    found = Chain(store, topic_id, partition, machine.rng).read()
    if not found.version:
        return None
    log = _NoLog(found, topic_id, partition, data_dir)
    # One that has ended never continues, so what is left of it is anybody's to delete: also
    # for a disk that was put back as it was before it ended it.
    copier = Copier(machine.fs, store, log, machine.rng, takes_over=found.is_deleted)
    copier.look()
    return copier
