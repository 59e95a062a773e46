"""The picture of a log."""

from __future__ import annotations

import pytest

from tidelog.explain.describe import LogFacts, SegmentFacts
from tidelog.explain.picture import draw_log


def facts(
    *segments: tuple[int, int, int],
    start: int = 0,
    watermark: int | None = None,
    damage: str | None = None,
) -> LogFacts:
    """Return the facts of a log with segments (base offset, end offset, bytes)."""
    end = segments[-1][1] if segments else 0
    return LogFacts(
        topic="flights",
        partition=0,
        directory="/data/flights-0",
        topic_id=None,
        config={},
        unknown_settings=(),
        inherited_settings={},
        log_start_offset=start,
        high_watermark=end if watermark is None else watermark,
        last_stable_offset=end if watermark is None else watermark,
        log_end_offset=end,
        size_bytes=sum(size for _, _, size in segments),
        segments=tuple(
            SegmentFacts(base, last, size, 0, 0, 0, is_active=number + 1 == len(segments))
            for number, (base, last, size) in enumerate(segments)
        ),
        damage=damage,
        last_stable_offset_held_by=None,
    )


THREE = ((0, 30_113, 5_000_000), (30_113, 60_002, 5_000_000), (60_002, 84_193, 2_400_000))


def test_segments_are_drawn_to_scale() -> None:
    """Widths are in proportion to bytes; closed segments are solid, the active one is light."""
    assert (
        draw_log(facts(*THREE), 60)
        == """\
flights-0: 84,193 offsets in 3 segments, 12.4 MB
0                      30,113                  60,002
├██████████████████████│███████████████████████│▒▒▒▒▒▒▒▒▒▒▒▶
 └ log start 0
                                    high watermark 84,193 ┘
                                           log end 84,193 ┘
"""
    )


def test_offsets_are_placed_within_their_segments() -> None:
    """The column is in proportion to the offset; segments below the log start are lightest."""
    assert (
        draw_log(facts(*THREE, start=35_000, watermark=80_000), 60)
        == """\
flights-0: 49,193 offsets in 3 segments, 12.4 MB
0                      30,113                  60,002
├░░░░░░░░░░░░░░░░░░░░░░│███████████████████████│▒▒▒▒▒▒▒▒▒▒▒▶
                            └ log start 35,000
                                   high watermark 80,000 ┘
                                           log end 84,193 ┘
"""
    )


@pytest.mark.parametrize(("segments", "count"), [((), "0 segments"), (((0, 0, 0),), "1 segment")])
def test_an_empty_log_has_a_picture(segments: tuple[tuple[int, int, int], ...], count: str) -> None:
    """It is a thin line with the three offsets."""
    assert (
        draw_log(facts(*segments), 48)
        == f"""\
flights-0: 0 offsets in {count}, 0 bytes
├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌▶
 └ log start 0
 └ high watermark 0
 └ log end 0
"""
    )


def test_many_segments_share_columns() -> None:
    """Segments without a column of their own have no border and no base offset."""
    many = [(number * 10, number * 10 + 10, 100) for number in range(50)]

    assert (
        draw_log(facts(*many), 50)
        == """\
flights-0: 500 offsets in 50 segments, 5.0 kB
0  20  60  100  160  210  260  310  360  420  470
├███████████████████████████████████████████████▒▶
 └ log start 0
                             high watermark 500 ┘
                                    log end 500 ┘
"""
    )


def test_damage_is_the_last_line() -> None:
    """The picture ends with the description of the damage."""
    drawn = draw_log(facts((0, 10, 1000), damage="a batch is bad at byte 5"))

    assert drawn.endswith("┘\nDAMAGED: a batch is bad at byte 5\n")


@pytest.mark.parametrize("width", [1, 48, 120, 500])
@pytest.mark.parametrize("end", [1, 10**6, 2**63 - 1])
def test_lines_keep_to_the_width(width: int, end: int) -> None:
    """Every line fits the width, of at least 48 columns, even with the largest offsets."""
    drawn = draw_log(facts((0, end // 2, 500), (end // 2, end, 300)), width)

    assert max(len(line) for line in drawn.splitlines()[1:]) == max(width, 48)
