"""What many topics cost: as much as their number says, counted in lines of code that run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.machinery.counted_lines import Lines
from tests.machinery.manager_home import ManagerHome

from tidelog.datadir.catalogue import CATALOGUE_FILE, Topic
from tidelog.embedded.logs import Logs

if TYPE_CHECKING:
    import pytest


def lines_of_transaction(topics: int) -> int:
    """Return how many lines run to create topics, each with a record, in one transaction."""
    home = ManagerHome(retention_ms=-1)
    logs, lines = Logs(home.open()), Lines()
    before = len(home.fs.operations)
    with lines.counted(), logs.transaction("x") as txn:
        for number in range(topics):
            txn.create_topic(f"t.{number}")
            txn.append(f"t.{number}", b"v")
    replaced = [
        one
        for one in home.fs.operations[before:]
        if one[0] == "rename" and CATALOGUE_FILE in one[1]
    ]
    assert len(replaced) == 1
    assert logs.count_records(f"t.{topics - 1}").records == 1
    return lines.count


def test_new_topics_of_a_transaction_cost_as_much_as_their_number_says() -> None:
    """The thousandth no more than the first: a service does nothing else meanwhile."""
    lines_of_transaction(1)  # some code runs once in a process
    few, more, most = (lines_of_transaction(count) for count in (2, 5, 8))

    assert most - more == more - few


def test_each_topic_is_made_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though each creation, alone, writes all topics: their number is squared else."""
    home = ManagerHome()
    logs = Logs(home.open())
    as_json, calls = Topic.as_json, []

    def counted(topic: Topic) -> dict[str, Any]:
        calls.append(topic.name)
        return as_json(topic)

    monkeypatch.setattr(Topic, "as_json", counted)
    for number in range(20):
        logs.create_topic(f"t{number}", config={"retention.ms": "-1"})

    assert len(calls) == 20
    content = home.fs.read(f"/data/{CATALOGUE_FILE}").decode()
    assert content == json.dumps(json.loads(content), indent=2) + "\n"
