"""Long random histories of data directories; ``directory_histories`` says what may be left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.crash.directory_histories import DirectoryHistory
from tests.crash.random_faults import run
from tests.machinery.scale import scaled

if TYPE_CHECKING:
    from tests.conftest import Enumerated

STEPS: Final = 60
QUICK: Final = 1
BLOCK: Final = 20
BLOCKS: Final = 10


def test_directories_on_a_failing_machine_hold_what_they_may(enumerated: Enumerated) -> None:
    """What is acknowledged stays, topics, transactions and positions as a whole."""
    enumerated("planted faults", run(DirectoryHistory, range(QUICK), STEPS), at_least=10)
    enumerated("histories", QUICK, at_least=QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_directories_on_a_failing_machine_hold_what_they_may_for_long(
    block: int, enumerated: Enumerated
) -> None:
    """As above, with histories that no other block has."""
    count = scaled(BLOCK)
    first = QUICK + block * count
    enumerated(
        "planted faults",
        run(DirectoryHistory, range(first, first + count), STEPS),
        at_least=5 * count,
    )
    enumerated("histories", count, at_least=BLOCK)
