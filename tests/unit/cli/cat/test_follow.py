"""``tidelog cat --follow``: records that are appended while the command runs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from tests.machinery.lost_segment import lose_a_segment

import tidelog
from tidelog.cli.cat.follow import follow
from tidelog.cli.partition_choice import choose_partitions
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.readonly.log_follower import POLL_MS

if TYPE_CHECKING:
    import pytest
    from tests.unit.cli.conftest import Cli

    from tidelog.cli.partition_choice import Place
    from tidelog.readonly.read_only_log import ReadOnlyLog


def test_each_record_is_printed_once_as_it_is_appended(cli: Cli) -> None:
    """A round without changes opens no log."""
    cli.on("create", "t")
    cli.append("a", "b")
    places = choose_partitions(SYSTEM_FILES, [str(cli.data)], ["t"]).places
    printed: list[list[bytes | None]] = []
    waits: list[int] = []

    def show(place: Place, log: ReadOnlyLog, start: int | None) -> int:
        assert place == places[0]
        printed.append([record.value for record in log.records(start or 0)])
        return log.log_end_offset

    def wait(ms: int) -> None:
        waits.append(ms)
        if len(waits) == 2:
            cli.append("c")

    list(islice(follow(places, show, wait_ms=wait), 4))

    assert printed == [[b"a", b"b"], [b"c"]]
    assert waits == [POLL_MS] * 3


def test_a_limit_ends_it(cli: Cli) -> None:
    """After that many records in all, counting those that were there before."""
    cli.on("create", "t", "-p", 2)
    for partition in (0, 1):
        cli.on("append", "t", "-p", partition, stdin="a\nb\n")

    assert cli.values("--follow", "-n", 3) == ["a", "b", "a"]


def test_what_is_written_again_after_a_truncation_is_printed(
    topic: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It continues from the new end, and names the printed offsets that are gone."""
    with tidelog.open(topic.data) as logs:
        for value in (b"a", b"b", b"c"):
            logs.append("t", value)
        logs.flush()
        steps = iter(
            (
                lambda: logs.manager.truncation.truncate_to({("t", 0): 1}),
                lambda: logs.append_all("t", [b"d", b"e"]),
            )
        )

        def wait(_ms: int) -> None:
            next(steps)()
            logs.flush()

        monkeypatch.setattr(follow, "__kwdefaults__", {"wait_ms": wait})
        outcome = topic.on("cat", "t", "--follow", "-n", 5, "--format", "text")

    assert outcome.out.split() == ["a", "b", "c", "d", "e"]
    assert "t-0: offsets 1 to 2 were truncated after they were printed" in outcome.err


def test_a_lost_segment_is_named(cli: Cli) -> None:
    """Once the records after it are printed."""
    lose_a_segment(cli.data)
    outcome = cli.on("cat", "t", "--follow", "-n", 3, "--format", "%o")

    assert outcome.out.split() == ["0", "2", "3"]
    assert "t-0: no segment holds offset 1: a file seems to be lost" in outcome.err
