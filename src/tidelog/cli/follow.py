"""``tidelog cat --follow``: print records, then those that are appended later.

Another process may be writing the logs, so they are polled, and reopened when they have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.waiting import sleep_ms
from tidelog.readonly.read_only_log import open_read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.cli.partition_choice import Place
    from tidelog.readonly.read_only_log import ReadOnlyLog

POLL_MS: Final = 200


def follow(
    places: Sequence[Place],
    print_from: Callable[[Place, ReadOnlyLog, int | None], int],
    *,
    wait_ms: Callable[[int], None] = sleep_ms,
) -> Iterator[None]:
    """Print the records, then poll for new ones; yields after each round, and never ends.

    Args:
        places: the partitions, printed in turn.
        print_from: prints a log from an offset on (None: from the start that the command line
            gives) and returns the offset to continue from.
        wait_ms: waits that many milliseconds between two rounds.
    """
    next_offsets: dict[Place, int] = {}
    seen: dict[Place, tuple[int, ...]] = {}
    while True:
        for place in places:
            state = _state(place)
            if seen.get(place) != state:
                seen[place] = state
                with open_read_only(place.path, fs=SYSTEM_FILES) as log:
                    next_offsets[place] = print_from(place, log, next_offsets.get(place))
        yield
        wait_ms(POLL_MS)


def _state(place: Place) -> tuple[int, ...]:
    """Return what differs whenever there may be new records: sizes, and the watermarks' mtime."""
    names = sorted(name for name in SYSTEM_FILES.list(place.path) if name.endswith(".log"))
    newest = SYSTEM_FILES.stat(f"{place.path}/{names[-1]}").size_bytes if names else 0
    above = place.path.rpartition("/")[0]
    try:
        written_ms = SYSTEM_FILES.stat(f"{above}/replication-offset-checkpoint").mtime_ms
    except FileNotFoundError:
        written_ms = 0
    return len(names), newest, written_ms
