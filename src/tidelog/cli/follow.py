"""``tidelog cat --follow``: print records, then those that come.

Owns the waiting: logs are opened anew again and again, as any other process may write them. Must
not know how a record is printed.
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

LOOK_AGAIN_MS: Final = 200


def follow(
    places: Sequence[Place],
    print_from: Callable[[Place, ReadOnlyLog, int | None], int],
    *,
    wait_ms: Callable[[int], None] = sleep_ms,
) -> Iterator[None]:
    """Print what is there, then what comes; yields after each round, for ever.

    Args:
        places: the partitions, which take turns.
        print_from: prints a log from an offset on (None: wherever the user said), returns where to
            go on.
        wait_ms: waits between two rounds.
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
        wait_ms(LOOK_AGAIN_MS)


def _state(place: Place) -> tuple[int, ...]:
    """Return what changes whenever there may be more: sizes, and the age of the watermarks."""
    names = sorted(name for name in SYSTEM_FILES.list(place.path) if name.endswith(".log"))
    newest = SYSTEM_FILES.stat(f"{place.path}/{names[-1]}").size_bytes if names else 0
    above = place.path.rpartition("/")[0]
    try:
        written_ms = SYSTEM_FILES.stat(f"{above}/replication-offset-checkpoint").mtime_ms
    except FileNotFoundError:
        written_ms = 0
    return len(names), newest, written_ms
