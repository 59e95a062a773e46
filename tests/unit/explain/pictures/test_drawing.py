"""What is drawn of a picture, as text and as SVG, whatever the log claims."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.picture_rules import check_page, check_picture, check_svg, check_text

from tidelog.explain.describe import LogFacts, SegmentFacts
from tidelog.explain.pictures.log_picture import (
    MAX_EPOCHS,
    DamagedSpan,
    LogPicture,
    Mark,
    join_epochs,
    join_segments,
    picture_of_facts,
)
from tidelog.explain.pictures.overview import (
    MAX_STRIPS,
    draw_svg_overview,
    draw_text_overview,
)
from tidelog.explain.pictures.picture_scale import PictureScale
from tidelog.explain.pictures.svg_elements import mono_width
from tidelog.explain.pictures.svg_marks import draw_marks
from tidelog.explain.pictures.text_picture import TextStyle, draw_text
from tidelog.readonly.missing.holes import Hole

HOSTILE = "a\"b<c>&'\x1b[31m\n\u202e\ud800\x00]]>-->"


def facts(
    *segments: tuple[int, int, int],
    start: int = 0,
    stable: int | None = None,
    watermark: int | None = None,
    topic: str = "flights",
    damage: str | None = None,
    holes: tuple[Hole, ...] = (),
) -> LogFacts:
    """Return the facts of a log with segments (base offset, end offset, bytes)."""
    end = segments[-1][1] if segments else 0
    high = end if watermark is None else watermark
    return LogFacts(
        topic=topic,
        partition=0,
        directory="/data/flights-0",
        topic_id=None,
        config={},
        unknown_settings=(),
        inherited_settings={},
        log_start_offset=start,
        high_watermark=high,
        last_stable_offset=high if stable is None else stable,
        log_end_offset=end,
        size_bytes=sum(size for _, _, size in segments),
        segments=tuple(
            SegmentFacts(base, last, size, 0, 0, 0, is_active=number + 1 == len(segments))
            for number, (base, last, size) in enumerate(segments)
        ),
        damage=damage,
        last_stable_offset_held_by=None,
        holes=holes,
    )


NAMES = ("log start", "last stable offset", "high watermark", "log end", "recovery point")
THREE = ((0, 30_113, 5_000_000), (30_113, 60_002, 5_000_000), (60_002, 84_193, 2_400_000))


def test_segments_are_drawn_to_scale_with_pointers() -> None:
    """Base offsets above, the offsets that the log keeps below; equal ones share a pointer."""
    picture = picture_of_facts(facts(*THREE, start=35_000, watermark=80_000))

    assert (
        draw_text(picture, TextStyle(60))
        == """\
flights-0: 49,193 offsets, 3 segments, 12.4 MB
             0                  30,113            60,002
segments    ├░░░░░░░░░░░░░░░░░░│█████████████████│▒▒▒▒▒▒▒▒▒▶
                                   └ log start 35,000
               last stable offset, high watermark 80,000 ┘
                                           log end 84,193 ┘
"""
    )


def test_segments_that_only_the_archive_has_are_shaded() -> None:
    """A line says what the sign means, and how many bytes they are."""
    held = facts((0, 10, 500), (10, 20, 500), (20, 25, 200))
    archived = replace(held.segments[0], is_on_disk=False)
    picture = picture_of_facts(replace(held, segments=(archived, *held.segments[1:])))

    drawn = draw_text(picture, TextStyle(60)).splitlines()

    assert drawn[2] == "segments    ├▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓│██████████████████│▒▒▒▒▒▒▒▒▶"
    assert drawn[-1] == "segments: ▓ in the archive only, 500 bytes"


def test_ascii_is_enough() -> None:
    """With ``is_ascii`` the same is drawn in ASCII."""
    picture = picture_of_facts(facts((0, 10, 500), (10, 15, 100), start=4))

    assert (
        draw_text(picture, TextStyle(40, is_ascii=True))
        == """\
flights-0: 11 offsets, 2 segments, 600
  bytes
             0                     10
