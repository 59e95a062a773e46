"""The requests that a broker of a test has counted, by their kinds, and is to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.errors import InvalidArgument
from tidelog.testing.kafka_broker import KafkaBroker, RequestCounts

if TYPE_CHECKING:
    from pathlib import Path


def test_a_kind_that_has_not_come_counts_0() -> None:
    """And those that came, what came of them."""
    counts = RequestCounts({"Produce": 2})

    assert (counts["Produce"], counts["Fetch"]) == (2, 0)
    assert counts == {"Produce": 2}


@pytest.mark.parametrize("name", ["Prodcue", "produce", ""])
def test_a_name_that_is_no_request_is_refused(name: str) -> None:
    """A test that counts it would pass for the wrong reason."""
    with pytest.raises(InvalidArgument, match=r"is not a request that is offered"):
        RequestCounts()[name]


@pytest.mark.parametrize("times", [0, -1, "2", True, 1.0])
def test_a_fault_that_would_not_occur_is_refused(tmp_path: Path, times: Any) -> None:
    """Here, too, and not by the thread that serves the client."""
    broker = KafkaBroker(tmp_path / "kafka")

    with pytest.raises(InvalidArgument, match="times is a whole number from 1 on"):
        broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=times)
    with pytest.raises(InvalidArgument, match="ms is a whole number from 0 on"):
        broker.delay("Produce", "1s" if times == "2" else -1)  # type: ignore[arg-type]  # wrong
    with pytest.raises(InvalidArgument, match="NONE is not an error"):
        broker.fail("Produce", "none")
