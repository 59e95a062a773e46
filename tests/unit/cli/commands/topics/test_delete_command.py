"""``tidelog delete``."""

from __future__ import annotations

from errno import EIO
from typing import TYPE_CHECKING

import tidelog
from tidelog.manager.metrics.metrics_file import MetricsFiles

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli


def test_a_deleted_topic_leaves_nothing_when_the_command_ends(cli: Cli) -> None:
    """Without the delay that a running service waits before it deletes files."""
    cli.on("create", "t", "-p", "2")
    cli.append("a")
    answer = cli.on("delete", "t")

    assert (answer.code, answer.out) == (0, "t: 2 partitions, 69 bytes deleted\n")
    assert [path.name for path in cli.data.iterdir() if path.is_dir()] == []
    assert cli.on("describe", "t").code == 2


def test_a_missing_topic_stops_the_command_before_it_deletes(cli: Cli) -> None:
    """All names are checked before the first topic is deleted."""
    cli.on("create", "t")

    assert cli.on("delete", "t", "u").code == 2
    assert cli.on("describe", "t").code == 0


def test_a_new_topic_of_the_name_is_empty(cli: Cli) -> None:
    """Its offsets start at 0."""
    cli.on("create", "t")
    cli.append("a", "b")
    cli.on("delete", "t")
    cli.on("create", "t")
    cli.append("c")

    assert [row["offset"] for row in cli.on("cat", "t").rows] == [0]


def test_a_dry_run_prints_what_would_be_deleted_and_keeps_it(cli: Cli) -> None:
    """Even while another process is writing, and when a name is wrong."""
    from tidelog.embedded.doors import open_briefly

    cli.on("create", "t", "-p", "2")
    cli.append("a")
    with open_briefly(cli.data):
        before = sorted(cli.data.rglob("*"))
        printed = cli.on("delete", "t", "--dry-run")
        assert cli.on("delete", "u", "--dry-run").code == 2
        assert sorted(cli.data.rglob("*")) == before

    assert printed[:2] == (0, "t: 2 partitions, 69 bytes would be deleted\n")
    assert cli.values() == ["a"]


def test_a_dry_run_beside_a_service_finds_all_its_directories(cli: Cli) -> None:
    """As the service does that deletes the topic; one directory is named for either."""
    second = spread_topic(cli)
    with tidelog.open(cli.data, second) as logs:
        files = MetricsFiles(logs.manager)
        files.start()
        planned = cli.on("delete", "t", "--dry-run")
        logs.manager.take_dir_offline(str(second), OSError(EIO, "broken"))
        files.write()
        offline = cli.on("delete", "t", "--dry-run").code, cli.on("delete", "t").code
        files.stop()

    assert planned == (0, "t: 2 partitions, 69 bytes would be deleted\n", "")
    assert offline == (2, 3)


def test_a_topic_in_two_directories_is_deleted_without_a_service(cli: Cli) -> None:
    """Once both are named, which the error for one of them says."""
    second = spread_topic(cli)

    lacking = cli.on("delete", "t")
    planned = cli.on("delete", "t", "--dry-run", "-d", second)
    deleted = cli.on("delete", "t", "-d", second)

    assert lacking.code == 2
    assert "open all of them to delete t" in lacking.err
    assert planned == (0, "t: 2 partitions, 69 bytes would be deleted\n", "")
    assert deleted == (0, "t: 2 partitions, 69 bytes deleted\n", "")


def spread_topic(cli: Cli) -> Path:
    """Make a topic with a partition in each of two directories; return the second."""
    second = cli.data.with_name("second")
    assert cli.on("create", "t", "-p", "2").code == 0
    cli.append("a")
    assert cli.on("move", "t", "-p", "1", "--to", second).code == 0
    return second


def test_a_topic_that_is_named_twice_is_deleted_once(cli: Cli) -> None:
    """It is one topic, with one line of output."""
    cli.on("create", "t")

    assert cli.on("delete", "t", "t") == (0, "t: 1 partition, 0 bytes deleted\n", "")