segments    |#####################|====>
                      ` log start 4
                last stable offset 15 '
                    high watermark 15 '
                           log end 15 '
"""
    )


def test_leader_epochs_begin_in_a_line_of_their_own() -> None:
    """With numbers where they fit; a log that has only the first epoch says nothing of it."""
    picture = picture_of_facts(facts(*THREE))
    found = [(0, 0), (7, 30_113), (8, 30_114), (9, 60_002), (3, 61_000), (12, 90_000)]

    drawn = draw_text(
        replace(picture, epochs=join_epochs(found, picture.facts)), TextStyle(80, is_ascii=True)
    )

    usual = replace(picture, epochs=join_epochs([(0, 0)], picture.facts))
    assert draw_text(usual, TextStyle(80)) == draw_text(picture, TextStyle(80))
    (line,) = [line for line in drawn.splitlines() if line.startswith("epochs ")]
    assert line.split() == ["epochs", "|0", "|8", "|9"]
    assert "leader epochs: 0 from offset 0, 7 from offset 30,113, 8 from" in drawn


def test_many_leader_epochs_are_joined() -> None:
    """The newest stands for those that begin close together; the first one begins the log."""
    picture = picture_of_facts(facts(*THREE, start=5_000))

    joined = join_epochs([(n, n * 2) for n in range(42_000)], picture.facts)

    assert len(joined) <= MAX_EPOCHS
    assert (joined[0].start_offset, joined[-1].leader_epoch) == (5_000, 41_999)
    assert sum(one.epochs for one in joined) == 42_000 - 2_500
    picture = replace(picture, epochs=joined)
    check_text(picture, 80)
    check_svg(picture)


def test_colours_change_nothing_else() -> None:
    """Without its control sequences the coloured text is the plain one."""
    picture = picture_of_facts(facts(*THREE, damage="a batch is bad"))

    coloured = draw_text(picture, TextStyle(60, has_colour=True))

    assert "\x1b[1;31m" in coloured
    plain = coloured
    for code in ("0", "1", "1;31", "2"):
        plain = plain.replace(f"\x1b[{code}m", "")
    assert plain == draw_text(picture, TextStyle(60))


sizes = st.integers(0, 2**40)
segments = st.lists(st.tuples(st.integers(0, 2**40), sizes), max_size=400)


@settings(deadline=None)
@given(segments, st.integers(40, 1000), st.data())
def test_any_log_keeps_the_rules(
    found: list[tuple[int, int]], width: int, data: st.DataObject
) -> None:
    """However segments, sizes and offsets lie, and at any width."""
    parts, base = [], data.draw(st.integers(0, 2**62))
    for count, size in found:
        parts.append((base, base + count, size))
        base += count
    first = parts[0][0] if parts else base
    chosen = [data.draw(st.integers(first, base)) for _ in range(3)]
    start, stable, high = sorted(chosen) if parts else (0, 0, 0)
    picture = replace(
        picture_of_facts(facts(*parts, start=start, stable=stable, watermark=high)),
        recovery_point=data.draw(st.none() | st.integers(0, 2**63 - 1)),
    )

    check_picture(picture)
    check_text(picture, width, is_ascii=data.draw(st.booleans()))
    check_svg(picture)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=20))
def test_a_later_offset_never_lies_before_an_earlier_one(offsets: list[int]) -> None:
    """Also where segments contradict each other, as in a damaged directory."""
    parts = [(offset, offset // 2, 100) for offset in offsets]
    scale = PictureScale(picture_of_facts(facts(*parts)))

    places = [scale.position_of(offset) for offset in sorted(offsets)]

    assert places == sorted(places)


@settings(deadline=None)
@given(
    st.lists(st.floats(164, 1164), max_size=5).map(sorted),
    st.lists(st.integers(0, 2**63 - 1), min_size=5, max_size=5, unique=True).map(sorted),
)
def test_labels_of_offsets_hide_none_other(places: list[float], offsets: list[int]) -> None:
    """They lie within the page, and those of one row beside each other."""
    marks = [
        (Mark((name,), offset), place)
        for name, offset, place in zip(NAMES, offsets, places, strict=False)
    ]

    drawn, rows = draw_marks(marks, 74, (24, 1176))

    root = fromstring(f"<g>{drawn.elements}</g>")
    taken: dict[str, list[tuple[float, float]]] = {}
    for label in root:
        width, x = mono_width(label.text or ""), float(label.attrib["x"])
        left = x - width if "end" in label.attrib["class"].split() else x
        assert left >= 23.9
        assert left + width <= 1176.1
        taken.setdefault(label.attrib["y"], []).append((left, left + width))
    assert len(root) == len(places)
    assert len(taken) <= rows <= 5
    for row in taken.values():
        assert all(first[1] < second[0] for first, second in pairwise(sorted(row)))


def hostile() -> LogPicture:
    """Return a picture in which every text comes from somebody who means harm."""
    found = facts((0, 9, 90), topic=HOSTILE, damage=HOSTILE, holes=(Hole(4, 6, True),))
    damage = DamagedSpan(10, 20, 3, 4, f"/{HOSTILE}/{HOSTILE}", 10, HOSTILE)
    return replace(
        picture_of_facts(found),
        damaged=(damage,),
        epochs_error=HOSTILE,
        retention_error=HOSTILE,
        compaction_error=HOSTILE,
        has_batches=True,
    )


def test_names_from_outside_are_escaped() -> None:
    """The SVG stays well-formed and gains no element, and no control character is printed."""
    root = check_svg(hostile())
    drawn = check_text(hostile(), 40)

    texts = "".join(root.itertext())
    assert texts.replace("\n", "").isprintable()
    assert "a\"b<c>&'\\x1b[31m\\n" in texts
    assert "\\x1b[31m" in drawn
    check_text(hostile(), 40, is_ascii=True)


def test_many_segments_are_joined_to_blocks() -> None:
    """Each lies in one block, and the blocks fill the axis; empty segments take no room."""
    many = [(n * 10, n * 10 + 10, 0 if n % 3 else 1000 + n) for n in range(5000)]
    picture = picture_of_facts(facts(*many))

    blocks = join_segments(picture.facts)

    check_picture(picture)
    assert sum(block.segments for block in blocks) == 5000
    assert blocks[-1].is_active
    assert len(blocks) <= 257


@pytest.mark.parametrize("width", [40, 41, 63, 80, 999])
def test_the_longest_offsets_fit(width: int) -> None:
    """At every width of at least 40 columns, with all names."""
    end = 2**63 - 1
    found = facts((0, end, 500), start=end - 9, stable=end - 7, watermark=end - 5)
    picture = replace(picture_of_facts(found), recovery_point=end // 2)

    drawn = check_text(picture, width)

    shown = drawn.replace(",", "")
    assert all(f"{offset}" in shown for offset in (end - 9, end - 7, end - 5, end, end // 2))


def test_an_overview_is_a_strip_for_each_log() -> None:
    """All to one scale; a log with an open transaction, and one with a loss, are marked."""
    held = facts((0, 10, 500), (10, 15, 100), start=10, stable=12)
    lost = facts((0, 9, 300), topic="tides", holes=(Hole(4, 6, False),))
    pictures = [picture_of_facts(found) for found in (held, lost, facts(topic="empty"))]

    assert (
        draw_text_overview(pictures, TextStyle(60))
        == """\
flights-0 ├░░░░░░░░░░░░░░░░░░░░░░░░░░░░│▒▒▒▒▒▒▶  600 bytes ○
tides-0   ├▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▶                   300 bytes !
empty-0   ├▶                                       0 bytes
tides-0: LOST: no segment holds offsets 4 to 5: a file seems
  to be lost
checked: the end of each log, and that no segment is
  missing; batches and their checksums were not read:
  tidelog verify checks every byte
○: an open transaction holds the last stable offset
"""
    )
    texts = "".join(check_page(draw_svg_overview(pictures)).itertext())
    assert "batches and their checksums were not read" in texts
    assert "last stable offset, where it is below the log end" in texts
    assert "high watermark, where it is below" not in texts
    assert "tides-0: LOST: no segment holds offsets 4 to 5" in texts


@pytest.mark.parametrize("width", [40, 44, 100, 1000])
def test_an_overview_keeps_to_the_width(width: int) -> None:
    """Whatever the names are."""
    pictures = [picture_of_facts(facts(*THREE, topic="t" * 249)), hostile()]

    for is_ascii in (True, False):
        lines = draw_text_overview(pictures, TextStyle(width, is_ascii)).splitlines()
        assert max(map(len, lines)) <= width
        assert all(line.isprintable() for line in lines)
        assert "".join(lines).isascii() or not is_ascii
    check_page(draw_svg_overview(pictures))


def test_an_overview_of_many_logs_is_bounded() -> None:
    """The largest are drawn, each with as many segments as fit."""
    many = [(n * 10, n * 10 + 10, 1000 + n) for n in range(1000)]
    one = picture_of_facts(facts(*many))
    pictures = [one] * 10 + [
        picture_of_facts(facts((0, 9, number), topic=f"t{number}")) for number in range(900)
    ]

    root = check_page(draw_svg_overview(pictures))

    names = [each.text for each in root.iter() if "mono ink end" in each.get("class", "")]
    assert len(names) == MAX_STRIPS
    assert (names[0], "t0-0" in names, "t899-0" in names) == ("flights-0", False, True)
