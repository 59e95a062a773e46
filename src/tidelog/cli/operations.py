"""Open a data directory for a command that changes it, or that plans what it would change.

A plan runs over an ``OverlayFiles``: nothing reaches the disk, and another writer's lock does not
matter.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tidelog.cli.progress import ShownWork
from tidelog.cli.server_properties import broker_properties
from tidelog.cli.terminal import print_message, print_row, print_total
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.env.clock import SYSTEM_CLOCK, ClockAt
from tidelog.env.machine import brief_machine
from tidelog.env.overlay_files import OverlayFiles
from tidelog.env.paths import absolute_path
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.explain.plans.plan_words import late_text, outlook_text, start_text
from tidelog.explain.printable_text import counted, format_bytes
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.manager.lifecycle.log_opener import USUAL_RECOVERY, RecoveryRules
from tidelog.manager.log_manager import LogManager
from tidelog.manager.recovered_log import RecoveryNotes
from tidelog.readonly.read_only_directory import open_directory_read_only

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from tidelog.cli.partition_choice import Place
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.overlay_files import FileChange
    from tidelog.explain.plans.plan_terms import PlanTerms
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


def clock_of(args: Namespace) -> Clock:
    """Return a clock whose time of day is that of ``--now``, or of the beginning."""
    now_ms = getattr(args, "now", None)
    return ClockAt(SYSTEM_CLOCK.now_ms() if now_ms is None else now_ms)


def plan_terms(
    args: Namespace, directory: ReadOnlyDirectory, *, is_lenient: bool = False
) -> PlanTerms:
    """Return what plans of a command depend on; InvalidConfig for a setting of ``-o``.

    ``is_lenient``: notes and journals that cannot be read are reported, and count as empty.
    """
    from tidelog.explain.plans.plan_terms import PlanTerms  # commands that change need no plans

    overrides = dict(args.options)
    LogConfig().with_overrides(overrides)
    on_error = partial(_report, args.command) if is_lenient else None
    return PlanTerms(directory, clock=clock_of(args), overrides=overrides, on_error=on_error)


def _report(command: str, error: Exception) -> None:
    print_message(command, str(error))


@contextmanager
def manager_of(args: Namespace, places: list[Place]) -> Iterator[LogManager]:
    """Open the data directories of some partitions; yield their manager."""
    with open_places(args, SYSTEM_FILES, places) as (manager, _):
        yield manager


@contextmanager
def open_places(
    args: Namespace, fs: FileSystem, places: Sequence[Place]
) -> Iterator[tuple[LogManager, RecoveryNotes]]:
    """Open the data directories of some partitions; yield their manager, and what it recovers.

    Settings of ``-o`` override a topic's own. The progress of a recovery is shown.
    """
    server_properties = broker_properties(args) if "server_properties" in args else None
    machine, is_plan = brief_machine(fs, clock_of(args)), isinstance(fs, OverlayFiles)
    if is_plan:
        # Sizes of files depend on what is drawn, and a plan says the same as often as it is asked.
        machine = machine._replace(rng=Random(0))  # noqa: S311 - what it draws is not kept
    with quiet(is_plan):
        notes = RecoveryNotes(ShownWork())
        with LogManager(
            BrokerConfig(
                log_dirs=tuple(dict.fromkeys(os.path.dirname(place.path) for place in places)),
                server_properties=server_properties,
            ),
            machine,
            overrides=dict(getattr(args, "options", ())),
            watcher=notes,
            recovery=_rules(args),
        ) as manager:
            yield manager, notes


def _rules(args: Namespace) -> RecoveryRules:
    keeps = getattr(args, "keep", None)
    usual = USUAL_RECOVERY.keep_cuts
    keep = usual if keeps is None else KeepCuts.ALWAYS if keeps else KeepCuts.NEVER
    return RecoveryRules(getattr(args, "full", False), keep, cuts_contradictions=keeps is not None)


def files_of(args: Namespace) -> FileSystem:
    """Return the machine's files or, with ``--dry-run``, an overlay that keeps what is written."""
    return OverlayFiles(SYSTEM_FILES) if args.dry_run else SYSTEM_FILES


@contextmanager
def broker_directories(args: Namespace) -> Iterator[tuple[list[str], FileSystem]]:
    """Yield the absolute paths of all data directories named, and the files to act on.

    A dry run logs nothing. Raises InvalidArgument for a path that is not a data directory.
    """
    paths = [absolute_path(one) for one in args.directories]
    for path in paths:
        check_data_directory(SYSTEM_FILES, path)
    with quiet(args.dry_run):
        yield paths, files_of(args)


