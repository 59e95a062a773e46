"""Long random histories of one log on a failing disk; ``histories`` says what may be left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.crash.histories import History
from tests.crash.random_faults import run
from tests.machinery.scale import scaled

if TYPE_CHECKING:
    from tests.conftest import Enumerated

STEPS: Final = 120
QUICK: Final = 1
BLOCK: Final = 50
BLOCKS: Final = 20


def test_a_log_on_a_failing_disk_holds_what_it_may(enumerated: Enumerated) -> None:
    """A refused step changes nothing, a power cut leaves a prefix, what is flushed stays."""
    enumerated("planted faults", run(History, range(QUICK), STEPS), at_least=10)
    enumerated("histories", QUICK, at_least=QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_log_on_a_failing_disk_holds_what_it_may_for_long(
    block: int, enumerated: Enumerated
) -> None:
    """As above, with histories that no other block has."""
    count = scaled(BLOCK)
    first = QUICK + block * count
    enumerated(
        "planted faults", run(History, range(first, first + count), STEPS), at_least=10 * count
    )
    enumerated("histories", count, at_least=BLOCK)
