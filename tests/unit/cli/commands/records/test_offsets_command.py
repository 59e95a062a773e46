"""``tidelog offsets``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cli = Any


@pytest.fixture
def timed(topic: Cli) -> Cli:
    """A topic with timestamps 10, 30 and 20."""
    lines = "".join(f'{{"value": "x", "timestamp": {at}}}\n' for at in (10, 30, 20))
    assert topic.on("append", "t", "--format", "json", stdin=lines).code == 0
    return topic


def test_without_a_time_all_four_offsets_are_printed(timed: Cli) -> None:
    """One line of JSON for each partition."""
    assert timed.on("offsets", "t").rows == [
        {
            "topic": "t",
            "partition": 0,
            "logStartOffset": 0,
            "highWatermark": 3,
            "lastStableOffset": 3,
            "logEndOffset": 3,
        }
    ]


@pytest.mark.parametrize(
    ("at", "offset", "timestamp"),
    [
        ("earliest", 0, None),
        ("latest", 3, None),
        ("max-timestamp", 1, 30),
        ("11", 1, 30),
        ("31", None, None),
    ],
)
def test_a_time_gives_one_offset(
    timed: Cli, at: str, offset: int | None, timestamp: int | None
) -> None:
    """That of the first record at or after the time; nulls if there is none."""
    row = timed.on("offsets", "t", "--at", at).rows[0]

    assert (row["offset"], row["timestamp"]) == (offset, timestamp)


def test_offsets_that_readers_do_not_see_are_not_found(timed: Cli) -> None:
    """An offset at or above the high watermark is found only with ``--up-to logEnd``."""
    (timed.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")

    hidden = timed.on("offsets", "t", "--at", "max-timestamp").rows[0]
    shown = timed.on("offsets", "t", "--at", "max-timestamp", "--up-to", "logEnd").rows[0]

    assert (hidden["offset"], shown["offset"]) == (None, 1)


def test_an_invalid_time_is_refused(timed: Cli) -> None:
    """The usage is wrong: exit code 2."""
    assert timed.on("offsets", "t", "--at", "yesterday").code == 2


def test_damage_at_the_end_is_reported(timed: Cli) -> None:
    """Offsets missing below the high watermark give exit code 1."""
    log = timed.log_file()
    log.write_bytes(b"")

    outcome = timed.on("offsets", "t")

    assert (outcome.code, "missing" in outcome.err) == (1, True)


def test_records_are_counted_between_two_offsets(timed: Cli) -> None:
    """By default from the log start to where reading ends."""
    whole = timed.on("offsets", "t", "--count").rows[0]["count"]
    rest = timed.on("offsets", "t", "--count", "--from", "1", "--to", "3").rows[0]["count"]

    names = ("startOffset", "endOffset", "records", "aborted", "control", "gaps")
    assert whole == dict(zip(names, (0, 3, 3, 0, 0, 0), strict=True))
    assert rest == dict(zip(names, (1, 3, 2, 0, 0, 0), strict=True))


@pytest.mark.parametrize("bounds", [("0", "4"), ("4", "4"), ("2", "1")])
def test_a_range_outside_the_log_is_not_counted(timed: Cli, bounds: tuple[str, str]) -> None:
    """An offset beyond the end is an error, not a gap."""
    outcome = timed.on("offsets", "t", "--count", "--from", bounds[0], "--to", bounds[1])

    assert (outcome.code, "out of range" in outcome.err) == (2, True)


@pytest.mark.parametrize("options", [("--count", "--at", "latest"), ("--from", "1"), ("--to", "1")])
def test_options_that_do_not_go_together_are_refused(timed: Cli, options: tuple[str, ...]) -> None:
    """The usage is wrong: exit code 2."""
    assert timed.on("offsets", "t", *options).code == 2


def test_damage_leaves_the_count_out(timed: Cli) -> None:
    """The offsets are printed, the count is null, and the exit code is 1."""
    log = timed.log_file()
    log.write_bytes(b"")

    outcome = timed.on("offsets", "t", "--count")

    assert (outcome.code, outcome.rows[0]["count"]) == (1, None)


@pytest.mark.parametrize("bounds", [("2", "3"), ("3", "3"), ("0", "3")])
def test_a_count_behind_damage_names_its_place(timed: Cli, bounds: tuple[str, str]) -> None:
    """The range lies in the log as it was, so the damage is what keeps it from being counted."""
    log = timed.log_file()
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)

    outcome = timed.on("offsets", "t", "--count", "--from", bounds[0], "--to", bounds[1])
    to_end = timed.on("offsets", "t", "--count", "--from", bounds[0])

    assert (outcome.code, outcome.rows[0]["count"]) == (1, None)
    assert (to_end.code, to_end.err) == (outcome.code, outcome.err)
    assert f"at byte 0 of {log}" in outcome.err
