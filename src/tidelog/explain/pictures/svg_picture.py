"""Draws logs as an SVG file that stands alone.

Everything lies on one axis of bytes: segments with their batches, the offsets that the log keeps,
a line for each producer with its transactions, and what retention and compaction would take.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.explain.pictures.log_picture import producer_lanes, spans_of
from tidelog.explain.pictures.picture_scale import PictureScale
from tidelog.explain.pictures.picture_words import (
    block_text,
    checked_text,
    compaction_text,
    damage_text,
    epoch_text,
    epochs_text,
    lane_name,
    losses,
    named_transactions,
    open_transactions,
    retention_text,
    span_text,
    summary,
    time_text,
    transaction_text,
)
from tidelog.explain.pictures.svg_elements import (
    CODEC_CLASSES,
    UNKNOWN_CODEC,
    WIDTH,
    boxes,
    linked,
    mono_width,
    number,
    page,
    path,
    rect,
    text,
)
from tidelog.explain.pictures.svg_marks import ROW_HEIGHT, draw_marks
from tidelog.explain.printable_text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.explain.pictures.log_picture import (
        BatchSpan,
        LogPicture,
        ProducerLane,
        SegmentBlock,
        TransactionSpan,
    )
    from tidelog.explain.segment_contents import SegmentContents

PLOT_LEFT: Final = 164
PLOT_WIDTH: Final = 1000
_MARGIN: Final = 24
_BAR_HEIGHT: Final = 46
_MARKS_TOP: Final = 74
_BAND_HEIGHT: Final = 5
"""Height of the band below the batches that shows where segments begin and end."""
_LANE_HEIGHT: Final = 24
_LABEL_CHARACTERS: Final = 20
_NOTE_CHARACTERS: Final = 130
_SIGNS: Final = {"commit": "l2.5 3l5 -6", "abort": "m0 -3l6 6m0 -6l-6 6"}
"""The signs of markers, from the middle of their left edge on."""
_MIN_GAP: Final = 2.4
"""Narrower batches are drawn without a gap between them."""


class PictureLinks(Protocol):
    """Where segments and batches of a picture lead, as paths of a web page."""

    def of_block(self, block: SegmentBlock) -> str:
        """Return the path for a segment, or for neighbours drawn as one."""

    def of_span(self, span: BatchSpan) -> str:
        """Return the path for a batch, or for neighbours drawn as one."""


def draw_svg(pictures: Sequence[LogPicture], links: PictureLinks | None = None) -> str:
    """Return an SVG file with the pictures, one below the other; ``links`` of what is drawn."""
    parts: list[str] = []
    top = 0.0
    for picture in pictures:
        drawing = _Drawing(picture, links)
        border = path(f"M0 {number(top)}h{WIDTH}", "rule") if top else ""
        parts.append(f'{border}<g transform="translate(0 {number(top)})">\n{drawing.draw()}</g>\n')
        top += drawing.height
    names = ", ".join(picture.name for picture in pictures)
    return page(top, f"tidelog: {names}", _description(pictures), "".join(parts))


def _description(pictures: Iterable[LogPicture]) -> str:
    """Return the picture in words, for those who do not see it."""
    texts = []
    for picture in pictures:
        marks = (f"{', '.join(mark.names)} {mark.offset:,}" for mark in picture.marks)
        known = [f"{picture.name}: {summary(picture)}", *marks, *open_transactions(picture)]
        known.append(epochs_text(picture))
        if picture.aborted:
            known.append(counted(picture.aborted, "aborted transaction"))
        known += [retention_text(picture), compaction_text(picture), *losses(picture)]
        texts.append("; ".join(part for part in known if part) + ".")
    return " ".join(texts)


class _Drawing:
    """The drawing of one log; ``height`` is known once it is drawn."""

    def __init__(self, picture: LogPicture, links: PictureLinks | None = None) -> None:
        self._picture = picture
        self._links = links
        self._scale = PictureScale(picture)
        self._parts: list[str] = []
        self.height = 0.0

    def draw(self) -> str:
        """Return the elements."""
        add = self._parts.append
        add(text(_MARGIN, 38, self._picture.name, "title ink"))
        add(text(_MARGIN, 58, summary(self._picture), "muted"))
        places = [(mark, self._at(mark.offset)) for mark in self._picture.marks]
        labels, rows = draw_marks(places, _MARKS_TOP, (_MARGIN, WIDTH - _MARGIN))
        bar_top = _MARKS_TOP + rows * ROW_HEIGHT + 2
        bottom = self._draw_bar(bar_top)
        top = bottom
        bottom = self._draw_epochs(bottom)
        for lane in producer_lanes(self._picture):
            self._draw_lane(lane, bottom)
            bottom += _LANE_HEIGHT
        bottom = self._draw_plans(bottom)
        for mark, place in places:
            add(labels.line(mark, place, bar_top + _BAR_HEIGHT, top, bottom))
        add(labels.elements)
        bottom = self._draw_legend(bottom + 30)
        self.height = self._draw_notes(bottom) + 14
        return "".join(self._parts)

    def _x(self, position: float) -> float:
        return PLOT_LEFT + self._scale.place(position, PLOT_WIDTH)

    def _at(self, offset: int) -> float:
        return PLOT_LEFT + self._scale.offset_place(offset, PLOT_WIDTH)

    def _block(self, block: SegmentBlock, top: float, classes: str, *, gap: bool = False) -> str:
        """Return a box as wide as a segment, which leads to it."""
        start, end = self._x(block.position), self._x(block.end_position)
        height = _BAND_HEIGHT if gap else _BAR_HEIGHT
        box = start, top, end - start - (1.5 if gap and end - start > 4 else 0.0), height
        shape = rect(box, classes, block_text(block))
        return shape if self._links is None else linked(self._links.of_block(block), shape)

    # Segments and batches

    def _draw_bar(self, top: float) -> float:
        """Draw segments with their batches, base offsets and times; return where they end."""
        add = self._parts.append
        picture = self._picture
        add(text(PLOT_LEFT - 14, top + _BAR_HEIGHT / 2 + 4, "segments", "muted end"))
        if not picture.total_bytes:
            add(rect((PLOT_LEFT, top, PLOT_WIDTH, _BAR_HEIGHT), "seg", "", ' rx="3"'))
            add(text(PLOT_LEFT + 14, top + _BAR_HEIGHT / 2 + 4, "no bytes", "muted"))
            return top + _BAR_HEIGHT + 34
        for block in picture.blocks:
            add(self._block(block, top, "seg"))
        for span in picture.spans:
            add(self._batches(span, top))
        for damage in picture.damaged:
            start = self._x(damage.position)
            box = start, top, max(self._x(damage.end_position) - start, 1.5), _BAR_HEIGHT
            add(rect(box, "veil"))
            add(rect(box, "bad", damage_text(damage), ' fill="url(#bad)"'))
        for hole in picture.facts.holes:
            shape = f"M{number(self._at(hole.start_offset))} {number(top - 4)}v{_BAR_HEIGHT + 16}"
            add(path(shape, "hole", str(hole)))
        self._draw_unseen(top)
        return self._draw_segments(top + _BAR_HEIGHT + 3)

    def _draw_segments(self, top: float) -> float:
        """Draw where segments begin and end, with base offsets and first times below."""
        ends, last_day = [float(PLOT_LEFT), float(PLOT_LEFT)], ""
        add = self._parts.append
        for block in self._picture.blocks:
            add(self._block(block, top, "active" if block.is_active else "closed", gap=True))
            start = self._x(block.position)
            label = f"{block.base_offset:,}"
            if not _fits(start, label, ends[0]):
                continue
            add(text(start, top + _BAND_HEIGHT + 14, label, "mono ink"))
            ends[0] = start + mono_width(label) + 8
            day, clock = _day_and_time(block.contents)
            label = clock if day == last_day else f"{day} {clock}"
            if clock and _fits(start, label, ends[1]):
                add(text(start, top + _BAND_HEIGHT + 27, label, "mono small muted"))
                ends[1], last_day = start + mono_width(label, 10) + 8, day
        return top + _BAND_HEIGHT + 38

    def _batches(self, span: BatchSpan, top: float) -> str:
        """Return a batch in the colour of its codec, or batches with the shares of each codec."""
        start, end = self._x(span.position), self._x(span.end_position)
        gap = " gap" if end - start > _MIN_GAP else ""
        left, parts = top, []
        for name, count in span.codecs.items():
            height = _BAR_HEIGHT * count / max(span.batches, 1)
            classes = CODEC_CLASSES.get(name, UNKNOWN_CODEC) + gap
            title = span_text(span) if len(span.codecs) == 1 else f"{name}: {span_text(span)}"
            parts.append(rect((start, left, end - start, height), classes, title))
            left += height
        shape = "".join(parts)
        return shape if self._links is None else linked(self._links.of_span(span), shape)

    def _draw_unseen(self, top: float) -> None:
        """Veil what readers are not shown: below the log start, and above the high watermark."""
        facts = self._picture.facts
        start, high = facts.log_start_offset, facts.high_watermark
        veils: list[tuple[float, float, str]] = [
            (PLOT_LEFT, self._at(start), f"below the log start, {start:,}: not readable")
        ]
        if high < facts.log_end_offset:
            why = f"above the high watermark, {high:,}: not yet readable"
            veils.append((self._at(high), PLOT_LEFT + PLOT_WIDTH, why))
        for left, right, why in veils:
            if right - left >= 0.01:
                box = left, top, right - left, _BAR_HEIGHT
                self._parts.append(rect(box, "veil"))
                self._parts.append(rect(box, "unseen", why, ' fill="url(#hidden)"'))

    # Leader epochs, producers and transactions

    def _draw_epochs(self, top: float) -> float:
        """Draw where each leader epoch begins, with its number where it fits."""
        shown = self._picture.shown_epochs
        if not shown:
            return top
        add = self._parts.append
        middle = top + _LANE_HEIGHT / 2
        add(text(PLOT_LEFT - 14, middle + 4, "leader epochs", "muted end"))
        add(path(f"M{PLOT_LEFT} {number(middle)}h{PLOT_WIDTH}", "rule"))
        places = [self._at(one.start_offset) for one in shown]
        ends = [*places[1:], WIDTH - _MARGIN / 2]
        for one, place, end in zip(shown, places, ends, strict=True):
            tick = f"M{number(place)} {number(middle - 6)}v12"
            add(path(tick, "mark m-start", epoch_text(one)))
            label = f"{one.leader_epoch}"
            if place + 5 + mono_width(label, 10) <= end:
                add(text(place + 4, middle + 4, label, "mono small muted halo"))
        return top + _LANE_HEIGHT

    def _draw_lane(self, lane: ProducerLane, top: float) -> None:
        """Draw the batches of a producer, and its transactions after them."""
        middle = top + _LANE_HEIGHT / 2
        add = self._parts.append
        add(text(PLOT_LEFT - 14, middle + 4, lane_name(lane, _LABEL_CHARACTERS), "mono ink end"))
        add(path(f"M{PLOT_LEFT} {number(middle)}h{PLOT_WIDTH}", "rule"))
        for txn in lane.transactions:
            add(self._transaction(txn, middle))
        spans = spans_of(self._picture, lane)
        for kind in ("own", "aborted", "open"):
            found = [
                (self._x(span.position), self._x(span.end_position))
                for span in spans
                if span.markers < span.batches and _kind(span, lane) == kind
            ]
            add(path(boxes(found, middle - 5, 10), kind))
        add(self._markers(lane, spans, middle))

    def _transaction(self, txn: TransactionSpan, middle: float) -> str:
        """Return the extent of a transaction: to its marker, or to the end of the log."""
        start, last = self._at(txn.first_offset), txn.last_offset
        right = self._at(self._picture.facts.log_end_offset if last is None else last + 1)
        classes = "txn-open" if txn.is_open else "txn-aborted"
        box = start, middle - 9, max(right - start, 0.5), 18
        return rect(box, classes, transaction_text(txn), ' rx="3"')

    def _markers(self, lane: ProducerLane, spans: list[BatchSpan], middle: float) -> str:
        """Return a cross for each marker that aborts, and a tick for each one that commits."""
        aborts = {txn.last_offset for txn in lane.transactions}
        commits = [
            (self._x(span.position) + self._x(span.end_position)) / 2
            for span in spans
            if span.batches == span.markers == 1 and span.start_offset not in aborts
        ]
        found = {
            "commit": [x - 3.5 for x in commits],
            "abort": [self._at(offset) - 2 for offset in aborts if offset is not None],
        }
        return "".join(
            path("".join(f"M{number(x)} {number(middle)}{_SIGNS[kind]}" for x in left), kind)
            for kind, left in found.items()
        )

    # Plans

    def _draw_plans(self, top: float) -> float:
        """Draw what retention and compaction would take; return where the lines end."""
        picture = self._picture
        if not (retention_text(picture) or compaction_text(picture)):
            return top
        add = self._parts.append
        for name, words, draw in (
            ("retention", retention_text(picture), self._draw_retention),
            ("compaction", compaction_text(picture), self._draw_compaction),
        ):
            middle = top + _LANE_HEIGHT / 2
            add(text(PLOT_LEFT - 14, middle + 4, name, "muted end"))
            if not draw(middle):
                add(text(PLOT_LEFT + 6, middle + 4, words.partition(": ")[2], "muted"))
            top += _LANE_HEIGHT
        return top

    def _draw_retention(self, middle: float) -> bool:
        plan = self._picture.retention
        deleted = () if plan is None else plan.deleted
        for segment in deleted:
            start, end = self._at(segment.base_offset), self._at(segment.end_offset)
            title = f"would delete base offset {segment.base_offset:,}: {segment.reason}"
            box = start, middle - 7, max(end - start, 0.5), 14
            self._parts.append(rect(box, "taken gap", title))
        return bool(deleted)

    def _draw_compaction(self, middle: float) -> bool:
        """Draw what is clean, what would be cleaned, and the share of records dropped."""
        plan = self._picture.compaction
        if plan is None or plan.stats is None:
            return False
        start = self._picture.facts.log_start_offset
        dirty = max(plan.to_clean.offsets.first_dirty_offset, start)
        edges = [self._at(each) for each in (start, dirty, plan.end_offset)]
        for classes, left, right, title in (
            ("clean", edges[0], edges[1], f"clean, to offset {dirty:,}"),
            ("dirty", edges[1], edges[2], compaction_text(self._picture)),
        ):
            if right - left > 0.01:
                box = left, middle - 8, right - left, 16
                self._parts.append(rect(box, classes, title))
        shapes = []
        for span in self._picture.spans:
            if span.dropped:
                height = 16 * min(span.dropped / max(span.records, span.dropped), 1)
                found = [(self._x(span.position), self._x(span.end_position))]
                shapes.append(boxes(found, middle + 8 - height, height))
        self._parts.append(path("".join(shapes), "taken"))
        return True

    # Legend and notes

    def _draw_legend(self, top: float) -> float:
        """Explain the colours that are used; return where the next line begins."""
        picture = self._picture
        items = [
            (CODEC_CLASSES.get(name, UNKNOWN_CODEC), f"{name}, {counted(count, 'batch')}")
            for name, count in picture.codecs.items()
        ]
        if any(span.producers for span in picture.spans):
            items.append(("own", "batches of a producer"))
        if any(span.markers for span in picture.spans):
            items += [("commit", "commits"), ("abort", "aborts")]
        if picture.aborted:
            items.append(("aborted", counted(picture.aborted, "aborted transaction")))
        if picture.opened:
            items.append(("open", counted(picture.opened, "open transaction")))
        if picture.retention is not None and picture.retention.deleted:
            items.append(("taken", "retention would delete"))
        if picture.compaction is not None and picture.compaction.stats is not None:
            items += [("dirty", "would be cleaned"), ("taken", "share that would be dropped")]
        x, y = float(PLOT_LEFT), top
        for classes, label in items:
            width = 18 + 12 * 0.6 * len(label) + 18
            if x + width > WIDTH - _MARGIN:
                x, y = float(PLOT_LEFT), y + 20
            self._parts.append(_sample(classes, x, y - 10))
            self._parts.append(text(x + 17, y, label, "muted"))
            x += width
        return y + 10 if items else top - 20

    def _draw_notes(self, top: float) -> float:
        """Write what is lost, what is open and what the plans say; return where the text ends."""
        found = [("loss", line) for line in losses(self._picture)]
        retention, compaction = self._picture.retention, self._picture.compaction
        words = named_transactions(self._picture)
        if retention is not None and retention.deleted:
            words.append(retention_text(self._picture))
        if compaction is not None and compaction.stats is not None:
            words.append(compaction_text(self._picture))
        found += [("ink", f"{line[0].upper()}{line[1:]}") for line in words]
        if not self._picture.has_batches:
            found.append(("muted", checked_text()))
        if self._picture.epochs_error:
            found.append(("muted", epochs_text(self._picture)))
        for classes, line in found:
            for part in wrap(line, _NOTE_CHARACTERS):
                top += 18
                self._parts.append(text(PLOT_LEFT, top, part, classes))
        return top + 10


def _kind(span: BatchSpan, lane: ProducerLane) -> str:
    """Return whether the batches belong to an open or an aborted transaction of the producer."""
    if not span.transactional:
        return "own"
    for txn in lane.transactions:
        last = txn.last_offset
        if txn.first_offset < span.end_offset and (last is None or span.start_offset <= last):
            return "open" if txn.is_open else "aborted"
    return "own"


def _fits(start: float, label: str, free: float) -> bool:
    """Return whether a label may begin here: after the one before, and within the page."""
    return start >= free and start + mono_width(label) <= WIDTH - _MARGIN / 2


def _day_and_time(contents: SegmentContents | None) -> tuple[str, str]:
    """Return the day and the time of the first timestamp; empty without one."""
    if contents is None or contents.min_timestamp < 0:
        return "", ""
    day, _, rest = time_text(contents.min_timestamp).partition(" ")
    return (day, rest[:8]) if "-" in day else ("", "")


def _sample(classes: str, x: float, y: float) -> str:
    """Return what stands before a line of the legend: a box, or the sign of a marker."""
    if classes in _SIGNS:
        return path(f"M{number(x + 2)} {number(y + 5)}{_SIGNS[classes]}", classes)
    return rect((x, y, 11, 11), classes, "", ' rx="2"')
