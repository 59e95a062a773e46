"""``tidelog mirror``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cli = Any


@pytest.fixture
def tiered(topic: Cli) -> Cli:
    """A topic with a record, whose settings say that a broker has tiered it."""
    topic.append("a")
    catalogue = topic.data / "tidelog.topics.json"
    tiered = '"config": {"remote.storage.enable": "true"}'
    catalogue.write_text(catalogue.read_text().replace('"config": {}', tiered))
    return topic


def test_the_settings_of_tiered_storage_that_are_left_out_are_named(tiered: Cli) -> None:
    """Before it is done, and when it is; what the local log holds is copied."""
    words = ("mirror", tiered.data, "--to", tiered.data.parent / "copy")
    what = "remote.storage.enable, and records that are only in remote storage: tidelog has none"

    plan = tiered(*words, "--dry-run")
    rows = tiered(*words, "--dry-run", "--json").rows
    done = tiered(*words)

    assert plan.out.startswith(f"t: would leave out {what}\nt-0: would copy [0, 1), 1 batch")
    assert rows[0]["settingsLeftOut"] == ["remote.storage.enable"]
    assert done.out.startswith(f"t: left out {what}\nt-0: copied [0, 1), 1 batch")
