"""``tidelog recover``: check logs after a crash and truncate them, or plan it."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cli.options import (
    FULL,
    JSON,
    LOGS,
    NOW,
    SERVER_PROPERTIES,
    SETTINGS,
    Command,
    argument,
    dry_run_option,
)
from tidelog.cli.terminal import print_message, print_row, print_total
from tidelog.codec.offset_text import offsets_text
from tidelog.codec.shown_rows import as_json, list_as_json
from tidelog.errors import DirectoryLocked, RequestFailed, RequestNotTaken, TidelogError
from tidelog.exit_codes import ExitCode
from tidelog.explain.printable_text import counted, format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.env.files import FileSystem
    from tidelog.env.overlay_files import FileChange
    from tidelog.log.loading.lost_records import LostBytes
    from tidelog.manager.recovered_log import RecoveredLog
    from tidelog.segment.filenames import TopicPartition

_PRINTED_EVENTS: Final = frozenset(
    {"cut-kept", "log-cut", "log-end-lost", "log-emptied", "offset-gap", "segment-truncated"}
)
"""Events that the output reports as losses."""

_WHY_NOT_FULL: Final = (
    "A service does not check logs in full while it serves them: stop it first. Meanwhile, tidelog"
    " plan recovery --full shows what would be lost, and tidelog recover without --full cuts the"
    " logs that take no appends"
)


COMMAND: Final = Command(
    "recover",
    "check logs after a crash, as a service does at its start, and truncate each at its first"
    " invalid batch",
    (
        *LOGS,
        dry_run_option("only print what would be truncated; exit with 1 if anything would"),
        argument(
            "--no-keep",
            action="store_false",
            dest="keep",
            help="delete what is cut off, instead of keeping it for tidelog salvage; without this,"
            " a log is not recovered if there is no space to keep what would be cut",
        ),
        FULL,
        NOW,
        SETTINGS,
        SERVER_PROPERTIES,
        JSON,
    ),
    printed_events=_PRINTED_EVENTS,
)


def run(args: Namespace) -> int:
    """Recover every chosen log.

    Returns 3 if one could not be recovered, for lack of space say; 1 if records are or would be
    lost, bytes other than zeros are cut, a log cannot be loaded, or a partition is missing.
    """
    from tidelog.cli.partition_choice import chosen_to_change
    from tidelog.env.system_files import SYSTEM_FILES

    chosen = chosen_to_change(args)
    then = "; the next writer creates it again, empty"
    code = int(chosen.report_missing(args.command, then))
    if chosen.places and args.dry_run:
        return max(code, _print_plan(chosen, args))
    found = _recovered_here_or_there(chosen, args) if chosen.places else _Found([], [], 0)
    return max(code, _print_all(chosen, found, SYSTEM_FILES, args))


def _print_plan(chosen: ChosenPartitions, args: Namespace) -> int:
    """Print what would be done; return the exit code."""
    from tidelog.env.overlay_files import OverlayFiles
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.plans.recovery_beside import WriterWatch

    paths = [place.path for place in chosen.places]
    watch = WriterWatch.begin(SYSTEM_FILES, paths)
    if not watch.has_writer():
        overlay = OverlayFiles(SYSTEM_FILES)
        try:
            found = _recovered(chosen, args, overlay)
        except (TidelogError, OSError):
            if not watch.has_writer():
                raise
        else:
            if not watch.has_writer():
                return _print_all(chosen, found, overlay, args)
    return _print_beside(chosen, args)


class _Found(NamedTuple):
    """The logs that could be loaded, what to print of the others, and their exit code."""

    logs: list[RecoveredLog]
    refused: list[str]
    code: int


def _recovered_here_or_there(chosen: ChosenPartitions, args: Namespace) -> _Found:
    """Recover every chosen log, or ask the service that holds the directory to.

    A service has recovered its logs when it began; it cuts those that have taken no appends since.
    """
    from tidelog.cli.serving.service_requests import asked
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.recovered_log import RecoveredLog
    from tidelog.segment.filenames import numbers_by_topic

    path = os.path.dirname(chosen.places[0].path)
    refused: list[str] = []
    code = 0

    def here() -> _Found:
        return _recovered(chosen, args, SYSTEM_FILES)

    if args.full:
        try:
            return here()
        except DirectoryLocked as error:
            raise RequestNotTaken(error.path, error.pid, _WHY_NOT_FULL) from error
    numbers = numbers_by_topic(place.key for place in chosen.places)
    arguments = {"partitions": numbers, "keep": args.keep}
    try:
        found = asked(args.command, path, arguments, here)
    except RequestFailed as error:
        found, refused, code = error.done, [str(error)], error.exit_code
    if isinstance(found, _Found):
        return found
    return _Found([RecoveredLog.unpacked(row) for row in found], refused, code)


def _recovered(chosen: ChosenPartitions, args: Namespace, fs: FileSystem) -> _Found:
    """Load every chosen log, which recovers it."""
    from tidelog.cli.operations import open_places
    from tidelog.datadir.offset_checkpoints import CLEANER_OFFSET_FILE, read_offsets
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.recovered_log import recovered_log

    logs: list[RecoveredLog] = []
    refused: list[str] = []
    code = 0

    cleaned = chosen.beside(
        lambda path: read_offsets(SYSTEM_FILES, os.path.join(path, CLEANER_OFFSET_FILE))
    )
    with open_places(args, fs, chosen.places) as (manager, notes):
        for place in chosen.places:
            key = place.key
            checkpoints = chosen.directory.part_at(os.path.dirname(place.path)).checkpoints
            try:
                notes.start()
                log = recovered_log(
                    key,
                    manager.partition(*key).log,
                    notes,
                    high_watermark=checkpoints.high_watermarks.get(key),
                    cleaned_to=cleaned(place).get(key, 0),
                )
            except TidelogError as error:
                refused.append(_refusal(key, error))
                is_refused = isinstance(error.__cause__, OSError)
                code = max(code, ExitCode.FAILED if is_refused else ExitCode.DAMAGED)
            else:
                logs.append(log)
        return _Found(logs, refused, code)


def _print_all(chosen: ChosenPartitions, found: _Found, fs: FileSystem, args: Namespace) -> int:
    """Print what was found; return the exit code."""
    from tidelog.cli.operations import changes_by_directory

    for text in found.refused:
        print_message("recover", text)
    paths: dict[tuple[str, int], str] = {place.key: place.path for place in chosen.places}
    changed = changes_by_directory(fs)
    for log in found.logs:
        changes = changed.get(paths[log.topic, log.partition], [])
        row = {**as_json(log), "files": list_as_json(changes)}
        lines = _lines(log, changes, "would be " if args.dry_run else "", is_full=args.full)
        print_row(args, row, "\n".join(map(printable, lines)))
    _print_total(chosen, found, args)
    return max(found.code, int(any(log.is_damaged for log in found.logs)))


def _print_total(chosen: ChosenPartitions, found: _Found, args: Namespace) -> None:
    """Print the sums of all logs."""
    logs, refused = found.logs, len(found.refused)
    damaged = sum(log.is_damaged for log in logs)
    checked_bytes = sum(log.checked_bytes for log in logs)
    lost_bytes = sum(log.lost_bytes for log in logs)
    lost_records = sum(log.lost_records for log in logs)
    removed = sum(loss.is_segment for log in logs for loss in log.losses)
    would = "would be " if args.dry_run else ""
    also = f", {refused:,} more not recovered" if refused else ""
    print_total(
        args,
        f"{counted(len(logs), 'partition')}, {damaged:,} damaged{also};"
        f" {format_bytes(checked_bytes)} checked, {format_bytes(lost_bytes)} with"
        f" {counted(lost_records, 'readable record')} {would}cut,"
        f" {counted(removed, 'segment')} {would}removed",
        partitions=len(logs),
        damaged=damaged,
        refused=refused,
        missing=len(chosen.missing),
        checkedBytes=checked_bytes,
        lostBytes=lost_bytes,
        lostRecords=lost_records,
        removedSegments=removed,
    )


def _print_beside(chosen: ChosenPartitions, args: Namespace) -> int:
    """Print what a recovery would cut off logs that another process is writing."""
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.plans.recovery_beside import check_log, recovery_points

    name = chosen.directory.name
    text = f"another process is writing {name}: only the records are checked, as they are now"
    print_message(args.command, text)
    points = chosen.beside(partial(recovery_points, SYSTEM_FILES))

    def check(place: Place) -> RecoveredLog:
        point = 0 if args.full else points(place).get(place.key, 0)
        with chosen.open(place) as log:
            return check_log(log, point, chosen.directory.unexplained_holes(log))

    logs = [log for _, log in chosen.look(args.command, check)]
    return _print_all(chosen, _Found(logs, [], 0), SYSTEM_FILES, args)


def _refusal(key: TopicPartition, error: TidelogError) -> str:
    """Return why a log was not recovered."""
    from tidelog.log.directory_guard import lacks_space

    text = f"{key} cannot be loaded: {error}"
    if lacks_space(error):
        text += "; nothing was cut: make space for what is kept, or use --no-keep"
    return text


def _lines(
    log: RecoveredLog, changes: list[FileChange], would: str, *, is_full: bool
) -> Iterator[str]:
    """Yield what is cut off a log and which files change; ``would`` is "would be " in a plan."""
    line = (
        f"{log.topic}-{log.partition}: [{log.log_start_offset:,}, {log.log_end_offset:,}),"
        f" {format_bytes(log.checked_bytes)} checked,"
        f" {format_bytes(log.lost_bytes)} {would}cut"
    )
    if log.unchecked_bytes and not is_full:  # of a full recovery, only what follows the cut
        size = format_bytes(log.unchecked_bytes)
        line += f"; {size} below the recovery point not checked (--full checks them)"
    yield line
    if log.lost_offsets is not None:
        yield _lost_offsets(log, *log.lost_offsets, would)
    for start, end in log.holes:
        yield f"  no segment holds {offsets_text(start, end)}: a file seems to be lost"
    for loss in log.losses:
        what = "segment removed" if loss.is_segment else f"cut at byte {loss.position:,}"
        kept = f"; {would}kept in {os.path.basename(loss.kept_in)}" if loss.kept_in else ""
        name = os.path.basename(loss.path)
        yield f"  {name}: {what}, {_contents(loss)}: {loss.reason}{kept}"
    for change in changes:
        name = os.path.basename(change.file)
        if change.moved_from is not None:
            yield f"  {os.path.basename(change.moved_from)}: {would}renamed to {name}"
        elif change.bytes_after is None:
            yield f"  {name}: {would}deleted"
        elif change.bytes_before is None:
            yield f"  {name}: {would}created, {change.bytes_after:,} bytes"
        else:
            sizes = f"{change.bytes_before:,} to {change.bytes_after:,} bytes"
            yield f"  {name}: {would}changed, {sizes}"


def _lost_offsets(log: RecoveredLog, first: int, last: int, would: str) -> str:
    seen = log.last_seen_offset
    lost = counted(log.lost_records, "readable record")
    text = f"  {offsets_text(first, last + 1)} {would}lost: {lost}"
    if seen is not None:
        text += f"; readers have seen offsets up to {seen:,}"
    return text


def _contents(loss: LostBytes) -> str:
    if loss.is_all_zeros:
        return f"{loss.size_bytes:,} zero bytes"
    found = f"{loss.size_bytes:,} bytes with {counted(loss.records, 'readable record')}"
    first, last = loss.first_offset, loss.last_offset or 0
    if first is not None and first <= last:
        found += f" at {offsets_text(first, last + 1)}"
    return found
