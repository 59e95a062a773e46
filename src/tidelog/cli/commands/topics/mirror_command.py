"""``tidelog mirror``: copy what is new of topics from one data directory into another."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import period_ms
from tidelog.cli.options import (
    DIRECTORIES,
    JSON,
    SERVER_PROPERTIES,
    TOPICS,
    Command,
    argument,
    dry_run_option,
    target_option,
)
from tidelog.cli.terminal import print_counts, print_line, print_row
from tidelog.codec.shown_rows import as_json
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from tidelog.env.files import FileSystem
    from tidelog.manager.mirror import MirroredPartition
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


ONCE: Final = (
    *DIRECTORIES,
    TOPICS,
    target_option("the data directory of the mirror; created if missing", required=True),
    SERVER_PROPERTIES,
    dry_run_option("only print what would be copied"),
    JSON,
)
COMMAND: Final = Command(
    "mirror",
    "copy new records of topics to another data directory, at the same offsets",
    (
        *ONCE,
        argument(
            "--every",
            type=period_ms,
            metavar="PERIOD",
            help="repeat it until Ctrl-C or SIGTERM, after a pause such as 10s, 5m or 1h; later"
            " runs print only what they have copied, and an error ends the command",
        ),
    ),
)


def _stopped_within(pause_ms: int) -> bool:
    from tidelog.env.signals import Signals

    with Signals(reloads=False) as signals:
        return signals.is_stopped_within(pause_ms)


def run(args: Namespace, stopped_within: Callable[[int], bool] = _stopped_within) -> int:
    """Mirror the topics, once or repeatedly, or print what that would copy.

    ``stopped_within`` waits for that many ms between two runs, and says whether to end.
    """
    from tidelog.cli.operations import files_of, quiet

    if args.every is not None and args.dry_run:
        raise InvalidArgument("--every copies, and --dry-run does not: leave one of them out")
    with quiet(args.dry_run):
        done = _mirror(args, files_of(args))
    print_mirrored(args, done)
    while args.every is not None:
        sys.stdout.flush()
        if stopped_within(args.every):
            break
        copied = [one for one in _mirror_again(args, files_of(args)) if one.batches]
        if copied:
            print_mirrored(args, copied)
    return 0


def left_out(topic: str, settings: Sequence[str], *, is_plan: bool) -> str:
    """Return which settings a topic does not get where it has no archive."""
    return f"{topic}: {'would leave out' if is_plan else 'left out'} {', '.join(settings)}"


def print_mirrored(args: Namespace, done: Sequence[MirroredPartition]) -> None:
    """Print what was copied of each partition, or would be."""
    copied = "would copy" if args.dry_run else "copied"
    archived = {one.topic for one in done if one.is_archived}
    for topic, settings in {one.topic: one.settings_left_out for one in done}.items():
        if settings and not args.json:
            more = "; records in the archive are copied, too"
            if topic not in archived:
                more = ", and records that are only in remote storage: tidelog has none"
            print_line(printable(left_out(topic, settings, is_plan=args.dry_run) + more))
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
        return mirror_topics(
            *(source, os.path.abspath(args.target), args.topics),
            fs=fs,
            watcher=ShownWork(),
            is_plan=args.dry_run,
            on_read=lambda name, *sizes: work.show(f"reading {name}", *sizes),
        )


def _mirror_again(args: Namespace, fs: FileSystem) -> list[MirroredPartition]:
    """Mirror what is new; KafkaStorageError, too, for a source that is there no longer.

    The usage was right a moment ago, and a service manager does not repeat what ends with 2.
    """
    try:
        return _mirror(args, fs)
    except InvalidArgument as error:
        raise KafkaStorageError(str(error)) from None


def source_of(args: Namespace) -> ReadOnlyDirectory:
    """Open the directories that are mirrored; errors as ``ReadOnlyDirectory`` and of options.

    InvalidArgument for empty ones, too.
    """
    from tidelog.cli.server_properties import broker_properties
    from tidelog.env.paths import absolute_place
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.absent_partitions import BY_FLAG
    from tidelog.readonly.read_only_directory import open_directory_read_only

    source = open_directory_read_only(
        *map(absolute_place, args.directories),
        fs=SYSTEM_FILES,
        server_properties=broker_properties(args),
        accept=None if args.allow_partial else BY_FLAG,
        asks_holder=True,
    )
    # A disk that is not mounted leaves an empty directory, which would pass for one without news.
    if not (source.has_files_of_its_own() or source.found):
        raise InvalidArgument(f"{source.name} is not a data directory: it has no partitions")
    return source
