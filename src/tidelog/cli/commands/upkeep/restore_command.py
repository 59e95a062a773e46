"""``tidelog restore``: make a data directory of an archive."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import (
    JSON,
    TOPICS,
    Command,
    argument,
    partition_option,
    target_option,
)
from tidelog.cli.terminal import print_counts, print_message, print_row
from tidelog.codec.shown_rows import as_json
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.errors import InvalidArgument
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from tidelog.cli.progress import Task
    from tidelog.env.machine import Machine
    from tidelog.errors import CorruptArchive
    from tidelog.manager.restore import OnDamage, RestoredPartition, RestoredTopic
    from tidelog.segment.filenames import TopicPartition

COMMAND: Final = Command(
    "restore",
    "make a data directory of an archive, or put lost partitions of one back",
    (
        argument("uri", metavar="URI", help="where the archive is, as s3://BUCKET/PREFIX"),
        TOPICS,
        partition_option("only this partition, which the data directory DIR has lost"),
        target_option(
            "the data directory to make; one that is there, and that nothing has open, gets the"
            " partitions back whose directories are missing",
            required=True,
        ),
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
    """Restore the topics, or lost partitions, and print what of each partition."""
    from tidelog.env.paths import is_uri
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.restore_lost import is_data_directory

    if not is_uri(args.uri):
        raise InvalidArgument(
            f"{args.uri} is not the URI of an archive, as file://{os.path.abspath(args.uri)} is:"
            " tidelog mirror copies a data directory"
        )
    target = os.path.abspath(args.target)
    is_new = not is_data_directory(SYSTEM_FILES, target)
    damaged: list[TopicPartition] = []

    def report(key: TopicPartition, error: CorruptArchive) -> None:
        damaged.append(key)
        print_message(args.command, printable(f"{key} was not restored: {error}"))

    done = (_make if is_new else _put_back)(args, target, report)
    for one in done:
        offsets = f"[{one.log_start_offset:,}, {one.log_end_offset:,})"
        size = f"{counted(one.segments, 'segment')}, {format_bytes(one.size_bytes)}"
        text = f"{one.topic}-{one.partition}: restored {offsets}, {size}"
        print_row(args, as_json(one), printable(text))
    segments, size_bytes = sum(one.segments for one in done), sum(one.size_bytes for one in done)
    print_counts(args, partitions=len(done), segments=segments, sizeBytes=size_bytes)
    if done:
        _explain(args, is_new=is_new)
    if damaged:
        _explain_damage(args, target, is_new=is_new)
    return int(bool(damaged))


def _explain_damage(args: Namespace, target: str, *, is_new: bool) -> None:
    """Say what becomes of partitions that were not restored, and how to get them."""
    again = f"run the command again once the archive is whole{', with another --to' * is_new}"
    if is_new and args.keep_ids:
        again = f"tidelog restore {args.uri} TOPIC -p N --to {target} once the archive is whole"
    print_message(
        args.command,
        f"reads of what was not restored fail, until a process opens {target} for writing, which"
        f" begins empty logs. For their records, before that: {again}",
    )


def _explain(args: Namespace, *, is_new: bool) -> None:
    """Say what the restored logs lack, and who does not take them for those that were lost."""
    text = "each log ends where its archive ends: records after that were not archived"
    print_message(args.command, text)
    if is_new and not args.keep_ids:
        print_message(
            args.command,
            "the topics have new ids, and streams with a checkpoint and groups know topics by id:"
            " for them to continue, restore with --keep-ids",
        )


def _put_back(args: Namespace, target: str, on_damage: OnDamage) -> list[RestoredPartition]:
    """Restore what a directory has lost; errors as ``restore_lost``."""
    from tidelog.archive.open_archives import archive_at
    from tidelog.manager.restore_lost import LostPartitions, restore_lost

    if args.keep_ids:
        raise InvalidArgument(f"--keep-ids is for a new directory: {target} has topics with ids")
    archive = archive_at(args.uri.rstrip("/"))
    wanted = LostPartitions(tuple(args.topics), args.partition)
    with _restoring(args.uri) as (machine, task):

        def show_total(total: int) -> None:
            task.show(0, total=total)

        return restore_lost(
            *(archive, target, wanted, machine),
            on_total=show_total,
            on_bytes=task.add,
            on_damage=on_damage,
        )


def _make(args: Namespace, target: str, on_damage: OnDamage) -> list[RestoredPartition]:
    """Make a directory; errors as ``restore``."""
    from tidelog.archive.open_archives import archive_at
    from tidelog.cli.commands.upkeep.rescue_command import naming_unfinished
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.directories.log_dir import check_apart
    from tidelog.manager.restore import BESIDE, restore

    check_apart(args.uri, SYSTEM_FILES, target)
    if args.partition is not None:
        raise InvalidArgument(f"-p is for a data directory that has lost a partition: {target}")
    topics = _topics(args)
    total = sum(
        entry.size_bytes
        for topic in topics
        for one in topic.partitions.values()
        for entry in one.known.entries
    )
    unfinished = naming_unfinished(args.command, target + BESIDE)
    with unfinished, _restoring(args.uri) as (machine, task):
        task.show(0, total=total)
        return restore(
            archive_at(args.uri.rstrip("/")).store,
            topics,
            target,
            fs=machine.fs,
            rng=machine.rng,
            scheduler=machine.scheduler,
            on_bytes=task.add,
            on_damage=on_damage,
        )


@contextmanager
def _restoring(uri: str) -> Iterator[tuple[Machine, Task]]:
    """Yield what restores, and what shows it."""
    from random import SystemRandom

    from tidelog.cli.progress import current_line
    from tidelog.env.machine import Machine
    from tidelog.env.scheduler import start_threads
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.env.waiting import sleep_ms
    from tidelog.manager.restore import AT_ONCE

    threads = start_threads(AT_ONCE, "tidelog-restore")
    machine = Machine(SYSTEM_FILES, SYSTEM_CLOCK, threads, SystemRandom(), sleep_ms)
    with current_line().task(f"restoring {uri}") as task:
        try:
            yield machine, task
        finally:
            threads.shutdown()


def _topics(args: Namespace) -> Sequence[RestoredTopic]:
    """Return the topics that are to be restored; UnknownTopicOrPartition, InvalidArgument."""
    from random import SystemRandom

    from tidelog.archive.archive_files import ArchiveFiles
    from tidelog.datadir.partition_directories import random_id
    from tidelog.env.system_files import SYSTEM_FILES
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
        parts = {one.number: one for one in found.values() if one.known.topic == name}
        settings = topic.settings_of_copy()
        config = dict(settings.config)
        topic_id = random_id(SystemRandom())
        if args.keep_ids:
            config |= {key: topic.config[key] for key in settings.left_out}
            topic_id = next(iter(parts.values())).topic_id
        topics.append(RestoredTopic(name, topic_id, config, settings.birth, parts))
    return topics
