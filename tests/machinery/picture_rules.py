"""What holds of every picture of a log, whatever the log is like."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, fromstring  # nosec - of our own making

from tidelog.explain.pictures.log_picture import (
    MAX_BLOCKS,
    MAX_CELLS,
    MAX_LANES,
    MAX_SPANS,
    producer_lanes,
)
from tidelog.explain.pictures.picture_scale import PictureScale
from tidelog.explain.pictures.svg_picture import PLOT_LEFT, PLOT_WIDTH, draw_svg
from tidelog.explain.pictures.text_picture import TextStyle, draw_text

if TYPE_CHECKING:
    from tidelog.explain.pictures.log_picture import LogPicture

MAX_SVG_BYTES: Final = 2_000_000
SVG: Final = "{http://www.w3.org/2000/svg}"
_ROUNDING: Final = 0.011


def check_picture(picture: LogPicture) -> None:
    """Assert what holds of the values: blocks fill the axis, spans lie in blocks, marks ascend."""
    position = 0
    for block in picture.blocks:
        assert block.position == position
        position = block.end_position
    assert position == picture.total_bytes == sum(s.log_bytes for s in picture.facts.segments)
    assert len(picture.blocks) <= MAX_BLOCKS + 1
    assert sum(block.segments for block in picture.blocks) == len(picture.facts.segments)
    assert len(picture.spans) <= max(MAX_SPANS, MAX_CELLS + len(picture.blocks))
    for span in picture.spans:
        held_by = [b for b in picture.blocks if b.position <= span.position < b.end_position]
        assert len(held_by) == 1
        assert span.end_position <= held_by[0].end_position
        assert span.batches == sum(span.codecs.values())
    for first, second in pairwise(picture.spans):
        assert first.end_position <= second.position
    marks = [mark.offset for mark in picture.marks]
    assert marks == sorted(set(marks))
    scale = PictureScale(picture)
    places = [scale.offset_place(offset, 1000) for offset in marks]
    assert places == sorted(places)
    assert all(0 <= place <= 1000 for place in places)
    assert len(producer_lanes(picture)) <= MAX_LANES + 1


def check_text(picture: LogPicture, width: int, *, is_ascii: bool = False) -> str:
    """Assert that the text keeps to the width, and return it."""
    drawn = draw_text(picture, TextStyle(width, is_ascii))
    lines = drawn.splitlines()
    assert max(len(line) for line in lines) <= width
    assert all(line.isprintable() for line in lines)
    assert drawn.isascii() or not is_ascii
    return drawn


def check_svg(picture: LogPicture) -> Element:
    """Assert that the drawing is as ``check_page`` says, and to scale; return its root."""
    root = check_page(draw_svg([picture]))
    check_svg_bar(picture, root)
    return root


def check_page(drawn: str) -> Element:
    """Assert that an SVG file is well-formed, bounded and stands alone; return its root."""
    assert len(drawn) <= MAX_SVG_BYTES
    root = fromstring(drawn)  # noqa: S314 - of our own making
    names = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert names <= {
        *("svg", "title", "desc", "style", "defs", "pattern", "g", "rect", "path", "text"),
    }
    for element in root.iter():
        for value in element.attrib.values():
            assert "://" not in value
            assert value.count("url(") == value.count("url(#")
    style = root.find(f"{SVG}style")
    assert style is not None
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")
    return root


def check_svg_bar(picture: LogPicture, root: Element) -> None:
    """Assert that segments fill the axis and that each batch is where its bytes are."""
    drawn = [place_of(element) for element in root.iter(f"{SVG}rect") if has(element, "seg")]
    if not picture.total_bytes:
        return
    assert abs(sum(width for _, width in drawn) - PLOT_WIDTH) <= _ROUNDING * (len(drawn) + 1)
    expected = [(b.position, b.size_bytes) for b in picture.blocks]
    check_places(picture, drawn, expected)
    codecs = [
        place_of(element)
        for element in root.iter(f"{SVG}rect")
        if has(element, "c-") and element.find(f"{SVG}title") is not None
    ]
    check_places(
        picture,
        codecs,
        [(span.position, span.size_bytes) for span in picture.spans for _ in span.codecs],
    )


def check_places(
    picture: LogPicture, drawn: list[tuple[float, float]], expected: list[tuple[int, int]]
) -> None:
    """Assert that boxes are drawn to scale, within the rounding of their coordinates."""
    assert len(drawn) == len(expected)
    for (left, width), (position, size) in zip(drawn, expected, strict=True):
        assert abs(left - PLOT_LEFT - PLOT_WIDTH * position / picture.total_bytes) <= _ROUNDING
        assert abs(width - PLOT_WIDTH * size / picture.total_bytes) <= _ROUNDING


def place_of(element: Element) -> tuple[float, float]:
    """Return left and width of a rectangle."""
    return float(element.attrib["x"]), float(element.attrib["width"])


def has(element: Element, prefix: str) -> bool:
    """Say whether an element has a style whose name begins so."""
    return any(name.startswith(prefix) for name in element.attrib.get("class", "").split())
