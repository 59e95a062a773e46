"""What many topics cost: as much as their number says, counted in lines of code that run."""

from __future__ import annotations

import gc
import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.machinery.manager_home import ManagerHome

from tidelog.datadir.catalogue import CATALOGUE_FILE, Topic
from tidelog.embedded.logs import Logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    import pytest


class Lines:
    """The lines of tidelog that have run; those of its fakes do not count."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count during the block; a loop on one line counts as often as it goes around."""
        before = sys.gettrace()
        gc.disable()  # what other tests have left would be ended here
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            gc.enable()

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        path = frame.f_code.co_filename
        return self._ran if "/tidelog/" in path and "/testing/" not in path else None

    def _ran(self, _frame: FrameType, event: str, _arg: Any) -> Any:
        self.count += event == "line"
        return self._ran


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
