"""Draws a log as text.

Segments, batches, producers and plans lie below each other on one axis of bytes; the offsets that
the log keeps point at it from below, and sentences follow.

    t-0: 622 offsets, 6 segments, 121 batches, 67.6 kB; 2026-11-21 09:35:29 to 09:35:49 UTC
                 0            208           428
    segments    ├████████████│█████████████│▒▒▒▒▒▒▒▶
    codecs       zzznnnnnNNNNNNNNNZZZZZ
    producer 12  ■ ■■■■ ■■ ■  ■
                 └ log start 0
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.explain.pictures.log_picture import producer_lanes, spans_of
from tidelog.explain.pictures.picture_scale import PictureScale
from tidelog.explain.pictures.picture_words import (
    compaction_text,
    epochs_text,
    lane_name,
    losses,
    named_transactions,
    retention_text,
    summary,
)
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidelog.explain.pictures.log_picture import (
        LogPicture,
        Mark,
        ProducerLane,
    )

MIN_WIDTH: Final = 40
GUTTER: Final = 13
"""Columns before the axis: the names of the lines."""


class Signs(NamedTuple):
    """The characters of a drawing."""

    closed: str
    active: str
    below_start: str
    archived: str
    border: str
    begin: str
    end: str
    empty: str
    points_right: str
    points_left: str
    batch: str
    aborted: str
    open: str
    within: str
    taken: str
    damage: str
    cut: str


UNICODE: Final = Signs(*"█▒░▓│├▶╌└┘■×○─━!…")  # noqa: RUF001 - drawn, not read
ASCII: Final = Signs(*"#=.%||>-`'#xo-~!.")
_CODEC_SIGNS: Final = {"none": "n", "gzip": "g", "snappy": "s", "lz4": "l", "zstd": "z"}
_COLOURS: Final = {
    "gzip": "33",
    "snappy": "36",
    "lz4": "32",
    "zstd": "35",
    "aborted": "31",
    "open": "33",
    "damage": "1;31",
    "loss": "1;31",
    "taken": "31",
    "muted": "2",
    "name": "1",
}
"""Colours of terminals (SGR) by what a sign means."""


class TextStyle(NamedTuple):
    """How to draw: columns, at least 40; without characters beyond ASCII; with colours."""

    width: int = 80
    is_ascii: bool = False
    has_colour: bool = False

    @property
    def signs(self) -> Signs:
        """The characters to draw with."""
        return ASCII if self.is_ascii else UNICODE


Cell = tuple[str, str]
"""A character, and what it means."""


def draw_text(picture: LogPicture, style: TextStyle) -> str:
    """Return the picture, each line ended; no line has more columns than ``style`` allows."""
    return "".join(f"{line}\n" for line in _Text(picture, style).lines())


class _Text:
    """The drawing of one log."""

    def __init__(self, picture: LogPicture, style: TextStyle) -> None:
        self._picture = picture
        self._style = style._replace(width=max(style.width, MIN_WIDTH))
        self._signs = style.signs
        self._scale = PictureScale(picture)
        self._columns = self._style.width - GUTTER - 1
        """Columns of the axis, which ends before an arrow."""

    def lines(self) -> Iterator[str]:
        """Yield the lines."""
        picture = self._picture
        yield from self._wrapped(f"{picture.name}: {summary(picture)}", "name")
        yield from self._segment_lines()
        if picture.has_batches and picture.spans:
            yield self._row("codecs", self._codec_cells())
        if picture.shown_epochs:
            yield self._row("epochs", self._epoch_cells())
        lanes = producer_lanes(picture)
        for lane in lanes:
            yield self._row(lane_name(lane, GUTTER - 1), self._lane_cells(lane))
        yield from self._taken_lines()
        damage = self._damage_cells()
        if any(sign != " " for sign, _ in damage):
            yield self._row("damage", damage)
        for mark in picture.marks:
            yield from self._pointer(mark)
        for sentence, meaning in self._sentences(lanes):
            yield from self._wrapped(sentence, meaning)

    # Columns

    def _column(self, position: float) -> int:
        return min(round(self._scale.place(position, self._columns)), self._columns)

    def _offset_column(self, offset: int) -> int:
        return min(self._column(self._scale.position_of(offset)), self._columns - 1)

    def _reach(self, position: int, end_position: int) -> range:
        """Return the columns that some bytes touch: at least one."""
        first = min(self._column(position), self._columns - 1)
        return range(first, max(self._column(end_position), first + 1))

    def _reach_of(self, start: int, end: int) -> range:
        """Return the columns that offsets ``[start, end)`` touch."""
        return self._reach(*(int(self._scale.position_of(offset)) for offset in (start, end)))

    def _row(self, name: str, cells: Sequence[Cell], begin: str = " ", end: str = "") -> str:
        label = name if len(name) < GUTTER else self._signs.cut + name[2 - GUTTER :]
        return f"{label:<{GUTTER - 1}}{begin}{self._painted(cells)}{end}".rstrip()

    def _painted(self, cells: Sequence[Cell]) -> str:
        if not self._style.has_colour:
            return "".join(sign for sign, _ in cells)
        parts, before = [], ""
        for sign, meaning in cells:
            colour = _COLOURS.get(meaning, "")
            if colour != before:
                parts.append(f"\x1b[0m\x1b[{colour}m" if colour else "\x1b[0m")
                before = colour
            parts.append(sign)
        return "".join(parts) + ("\x1b[0m" if before else "")

    def _wrapped(self, sentence: str, meaning: str) -> Iterator[str]:
        text = printable(sentence)
        if self._style.is_ascii:
            text = text.encode("ascii", "backslashreplace").decode("ascii")
        found = wrap(text, self._style.width, subsequent_indent="  ", break_on_hyphens=False)
        for line in found:
            yield self._painted([(line, meaning)]) if line else line

    # Segments and offsets

    def _segment_lines(self) -> Iterator[str]:
        cells, labels = segment_cells(self._picture, self._scale, self._columns, self._signs)
        cells += [(self._signs.empty, "")] * (self._columns - len(cells))
        ruler = _placed(labels, self._columns + 1)
        if ruler:
            yield " " * GUTTER + ruler
        yield self._row("segments", cells, self._signs.begin, self._signs.end)

    def _pointer(self, mark: Mark) -> Iterator[str]:
        """Yield a line that points at an offset; more where it does not fit in one."""
        column, width = GUTTER + self._offset_column(mark.offset), self._style.width
        label = f"{', '.join(mark.names)} {mark.offset:,}"
        if column + 2 + len(label) <= width:
            yield " " * column + f"{self._signs.points_right} {label}"
        elif len(label) + 1 <= column:
            yield f"{label} {self._signs.points_left}".rjust(column + 1)
        elif len(mark.names) > 1:
            for name in mark.names:
                yield from self._pointer(mark._replace(names=(name,)))
        else:
            yield " " * column + self._signs.points_left
            label = label if len(label) <= width else label.replace(",", "")
            yield label.rjust(min(max(column + 1, len(label)), width))

    # Batches and transactions

    def _codec_cells(self) -> list[Cell]:
        """Return the sign of each column's codec: in upper case where it is the only one."""
        found: list[Counter[str]] = [Counter() for _ in range(self._columns)]
        for span in self._picture.spans:
            for column in self._reach(span.position, span.end_position):
                for name, count in span.codecs.items():
                    found[column][name] += span.size_bytes * count // max(span.batches, 1) + 1
        cells = []
        for counts in found:
            if not counts:
                cells.append((" ", ""))
                continue
            name = counts.most_common(1)[0][0]
            sign = _CODEC_SIGNS.get(name, "?")
            cells.append((sign.upper() if len(counts) == 1 else sign, name))
        return cells

    def _epoch_cells(self) -> list[Cell]:
        """Return a border where each leader epoch begins, and its number where it fits."""
        columns = {
            self._offset_column(one.start_offset): f"{self._signs.border}{one.leader_epoch}"
            for one in self._picture.shown_epochs
        }
        ends = [*list(columns)[1:], self._columns]
        cells: list[Cell] = [(" ", "")] * self._columns
        for (column, label), end in zip(columns.items(), ends, strict=True):
            for at, sign in enumerate(label if column + len(label) <= end else label[:1]):
                cells[column + at] = sign, "muted"
        return cells

    def _lane_cells(self, lane: ProducerLane) -> list[Cell]:
        signs = self._signs
        cells: list[Cell] = [(" ", "")] * self._columns
        for txn in lane.transactions:
            last = txn.last_offset
            end = self._picture.facts.log_end_offset if last is None else last + 1
            meaning = "open" if txn.is_open else "aborted"
            for column in self._reach_of(txn.first_offset, end):
                if cells[column][1] != "open":
                    cells[column] = signs.within, meaning
        for span in spans_of(self._picture, lane):
            if span.markers < span.batches:
                for column in self._reach(span.position, span.end_position):
                    cells[column] = self._batch_cell(cells[column])
        return cells

    def _batch_cell(self, below: Cell) -> Cell:
        signs = {"aborted": self._signs.aborted, "open": self._signs.open}
        return signs.get(below[1], self._signs.batch), below[1]

    # Plans and damage

    def _taken_lines(self) -> Iterator[str]:
        """Yield what retention and compaction would take."""
        retention, compaction = self._picture.retention, self._picture.compaction
        cell = self._signs.taken, "taken"
        if retention is not None and retention.deleted:
            taken = [self._reach_of(one.base_offset, one.end_offset) for one in retention.deleted]
            yield self._row("retention", self._filled(taken, cell))
        if compaction is not None and compaction.stats is not None:
            spans = [one for one in self._picture.spans if one.dropped]
            taken = [self._reach_of(one.start_offset, one.end_offset) for one in spans]
            yield self._row("compaction", self._filled(taken, cell))

    def _damage_cells(self) -> list[Cell]:
        reaches = [self._reach(span.position, span.end_position) for span in self._picture.damaged]
        columns = (self._offset_column(hole.start_offset) for hole in self._picture.facts.holes)
        reaches += [range(column, column + 1) for column in columns]
        return self._filled(reaches, (self._signs.damage, "damage"))

    def _filled(self, reaches: Iterable[range], cell: Cell) -> list[Cell]:
        cells: list[Cell] = [(" ", "")] * self._columns
        for column in chain.from_iterable(reaches):
            cells[column] = cell
        return cells

    # Sentences

    def _sentences(self, lanes: Iterable[ProducerLane]) -> Iterator[tuple[str, str]]:
        """Yield what the signs mean, what is open, what plans would do, and what is lost."""
        picture, signs = self._picture, self._signs
        if picture.facts.archived_bytes:
            size = format_bytes(picture.facts.archived_bytes)
            yield f"segments: {signs.archived} in the archive only, {size}", "muted"
        codecs = [
            f"{_CODEC_SIGNS.get(name, '?')} {name} ({counted(count, 'batch')})"
            for name, count in picture.codecs.items()
        ]
        if codecs:
            yield f"codecs: {', '.join(codecs)}; in capitals: no other in the column", "muted"
        used = [(picture.aborted, "aborted", signs.aborted), (picture.opened, "open", signs.open)]
        named = [f"{sign} {counted(n, f'{what} transaction')}" for n, what, sign in used if n]
        if named or any(lanes):
            own = f"{signs.batch} of a producer"
            yield f"batches: {', '.join([own, *named])}", "muted"
        for sentence in named_transactions(picture):
            yield sentence, "open"
        plans = retention_text(picture), compaction_text(picture)
        for sentence in (epochs_text(picture), *plans):
            if sentence:
                yield sentence, ""
        for sentence in losses(picture):
            yield sentence, "loss"


def segment_cells(
    picture: LogPicture, scale: PictureScale, columns: int, signs: Signs
) -> tuple[list[Cell], list[tuple[int, str]]]:
    """Return the bar of a log's segments, and the columns where they begin with base offsets."""
    cells: list[Cell] = []
    labels: dict[int, str] = {}
    for block in picture.blocks:
        start = round(scale.place(block.position, columns))
        end = round(scale.place(block.end_position, columns))
        labels.setdefault(start, f"{block.base_offset:,}")
        if end == start:
            continue
        fill = signs.active if block.is_active else signs.closed
        if not block.is_on_disk:
            fill = signs.archived
        if block.end_offset <= picture.facts.log_start_offset:
            fill = signs.below_start
        has_border = end < columns and end - start > 1
        cells += [(fill, "")] * (end - start - has_border)
        cells += [(signs.border, "")] * has_border
    return cells, list(labels.items())


def _placed(labels: Iterable[tuple[int, str]], width: int) -> str:
    """Return labels at their columns, those that fit."""
    line = ""
    for column, label in labels:
        begin = len(line) + 1 if line else 0
        if column >= begin and column + len(label) <= width:
            line = line.ljust(column) + label
    return line
