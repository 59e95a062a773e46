"""Cutting logs while a cleaner may be at work on them.

Owns the pause of cleaning around a cut. Must not know why logs are cut. Kafka:
``LogManager.truncateTo`` and ``truncateFullyAndStartAt``.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidelog.log.log import Log
    from tidelog.manager.directories.live_dirs import LiveDir
    from tidelog.manager.parts import Parts


def truncate_to(
    parts: Parts, offsets: Mapping[tuple[str, int], int], *, is_future: bool = False
) -> None:
    """Cut each log to its offset, then write the recovery points of the directories touched."""
    homes: dict[str, LiveDir] = {}
    for (topic, number), offset in offsets.items():
        key = TopicPartition(topic, number)
        log = _log_of(parts, key, is_future=is_future)
        if log is None:
            continue
        needs_pause = not is_future and offset < log.segments.active.base_offset
        with paused_cleaning(parts, key, log, is_needed=needs_pause):
            if log.truncate_to(offset):
                home = parts.home_of(log)
                homes[home.path] = home
    _write(parts, homes)


def truncate_fully_and_start_at(
    parts: Parts, key: TopicPartition, offset: int, *, is_future: bool = False
) -> None:
    """Empty a log and let it go on at ``offset``; nothing if there is none."""
    log = _log_of(parts, key, is_future=is_future)
    if log is None:
        return
    with paused_cleaning(parts, key, log, is_needed=not is_future):
        log.truncate_fully_and_start_at(offset)
    home = parts.home_of(log)
    _write(parts, {home.path: home})


@contextmanager
def paused_cleaning(
    parts: Parts, key: TopicPartition, log: Log, *, is_needed: bool = True
) -> Iterator[None]:
    """Let no cleaner work on a log; afterwards the cleaner begins at the log's end, if above."""
    cleaner = parts.cleaner
    if cleaner is None or not is_needed:
        yield
        return
    cleaner.manager.abort_and_pause(key)
    try:
        yield
        cleaner.manager.maybe_truncate_checkpoint(key, log, log.segments.active.base_offset)
    finally:
        cleaner.manager.resume([key])


def _log_of(parts: Parts, key: TopicPartition, *, is_future: bool) -> Log | None:
    return parts.logs.future(key) if is_future else parts.logs.current(key)


def _write(parts: Parts, homes: Mapping[str, LiveDir]) -> None:
    for home in homes.values():
        parts.write_checkpoints(home)
    if homes:
        parts.bell.ring()