@contextmanager
def quiet(is_plan: bool) -> Iterator[None]:  # noqa: FBT001 - its only argument
    """Suppress log lines in a plan: they would report changes that are not made."""
    logger = logging.getLogger("tidelog")
    before = logger.level
    if is_plan:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def changes_by_directory(fs: FileSystem) -> Mapping[str, list[FileChange]]:
    """Return the files that a plan would change, by their directory; none if ``fs`` is real."""
    found = defaultdict[str, list["FileChange"]](list)
    for change in fs.changes() if isinstance(fs, OverlayFiles) else ():
        found[os.path.dirname(change.file)].append(change)
    return found


def print_shrunk(args: Namespace, verb: str, log: Mapping[str, Any]) -> None:
    """Print what was (``verb`` "deleted") or would be deleted of a log, one line per segment.

    ``log`` is a ``ShrunkLog`` as JSON, as it is printed with ``--json``.
    """
    deleted, kept = log["deleted"], log["kept"]
    freed = f"{counted(len(deleted), 'segment')}, {format_bytes(log['freedBytes'])}"
    title = (
        f"{log['topic']}-{log['partition']}: {verb} {freed if deleted else 'no segments'};"
        f" left [{log['logStartOffset']:,}, {log['logEndOffset']:,}),"
        f" {format_bytes(log['sizeBytes'])}"
    )
    archived = sum(one["sizeBytes"] for one in kept if not one.get("isOnDisk", True))
    if archived:
        title += f" on the disk, {format_bytes(archived)} in the archive only"
    rows = [(*_place(segment), segment["reason"]) for segment in deleted]
    for segment in kept:
        is_active = segment["endOffset"] == log["logEndOffset"]
        rows.append((*_place(segment), f"kept{outlook_text(segment, is_active=is_active)}"))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    lines = [
        f"  {offsets:<{widths[0]}}  {size:>{widths[1]}}  {reason}" for offsets, size, reason in rows
    ]
    if log.get("late") is not None:  # a service of an older version does not report it
        lines.append(late_text(log["late"]))
    if log.get("startSegment") is not None:  # as above
        lines.append(start_text(log["startSegment"]))
    print_row(args, log, "\n".join([title, *lines]))


def print_shrunk_total(
    args: Namespace,
    logs: Sequence[Mapping[str, Any]],
    verb: str,
    *,
    hidden: int | None = None,
    is_archived: bool = False,
    **others: int,
) -> None:
    """Print what was or would be deleted in all; arguments as of ``print_shrunk``.

    ``hidden``: of a deletion of records, how many offsets readers no longer see; ``is_archived``:
    whether the service deletes them in an archive, too.
    """
    deleted = [segment for log in logs for segment in log["deleted"]]
    freed_bytes = sum(log["freedBytes"] for log in logs)
    offsets = sum(segment["endOffset"] - segment["baseOffset"] for segment in deleted)
    segments, freed = counted(len(deleted), "segment"), format_bytes(freed_bytes)
    partitions = counted(len(logs), "partition")
    # Compaction, markers and transactions leave offsets without a record.
    records = f"at most {counted(offsets if hidden is None else hidden, 'record')}"
    text = f"{segments} of {partitions}, {freed}, {records}"
    if hidden is not None:
        text = f"{records} of {partitions}: on the disk {segments}, {freed}"
        text += "; in the archive a day later" if is_archived else ""
        others["hiddenOffsets"] = hidden
    print_total(
        args,
        f"{verb} {text}",
        partitions=len(logs),
        deletedSegments=len(deleted),
        deletedOffsets=offsets,
        freedBytes=freed_bytes,
        **others,
    )


def _place(segment: Mapping[str, Any]) -> tuple[str, str]:
    """Return a segment's offsets and its size as text."""
    offsets = f"[{segment['baseOffset']:,}, {segment['endOffset']:,})"
    return offsets, format_bytes(segment["sizeBytes"])


def check_data_directory(fs: FileSystem, path: str) -> None:
    """Raise InvalidArgument unless this is a data directory: a command must not make one of it."""
    directory = open_directory_read_only(path, fs=fs)
    if not (directory.has_files_of_its_own() or directory.found):
        raise InvalidArgument(f"{path} is not a data directory: it has no partitions")
