"""Notebooks show logs with a picture of bounded size, or with a sentence that says why not."""

from __future__ import annotations

import pickle
import re
from base64 import b64decode
from typing import TYPE_CHECKING

import pytest
from tests.machinery.picture_rules import check_page
from tests.unit.explain.pictures.test_drawing import HOSTILE, facts

import tidelog
from tidelog.errors import InvalidArgument, UnknownTopicOrPartition
from tidelog.explain.pictures.log_picture import picture_of_facts
from tidelog.explain.pictures.notebook import MAX_LOGS, MAX_SVG_BYTES, LogDrawing, logs_html
from tidelog.explain.pictures.overview import draw_svg_overview
from tidelog.explain.pictures.svg_picture import draw_svg
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidelog.readonly.read_only_directory import ReadOnlyDirectory

MANY = [(n * 10, n * 10 + 10, 1_000_000) for n in range(10_000)]
IMAGE = re.compile('<img alt="[^"<>]*" style="[^"]*" src="data:image/svg[+]xml;base64,(.*)">')


@pytest.fixture
def logs() -> Iterator[tidelog.Logs]:
    """A topic ``t`` of three partitions with some records."""
    with tidelog.open("/data", files=CrashFileSystem(), clock=ManualClock()) as opened:
        opened.create_topic("t", 3)
        for number in range(3):
            opened.append_all("t", [{"value": b"x", "partition": number}] * 5)
        yield opened


def drawn_in(html: str) -> str:
    """Return the SVG file in the only image, after a check of both."""
    (data,) = IMAGE.findall(html)
    svg = b64decode(data).decode()
    check_page(svg)
    return svg


def test_logs_are_shown_with_their_repr_and_a_strip_for_each(logs: tidelog.Logs) -> None:
    """The files are read, so it works on closed ones, too."""
    opened = logs._repr_html_()
    logs.close()
    closed = logs._repr_html_()

    assert opened.startswith("<div><code>&lt;Logs &#x27;/data&#x27;: topics=1, partitions=3, open")
    assert "closed&gt;" in closed
    assert all(f"t-{number}: 5 offsets" in drawn_in(opened) for number in range(3))
    assert drawn_in(closed) == drawn_in(opened)


def test_the_logs_of_a_topic_are_drawn_or_one_of_them(logs: tidelog.Logs) -> None:
    """One with its batches; as a drawing that says what it is."""
    topic, one = logs.picture("t"), logs.picture("t", 1)

    assert (repr(topic), one.text[:18]) == ("<LogDrawing of 3 logs>", "t-1: 5 offsets, 1 ")
    assert "none, 1 batch" in drawn_in(one._repr_html_())
    with pytest.raises(UnknownTopicOrPartition):
        logs.picture("u")


def test_names_are_escaped() -> None:
    """Of topics, directories and files, which come from outside."""
    picture = picture_of_facts(facts((0, 9, 90), topic=HOSTILE))

    def look() -> ReadOnlyDirectory:
        raise InvalidArgument(HOSTILE)

    assert "<c>" not in logs_html(HOSTILE, look)
    assert "<c>" not in LogDrawing(draw_svg([picture]), HOSTILE)._repr_html_()


def test_what_cannot_be_drawn_is_said(logs: tidelog.Logs) -> None:
    """No logs, too many, or files that cannot be read."""
    logs.delete_topic("t")
    none = logs._repr_html_()
    logs.create_topic("u", MAX_LOGS + 1)
    many = logs._repr_html_()

    def look() -> ReadOnlyDirectory:
        raise OSError(5, "Input/output error")

    assert "<p>There are no logs to draw.</p>" in none
    assert "51 logs are too many to draw unasked" in many
    assert "the largest 50 are drawn" in logs.picture("u").svg
    assert "cannot be drawn: [Errno 5] Input/output error</p>" in logs_html(logs, look)


def test_drawings_are_small_however_many_segments_there_are() -> None:
    """Of one log, and of as many as a drawing shows, each with 10,000 segments."""
    picture = picture_of_facts(facts(*MANY))

    assert len(draw_svg([picture])) < MAX_SVG_BYTES
    assert len(draw_svg_overview([picture] * 99, MAX_LOGS)) < MAX_SVG_BYTES


def test_a_topic_is_shown_with_its_logs(logs: tidelog.Logs) -> None:
    """However it was got; it is equal to, and copied and pickled as, one without a picture."""
    logs.create_topic("u")
    topics = logs.topic("t"), logs.topics()["t"], logs.alter_topic("t", {"retention.ms": 5})
    htmls = [topic._repr_html_() or "" for topic in topics]
    copied = pickle.loads(pickle.dumps(topics[0]))

    assert all("t-2: 5 offsets" in drawn_in(html) for html in htmls)
    assert not any("u-0" in drawn_in(html) for html in htmls)
    assert htmls[0].startswith("<div><code>&lt;Topic &#x27;t&#x27;: partitions=3")
    assert "u-0: 0 offsets" in drawn_in(logs.create_topic("u", exist_ok=True)._repr_html_() or "")
    assert (copied, copied._repr_html_()) == (topics[0], None)


def test_too_many_logs_of_a_topic_are_not_drawn_unasked(logs: tidelog.Logs) -> None:
    """The sentence names what to ask for."""
    html = logs.create_topic("u", MAX_LOGS + 1)._repr_html_() or ""

    assert "51 logs are too many to draw unasked: ask for the picture of a partition" in html


def test_what_is_only_read_is_shown_as_well(tmp_path: Path) -> None:
    """Topics, and single logs, open or closed; names of directories are escaped."""
    data = tmp_path / "a\"b<c>&'\x1b[31m"
    with tidelog.open(data) as written:
        written.create_topic("t", 2)
        written.append("t", b"x", partition=1)
    beside = tidelog.open_directory_read_only(data)
    topic = beside.topic("t")._repr_html_() or ""
    listed = beside.topics()["t"]._repr_html_() or ""
    with beside.open("t", 1) as log, tidelog.open_read_only(data / "t-1") as alone:
        opened = log._repr_html_() or ""
    shown = [opened, log._repr_html_() or "", alone._repr_html_() or ""]

    assert topic == listed
    assert "t-0: 0 offsets" in drawn_in(topic)
    assert "t-1: 1 offset" in drawn_in(topic)
    assert all("none, 1 batch" in drawn_in(html) for html in shown)
    assert all(html.startswith("<div><code>&lt;ReadOnlyLog ") for html in shown)
    assert "<c>" not in "".join(shown)
    assert "a&quot;b&lt;c&gt;&amp;" in opened
