"""The requests that a broker of a test has counted, by their kinds."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidArgument
from tidelog.testing.kafka_broker import RequestCounts


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
