"""Long lists in pages: which rows are shown, how they are sorted, and where the others are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from tidelog.console.page_links import link

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from tidelog.console.asked import Asked

T = TypeVar("T")
PAGE_ROWS = 100
_MOST_PAGES = 10**6


class Paged(NamedTuple, Generic[T]):
    """The rows of one page: ``first`` counts from 1, and ``total`` counts all."""

    rows: Sequence[T]
    first: int
    total: int
    earlier: str | None
    later: str | None

    @property
    def last(self) -> int:
        """The number of the last row."""
        return self.first + len(self.rows) - 1


def paged(rows: Sequence[T], asked: Asked, *path: object, size: int = PAGE_ROWS) -> Paged[T]:
    """Return the page that is asked for, the last one if there are fewer.

    ``path`` is that of the page; its other fields stay.
    """
    last = max((len(rows) - 1) // size, 0)
    number = min(max((asked.number("page", _MOST_PAGES) or 1) - 1, 0), last)
    fields = {name: value for name, value in asked.fields.items() if name != "page"}
    shown = rows[number * size : (number + 1) * size]
    return Paged(
        shown,
        number * size + 1,
        len(rows),
        link(*path, **fields, page=number) if number else None,
        link(*path, **fields, page=number + 2) if number < last else None,
    )


class Sorting(NamedTuple):
    """How a table is sorted, and the links that sort it in other ways."""

    by: str
    is_reverse: bool
    links: Mapping[str, str]

    def order(self, name: str) -> str | None:
        """Return ``aria-sort`` of a column; None if the table is not sorted by it."""
        if name != self.by:
            return None
        return "descending" if self.is_reverse else "ascending"


def sorting(asked: Asked, columns: Collection[str], *path: object, rising: str) -> Sorting:
    """Return the sorting that is asked for; by the first of ``columns`` by default.

    The one named ``rising`` rises at first, as names do; the others fall.
    """
    by = asked.choice("sort", columns)
    order = asked.choice("order", ("", "up", "down")) if asked.text("order") else ""
    is_reverse = order == "down" if order else by != rising
    fields = {
        name: value for name, value in asked.fields.items() if name not in {"sort", "order", "page"}
    }
    links = {}
    for name in columns:
        falls = not is_reverse if name == by else name != rising
        links[name] = link(*path, **fields, sort=name, order="down" if falls else "up")
    return Sorting(by, is_reverse, links)


def sorted_rows(
    rows: Sequence[T], how: Sorting, values: Mapping[str, Callable[[T], Any]]
) -> list[T]:
    """Return rows in the order that is asked for; those without a value are last."""
    value = values[how.by]
    known = [row for row in rows if value(row) is not None]
    unknown = [row for row in rows if value(row) is None]
    return sorted(known, key=value, reverse=how.is_reverse) + unknown
