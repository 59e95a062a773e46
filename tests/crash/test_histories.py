"""Long random histories of one log on a failing disk; ``histories`` says what may be left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.crash.histories import History
from tests.machinery.scale import scaled

if TYPE_CHECKING:
    from tests.conftest import Enumerated

STEPS: Final = 120
QUICK: Final = 1
BLOCK: Final = 50
BLOCKS: Final = 20


def run(seeds: range) -> int:
    """Run a history for each seed; return the number of faults that were planted."""
    faults = 0
    for seed in seeds:
        history = History(seed)
        for _ in range(STEPS):
            try:
                history.step()
            except AssertionError as error:
                error.add_note(f"seed {seed}, which ends with {history.events[-6:]}")
                raise
        faults += history.faults
    return faults


def test_a_log_on_a_failing_disk_holds_what_it_may(enumerated: Enumerated) -> None:
    """A refused step changes nothing, a power cut leaves a prefix, what is flushed stays."""
    enumerated("planted faults", run(range(QUICK)), at_least=10)
    enumerated("histories", QUICK, at_least=QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_log_on_a_failing_disk_holds_what_it_may_for_long(
    block: int, enumerated: Enumerated
) -> None:
    """As above, with histories that no other block has."""
    count = scaled(BLOCK)
    first = QUICK + block * count
    enumerated("planted faults", run(range(first, first + count)), at_least=10 * count)
    enumerated("histories", count, at_least=BLOCK)
