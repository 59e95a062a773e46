"""Commands over topics that begin in an archive, while its store does not answer."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import TIERED, files_with, give_up_locally
from tests.machinery.object_model import ObjectModel

import tidelog
from tidelog.errors import StoreUnavailable

if TYPE_CHECKING:
    from tests.conftest import Validated

    Cli = Any

OTHERS = ["ferries", "trams"]


class Away(ObjectModel):
    """A store that answers nothing."""

    def get(self, name: str) -> bytes:
        self.requests += 1
        raise StoreUnavailable(f"{name}: 503")


@pytest.fixture
def archived(cli: Cli) -> Cli:
    """Topic rides, which begins in an archive whose store is away, between two others."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("rides", config=TIERED)
        for topic in OTHERS:
            logs.create_topic(topic)
            logs.append(topic, b"value")
        for number in range(60):
            logs.append("rides", b"value %d" % number)
    uri = (cli.data.parent / "lake").as_uri()
    give_up_locally(cli.data, uri)
    files_with(Away(Random(0)), uri)
    return cli


@pytest.mark.parametrize("words", [("list",), ("list", "--topics"), ("metrics",), ("describe",)])
def test_what_lies_on_the_disk_is_shown(archived: Cli, words: tuple[str, ...]) -> None:
    """What does not is named once; the answer is not complete, so the exit code is 3."""
    outcome = archived.on(*words)

    assert outcome.code == 3
    assert outcome.err.count("503") == 1
    assert f"tidelog {words[0]}: rides-0: " in outcome.err
    assert all(topic in outcome.out for topic in OTHERS)


def test_what_is_not_answered_is_counted(archived: Cli, validated: Validated) -> None:
    """Apart from what is damaged."""
    outcome = archived.on("list", "--json")

    assert [row["topic"] for row in outcome.rows] == OTHERS
    assert outcome.counts == {"partitions": 3, "damaged": 0, "missing": 0, "unanswered": 1}
    validated("list", outcome.lines)
