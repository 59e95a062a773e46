"""docs/monitoring.md names log lines and metrics that the code has."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from tests.machinery.kafkas_messages import SAME_MESSAGES

from tidelog.config.log_levels import LOGGERS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.tidy.conftest import Source

CODE = re.compile(r"`([^`]+)`")
EVENT = re.compile(r"[a-z]+(?:-[a-z]+)+")


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The page, without its example."""
    whole = (root / "docs" / "monitoring.md").read_text("utf-8")
    return re.sub("```.*?```", "", whole, flags=re.DOTALL)


@pytest.fixture(scope="module")
def texts(shipped: list[Source]) -> list[str]:
    """Every text in the code, values in it written as an ellipsis."""
    return [
        re.sub(r"%[sd]", "…", node.value)
        for source in shipped
        for node in source.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_messages_that_are_the_same_are_in_the_code(texts: list[str]) -> None:
    """Word for word, except the values; the page says of what they are."""
    # What a line says, and the words between two values of it.
    said = [words for message in SAME_MESSAGES for words in re.split("[…']", message)]

    assert len(said) > len(SAME_MESSAGES)
    for words in said:
        assert any(words.strip() in text for text in texts), words


def test_events_that_the_page_names_are_in_the_code(page: str, texts: list[str]) -> None:
    """Those of the table, and those to wait for."""
    lines = page.partition("## Metrics")[0]
    events = {name for code in CODE.findall(lines) for name in re.split("[ =]", code)[:1]}
    events = {name for name in events if EVENT.fullmatch(name)}
    known = {text.partition(" ")[0] for text in texts}

    assert len(events) > 10
    assert events - known == set()


def test_metrics_that_the_page_names_are_in_the_code(page: str, shipped: list[Source]) -> None:
    """And no metric of the code is missing there."""
    table = page.partition("| Metric |")[2].partition("\n\n")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    named = {code for cell in cells for code in CODE.findall(cell)[1:]}
    makers = (
        "/broker/request_counts",
        "/broker/broker",
        "/manager/metrics/",
        "/service/archive_upkeep",
        "/manager/log_archiver",
        "/spark/streams/",
    )
    code = "".join(one.text for one in shipped if any(maker in one.name for maker in makers))

    assert len(named) > 30
    assert {name for name in named if f'"{name}"' not in code} == set()


def test_the_table_of_loggers_is_the_one_that_the_service_takes(page: str) -> None:
    """Kafka's classes and our logger."""
    table = page.partition("| Kafka's classes |")[2].partition("\n\n")[0]
    cells = [[CODE.findall(cell) for cell in line.split(" | ")] for line in table.splitlines()[2:]]

    assert {kafkas: tuple(ours) for classes, ours in cells for kafkas in classes} == LOGGERS


PLACES = re.compile("(directory|path|topic|log|to|host|group)=%|: %s")
PLACELESS = {
    "cleaner-not-started": "of all logs",
    "cleaner-pass-failed": "of a thread",
    "cleaner-off": "of all logs",
    "duplicates-dropped": "in a setting",
    "descriptor-limit-not-raised": "of the process",
    "kernels-not-cached": "of the process",
    "kernels-unavailable": "of the process",
    "settings-not-taken": "of the service",
    "settings-taken": "of the service",
    "settings-without-effect": "of the service",
    "topic-deletion-put-off": "of topics that the error names",
    "tasks-still-running": "of the service",
    "task-failed": "of the scheduler",
    "task-ignored": "of the scheduler",
}


def test_every_event_names_the_log_or_directory_it_is_about(texts: list[str]) -> None:
    """Kafka's log lines begin with the partition; of a thousand logs, which one is the question."""
    events = {text for text in texts if EVENT.fullmatch(text.partition(" ")[0]) and "=…" in text}

    assert len(events) > 60
    placeless = {
        text.partition(" ")[0] for text in events if not PLACES.search(text.replace("…", "%s"))
    }
    assert placeless - set(PLACELESS) == set()
