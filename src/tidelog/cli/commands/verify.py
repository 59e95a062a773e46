"""``tidelog verify``: check everything in partition directories, read-only."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tidelog.cli.options import add_json, add_settings, add_topics, new_parser

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from tidelog.cli.options import Commands
    from tidelog.cli.partition_choice import Place
    from tidelog.explain.verify.findings import Finding
    from tidelog.explain.verify.verify_directory import Located
    from tidelog.segment.filenames import TopicPartition


def add_parser(commands: Commands) -> None:
    """Add ``tidelog verify`` to the command line."""
    text = "check everything in partition directories, without changing anything"
    parser = new_parser(commands, "verify", text, run)
    add_topics(parser)
    add_settings(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Print every finding; return 1 if one of them is damage."""
    from tidelog.cli.partition_choice import find_places
    from tidelog.cli.terminal import counted
    from tidelog.config.log_config import LogConfig
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.verify.findings import Severity
    from tidelog.segment.filenames import TopicPartition

    settings = dict(args.options)
    is_compacted = "cleanup.policy" in settings and LogConfig.parse(settings).is_compacted
    places = find_places(SYSTEM_FILES, args.directory, args.topics)
    around = _around(places, args.directory, args.topics)
    damaged: set[TopicPartition | None] = set()
    for place in places:
        key = TopicPartition(place.topic, place.partition)
        found = _verify(place, is_compacted=is_compacted)
        found += [finding for about, finding in around if about == key]
        for finding in found:
            _print(key, finding, as_json=args.json)
        if any(finding.severity is Severity.DAMAGE for finding in found):
            damaged.add(key)
        if not args.json and not found:
            print(f"{key}: sound")
    checked = {TopicPartition(place.topic, place.partition) for place in places}
    for about, finding in around:
        if about not in checked:
            _print(about, finding, as_json=args.json)
            if finding.severity is Severity.DAMAGE:
                damaged.add(about)
    if not args.json:
        print(f"{counted(len(places), 'partition')}, {len(damaged):,} damaged")
    return int(bool(damaged))


def _around(places: list[Place], directory: str, topics: Sequence[str]) -> list[Located]:
    """Return findings about the data directory's own files, for the chosen partitions.

    If the command line names no topic and no partition directory, all findings are returned.
    """
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.verify.verify_directory import check_directory
    from tidelog.segment.filenames import TopicPartition

    data_dir = os.path.dirname(places[0].path)
    is_whole = os.path.abspath(directory) == data_dir
    chosen = {TopicPartition(place.topic, place.partition) for place in places}

    def is_chosen(key: TopicPartition | None) -> bool:
        if key is None or key in chosen:
            return True
        return is_whole and (not topics or key.topic in topics)

    return [each for each in check_directory(SYSTEM_FILES, data_dir) if is_chosen(each.key)]


def _verify(place: Place, *, is_compacted: bool) -> list[Finding]:
    from tidelog.cli.terminal import Progress
    from tidelog.env.clock import SYSTEM_CLOCK
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.verify.verify_partition import LogVerifier
    from tidelog.readonly.read_only_log import open_read_only

    with open_read_only(place.path, fs=SYSTEM_FILES) as log:
        size_bytes = log.size_bytes
    with Progress(f"{place.topic}-{place.partition}", size_bytes, SYSTEM_CLOCK) as bar:
        verifier = LogVerifier(
            SYSTEM_FILES,
            place.path,
            clock=SYSTEM_CLOCK,
            is_compacted=is_compacted,
            on_progress=bar.show,
        )
        return list(verifier.findings())


def _print(key: TopicPartition | None, finding: Finding, *, as_json: bool) -> None:
    if as_json:
        topic, partition = (None, None) if key is None else key
        row = {"topic": topic, "partition": partition, **finding.as_json()}
        print(json.dumps(row))
        return
    from tidelog.cli.terminal import printable

    where = finding.path if finding.byte is None else f"{finding.path} byte {finding.byte:,}"
    print(f"{finding.severity}: {printable(f'{where}: {finding.what}')}")
    print(f"  remedy: {printable(finding.remedy)}")
