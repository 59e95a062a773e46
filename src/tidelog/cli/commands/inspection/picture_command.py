"""``tidelog picture``: draw logs as text or as an SVG file; with ``--json``, what they show."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import whole
from tidelog.cli.options import (
    JSON,
    LOGS,
    NOW,
    SERVER_PROPERTIES,
    SETTINGS,
    Command,
    argument,
    checked_by,
)
from tidelog.cli.terminal import (
    MAX_COLUMNS,
    has_colour,
    print_line,
    screen_width,
)
from tidelog.codec.shown_rows import as_json
from tidelog.explain.printable_text import counted, format_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.explain.pictures.log_picture import LogPicture

_STANDARD_OUTPUT: Final = "-"
_MAX_WHOLE: Final = 12
"""Logs that one SVG file shows with their batches; more are a strip each."""


def _check_output(args: Namespace) -> str | None:
    if args.svg is not None and args.json:
        return "--svg and --json: choose one"
    if args.force and args.svg in {None, _STANDARD_OUTPUT}:
        return "--force is for --svg FILE"
    if args.svg is not None and (args.ascii or args.width is not None):
        return "--ascii and --width are for pictures of text: leave --svg out"
    return None


COMMAND: Final = Command(
    "picture",
    "draw logs: segments, batches, offsets, transactions, plans",
    (
        *LOGS,
        argument(
            "--width",
            type=whole(1, MAX_COLUMNS),
            metavar="COLUMNS",
            help="width of the drawing, at least 40 (default: $COLUMNS, or the terminal's)",
        ),
        argument("--ascii", action="store_true", help="draw with ASCII characters only"),
        argument(
            "--svg",
            metavar="FILE",
            help="draw into an SVG file that needs no other one; - is standard output; more than"
            f" {_MAX_WHOLE} logs are drawn as with --overview",
        ),
        argument("--force", action="store_true", help="replace the SVG file if it exists"),
        argument(
            "--brief",
            action="store_true",
            help="only segments and offsets, as describe: no batches are read",
        ),
        argument(
            "--overview",
            action="store_true",
            help="a strip for each log, all to one scale; no batches are read",
        ),
        NOW,
        SETTINGS,
        SERVER_PROPERTIES,
        JSON,
        checked_by(_check_output),
    ),
)


def run(args: Namespace) -> int:
    """Draw every chosen log; return 1 if one is damaged, lacks a segment, or is missing."""
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.env.system_files import SYSTEM_FILES

    if args.svg not in {None, _STANDARD_OUTPUT}:
        from tidelog.cli.output_file import check_output_file

        check_output_file(SYSTEM_FILES, os.path.abspath(args.svg), may_replace=args.force)
    chosen = chosen_by(
        args,
        may_be_empty=args.svg is None and not args.overview,
    )
    draw = _print if args.svg is None else _draw_svg
    code = draw(args, chosen)
    return max(code, chosen.exit_code(has_loss=chosen.report_missing(args.command)))


def _print(args: Namespace, chosen: ChosenPartitions) -> int:
    """Print each picture; return 1 if something is lost."""
    from textwrap import fill

    from tidelog.explain.pictures.overview import draw_text_overview
    from tidelog.explain.pictures.picture_words import checked_text
    from tidelog.explain.pictures.text_picture import TextStyle, draw_text

    style = TextStyle(args.width or screen_width(), args.ascii, has_colour())
    before = ""
    found = _pictures(args, chosen, is_brief=args.brief or args.overview)
    if args.overview and not args.json:
        pictures = [picture for _, picture in found]
        print(draw_text_overview(pictures, style), end="")
        return int(any(picture.has_loss for picture in pictures))

    def show(_: Place, picture: LogPicture) -> bool:
        nonlocal before
        if args.json:
            print(json.dumps(as_json(picture.facts) | as_json(picture)))
        else:
            print(before + draw_text(picture, style), end="", flush=True)
        before = "\n"
        return picture.has_loss

    code = chosen.show_each(args, found, show)
    if args.brief and before and not args.json:
        print(fill(checked_text(), style.width, subsequent_indent="  ", break_on_hyphens=False))
    return code


def _draw_svg(args: Namespace, chosen: ChosenPartitions) -> int:
    """Write the SVG file; return 1 if something is lost."""
    from tidelog.cli.output_file import write_output_file
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.pictures.overview import draw_svg_overview
    from tidelog.explain.pictures.svg_picture import draw_svg

    is_overview = args.overview or len(chosen.places) > _MAX_WHOLE
    found = _pictures(args, chosen, is_brief=args.brief or is_overview)
    pictures = [picture for _, picture in found]
    drawn = draw_svg_overview(pictures) if is_overview else draw_svg(pictures)
    if args.svg == _STANDARD_OUTPUT:
        print(drawn, end="")
    else:
        path, data = os.path.abspath(args.svg), drawn.encode()
        write_output_file(SYSTEM_FILES, path, data, may_replace=args.force)
        print_line(f"{args.svg}: {counted(len(pictures), 'log')}, {format_bytes(len(data))}")
    return int(any(picture.has_loss for picture in pictures))


def _pictures(
    args: Namespace, chosen: ChosenPartitions, *, is_brief: bool
) -> Iterator[tuple[Place, LogPicture]]:
    """Return the picture of each log, read as it is asked for."""
    from tidelog.cli.operations import plan_terms
    from tidelog.cli.progress import current_line
    from tidelog.explain.describe import describe_in
    from tidelog.explain.pictures.log_picture import picture_of_facts
    from tidelog.explain.pictures.take_picture import take_picture

    terms = plan_terms(args, chosen.directory, is_lenient=True)

    def question(place: Place) -> LogPicture:
        point = terms.recovery_point(place.key)
        if is_brief:
            with chosen.open(place) as log:
                return picture_of_facts(describe_in(chosen.directory, log), point)
        with current_line().task(f"reading {place.key}") as task:
            return take_picture(
                lambda on_damage: chosen.open(place, on_damage),
                partial(describe_in, chosen.directory),
                recovery_point=point,
                planning=terms.planning(place.key),
                on_progress=lambda done, total: task.show(done, total=total),
            )

    return chosen.look_past_damage(args.command, question)
