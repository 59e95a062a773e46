"""``tidelog move``: from one disk to another."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome, as_service, fill, values

import tidelog
from tidelog.cli.commands.topics.move_command import moving_config
from tidelog.env.system_files import SystemFiles
from tidelog.errors import DirectoryLocked, KafkaStorageError
from tidelog.service import copied_log, mover
from tidelog.service.log_service import LogService

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def test_a_move_to_a_file_is_refused(cli: Cli) -> None:
    """As wrong usage: a service would take it for a disk that has failed."""
    cli.on("create", "t")

    answer = cli.on("move", "t", "--to", cli.data / "meta.properties")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith("meta.properties is a file, not a directory\n")


def test_a_move_to_where_the_partitions_are_is_refused(cli: Cli) -> None:
    """Exit code 2, and nothing is touched."""
    cli.on("create", "t")

    answer = cli.on("move", "t", "--to", f"{cli.data}/../{cli.data.name}")

    assert (answer.code, answer.out) == (2, "")
    assert "the partitions are there already" in answer.err


@pytest.mark.parametrize("others", [(), ("u",)])
def test_a_move_that_is_done_already_is_named(cli: Cli, others: tuple[str, ...]) -> None:
    """As where the directories are the same; a topic that is in neither is unknown."""
    target = cli.data.parent / "target"
    for topic in ("t", *others):
        cli.on("create", topic)
    assert cli.on("move", "t", "--to", target).code == 0

    again = cli.on("move", "t", "--to", target)
    none = cli.on("move", "v", "--to", target)

    assert (again.code, again.out) == (2, "")
    assert again.err == f"tidelog move: --to {target}: the partitions are there already\n"
    assert none.code == 2
    assert "there already" not in none.err


def test_all_partitions_of_a_topic_move(cli: Cli) -> None:
    """With all records; their space in the source is free when the command ends."""
    target = cli.data.parent / "target"
    cli.on("create", "t", "-p", "2")
    cli.append("a", "b", "c")

    answer = cli.on("move", "t", "--to", target)

    assert (answer.code, answer.out.count("moved to"), answer.err) == (0, 2, "")
    moved = cli("cat", "t", "-d", target).rows
    assert sorted(row["value"] for row in moved) == ["a", "b", "c"]
    assert not list(cli.data.glob("t-*"))


def test_a_move_names_what_stays_of_earlier_recoveries(torn: Cli) -> None:
    """A disk that is given away takes them along, and the target does not show them."""
    target = torn.data.parent / "target"
    torn.on("recover")

    moved = torn.on("move", "t", "--to", target)

    shown = f"tidelog salvage t -d {torn.data} -d {target}"
    assert f"1 file stays in {torn.data} with what recoveries cut off t: {shown}" in moved.err
    assert torn(*shown.split()[1:]).out.startswith("t-0: cut at offset")


@pytest.mark.parametrize("full", ["source", "target"])
def test_a_move_without_space_begins_nothing(
    cli: Cli, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how much is missing: of the logs in the target, of the list of topics here."""
    target = cli.data.parent / "target"
    cli.on("create", "t", "-p", "2")
    cli.append("a", "b")
    place = {"source": cli.data, "target": target}[full]

    def free_bytes(_: SystemFiles, path: str) -> int:
        return 7 if path == str(place) else 1 << 40

    monkeypatch.setattr(SystemFiles, "free_bytes", free_bytes)
    answer = cli.on("move", "t", "--to", target)

    assert (answer.code, answer.out, list(target.glob("t-*"))) == (3, "", [])
    assert f"{place} has 7 bytes free" in answer.err
    assert "are missing, and nothing was moved" in answer.err
    assert len(list(cli.data.glob("t-*"))) == 2


