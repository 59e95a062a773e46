"""``tidelog move``: from one disk to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tidelog

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Cli


def test_a_move_to_where_the_partitions_are_is_refused(cli: Cli) -> None:
    """Exit code 2, and nothing is touched."""
    cli.on("create", "t")

    answer = cli.on("move", "t", "--to", f"{cli.data}/../{cli.data.name}")

    assert (answer.code, answer.out) == (2, "")
    assert "the partitions are there already" in answer.err


def test_all_partitions_of_a_topic_move(cli: Cli) -> None:
    """With all records; their space in the source is free when the command ends."""
    target = cli.data.parent / "target"
    cli.on("create", "t", "-p", "2")
    cli.append("a", "b", "c")
    before = sorted(cli.values("cat", "t", "-d", cli.data), key=str)

    answer = cli.on("move", "t", "--to", target)

    assert (answer.code, answer.out.count("moved to"), answer.err) == (0, 2, "")
    assert sorted(cli.values("cat", "t", "-d", target), key=str) == before
    assert not list(cli.data.glob("t-*"))


def test_a_service_is_asked_to_move(cli: Cli) -> None:
    """It holds the locks, and serves the partition during the move."""
    target = cli.data.parent / "target"
    with tidelog.open(cli.data, target) as logs:
        home_id = logs.manager.directory_id(str(cli.data))
        logs.manager.get_or_create_log(
            "t", 0, is_new=True, topic_id=home_id, target_directory_id=home_id
        )
        logs.append("t", b"a")
        answer = cli.on("move", "t", "--to", target)
        logs.append("t", b"b")
        directory = logs.partition("t", 0).log.directory
        values = [record.value for record in logs.read("t")]

    assert (answer.code, answer.err) == (0, "")
    assert directory == str(target / "t-0")
    assert values == [b"a", b"b"]


def test_a_service_reports_why_it_does_not_move(cli: Cli) -> None:
    """Such as for a directory that is not in its log.dirs; the request is deleted."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t")
        answer = cli.on("move", "t", "--to", cli.data.parent / "elsewhere")

    assert answer.code != 0
    assert "not one of the data directories" in answer.err
    assert not list(cli.data.glob("tidelog.*.request*"))


def test_a_missing_topic_is_wrong_usage(cli: Cli) -> None:
    """Nothing is created in the target."""
    cli.on("create", "t")

    assert cli.on("move", "other", "--to", cli.data.parent / "target").code == 2
    assert not (cli.data.parent / "target").exists()
