"""Pages of long lists, sorting, and the fields of addresses."""

from __future__ import annotations

import pytest

from tidelog.console.asked import Asked
from tidelog.console.page_links import link, partition_link
from tidelog.console.paging import paged, sorted_rows, sorting
from tidelog.env.clock import ClockAt
from tidelog.errors import InvalidArgument
from tidelog.segment.filenames import TopicPartition


def asked(**fields: str) -> Asked:
    """Return what an address with these fields asks for."""
    return Asked({"topic": "t", "partition": "0"}, fields)


@pytest.mark.parametrize("page", ["", "0", "1", "2", "3", "999999"])
def test_every_row_is_on_one_page(page: str) -> None:
    """A page that is not there is the last one, or the first."""
    shown = paged(range(250), asked(page=page), "p")

    number = min(max(int(page or 1), 1), 3) - 1
    assert list(shown.rows) == list(range(100 * number, min(100 * number + 100, 250)))
    assert (shown.earlier is None, shown.later is None) == (number == 0, number == 2)
    assert (shown.first, shown.last, shown.total) == (100 * number + 1, shown.rows[-1] + 1, 250)


def test_the_links_of_pages_keep_the_other_fields() -> None:
    """Search and order."""
    shown = paged(range(250), asked(page="2", q="a&b", sort="lag"), "p")

    assert shown.later == "/p?q=a%26b&sort=lag&page=3"


def test_a_list_without_rows_has_one_page() -> None:
    """It has no rows, and no others."""
    assert paged([], asked(), "p")[2:] == (0, None, None)


def test_names_rise_and_numbers_fall_at_first() -> None:
    """A second click turns it around; rows without a value stay last."""
    columns = ("size", "name")
    falling = sorting(asked(), columns, "p", rising="name")
    rising = sorting(asked(sort="size", order="up"), columns, "p", rising="name")
    rows = [None, 2, 3, 1]

    assert falling.links == {
        "size": "/p?sort=size&order=up",
        "name": "/p?sort=name&order=up",
    }
    assert (falling.order("size"), falling.order("name")) == ("descending", None)
    assert sorted_rows(rows, falling, {"size": lambda row: row}) == [3, 2, 1, None]
    assert sorted_rows(rows, rising, {"size": lambda row: row}) == [1, 2, 3, None]


@pytest.mark.parametrize(
    "given", ["-1", "1.5", "x", "1e3", "0x1", "٣", "9223372036854775808", "1" * 5000]
)
def test_a_number_is_whole_and_fits(given: str) -> None:
    """Anything else is refused, and reading it takes no time."""
    with pytest.raises(InvalidArgument):
        asked(n=given).number("n")


def test_what_is_asked_for_is_checked() -> None:
    """Numbers with separators, words, times as the commands take them, long texts."""
    clock = ClockAt(10_000_000)

    assert asked(n="1,234").number("n") == 1234
    assert asked().number("n") is None
    assert asked(t="1h").time("t", clock) == 6_400_000
    assert asked().choice("way", ("first", "second")) == "first"
    with pytest.raises(InvalidArgument, match="way is one of"):
        asked(way="third").choice("way", ("first", "second"))
    with pytest.raises(InvalidArgument, match="characters"):
        asked(q="x" * 5000).text("q")
    with pytest.raises(InvalidArgument):
        asked(t="soon").time("t", clock)
    with pytest.raises(InvalidArgument):
        _ = Asked({"topic": "t", "partition": "-1"}, {}).key


def test_a_link_quotes_whatever_it_is_made_of() -> None:
    """A name is one part of a path, and one value of a field."""
    hostile = "../a?b=c#d&e\"'<>%2f\n"
    key = TopicPartition(hostile, 0)

    assert link("group", name=hostile) == ("/group?name=..%2Fa%3Fb%3Dc%23d%26e%22%27%3C%3E%252f%0A")
    assert partition_link(key, "records", from_=3, key="k").startswith("/topics/..%2Fa%3Fb%3Dc%23d")
    assert partition_link(key, "records", from_=3, key="k").endswith("/0/records?from=3&key=k")
