"""``tidelog mirror``: copy what is new of topics from one data directory into another."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import (
    DIRECTORIES,
    JSON,
    SERVER_PROPERTIES,
    TOPICS,
    Command,
    dry_run_option,
    target_option,
)
from tidelog.cli.terminal import print_counts, print_line, print_row
from tidelog.codec.shown_rows import as_json
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from tidelog.env.files import FileSystem
    from tidelog.manager.mirror import MirroredPartition
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


COMMAND: Final = Command(
    "mirror",
    "copy new records of topics to another data directory, at the same offsets",
    (
        *DIRECTORIES,
        TOPICS,
        target_option("the data directory of the mirror; created if missing", required=True),
        SERVER_PROPERTIES,
        dry_run_option("only print what would be copied"),
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """Mirror the topics, or print what that would copy."""
    from tidelog.cli.operations import files_of, quiet

    with quiet(args.dry_run):
        done = _mirror(args, files_of(args))
    print_mirrored(args, done)
    return 0


def print_mirrored(args: Namespace, done: Sequence[MirroredPartition]) -> None:
    """Print what was copied of each partition, or would be."""
    copied, left_out = ("would copy", "would leave out") if args.dry_run else ("copied", "left out")
    for topic, settings in {one.topic: one.settings_left_out for one in done}.items():
        if settings and not args.json:
            what = f"{', '.join(settings)}, and records that are only in remote storage"
            print_line(f"{topic}: {left_out} {what}: tidelog has none")
    for one in done:
        text = f"nothing new; it ends at {one.end_offset:,}"
        if one.batches:
            offsets = f"[{one.start_offset:,}, {one.end_offset:,})"
            size = f"{counted(one.batches, 'batch')}, {format_bytes(one.size_bytes)}"
            text = f"{copied} {offsets}, {size}"
        print_row(args, as_json(one), printable(f"{one.topic}-{one.partition}: {text}"))
    size_bytes = sum(one.size_bytes for one in done)
    batches = sum(one.batches for one in done)
    print_counts(args, partitions=len(done), batches=batches, sizeBytes=size_bytes)


def _mirror(args: Namespace, fs: FileSystem) -> list[MirroredPartition]:
    from tidelog.cli.progress import ShownWork
    from tidelog.embedded.doors import mirror_topics

    source = source_of(args)
    with closing(ShownWork()) as work:

        def on_read(name: str, done_bytes: int, total_bytes: int) -> None:
            work.show(f"reading {name}", done_bytes, total_bytes)

        return mirror_topics(
            *(source, os.path.abspath(args.target), args.topics),
            fs=fs,
            watcher=ShownWork(),
            is_plan=args.dry_run,
            on_read=on_read,
        )


def source_of(args: Namespace) -> ReadOnlyDirectory:
    """Open the directories that are mirrored; errors as ``ReadOnlyDirectory`` and of options."""
    from tidelog.cli.server_properties import broker_properties
    from tidelog.env.paths import absolute_place
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.absent_partitions import BY_FLAG
    from tidelog.readonly.read_only_directory import open_directory_read_only

    return open_directory_read_only(
        *map(absolute_place, args.directories),
        fs=SYSTEM_FILES,
        server_properties=broker_properties(args),
        accept=None if args.allow_partial else BY_FLAG,
    )
