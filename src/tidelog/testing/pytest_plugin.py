"""The fixture ``kafka_broker`` of pytest, for programs that use Kafka.

It is there wherever ``tidelog[testing]`` is installed; nothing is loaded before a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidelog.testing.kafka_broker import KafkaBroker


@pytest.fixture
def kafka_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker over an empty directory, on a free port, for one test."""
    from tidelog.testing.kafka_broker import KafkaBroker  # noqa: PLC0415 - most tests need none

    with KafkaBroker(tmp_path / "kafka") as broker:
        yield broker
