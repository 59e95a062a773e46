"""``tidelog verify``: check everything in partition directories, read-only."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import JSON, LOGS, SETTINGS, Command
from tidelog.cli.terminal import print_counts, print_row
from tidelog.codec.shown_rows import as_json
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.explain.printable_text import counted, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.env.files import FileSystem
    from tidelog.explain.verify.checked import Checked
    from tidelog.explain.verify.findings import Finding
    from tidelog.explain.verify.verify_directory import Located
    from tidelog.explain.verify.verify_partition import PartitionCheck
    from tidelog.segment.filenames import TopicPartition


COMMAND: Final = Command(
    "verify",
    "check everything in partition directories and say what to do about damage, without changing"
    " anything",
    (*LOGS, SETTINGS, JSON),
)


def run(args: Namespace) -> int:
    """Print every finding; return 1 if one of them is damage, 3 if a store gave no answer."""
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.config.log_config import LogConfig
    from tidelog.explain.verify.checked import Checked
    from tidelog.explain.verify.findings import Severity

    is_compacted = LogConfig.parse(dict(args.options)).is_compacted
    chosen = chosen_by(args, takes_copies=True)
    around = _around(chosen, args)
    damaged: set[TopicPartition | None] = set()
    total = Checked()
    for place, (found, looked_at) in _verify_all(args, chosen, is_compacted=is_compacted):
        key = place.key
        total.add(looked_at)
        found += [finding for about, finding in around if about == key]
        for finding in found:
            print_finding(args, key, finding)
        if any(finding.severity is Severity.DAMAGE for finding in found):
            damaged.add(key)
        if not args.json and not found:
            print(f"{key}: sound ({_in_words(looked_at)})")
    checked = {place.key for place in chosen.places}
    for about, finding in around:
        if about not in checked:
            print_finding(args, about, finding)
            if finding.severity is Severity.DAMAGE:
                damaged.add(about)
    _print_total(args, chosen, len(damaged), total)
    chosen.report_pending("verify")
    return chosen.exit_code(has_loss=bool(damaged))


def _around(chosen: ChosenPartitions, args: Namespace) -> list[Located]:
    """Return findings about the data directories' own files, for the chosen partitions.

    If the command line names no topic, partition or partition directory, all are returned.
    """
    from tidelog.cli.partition_choice import Named
    from tidelog.env.paths import absolute_place
    from tidelog.explain.verify.verify_directory import check_directory, strays_in

    is_whole = absolute_place(args.directories[0]) in chosen.directory.paths
    keys = {place.key for place in chosen.places}

    def is_chosen(key: TopicPartition | None) -> bool:
        if key is None or key in keys:
            return True
        return is_whole and Named(args.topics, args.partition).has(*key)

    of_each = (check_directory(chosen.directory.fs, path) for path in chosen.directory.paths)
    found = chain(*of_each, strays_in(chosen.directory))
    return [each for each in found if is_chosen(each.key)]


def _verify_all(
    args: Namespace, chosen: ChosenPartitions, *, is_compacted: bool
) -> Iterator[tuple[Place, PartitionCheck]]:
    """Check all partitions that are there; show how many bytes are checked.

    Records may be missing if ``is_compacted``, or if a topic's own settings say so.
    """
    from tidelog.cli.progress import current_line
    from tidelog.explain.verify.verify_files import CheckpointLines
    from tidelog.explain.verify.verify_partition import verify_partition

    places = chosen.places
    sizes = [_size_bytes(chosen.directory.fs, place) for place in places]
    checkpoints = CheckpointLines(chosen.directory.fs)
    line, before = current_line(), 0
    with line.task("verifying", sum(sizes)) as task:

        def check(place: Place) -> PartitionCheck:
            topic = chosen.directory.known_topic(place.topic)
            return verify_partition(
                chosen.directory.fs,
                place.path,
                clock=SYSTEM_CLOCK,
                is_compacted=is_compacted or (topic is not None and topic.is_compacted),
                on_progress=lambda done: task.show(before + done),
                checkpoints=checkpoints,
            )

        for place, size in zip(places, sizes, strict=True):
            task.show(before, what=f"verifying {place.key}")
            results = chosen.ask(args.command, place, chosen.past_damage(args.command, check))
            line.erase()
            yield from ((place, result) for result in chain(*results))
            before += size


def _size_bytes(fs: FileSystem, place: Place) -> int:
    """Return about how many bytes of records there are; 0 for a partition that was deleted."""
    from tidelog.datadir.partition_directories import log_bytes
    from tidelog.errors import KafkaStorageError

    with suppress(OSError, KafkaStorageError):  # the check itself reports it
        return log_bytes(fs, place.path)
    return 0


def _in_words(checked: Checked) -> str:
    """Return how much was checked, as ``1 segment, 2 batches, ...``."""
    return ", ".join(
        (
            counted(checked.segments, "segment"),
            f"{checked.batches:,} batch{'es' * (checked.batches != 1)}",
            counted(checked.records, "record"),
            counted(checked.bytes, "byte"),
            f"{checked.index_entries:,} index entr{'y' if checked.index_entries == 1 else 'ies'}",
        )
    )


def _print_total(args: Namespace, chosen: ChosenPartitions, damaged: int, checked: Checked) -> None:
    """Print how much was checked, how much of it is damaged, and what no store gave."""
    partitions, unanswered = len(chosen.places), chosen.unanswered
    damaged += len(chosen.unreadable) - unanswered
    numbers = {"damaged": damaged, "unanswered": unanswered}
    print_counts(args, partitions=partitions, **numbers, **as_json(checked))
    if not args.json:
        found = f"{counted(partitions, 'partition')}, {damaged:,} damaged"
        found += f", {unanswered:,} not checked" * bool(unanswered)
        print(f"{found}; checked {_in_words(checked)}")


def print_finding(args: Namespace, key: TopicPartition | None, finding: Finding) -> None:
    """Print one finding; ``key`` None: it is about the data directory."""
    topic, partition = (None, None) if key is None else key
    row = {"topic": topic, "partition": partition, **as_json(finding)}
    where = finding.path if finding.byte is None else f"{finding.path} byte {finding.byte:,}"
    what = f"{finding.severity}: {printable(f'{where}: {finding.what}')}"
    print_row(args, row, f"{what}\n  remedy: {printable(finding.remedy)}")
