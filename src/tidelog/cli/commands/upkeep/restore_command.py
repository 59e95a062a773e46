"""``tidelog restore``: make a data directory of an archive."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import JSON, TOPICS, Command, argument, target_option
from tidelog.codec.shown_rows import as_json

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from tidelog.manager.restore import RestoredPartition, RestoredTopic

COMMAND: Final = Command(
    "restore",
    "make a data directory of an archive, with the files that were archived",
    (
        argument("uri", metavar="URI", help="where the archive is, as s3://BUCKET/PREFIX"),
        TOPICS,
        target_option("the data directory to make; there must be nothing", required=True),
        argument(
            "--keep-ids",
            action="store_true",
            help="let the topics be those that were archived, with their ids and all settings, so"
            " that they can continue the archive; without it they are new topics",
        ),
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """Restore the topics, and print what of each partition."""
    from tidelog.cli.terminal import print_counts, print_line
    from tidelog.explain.picture import format_bytes
    from tidelog.explain.printable_text import counted

    done = _restore(args)
    for one in done:
        if args.json:
            print(json.dumps(as_json(one)))
            continue
        offsets = f"[{one.log_start_offset:,}, {one.log_end_offset:,})"
        size = f"{counted(one.segments, 'segment')}, {format_bytes(one.size_bytes)}"
        print_line(f"{one.topic}-{one.partition}: restored {offsets}, {size}")
    segments, size_bytes = sum(one.segments for one in done), sum(one.size_bytes for one in done)
    print_counts(args, partitions=len(done), segments=segments, sizeBytes=size_bytes)
    return 0


def _restore(args: Namespace) -> list[RestoredPartition]:
    from random import SystemRandom

    from tidelog.archive.open_archives import archive_at
    from tidelog.cli.progress import ShownWork
    from tidelog.env.paths import is_uri
    from tidelog.env.scheduler import start_threads
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.errors import InvalidArgument
    from tidelog.manager.restore import AT_ONCE, restore

    if not is_uri(args.uri):
        raise InvalidArgument(
            f"{args.uri} is not the URI of an archive: tidelog mirror copies a data directory"
        )
    topics = _topics(args)
    total = sum(
        entry.size_bytes
        for topic in topics
        for one in topic.partitions.values()
        for entry in one.state.entries
    )
    restored = 0
    threads = start_threads(AT_ONCE, "tidelog-restore")
    with closing(ShownWork()) as work:

        def on_bytes(count: int) -> None:
            nonlocal restored
            restored += count
            work.show(f"restoring {args.uri}", restored, total)

        try:
            return restore(
                archive_at(args.uri.rstrip("/")).store,
                topics,
                os.path.abspath(args.target),
                fs=SYSTEM_FILES,
                rng=SystemRandom(),
                scheduler=threads,
                on_bytes=on_bytes,
            )
        finally:
            threads.shutdown()


def _topics(args: Namespace) -> Sequence[RestoredTopic]:
    """Return the topics that are to be restored; UnknownTopicOrPartition, InvalidArgument."""
    from random import SystemRandom

    from tidelog.archive.archive_files import ArchiveFiles
    from tidelog.datadir.partition_directories import random_id
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.errors import InvalidArgument
    from tidelog.manager.restore import RestoredTopic
    from tidelog.readonly.read_files import reading
    from tidelog.readonly.read_only_directory import open_directory_read_only

    uri = args.uri.rstrip("/")
    files = reading(SYSTEM_FILES, args.topics or None)
    directory = open_directory_read_only(uri, fs=files)
    archive = files.at(uri)
    assert isinstance(archive, ArchiveFiles)
    if archive.root != uri:
        raise InvalidArgument(f"{uri} lies in the archive {archive.root}: name that, and a topic")
    found = archive.partitions()
    topics = []
    for name in dict.fromkeys(args.topics) or directory.topic_names:
        topic = directory.topic(name)
        parts = {one.number: one for one in found.values() if one.state.topic == name}
        settings = topic.settings_of_copy()
        config = dict(settings.config)
        topic_id = random_id(SystemRandom())
        if args.keep_ids:
            config |= {key: topic.config[key] for key in settings.left_out}
            topic_id = next(iter(parts.values())).topic_id
        topics.append(RestoredTopic(name, topic_id, config, settings.birth, parts))
    return topics
