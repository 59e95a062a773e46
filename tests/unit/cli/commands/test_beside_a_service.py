"""Commands that change a data directory, beside a service that holds it and without one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.machinery.outcome import Outcome
    from tests.unit.cli.conftest import Cli

ID = re.compile(r"id \S{22}")
SMALL = {"internal.segment.bytes": "600", "retention.ms": "-1", "segment.index.bytes": "4096"}
NOW = ("--now", "1700000600000")
FIRST_MS = 1_700_000_000_000


def prepare(data: Path) -> None:
    """Make topics: one to retain, one to compact, and one to shrink."""
    with tidelog.open(data, log_cleaner_enable=False) as logs:
        logs.create_topic("retained", 2, {**SMALL, "retention.bytes": "2000"})
        logs.create_topic("compacted", 1, {**SMALL, "cleanup.policy": "compact"})
        logs.create_topic("plain", 2, SMALL)
        for name in ("retained", "compacted", "plain"):
            for partition in sorted(logs.topic(name).partitions):
                for number in range(40):
                    logs.append(
                        name,
                        b"value %d" % number,
                        key=b"%d" % (number % 3),
                        timestamp=FIRST_MS + number,
                        partition=partition,
                    )


COMMANDS: dict[str, tuple[object, ...]] = {
    "create": ("create", "new", "-p", "3", "-o", "retention.ms=1000"),
    "create one that exists": ("create", "plain"),
    "create one with a bad setting": ("create", "new", "-o", "retention.ms=never"),
    "create one with a bad name": ("create", "a/b"),
    "alter": ("alter", "plain", "-o", "retention.ms=5000", "--unset", "segment.index.bytes"),
    "add partitions": ("alter", "plain", "--partitions", "5", "-o", "retention.ms=5000"),
    "add no partitions": ("alter", "plain", "--partitions", "1"),
    "alter none": ("alter", "nobody", "-o", "retention.ms=5000"),
    "delete": ("delete", "plain", "compacted"),
    "delete none": ("delete", "plain", "nobody"),
    "delete-records": ("delete-records", "plain", "-p", "all", "--before", "25"),
    "delete-records as JSON": (
        "delete-records",
        "plain",
        "-p",
        "1",
        "--before",
        "highWatermark",
        "--json",
    ),
    "delete-records above the end": ("delete-records", "plain", "-p", "all", "--before", "41"),
    "delete-records of compacted": ("delete-records", "compacted", "-p", "0", "--before", "4"),
    "delete-records by another policy": (
        *("delete-records", "compacted", "-p", "0", "--before", "4", "-o", "cleanup.policy=delete"),
    ),
    "retain": ("retain", "-d", *NOW),
    "retain by another limit": ("retain", "plain", "-o", "retention.bytes=1500", *NOW, "-d"),
    "retain as JSON": ("retain", "retained", "--json", *NOW, "-d"),
    "retain with a bad setting": ("retain", "plain", "-o", "retention.ms=never", "-d"),
    "roll": ("roll", "plain"),
    "compact": ("compact", *NOW, "-d"),
    "compact as JSON": ("compact", "compacted", "--json", *NOW, "-d"),
    "archive": ("archive", "plain", "--to", "LAKE", "-d"),
    "archive all": ("archive", "--to", "LAKE", "--json", "-d"),
    "archive compacted": ("archive", "compacted", "--to", "LAKE", "-d"),
    "compact by another policy": (
        *("compact", "plain", "-o", "cleanup.policy=compact", *NOW, "-d"),
    ),
}


def run(cli: Cli, data: Path, words: tuple[object, ...]) -> Outcome:
    """Run one command on a directory."""
    given = {"LAKE": (data.parent / f"lake-of-{data.name}").as_uri()}
    return cli(*(given.get(str(word), word) for word in words if word != "-d"), "-d", data)


QUICK = {"create", "alter", "delete", "delete-records", "retain", "roll", "compact", "archive"}


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS],
)
def test_a_command_ends_beside_a_service_as_without_one(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    """With the same output, messages and exit code, and no file of the request left."""
    words = COMMANDS[name]
    alone, served = tmp_path / "alone", tmp_path / "served"
    for data in (alone, served):
        prepare(data)
    expected = run(cli, alone, words)
    with tidelog.open(served, log_cleaner_enable=False):
        outcome = run(cli, served, words)
        left = [path.name for path in served.glob("tidelog.*.request*")]

    assert left == []
    assert plain(outcome, served) == plain(expected, alone)


def plain(outcome: Outcome, data: Path) -> tuple[int, str, str]:
    """Return an outcome without the id of a topic and the name of the directory."""
    out, err = (ID.sub("id", text).replace(str(data), "DIR") for text in outcome[1:])
    return outcome.code, out, err


def test_a_topic_is_born_with_the_defaults_of_the_command_that_creates_it(topic: Cli) -> None:
    """Not with what the program brings that holds the directory, and that would delete."""
    with tidelog.open(topic.data, retention_ms=1, cleanup_policy="compact") as logs:
        logs.delete_topic("t")
        assert topic.on("create", "t").code == 0
        beside = dict(logs.topic("t").birth or {})
    assert topic.on("create", "alone").code == 0

    with tidelog.open(topic.data, retention_ms=1) as logs:
        assert logs.topic("alone").birth == beside
    assert (beside["retention.ms"], beside["cleanup.policy"]) == ("-1", "delete")


def test_a_full_recovery_beside_a_service_says_what_to_do(topic: Cli) -> None:
    """A service would have to stop serving the logs for as long as all segments are read."""
    topic.append("a")
    with tidelog.open(topic.data):
        refused = topic.on("recover", "--full")
        planned = topic.on("recover", "--full", "--dry-run")

    assert (refused.code, refused.out) == (3, "")
    assert "in use by" in refused.err
    assert "stop it first" in refused.err
    assert "tidelog plan recovery --full" in refused.err
    assert planned.code == 0
