"""Draws many logs at once, a strip each: all to one scale, the largest the longest."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

from tidelog.explain.pictures.picture_scale import PictureScale
from tidelog.explain.pictures.picture_words import block_text, checked_text, losses, summary
from tidelog.explain.pictures.svg_elements import (
    WIDTH,
    boxes,
    mono_width,
    number,
    page,
    path,
    rect,
    text,
)
from tidelog.explain.pictures.text_picture import MIN_WIDTH, segment_cells
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.explain.pictures.log_picture import LogPicture, SegmentBlock
    from tidelog.explain.pictures.text_picture import TextStyle

MAX_STRIPS: Final = 400
"""Logs that one SVG file shows; of more, the largest."""
_MAX_NAME: Final = 32
_MAX_LOSSES: Final = 20
_NOTE_CHARACTERS: Final = 150
_SIZE_COLUMNS: Final = 13
_LEFT: Final = 244
_LENGTH: Final = 640
_ROW: Final = 24
_HEIGHT: Final = 14
_GAP_FROM: Final = 3.0
"""Width from which on a segment is drawn apart from its neighbour."""


def draw_text_overview(pictures: Sequence[LogPicture], style: TextStyle) -> str:
    """Return a line for each log, and one for each loss; no line exceeds the width."""
    width, signs = max(style.width, MIN_WIDTH), style.signs
    most = max((picture.total_bytes for picture in pictures), default=0)
    names = [printable(picture.name) for picture in pictures]
    gutter = min(max(map(len, names), default=0), _MAX_NAME, width // 3)
    room = width - gutter - 3 - _SIZE_COLUMNS
    lines = []
    for picture, name in zip(pictures, names, strict=True):
        label = name if len(name) <= gutter else signs.cut + name[1 - gutter :]
        length = round(room * picture.total_bytes / most) if most else 0
        length = max(length, min(picture.total_bytes, 1))
        cells, _ = segment_cells(picture, PictureScale(picture), length, signs)
        bar = signs.begin + "".join(sign for sign, _ in cells) + signs.end
        flag = signs.damage if picture.has_loss else signs.open if _is_held(picture) else " "
        size = format_bytes(picture.total_bytes)
        lines.append(f"{label:<{gutter}} {bar:<{room + 2}}{size:>{_SIZE_COLUMNS - 2}} {flag}")
    if style.is_ascii:
        lines = [line.encode("ascii", "replace").decode("ascii") for line in lines]
    below = [*_losses(pictures), checked_text()]
    if any(map(_is_held, pictures)):
        below.append(f"{signs.open}: an open transaction holds the last stable offset")
    for line in below:
        lines += wrap(line, width, subsequent_indent="  ", break_on_hyphens=False)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def draw_svg_overview(pictures: Sequence[LogPicture], max_strips: int = MAX_STRIPS) -> str:
    """Return an SVG file with a strip for each log; of more than ``max_strips``, the largest."""
    in_order = sorted(pictures, key=lambda picture: -picture.total_bytes)[:max_strips]
    chosen = {id(picture) for picture in in_order}
    shown = [picture for picture in pictures if id(picture) in chosen]
    most = max((picture.total_bytes for picture in shown), default=0)
    total = sum(picture.total_bytes for picture in pictures)
    heading = f"{counted(len(pictures), 'log')}, {format_bytes(total)}"
    if len(shown) < len(pictures):
        heading += f"; the largest {len(shown):,} are drawn"
    parts = [text(24, 38, heading, "title ink")]
    top = 62.0
    for picture in shown:
        parts.append(_strip(picture, top, _LENGTH * picture.total_bytes / most if most else 0.0))
        top += _ROW
    lost = _losses(shown)
    top += 10
    parts.append(_legend(shown, top))
    top += 18 * bool(parts[-1])
    checked = checked_text()
    for line in [*lost, checked]:
        for part in wrap(line, _NOTE_CHARACTERS):
            parts.append(text(24, top + 12, part, "muted" if line is checked else "loss"))
            top += 18
    words = [f"{picture.name}: {summary(picture)}." for picture in shown]
    return page(top + 24, f"tidelog: {heading}", " ".join([*words, *lost, checked]), "".join(parts))


def _losses(pictures: Sequence[LogPicture]) -> list[str]:
    """Return what is lost, with the names of the logs; where it is much, the number of the rest."""
    found = [f"{printable(each.name)}: {line}" for each in pictures for line in losses(each)]
    more = len(found) - _MAX_LOSSES
    return found[:_MAX_LOSSES] + ([f"and {more:,} more"] if more > 0 else [])


def _is_held(picture: LogPicture) -> bool:
    return picture.facts.last_stable_offset < picture.facts.high_watermark


def _offsets_below_end(picture: LogPicture) -> list[tuple[int, str, str]]:
    """Return the offsets that are marked, each with its name and its style."""
    facts = picture.facts
    marked = [
        (facts.last_stable_offset, "last stable offset", "m-stable"),
        (facts.high_watermark, "high watermark", "m-watermark"),
    ]
    return [mark for mark in marked if mark[0] < facts.log_end_offset]


def _legend(pictures: Sequence[LogPicture], top: float) -> str:
    """Return what the lines across strips mean, for those that are drawn."""
    drawn = {mark[1:] for picture in pictures for mark in _offsets_below_end(picture)}
    parts: list[str] = []
    x = 28.0
    for name, line in sorted(drawn):
        parts.append(path(f"M{number(x)} {number(top)}v{_HEIGHT}", f"mark {line}"))
        parts.append(text(x + 8, top + 11, f"{name}, where it is below the log end", "muted"))
        x += 8 + 7 * len(name) + 220.0
    return "".join(parts)


def _strip(picture: LogPicture, top: float, length: float) -> str:
    """Return the strip of one log: name, segments, offsets that differ, and numbers."""
    facts, scale = picture.facts, PictureScale(picture)
    name = printable(picture.name)
    label = name if len(name) <= _MAX_NAME else "…" + name[1 - _MAX_NAME :]
    style = "mono loss end" if picture.has_loss else "mono ink end"
    parts = [text(_LEFT - 12, top + 11, label, style)]
    parts.append(rect((_LEFT, top, length, _HEIGHT), "seg", f"{picture.name}: {summary(picture)}"))
    kinds: dict[str, list[SegmentBlock]] = {"below": [], "closed": [], "active": []}
    for block in picture.blocks:
        is_below = block.end_offset <= facts.log_start_offset
        kinds["below" if is_below else "active" if block.is_active else "closed"].append(block)
    for kind, blocks in kinds.items():
        found = []
        for block in blocks:
            start, end = (
                scale.place(block.position, length),
                scale.place(block.end_position, length),
            )
            gap = 1.0 if end - start > _GAP_FROM else 0.0
            found.append((_LEFT + start, _LEFT + end - gap))
        title = block_text(blocks[0]) if len(blocks) == 1 else ""
        parts.append(path(boxes(found, top, _HEIGHT), kind, title))
    for offset, name, line in _offsets_below_end(picture):
        at = number(_LEFT + scale.offset_place(offset, length))
        shape, title = f"M{at} {number(top - 3)}v{_HEIGHT + 6}", f"{name} {offset:,}"
        parts.append(path(shape, f"mark {line}", title))
    words = f"{format_bytes(picture.total_bytes)}, {counted(len(facts.segments), 'segment')}"
    words += f", offsets [{facts.log_start_offset:,}, {facts.log_end_offset:,})"
    room = WIDTH - 24 - _LEFT - length - 10
    inside = mono_width(words) > room
    x = float(WIDTH - 24) if inside else _LEFT + length + 10
    parts.append(text(x, top + 11, words, "mono muted" + (" end" if inside else "")))
    return "".join(parts)