def test_the_copy_of_a_move_that_was_given_up_is_deleted_before_the_command_ends(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fill the disk on which there was no space for it."""
    target = cli.data.parent / "target"
    cli.on("create", "t")
    cli.append("a")

    def full(*_: object) -> int:
        error = KafkaStorageError("the copy cannot be written")
        raise error from OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copied_log, "copy_piece", full)
    monkeypatch.setattr(mover, "NEAR_BYTES", -1)
    monkeypatch.setattr(mover, "RETRY_MS", (1,))
    answer = cli.on("move", "t", "--to", target)

    assert (answer.code, answer.out) == (3, "")
    assert "t-0 was not moved: the copy cannot be written" in answer.err
    assert [path.name for path in target.glob("t-*")] == []
    assert cli.values() == ["a"]


def test_nobody_can_join_a_command_that_moves(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a service that starts meanwhile waits for it, as for each command."""
    target = cli.data.parent / "target"
    cli.on("create", "t")
    cli.append("a")
    move, seen = tidelog.Logs.move_partition, []

    def look(*given: Any, **options: Any) -> None:
        with pytest.raises(DirectoryLocked) as caught:
            tidelog.open(cli.data, wait_ms=0)
        seen.append(caught.value.lets_join)
        move(*given, **options)

    monkeypatch.setattr(tidelog.Logs, "move_partition", look)

    assert cli.on("move", "t", "--to", target).code == 0
    assert seen == [False]


def test_a_service_is_asked_to_move(cli: Cli) -> None:
    """It holds the locks, and serves the partition during the move."""
    target = cli.data.parent / "target"
    with tidelog.open(cli.data, target) as logs:
        logs.manager.create_topic("t", path=str(cli.data))
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


# Moves in flight


def begin_slowly(logs: tidelog.Logs, source: Path, target: Path) -> None:
    """Create t-0 with two records, and let it wait for the limit of its move."""
    logs.manager.create_topic("t", path=str(source))
    logs.append_all("t", [b"a", b"b"])
    logs.manager.throttle_moves(1)
    as_service(logs.manager)._mover.throttle.count(100_000)
    logs.manager.move_partition("t", 0, str(target))


def interrupted(cli: Cli) -> Path:
    """Leave a move of t-0 to another directory as a service does that is stopped."""
    target = cli.data.parent / "target"
    with tidelog.open(cli.data, target) as logs:
        begin_slowly(logs, cli.data, target)
    return target


def test_moves_are_listed_without_a_service(cli: Cli) -> None:
    """As the next start of one would continue them."""
    target = interrupted(cli)

    answer = cli.on("move", "--list", "--to", target)
    [row] = cli.on("move", "--list", "--to", target, "--json").rows

    assert answer.code == 0
    assert answer.out.startswith("t-0: ")
    assert f" copied from {cli.data} to {target}, stopped" in answer.out
    assert (row["from"], row["to"], row["state"]) == (str(cli.data), str(target), "stopped")
    assert (row["doneBytes"], row["totalBytes"]) == (0, cli.log_file().stat().st_size)


def test_nothing_to_list_is_not_an_error(cli: Cli) -> None:
    """Most of the time nothing moves; but a directory does not know where its copies lie."""
    target = interrupted(cli)
    none = f"tidelog move: no moves in flight in {cli.data}"

    assert cli.on("move", "--list") == (
        *(0, ""),
        f"{none}; without a service, name the directory of the copies with --to\n",
    )
    assert cli.on("move", "other", "--list", "--to", target) == (0, "", f"{none}\n")
    with tidelog.open(cli.data):
        assert cli.on("move", "--list") == (0, "", f"{none}\n")


def test_a_move_is_cancelled_without_a_service(cli: Cli) -> None:
    """The copy is deleted at once, and the source stays."""
    target = interrupted(cli)

    answer = cli.on("move", "t", "--cancel", "--to", target)

    assert (answer.code, answer.out) == (0, "t-0: the move was cancelled\n")
    assert not list(target.glob("t-0*"))
    assert cli.values() == ["a", "b"]


def test_without_a_service_a_cancellation_needs_both_directories(cli: Cli) -> None:
    """Only both catalogues show whether the move is decided."""
    target = interrupted(cli)

    answer = cli("move", "t", "--cancel", "-d", target)

    assert answer.code == 2
    assert "--to" in answer.err


def test_what_does_not_move_cannot_be_cancelled(cli: Cli) -> None:
    """A slip in the name of a topic is not to go unseen."""
    target = cli.data.parent / "target"
    with tidelog.open(cli.data, target) as logs:
        logs.manager.create_topic("t", path=str(cli.data))

    answer = cli.on("move", "t", "--cancel", "--to", target)

    assert answer.code == 2
    assert "no partition of t is being moved" in answer.err


def test_the_moves_of_a_service_are_listed_limited_and_cancelled(cli: Cli) -> None:
    """Through its requests, while it serves."""
    target = cli.data.parent / "target"
    with tidelog.open(cli.data, target) as logs:
        begin_slowly(logs, cli.data, target)
        listed = cli.on("move", "--list", "--json")
        cancelled = cli.on("move", "t", "--cancel")
        after = cli.on("move", "--list")
        limited = cli.on("move", "--throttle", "7")
        limit = as_service(logs.manager)._mover.throttle.bytes_per_second
        directory = logs.partition("t", 0).log.directory

    assert [row["limitBytesPerSecond"] for row in listed.rows] == [1]
    assert (cancelled.code, cancelled.out) == (0, "t-0: the move was cancelled\n")
    assert (after.code, after.out) == (0, "")
    assert (limited.code, limited.out) == (0, "moves together copy at most 7 bytes/s\n")
    assert limit == 7
    assert directory == str(cli.data / "t-0")


def test_a_limit_needs_a_service(cli: Cli) -> None:
    """Or a move that this command makes."""
    cli.on("create", "t")

    assert cli.on("move", "--throttle", "100").code == 2
    assert cli.on("move", "t", "--throttle", "100", "--list").code == 2
    assert cli.on("move", "t", "--throttle", "100", "--cancel").code == 2
    assert cli.on("move").code == 2
    assert cli.on("move", "t").code == 2
    assert cli.on("move", "--throttle", "0", "--to", "x", "t").code == 2


def test_a_limit_alone_takes_no_topic(cli: Cli) -> None:
    """It holds for all moves of the service."""
    cli.on("create", "t")

    refused = cli.on("move", "t", "--throttle", "100")

    assert refused.code == 2
    assert "--throttle alone takes no TOPIC, since it limits all moves" in refused.err


def test_a_move_takes_a_limit(cli: Cli) -> None:
    """What is small is moved at once all the same."""
    target = cli.data.parent / "target"
    cli.on("create", "t")
    cli.append("a")

    assert cli.on("move", "t", "--to", target, "--throttle", "1000").code == 0
    assert [row["value"] for row in cli("cat", "t", "-d", target).rows] == ["a"]


def test_nothing_expires_while_partitions_move() -> None:
    """A move may take days, and does not know the settings of the service that is stopped."""
    home = ManagerHome("/a", "/b")
    with home.open() as manager:
        manager.create_topic("t")
        fill(manager, "t", 0, 3)
    home.clock.advance(30 * DAY_MS)
    with LogService(moving_config("/a", "/b"), home.machine()) as manager:
        manager.startup()
        home.clock.advance(HOUR_MS)  # retention looks every five minutes

        assert len(values(manager, "t", 0)) == 3
