"""One flipped bit in a batch header, where no checksum covers it, against every reader.

A reader yields the right records, or a prefix of them and then an error that names the damaged
batch. What nobody can see is counted: a base offset that moves inside a gap, or at a tail that no
clean end bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pytest
from tests.property.header_flips import (
    BASE_OFFSET_BITS,
    STORIES,
    Flip,
    compacted,
    flips,
    places,
    plain,
    written,
)

from tidelog.errors import CorruptMessage, TidelogError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.embedded.logs import Logs
    from tidelog.testing.directory_home import DataHome

Shown = list[tuple[int, bytes | None]]
Reader = Callable[["DataHome"], "Iterable[tuple[int, bytes | None]]"]


def beside(home: DataHome) -> Iterable[tuple[int, bytes | None]]:
    """Read without a lock."""
    with home.read_only("t-0") as log:
        yield from ((record.offset, record.value) for record in log.records())


READERS: Final[dict[str, Reader]] = {"beside": beside}


def shown(read: Reader, home: DataHome) -> tuple[Shown, TidelogError | None]:
    """Return what a reader yields, and the error after it."""
    found: Shown = []
    try:
        found.extend(read(home))
    except TidelogError as error:
        return found, error
    return found, None


def outcome(read: Reader, home: DataHome, flip: Flip, truth: Shown) -> str:
    """Say what a flip does to a reader; anything else fails."""
    damaged = home.copied(1)
    flip.apply(damaged)
    found, error = shown(read, damaged)
    if error is None:
        if found == truth:
            return "right"
        assert flip.bit < BASE_OFFSET_BITS, (flip, found)
        return "not seen"
    assert found == truth[: len(found)], flip
    if isinstance(error, CorruptMessage) and "one of the two" not in error.reason:
        assert (error.path, error.position) == flip.place[:2], (flip, str(error))
    return "error"


def check(
    story: Callable[[Logs], None], reader: str, bits: Iterable[int], *, every: int = 1
) -> Counter[str]:
    """Try each flip of a story's log; return how many of them had which outcome."""
    home, read = written(story), READERS[reader]
    truth, error = shown(read, home.copied(0))
    assert error is None
    last = places(home)[-1]
    counts: Counter[str] = Counter()
    for number, flip in enumerate(flips(home, bits)):
        if number % every:
            continue
        found = outcome(read, home, flip, truth)
        if found == "not seen":
            assert story is compacted or flip.place == last, flip
        counts[found] += 1
    return counts


QUICK_BITS: Final = (0, 2, 16, 40, 57, 59, 63, 70, 88, 100, 129, 140)


@pytest.mark.parametrize("reader", READERS)
def test_a_flipped_bit_of_a_header_is_seen_or_harmless(
    reader: str, enumerated: Callable[..., None]
) -> None:
    """A reader yields the right records, or those before the damage and an error that names it."""
    counts = check(plain, reader, QUICK_BITS, every=2)

    enumerated("flips", counts.total(), at_least=50)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_every_flipped_bit_of_a_header_is_seen_or_harmless(
    story: Callable[[Logs], None], reader: str, enumerated: Callable[..., None]
) -> None:
    """The same for each bit that no checksum covers, of each batch."""
    counts = check(story, reader, range(168))

    for what, count in counts.items():
        enumerated(what, count, at_least=1)
