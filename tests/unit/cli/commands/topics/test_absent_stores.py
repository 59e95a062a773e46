"""Commands over topics that begin in an archive, while its store does not answer."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import TIERED, files_with, give_up_locally
from tests.machinery.object_model import ObjectModel

import tidelog
from tidelog.errors import StoreUnavailable
from tidelog.store.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

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


class PartlyAway(ObjectStore):
    """A store of files that does not answer about the segments of one topic."""

    away: UUID

    def get_ranges(
        self, name: str, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[bytes | memoryview]:
        if name.startswith(f"{self.away}/"):
            raise StoreUnavailable(f"{self.uri}/{name}: 503")
        return super().get_ranges(name, ranges)


def test_a_check_of_an_archive_goes_past_what_is_not_answered(
    cli: Cli, validated: Validated
) -> None:
    """The others are checked; the exit code is 3, also beside damage."""
    uri = (cli.data.parent / "lake").as_uri()
    with tidelog.open(cli.data) as logs:
        ids = {topic: logs.create_topic(topic).topic_id for topic in ("boats", *OTHERS)}
        for topic in ids:
            logs.append(topic, b"value")
    assert (cli.on("roll").code, cli("archive", cli.data, "--to", uri).code) == (0, 0)
    store = PartlyAway(uri)
    store.away = ids["ferries"]
    files_with(store, uri)

    outcome = cli("verify", uri)
    rows = cli("verify", uri, "--json")

    assert outcome.code == rows.code == 3
    assert outcome.err.startswith(f"tidelog verify: ferries-0: {uri}")
    assert "boats-0: sound" in outcome.out
    assert "trams-0: sound" in outcome.out
    assert "3 partitions, 0 damaged, 1 not checked; checked 4 segments" in outcome.out
    assert (rows.counts["partitions"], rows.counts["unanswered"]) == (3, 1)
    validated("verify", rows.lines)


@pytest.mark.parametrize("words", [("table", "partitions"), ("sql", "FROM rides")])
def test_a_table_is_not_shown_in_part(archived: Cli, words: tuple[str, ...]) -> None:
    """The error names the partition, which the path of an object in the store does not."""
    outcome = archived.on(*words)

    assert outcome.code == 3
    assert outcome.out == ""
    assert outcome.err.startswith(f"tidelog {words[0]}: rides-0: ")
