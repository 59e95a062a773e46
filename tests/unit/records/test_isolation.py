"""How far a reader may see."""

from __future__ import annotations

import pytest

from tidelog.errors import InvalidArgument
from tidelog.records.isolation import Isolation


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_word_names_an_isolation(isolation: Isolation) -> None:
    """The words are Kafka's, and an isolation is its own word."""
    assert Isolation.of(str(isolation)) is Isolation.of(isolation) is isolation


@pytest.mark.parametrize("word", ["", "committed", "READ_COMMITTED", "read-committed"])
def test_another_word_is_an_error(word: str) -> None:
    """It must not fall through and show aborted records."""
    with pytest.raises(InvalidArgument, match="read_uncommitted, read_committed, log_end"):
        Isolation.of(word)
