"""``tidelog salvage``: list what recoveries cut off logs and kept, or print the records in it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import ENCODING, JSON, LOGS, USUAL_ENCODING, Command, argument
from tidelog.cli.terminal import print_counts, print_message, print_row
from tidelog.codec.offset_text import offsets_text
from tidelog.codec.shown_rows import as_json
from tidelog.errors import CorruptMessage, InvalidArgument
from tidelog.exit_codes import ExitCode
from tidelog.explain.printable_text import counted, format_time, printable

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.env.files import FileSystem
    from tidelog.log.loading.lost_records import ReadableContent
    from tidelog.readonly.missing.salvage import CutFile


COMMAND: Final = Command(
    "salvage",
    "list what recoveries cut off and kept, or print the records in it",
    (
        *LOGS,
        argument(
            "--records",
            action="store_true",
            help="print the readable records as JSON lines, as tidelog cat does; exit with 1 if"
            " bytes were skipped",
        ),
        ENCODING,
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """List the chosen cut files, or print their records; takes no lock.

    Returns 1 if ``--records`` skips bytes, and 3 if a newer release wrote one of the files.
    """
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.read_files import reading

    if args.encoding != USUAL_ENCODING and not args.records:
        raise InvalidArgument("--encoding is for --records")
    files = _chosen(args, reading(SYSTEM_FILES))
    code = 0
    for cut in files:
        if cut.error is not None:
            print_message("salvage", str(cut.error))
            code = ExitCode.FAILED
        elif args.records:
            code = max(code, _print_records(cut, args, SYSTEM_FILES))
        else:
            _print_summary(cut, args, SYSTEM_FILES)
    if not args.records:
        print_counts(args, files=len(files), unreadable=sum(cut.error is not None for cut in files))
    if not files:
        where = ", ".join(args.directories)
        print_message("salvage", f"nothing that was cut off is kept in {where}")
    return code


def _chosen(args: Namespace, fs: FileSystem) -> list[CutFile]:
    from tidelog.cli.partition_choice import Named, data_directories
    from tidelog.readonly.absent_partitions import BY_FLAG
    from tidelog.readonly.missing.salvage import find_cut_files
    from tidelog.readonly.read_only_directory import open_directory_read_only

    paths, places = data_directories(fs, args.directories)
    keys = {place.key for place in places}
    accept = None if args.allow_partial or keys else BY_FLAG
    directory = open_directory_read_only(*paths, fs=fs, accept=accept)
    numbers = None if args.partition is None else [args.partition]
    directory.check_present(dict.fromkeys(args.topics or directory.topic_names, numbers))
    return [
        cut
        for cut in find_cut_files(directory)
        if (not keys or (cut.topic, cut.partition) in keys)
        if Named(args.topics, args.partition).has(cut.topic, cut.partition)
    ]


def _print_summary(cut: CutFile, args: Namespace, fs: FileSystem) -> None:
    from tidelog.explain.kept_cuts import KeptCut
    from tidelog.log.loading.lost_records import ReadableContent

    content = ReadableContent.of(cut.batches(fs))
    print_row(args, as_json(KeptCut.of(cut)) | as_json(content), _as_text(cut, content))


def _as_text(cut: CutFile, content: ReadableContent) -> str:
    found = f"{counted(content.records, 'readable record')} in {cut.size_bytes:,} bytes"
    first, last = content.first_offset, content.last_offset
    if first is not None and last is not None:
        found += f", {offsets_text(first, last + 1)}"
    if content.unreadable_bytes:
        found += f"; {content.unreadable_bytes:,} bytes are unreadable"
    name = f"{cut.topic or cut.name.topic}-{cut.partition}"
    return printable(
        f"{name}: cut at offset {cut.name.from_offset:,} on {format_time(cut.kept_at_ms)},"
        f" from {cut.source}: {found}: {cut.reason}; in {os.path.basename(cut.path)}"
    )


def _print_records(cut: CutFile, args: Namespace, fs: FileSystem) -> int:
    """Print the records of one file; return 1 if some of its bytes were skipped."""
    from tidelog.records.damage.past_damage import BadBytes
    from tidelog.records.json.json_lines import JsonLines
    from tidelog.records.json.json_record import Encoding

    lines = JsonLines(cut.topic or cut.name.topic, cut.partition, Encoding(args.encoding))
    has_skipped = False
    sys.stdout.flush()
    for found in cut.records(fs):
        if isinstance(found, BadBytes | CorruptMessage):
            has_skipped = True
            if isinstance(found, CorruptMessage):
                print_message("salvage", f"skipped a batch: {found}")
                continue
            size = counted(found.end - found.position, "byte")
            place = f"{size} from byte {found.position:,} of {os.path.basename(cut.path)}"
            print_message("salvage", f"skipped {place}: {found.reason}")
        else:
            for piece in lines.pieces(found):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    return int(has_skipped)
