"""Pictures of logs for notebooks, as HTML of bounded size.

A drawing is put into a notebook as an image: its styles and ids would otherwise reach the page
around it, and those of other drawings there.
"""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Final

from tidelog.codec.one_line import one_line
from tidelog.errors import TidelogError
from tidelog.explain.describe import describe_in
from tidelog.explain.pictures.log_picture import picture_of_facts
from tidelog.explain.pictures.overview import draw_svg_overview
from tidelog.explain.pictures.picture_words import summary
from tidelog.explain.pictures.svg_picture import draw_svg
from tidelog.explain.pictures.take_picture import take_picture
from tidelog.explain.printable_text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.explain.pictures.log_picture import LogPicture
    from tidelog.readonly.missing.damaged_range import OnDamage
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition

MAX_LOGS: Final = 50
"""Logs that one drawing shows. Each is opened for it, so of more none is shown unasked."""
MAX_SVG_BYTES: Final = 300_000
"""A larger drawing is replaced by one of segments and offsets only."""
WHOLE_BYTES: Final = 8 << 20
"""Of a larger log batches are not read."""


class LogDrawing:
    """A drawing of logs, which a notebook shows; ``svg`` is the text of an SVG file.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.picture("tides").text
    'tides-0: 0 offsets, 1 segment, 0 batches, 0 bytes'
    """

    def __init__(self, svg: str, text: str) -> None:
        self.svg: Final = svg
        self.text: Final = text
        """The drawing in a few words."""

    def __repr__(self) -> str:
        return one_line(self, lambda: f"of {self.text}")

    def _repr_html_(self) -> str:
        data = b64encode(self.svg.encode()).decode("ascii")
        source = f"data:image/svg+xml;base64,{data}"
        return f'<img alt="{escape(self.text)}" style="max-width:100%" src="{source}">'


def draw_logs(directory: ReadOnlyDirectory, keys: Sequence[TopicPartition]) -> LogDrawing:
    """Return a drawing of logs: of one with its batches if it is small, of several a strip each.

    Raises UnknownTopicOrPartition, PartitionsElsewhere, KafkaStorageError, OffsetOutOfRange.
    """
    if len(keys) != 1:
        pictures = [_brief(directory, key) for key in keys]
        return LogDrawing(draw_svg_overview(pictures, MAX_LOGS), _words(pictures))
    picture = _brief(directory, keys[0])
    svg = draw_svg([picture])
    if picture.total_bytes <= WHOLE_BYTES:
        whole = take_picture(partial(_open, directory, keys[0]), partial(describe_in, directory))
        drawn = draw_svg([whole])
        if len(drawn) <= MAX_SVG_BYTES:
            picture, svg = whole, drawn
    return LogDrawing(svg, _words([picture]))


def logs_html(
    held: object,
    look: Callable[[], ReadOnlyDirectory],
    topic: str | None = None,
    partition: int | None = None,
) -> str:
    """Return what a notebook shows of the logs in some directories: all, a topic's, or one.

    That is the repr of ``held``, with their drawing, or with a sentence that says why there is none
    and what to do.
    """
    try:
        directory = look()
        keys = [
            key
            for key in directory.partitions
            if topic in {None, key.topic} and partition in {None, key.partition}
        ]
        if not keys:
            shown = "<p>There are no logs to draw.</p>"
        elif len(keys) > MAX_LOGS:
            fewer = "topic" if topic is None else "partition"
            shown = (
                f"<p>{counted(len(keys), 'log')} are too many to draw unasked: ask for the picture"
                f" of a {fewer}, or run <code>tidelog picture --overview</code>.</p>"
            )
        else:
            shown = draw_logs(directory, keys)._repr_html_()
    except (TidelogError, OSError) as error:
        shown = f"<p>The logs cannot be drawn: {escape(printable(str(error)))}</p>"
    return f"<div><code>{escape(repr(held))}</code></div>{shown}"


def _words(pictures: Sequence[LogPicture]) -> str:
    if len(pictures) == 1:
        return f"{printable(pictures[0].name)}: {summary(pictures[0])}"
    return counted(len(pictures), "log")


def _brief(directory: ReadOnlyDirectory, key: TopicPartition) -> LogPicture:
    with _open(directory, key, None) as log:
        return picture_of_facts(describe_in(directory, log))


def _open(
    directory: ReadOnlyDirectory, key: TopicPartition, on_damage: OnDamage | None
) -> ReadOnlyLog:
    return directory.open(key.topic, key.partition, on_damage=on_damage)
