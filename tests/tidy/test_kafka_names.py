"""docs/kafka-names.md leads to files, names, settings and commands that there are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.parser import COMMAND_MODULES
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.tidy.conftest import Source

RULES = "Where the rules of a log stand"
CODE = re.compile(r"`([^`]+)`")
LOOKED_FOR = [
    "LEO",
    "HW",
    "LSO",
    "Log",
    "UnifiedLog",
    "LocalLog",
    "LogSegment",
    "LogManager",
    "LogCleaner",
    "LogCleanerManager",
    "ProducerStateManager",
    "LeaderEpochFileCache",
    "hasCleanShutdownFile",
    "awaitCleaned",
    "initializingLog",
    "maybeIncrementHighWatermark",
    "appendAsLeader",
    "appendAsFollower",
    "truncateFullyAndStartAt",
    "grabFilthiestCompactedLog",
    "SkimpyOffsetMap",
    "maybeUpdatePreferredLogDir",
    "currentLogs",
    "futureLogs",
    "logsToBeDeleted",
    "fetchOffsetSnapshot",
    "endOffsetFor",
    "truncateFromEnd",
    "epochs",
    "findDuplicateBatch",
    "KafkaProducer",
    "sendOffsetsToTransaction",
    "KafkaConsumer",
    "poll",
    "commitSync",
    "offsetsForTimes",
    "createTopics",
]


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The whole page."""
    return (root / "docs" / "kafka-names.md").read_text("utf-8")


def rows(page: str, title: str) -> list[list[str]]:
    """Return the cells of the table under a title."""
    table = page.partition(f"## {title}\n\n")[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def gone(
    cells: list[list[str]], shipped: list[Source], before: str = r"\b"
) -> list[tuple[str, str]]:
    """Return names of the second column that are not, after ``before``, in the third's file."""
    texts = {one.name.removeprefix("src/tidelog/"): one.text for one in shipped}
    return [
        (name, file)
        for _, ours, (file,) in ((row[0], row[1], CODE.findall(row[2])) for row in cells)
        for name in CODE.findall(ours)
        if not re.search(rf"{before}{name.rpartition('.')[2]}\b", texts.get(file, ""))
    ]


def test_each_name_stands_in_the_file_beside_it(page: str, shipped: list[Source]) -> None:
    """A name that was changed must be changed here, too."""
    titles = re.findall(r"## (.*)\n\n\| Kafka \| Here \| File", page)
    cells = [row for title in titles for row in rows(page, title)]

    assert (len(titles), len(cells) > 130) == (8, True)
    assert gone(cells, shipped) == []


def test_each_rule_of_a_log_is_decided_where_the_map_says(
    root: Path, shipped: list[Source]
) -> None:
    """docs/architecture.md leads from the rule to the function that decides it."""
    cells = rows((root / "docs" / "architecture.md").read_text("utf-8"), RULES)

    assert len(cells) > 11
    assert gone(cells, shipped, before="(?:def|class) ") == []


def test_what_developers_of_kafka_look_for_is_there(page: str) -> None:
    """Classes, methods and fields of Kafka's log by the names that they have there."""
    known = set(re.findall(r"\w+", page))

    assert [name for name in LOOKED_FOR if name not in known] == []


def test_settings_that_replaced_older_ones_exist(page: str) -> None:
    """By the names that a service takes."""
    options = [*options_of(LogConfig), *options_of(BrokerConfig)]
    names = {one.name for one in options} | {s.name for one in options for s in one.synonyms}
    cells = rows(page, "Settings of older releases")
    new = [name.partition("=")[0] for row in cells for name in CODE.findall(row[1])]

    assert len(new) > 8
    assert set(new) - names == set()


def test_commands_that_stand_for_kafkas_tools_exist(page: str) -> None:
    """With ``tidelog`` in front."""
    commands = [CODE.findall(row[1])[0].split() for row in rows(page, "Tools")]

    assert len(commands) > 10
    assert {first for first, *_ in commands} == {"tidelog"}
    assert {command for _, command, *_ in commands} - COMMAND_MODULES.keys() == set()
