"""The end of an open log: closed, abandoned, deleted, or its directory renamed.

The caller holds the log's lock. Kafka: ``UnifiedLog.close``, ``closeHandlers``, ``delete`` and
``renameDir``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import InvariantError
from tidelog.segment.undo import undone_on_error

if TYPE_CHECKING:
    from tidelog.log.state import LogState


def close_locked(state: LogState) -> None:
    """Write a producer snapshot at the log end, make all durable, close the files.

    On a failed disk it only closes the files, and raises KafkaStorageError: nothing was made
    durable. A full disk leaves the log open if the snapshot or the epochs cannot be written.
    """
    if state.context.guard.is_offline:
        close_handlers_locked(state)
    state.context.guard.check_online()
    state.topic_id.flush()
    state.epochs.flush_if_dirty()
    with state.context.guard.watch("closing"):
        state.producers.take_snapshot()
        state.producers.snapshots.sync_all()
    with state.context.guard.watch("closing", must_finish=True):
        state.local.close()
    state.is_closed = True


def close_handlers_locked(state: LogState) -> None:
    """Close the files without writing: the disk has failed."""
    state.is_closed = True
    # Another process may have the directory by the time that a task in background would write.
    state.epochs.end_writing()
    state.local.close_handlers()


def delete_locked(state: LogState) -> None:
    """Delete the log's files and its directory, now; a closed log can be deleted too."""
    with state.context.guard.watch("deleting the log"):
        if not state.context.fs.exists(state.context.directory):
            state.check_open()
        state.epochs.clear()
        state.is_closed = True
        state.local.delete_all()


def rename_directory_locked(state: LogState, name: str, *, goes_on: bool) -> None:
    """Rename the log's directory within its parent, durably.

    With ``goes_on`` the log is used as before; else it is about to be deleted, and its epochs are
    forgotten so that nothing writes them again. An error is undone.
    """
    if "/" in name:
        raise InvariantError(f"{name!r} is not a directory name")
    context = state.context
    state.topic_id.flush()
    target = f"{context.parent}/{name}"
    source = context.directory
    if target == source:
        return
    with context.guard.watch("renaming the log"), undone_on_error(source) as undo:
        _move_locked(state, target)
        undo.callback(_move_locked, state, source)
        # Else a power cut could bring back the old name, under which the next start serves the log.
        context.fs.sync_directory(context.parent)
    if not goes_on:
        state.epochs.clear()


def _move_locked(state: LogState, target: str) -> None:
    """Rename the log's directory, and let everything that is open continue under the new path."""
    context = state.context
    context.fs.rename(context.directory, target)
    context.directory = target
    for segment in (*state.local.segments, *tuple(context.leaving)):
        segment.moved_to(target)
    state.producers.snapshots.directory = target
    state.epochs.moved_to(target)
