"""``tidelog rescue``: put all that can be read of broken data directories into a new one."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import (
    JSON,
    SERVER_PROPERTIES,
    WHOLE_DIRECTORIES,
    Command,
    target_option,
)
from tidelog.cli.terminal import print_counts, print_line, print_message, print_row
from tidelog.codec.offset_text import offsets_text
from tidelog.codec.shown_rows import as_json
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.errors import KafkaStorageError
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.manager.rescue.rescued_partition import LeftOut, Rescued, RescuedPartition

COMMAND: Final = Command(
    "rescue",
    "copy all that can be read of broken data directories, also after damage, to a new one, at the"
    " same offsets",
    (
        *WHOLE_DIRECTORIES,
        target_option("the data directory to make; there must be nothing", required=True),
        SERVER_PROPERTIES,
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """Rescue what can be read, and print what was copied and what was not; takes no lock.

    Returns 1 if something was left out that may have held records.
    """
    rescued = _rescue(args)
    _print(args, rescued)
    return int(not rescued.is_whole)


def _rescue(args: Namespace) -> Rescued:
    from tidelog.cli.progress import ShownWork
    from tidelog.cli.server_properties import broker_properties
    from tidelog.env.machine import brief_machine
    from tidelog.env.paths import absolute_path
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.rescue.failing_files import FailingFiles
    from tidelog.manager.rescue.rescue import BESIDE, Rescue
    from tidelog.readonly.read_only_directory import open_directory_read_only

    paths = [absolute_path(path) for path in args.directories]
    disk = FailingFiles(SYSTEM_FILES, paths)
    source = open_directory_read_only(
        *paths, fs=disk, server_properties=broker_properties(args), accept=None
    )
    machine = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
    with closing(ShownWork()) as work:
        target = os.path.abspath(args.target)
        rescue = Rescue(
            *(source, disk, target, machine),
            on_read=lambda name, *sizes: work.show(f"copying {name}", *sizes),
        )
        with naming_unfinished(args.command, target + BESIDE):
            return rescue.run()


@contextmanager
def naming_unfinished(command: str, path: str) -> Iterator[None]:
    """Name the directory that the body was making, and has left there by a failure: it is large."""
    from tidelog.env.system_files import SYSTEM_FILES

    try:
        yield
    except KafkaStorageError:
        if SYSTEM_FILES.exists(path):
            text = f"{path} is unfinished: repeat the command, or delete that"
            print_message(command, printable(text))
        raise


def _print(args: Namespace, rescued: Rescued) -> None:
    for one in rescued.partitions:
        print_row(args, as_json(one), "\n".join(map(printable, _lines(one))))
    for entry in rescued.entries:
        print_row(args, as_json(entry), printable(f"left out: {_in_words(entry)}"))
    parts = rescued.partitions
    records, batches = sum(one.records for one in parts), sum(one.batches for one in parts)
    markers = sum(one.markers for one in parts)
    size_bytes = sum(one.size_bytes for one in parts)
    size = format_bytes(size_bytes)
    damaged = sum(not one.is_whole for one in parts)
    print_counts(
        args,
        partitions=len(parts),
        damaged=damaged,
        entries=len(rescued.entries),
        batches=batches,
        records=records,
        markers=markers,
        sizeBytes=size_bytes,
        leftOut=sum(one.left_out_count for one in parts),
    )
    if not args.json:
        print_line(
            f"{counted(len(parts), 'partition')}, {damaged:,} of them not whole; copied"
            f" {counted(records, 'record')}, {_batches(batches, markers)}, {size}"
        )


def _batches(batches: int, markers: int) -> str:
    """Return how many batches were copied; a marker of a transaction is not a record."""
    return counted(batches, "batch") + (f" ({counted(markers, 'marker')})" if markers else "")


def _lines(one: RescuedPartition) -> Iterator[str]:
    offsets = f"[{one.log_start_offset:,}, {one.log_end_offset:,})"
    size = f"{_batches(one.batches, one.markers)}, {format_bytes(one.size_bytes)}"
    name = f"{one.topic}-{one.partition}"
    yield f"{name}: copied {offsets}, {counted(one.records, 'record')}, {size}"
    if one.open_from is not None:
        yield (
            f"  open in {name}: {counted(one.open_transactions, 'transaction')}, from offset"
            f" {one.open_from:,} on, where readers of committed records stop; `tidelog serve`"
            " aborts those that __transaction_state names, `tidelog txns abort` others"
        )
    for what in one.left_out:
        yield f"  left out: {_in_words(what)}"
    if one.left_out_count > len(one.left_out):
        yield f"  left out: {one.left_out_count - len(one.left_out):,} more ranges"
    for gap in one.gaps:
        yield f"  gap: {offsets_text(gap.start_offset, gap.end_offset)}: {gap.reason}"
    if one.gap_count > len(one.gaps):
        yield f"  {one.gap_count - len(one.gaps):,} more gaps"


def _in_words(what: LeftOut) -> str:
    text = what.path
    if what.position is not None:
        text = f"{counted(what.size_bytes, 'byte')} from byte {what.position:,} of {text}"
    elif what.size_bytes:
        text = f"{text}, {counted(what.size_bytes, 'byte')}"
    if what.batches:
        text += f", {counted(what.batches, 'readable batch')}"
    start, end = what.start_offset, what.end_offset
    if start is not None and end is not None and start < end:
        text += f", {offsets_text(start, end)}"
    elif start is not None and end is None:
        text += f", offsets from {start:,} on"
    return f"{text}: {what.reason}"
