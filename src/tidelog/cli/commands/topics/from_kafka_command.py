"""``tidelog from-kafka``: make what Kafka's metadata names of topics that of the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import Command, broker_options
from tidelog.cli.terminal import print_counts, print_row
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.explain.printable_text import counted, printable

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.env.files import FileSystem
    from tidelog.manager.from_kafka import TakenOver


COMMAND: Final = Command(
    "from-kafka",
    "take over topics and settings from the Kafka broker that used a data directory",
    (*broker_options("only print what the catalogue would hold"),),
)


def run(args: Namespace) -> int:
    """Take the directories over, or print what that would change."""
    from tidelog.cli.operations import broker_directories

    with broker_directories(args) as (paths, fs):
        found = _take_over(args, paths, fs)
    for one in found:
        row = _row(one)
        print_row(args, row, _as_text(row))
    changed = sum(one.topic != one.before for one in found)
    print_counts(args, topics=len(found), changed=changed)
    return 0


def _take_over(args: Namespace, paths: list[str], fs: FileSystem) -> list[TakenOver]:
    import random

    from tidelog.cli.server_properties import broker_properties
    from tidelog.manager.directories.log_dirs import LogDirs
    from tidelog.manager.from_kafka import take_over

    given, rng = broker_properties(args), random.SystemRandom()
    dirs = LogDirs(paths, fs=fs, rng=rng, clock=SYSTEM_CLOCK, has_all_logs=False)
    try:
        return take_over(dirs, fs=fs, rng=rng, server_properties=given)
    finally:
        dirs.release_all()


def _row(one: TakenOver) -> dict[str, Any]:
    from tidelog.codec.uuid_text import format_uuid

    topic, before = one.topic, one.before
    kept = topic or before
    assert kept is not None
    change = "same" if topic == before else "changed"
    if topic is None or before is None:
        change = "deleted" if topic is None else "new"
    return {
        "topic": one.name,
        "id": format_uuid(kept.topic_id),
        "partitions": len(kept.partitions),
        "settings": dict(sorted(kept.config.items())),
        "unknown": list(kept.unknown_settings),
        "change": change,
    }


def _as_text(row: dict[str, Any]) -> str:
    settings = "".join(f", {key}={value}" for key, value in row["settings"].items())
    unknown = f"; unknown: {', '.join(row['unknown'])}" if row["unknown"] else ""
    partitions = counted(row["partitions"], "partition")
    return printable(f"{row['topic']}: {row['change']}, {partitions}{settings}{unknown}")
