"""Places the labels of offsets above the bar of a log, so that none hides another."""

from __future__ import annotations

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
    fits = [place + 8 + mono_width(label_of(mark)) <= limits[1] for mark, place in places]
    # Lines run down from labels: from the right for labels on the right of theirs, else from left.
    order = [i for i in reversed(range(len(places))) if fits[i]]
    order += [i for i in range(len(places)) if not fits[i]]
    placed: dict[int, _Label] = {}
    for index in order:
        mark, place = places[index]
        width = mono_width(label_of(mark))
        left = place + 6 if fits[index] else max(place - 6 - width, limits[0])
        placed[index] = _lowest(left, left + width, place, list(placed.values()))
    rows = max((label.row for label in placed.values()), default=-1) + 1
    elements, tops = [], {}
    for index, label in placed.items():
        mark, place = places[index]
        y = top + (rows - 1 - label.row) * ROW_HEIGHT
        tops[mark.offset] = y
        end = "" if fits[index] else " end"
        x = label.left if fits[index] else label.right
        elements.append(text(x, y + 10, label_of(mark), f"mono ink halo{end}"))
    return MarkLabels("".join(elements), tops), rows


def _lowest(left: float, right: float, place: float, others: list[_Label]) -> _Label:
    """Return the label in the lowest row in which it hides nothing and is crossed by no line."""

    def is_free(row: int) -> bool:
        for other in others:
            is_beside = right + 10 < other.left or other.right + 10 < left
            if other.row == row and not is_beside:
                return False
            if other.row > row and left - 3 <= other.place <= right + 3:
                return False
            if other.row < row and other.left - 3 <= place <= other.right + 3:
                return False
        return True

    free = (row for row in range(len(others) + 1) if is_free(row))
    return _Label(left, right, next(free, len(others)), place)
