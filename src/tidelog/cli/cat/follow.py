"""``tidelog cat --follow``: print records, then those that are appended later.

Another process may be writing the logs, so they are polled, and reopened when they have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.waiting import sleep_ms
from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.readonly.log_follower import POLL_MS, LogFollower, ask_holders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.cli.partition_choice import Place
    from tidelog.readonly.read_only_log import ReadOnlyLog


def follow(
    places: Sequence[Place],
    print_from: Callable[[Place, ReadOnlyLog, int | None], int],
    *,
    moved: Callable[[Place], Place | None] = lambda _: None,
    wait_ms: Callable[[int], None] = sleep_ms,
) -> Iterator[None]:
    """Print the records, then poll for new ones; yields after each round, and never ends.

    Args:
        places: the partitions, printed in turn.
        print_from: prints a log from an offset on (None: from the start that the command line
            gives) and returns the offset to continue from.
        moved: returns where a partition is now that is gone from its place; None: it was deleted.
        wait_ms: waits that many milliseconds between two rounds.

    Raises:
        KafkaStorageError: a partition was deleted meanwhile.
    """
    followers = {place: LogFollower(place.path, fs=SYSTEM_FILES) for place in places}
    while True:
        ask_holders(followers.values())
        for place, follower in followers.items():
            try:
                log = follower.opened_if_changed()
            except (KafkaStorageError, UnknownTopicOrPartition):
                now = moved(place._replace(path=follower.path))
                if now is None:
                    raise
                followers[place] = follower.moved_to(now.path)
                continue  # the next round reads it
            if log is not None:
                with log:
                    follower.next_offset = print_from(place, log, follower.next_offset)
        yield
        wait_ms(POLL_MS)
