"""Turns what a page shows into HTML.

Everything is escaped: templates escape markup, and what is unprintable is shown as an escape, as on
a terminal. Names of topics and groups, keys and values come from outside.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tidelog.console.page_links import link, partition_link, topic_link
from tidelog.explain.printable_text import (
    counted,
    duration,
    format_bytes,
    format_time,
    printable,
)
from tidelog.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

_FEW: Final = 10
STATIC_TYPES: Final[Mapping[str, str]] = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files that pages use, with their types."""


class Answer(NamedTuple):
    """A page: its template, and the values that it shows."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


@cache
def _environment() -> Environment:
    """Return what compiles templates, each once in a process."""
    made = Environment(
        loader=PackageLoader("tidelog.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "size": format_bytes,
        "time": _time,
        "ago": _ago,
        "number": lambda value: "" if value is None else f"{value:,}",
        "rate": _rate,
        "counted": counted,
        "sentence": lambda text: f"{text[:1].upper()}{text[1:]}",
    }
    made.globals |= {
        "link": link,
        "topic_link": topic_link,
        "partition_link": partition_link,
        "newline": Markup("\n"),
        "version": __version__,
    }
    return made


def render(answer: Answer, **shared: object) -> str:
    """Return a page as HTML; ``shared`` are values that all pages of a desk have."""
    return _environment().get_template(answer.template).render({**shared, **answer.values})


def drawing(svg: str) -> Markup:
    """Return a picture that is made by ``draw_svg``, whose texts are escaped, as part of a page."""
    return Markup(svg)  # noqa: S704 - see above


@cache
def static_file(name: str) -> bytes:
    """Return one of the files of ``STATIC_TYPES``."""
    return (files("tidelog.console") / "static" / name).read_bytes()


def _finalize(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    return printable(str(value))


def _time(ms: int | None) -> str:
    return "" if ms is None or ms < 0 else format_time(ms)


def _ago(ms: int | None, now_ms: int) -> str:
    return "" if ms is None or ms < 0 else duration(now_ms - ms)


def _rate(value: float | None) -> str:
    """Return a number per second; exactly 0 where nothing came."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= _FEW or not value else f"{value:.1f}"
