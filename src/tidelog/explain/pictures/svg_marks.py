"""Places the labels of offsets above the bar of a log, so that none hides another."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.explain.pictures.svg_elements import mono_width, number, path, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.explain.pictures.log_picture import Mark

ROW_HEIGHT: Final = 18
_CLASSES: Final = (
    ("high watermark", "m-watermark"),
    ("last stable offset", "m-stable"),
    ("log start", "m-start"),
    ("log end", "m-end"),
    ("recovery point", "m-recovery"),
)


class _Label(NamedTuple):
    """A label: the columns that it covers, its row from below, and the place of its line."""

    left: float
    right: float
    row: int
    place: float


class MarkLabels(NamedTuple):
    """The labels as elements, and where the line of each mark begins."""

    elements: str
    tops: dict[int, float]

    def line(self, mark: Mark, place: float, bar_end: float, lanes: float, end: float) -> str:
        """Return the line of a mark: through the bar, and faintly on through the lanes."""
        classes = class_of(mark)
        top = self.tops[mark.offset]
        x = number(place)
        shape = path(f"M{x} {number(top)}V{number(bar_end)}", f"mark {classes}", label_of(mark))
        faint = path(f"M{x} {number(lanes)}V{number(end)}", f"mark faint {classes}")
        return shape + (faint if end > lanes else "")


def label_of(mark: Mark) -> str:
    """Return the names of a mark and its offset."""
    return f"{', '.join(mark.names)} {mark.offset:,}"


def class_of(mark: Mark) -> str:
    """Return the style of a mark: that of the name which means most to readers."""
    return next(classes for name, classes in _CLASSES if name in mark.names)


def draw_marks(
    places: Sequence[tuple[Mark, float]], top: float, limits: tuple[float, float]
) -> tuple[MarkLabels, int]:
    """Return the labels of marks at their places, and the number of rows that they take.

    Args:
        places: marks with their places, ascending.
        top: where the first row begins.
        limits: the columns between which labels may lie.
    """
    ways = (_placed(places, sides, limits) for sides in product((True, False), repeat=len(places)))
    placed = min(ways, key=lambda way: (way.hidden, way.rows), default=_Way(0, 0, {})).labels
    rows = max((label.row for label in placed.values()), default=-1) + 1
    elements, tops = [], {}
    for index, label in placed.items():
        mark, place = places[index]
        y = top + (rows - 1 - label.row) * ROW_HEIGHT
        tops[mark.offset] = y
        is_right = label.left > place
        end, x = ("", label.left) if is_right else (" end", label.right)
        elements.append(text(x, y + 10, label_of(mark), f"mono ink halo{end}"))
    return MarkLabels("".join(elements), tops), rows


class _Way(NamedTuple):
    """A way to place all labels: how much is hidden by it, and how many rows it takes."""

    hidden: float
    rows: int
    labels: dict[int, _Label]


def _placed(
    places: Sequence[tuple[Mark, float]], sides: tuple[bool, ...], limits: tuple[float, float]
) -> _Way:
    """Place each label on the right of its line, or on the left of it.

    Lines run down from their labels: so those on the right are placed from the right on.
    """
    order = [i for i in reversed(range(len(places))) if sides[i]]
    order += [i for i in range(len(places)) if not sides[i]]
    labels: dict[int, _Label] = {}
    hidden = 0.0
    for index in order:
        mark, place = places[index]
        width = mono_width(label_of(mark))
        left = place + 6 if sides[index] else place - 6 - width
        others = list(labels.values())
        free = (row for row in range(len(others) + 1) if _is_free(left, width, place, row, others))
        row = next(free, -1)
        hidden += max(limits[0] - left, left + width - limits[1], 0) + 10 * (row < 0)
        labels[index] = _Label(left, left + width, len(others) if row < 0 else row, place)
    rows = max((label.row for label in labels.values()), default=-1) + 1
    return _Way(hidden, rows, labels)


def _is_free(left: float, width: float, place: float, row: int, others: list[_Label]) -> bool:
    """Return whether a label in this row hides nothing and is crossed by no line."""
    right = left + width
    for other in others:
        is_beside = right + 10 < other.left or other.right + 10 < left
        if other.row == row and not is_beside:
            return False
        if other.row > row and left - 3 <= other.place <= right + 3:
            return False
        if other.row < row and other.left - 3 <= place <= other.right + 3:
            return False
    return True
