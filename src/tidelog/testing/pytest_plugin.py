"""The fixtures ``kafka_broker`` and ``kafka_clock`` of pytest, for programs that use Kafka.

They are there wherever ``tidelog[testing]`` is installed; nothing is loaded before a test asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidelog.testing import KafkaBroker, ManualClock


@pytest.fixture
def kafka_clock() -> ManualClock:
    """A clock that the test advances, from the current time on; ``kafka_broker`` follows it."""
    from tidelog.env.clock import SYSTEM_CLOCK  # noqa: PLC0415 - most tests need none
    from tidelog.testing import ManualClock  # noqa: PLC0415 - as above

    return ManualClock(SYSTEM_CLOCK.now_ms())


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker over an empty directory, on a free port, for one test.

    It follows the time of day, or ``kafka_clock`` where the test, or a fixture of it, has that.
    """
    from tidelog.testing import KafkaBroker  # noqa: PLC0415 - as above

    follows = "kafka_clock" in request.fixturenames
    clock = request.getfixturevalue("kafka_clock") if follows else None
    with KafkaBroker(tmp_path / "kafka", clock=clock) as broker:
        yield broker
