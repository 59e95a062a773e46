"""A broker in this process, and logs that have joined it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.brokers import served

import tidelog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.machinery.brokers import Served

    from tidelog import JoinedLogs


@pytest.fixture
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose path is short enough for a socket in it."""
    return tmp_path_factory.mktemp("d")


@pytest.fixture
def broker(data: Path) -> Iterator[Served]:
    """A process that others may join: this one."""
    with served(data) as found:
        yield found


@pytest.fixture
def joined(broker: Served, data: Path) -> Iterator[JoinedLogs]:
    """Logs that have joined it."""
    assert broker.bootstrap
    with tidelog.join(data) as found:
        yield found
