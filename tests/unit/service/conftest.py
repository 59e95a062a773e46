"""The archive that services of these tests have."""

from __future__ import annotations

from random import Random

import pytest
from tests.machinery.archives import files_with
from tests.machinery.object_model import Timed

from tidelog.manager.manager_part import OpenStores

URI = "s3://lake/logs"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Timed:
    """Let the archive of this process be one in memory."""
    found = Timed(Random(1))
    found.name = URI
    files_with(found, URI)
    monkeypatch.setattr(OpenStores, "opened", lambda _self, _uri: found)
    return found
