"""``tidelog cat``: print the records of topics as JSON lines."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cli.arguments import byte_pattern, record_form, whole
from tidelog.cli.cat.record_selection import Selection
from tidelog.cli.options import (
    ENCODING,
    OUTPUT,
    PARTITION,
    PLACES,
    READ_COMMITTED,
    VISIBILITY,
    Command,
    argument,
    range_options,
    time_option,
)
from tidelog.cli.terminal import print_message
from tidelog.errors import CorruptMessage, InvalidArgument, TidelogError
from tidelog.exit_codes import is_damage

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.cat.record_forms import Form
    from tidelog.cli.output_file import Write
    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.readonly.missing.damaged_range import DamagedRange
    from tidelog.readonly.read_only_log import ReadOnlyLog

_FORMS: Final = r"""FORMAT: text prints each value and a line end; raw only the values;
csv a line of names, then a line a record: null is empty, empty text is quoted, and
the last columns say how key and value are written if they are not text.
arrow is an Arrow IPC stream and parquet a Parquet file, both with all columns and
with keys and values as bytes; they need the extra tidelog[arrow]. A stream that ends
early ends with an error for its reader, and such a Parquet file has no footer.
In a text, these stand for parts of a record:
  %t topic   %p partition   %o offset   %T timestamp in ms   %k key   %v value
  %h headers as JSON   %K and %V size of key and value in bytes, -1: null
  %% a percent sign; \n, \t, \r, \0 and \\ are escapes
A line end is added unless the text ends in an escape. text, raw and such texts
print bytes as they are, unless --encoding is base64 or hex. --encoding json is for
--format json: a value that is JSON is printed as JSON, with "valueEncoding": "json";
any other, and the JSON null, as text, with "valueEncoding": "utf8" or "base64".
Only the JSON lines are read back, by append --format json; csv is for other programs."""


COMMAND: Final = Command(
    "cat",
    "print a topic's records, or those of several, as JSON lines or in another form",
    (
        *PLACES,
        argument(
            "topics",
            metavar="TOPIC",
            nargs="*",
            default=[],
            help="these topics, one after the other; may be omitted if DIR holds only one",
        ),
        PARTITION,
        *range_options(
            "first offset; 'end' is the end of each partition",
            "end offset, exclusive",
            can_start_at_end=True,
        ),
        argument(
            "--last",
            type=whole(),
            metavar="N",
            help="only the last N records of each partition",
        ),
        time_option("--since", "only records with this timestamp or a later one"),
        time_option("--until", "only records with an earlier timestamp"),
        argument(
            "--key", metavar="KEY", help="only records with this key, written as --encoding says"
        ),
        argument(
            "--grep",
            type=byte_pattern,
            metavar="REGEX",
            help="only records in whose key or value this regular expression is found",
        ),
        *VISIBILITY,
        argument("-n", "--limit", type=whole(), metavar="N", help="at most N records"),
        argument(
            "-f",
            "--follow",
            action="store_true",
            help="keep printing records as they are appended, until Ctrl-C or -n",
        ),
        argument(
            "--skip-damage",
            action="store_true",
            help="continue after damage, and print to standard error what is skipped, and how many"
            " records are beyond the checkpointed offsets; exit with 1 if there are any",
        ),
        argument(
            "--below-start",
            action="store_true",
            help="also print the records below the log start that are still in the files",
        ),
        argument(
            "--format",
            type=record_form,
            default="json",
            metavar="FORMAT",
            help="json (the default), text, raw, csv, arrow, parquet, or a text such as '%%k %%v'",
        ),
        *OUTPUT,
        ENCODING,
    ),
    epilog=_FORMS,
)


def run(args: Namespace) -> int:
    """Print the records in offset order, one partition after the other.

    Partitions that the catalogue lists and whose directories are missing are named on stderr;
    returns 1 then, if a segment is missing, or if ``--skip-damage`` has skipped something.
    Damage is raised once the other partitions are printed.
    """
    from tidelog.cli.cat.record_forms import open_form
    from tidelog.cli.output_file import opened_output
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.records.json.json_record import Encoding

    _check(args)
    chosen = chosen_by(args, may_be_empty=False)
    places = chosen.places
    if not args.topics and len({place.topic for place in places}) > 1:
        raise InvalidArgument(f"{chosen.directory.name} holds several topics: name them")
    has_loss = chosen.report_missing(args.command)
    selection = _selection(args)
    form = open_form(args.format, Encoding(args.encoding))
    with opened_output(args, form) as write:
        printing = _Printing(args, selection, form, write)
        if args.follow and places:
            _follow(chosen, printing)
        else:
            has_loss |= _print_all(chosen, printing)
    return int(has_loss)


class _Printing(NamedTuple):
    """What is printed of each partition, and how."""

    args: Namespace
    selection: Selection
    form: Form
    write: Write


def _follow(chosen: ChosenPartitions, printing: _Printing) -> None:
    """Print the records and those that come, until there are as many as are wanted."""
    from tidelog.cli.cat.follow import follow

    def print_from(place: Place, log: ReadOnlyLog, start: int | None) -> int:
        end = _print(place, log, printing, next_offset=start)
        _report_holes(chosen, place, log)
        return end

    sys.stdout.flush()
    for _ in follow(chosen.places, print_from, moved=chosen.moved):
        sys.stdout.flush()
        if printing.selection.is_complete:
            return


def _print_all(chosen: ChosenPartitions, printing: _Printing) -> bool:
    """Print the records of each partition; return whether some were lost, skipped or left.

    Damage in one hides none of the others.
    """
    has_loss, damage = False, None
    for place in chosen.places:
        if printing.selection.is_complete:
            break
        try:
            has_loss |= _print_place(chosen, place, printing)
        except TidelogError as error:
            if not is_damage(error):
                raise
            if damage is not None:
                print_message(printing.args.command, str(damage))
            damage = error
    if damage is not None:
        raise damage  # only here: an output that ends by it is marked as incomplete
    return has_loss


def _print_place(chosen: ChosenPartitions, place: Place, printing: _Printing) -> bool:
    """Print the records of one partition; return whether some were lost, skipped or left."""
    from tidelog.cli.cat.unread_records import report_skipped, report_unread
    from tidelog.readonly.missing.damaged_range import skipped_by

    args = printing.args
    skipped: set[DamagedRange | str] = set()
    on_damage = partial(report_skipped, args.command, skipped) if args.skip_damage else None
    with chosen.open(place, on_damage, below_start=args.below_start) as log:
        try:
            end = _print(place, log, printing)
        except CorruptMessage as error:
            if not args.skip_damage:
                error.remedy = skipped_by("--skip-damage")
            raise
        has_loss = _report_holes(chosen, place, log) or bool(skipped)
        if _is_rescue(args):
            has_loss |= report_unread(chosen, place, log, log.log_start_offset, end)
    return has_loss


def _report_holes(chosen: ChosenPartitions, place: Place, log: ReadOnlyLog) -> bool:
    """Print what no segment holds of the offsets that were read; return whether there is any."""
    return chosen.report_holes("cat", place, chosen.directory.unexplained_holes(log, log.holes))


def _is_rescue(args: Namespace) -> bool:
    """Return whether all that is there is asked for, so that what is left counts as a loss."""
    chosen = (args.start_offset, args.end_offset, args.last, args.limit)
    return args.skip_damage and chosen == (None,) * len(chosen)


def _check(args: Namespace) -> None:
    """Raise InvalidArgument for options that exclude each other."""
    from tidelog.cli.cat.record_forms import check_terminal

    if args.encoding == "json" and args.format != "json":
        text = (
            f"--encoding json and --format {args.format} cannot be combined: leave one of them out"
        )
        raise InvalidArgument(text)
    if args.follow and (args.skip_damage or args.below_start):
        option = "--skip-damage" if args.skip_damage else "--below-start"
        raise InvalidArgument(f"--follow and {option} cannot be combined: leave one of them out")
    if args.follow and args.end_offset is not None:
        raise InvalidArgument("--follow has no end, and --to sets one")
    for begin, end, options in (
        (args.start_offset, args.end_offset, ("--from", "--to")),
        (args.since, args.until, ("--since", "--until")),
    ):
        if None not in {begin, end} and begin != "end" and begin > end:
            raise InvalidArgument(f"{options[1]} ends before {options[0]} begins")
    if args.last is not None and args.start_offset == "end":
        raise InvalidArgument("--last N ends where --from end begins; give one of them")
    if args.follow and (args.output is not None or args.format == "parquet"):
        option = "--format parquet" if args.output is None else "--output"
        raise InvalidArgument(f"--follow has no end, and {option} needs one: leave one of them out")
    check_terminal(args.format, args.output)


def _selection(args: Namespace) -> Selection:
    """Return which records the options select."""
    from tidelog.readonly.chosen_records import RecordFilter
    from tidelog.records.json.json_record import Encoding, bytes_from_text

    encoding = Encoding(args.encoding).of_texts
    key = None if args.key is None else bytes_from_text(args.key, encoding, "key")
    committed = args.isolation == READ_COMMITTED
    wanted = RecordFilter(args.since, args.until, key, args.grep, committed)
    return Selection(wanted, args.limit)


def _print(
    place: Place, log: ReadOnlyLog, printing: _Printing, next_offset: int | None = None
) -> int:
    """Print records from ``next_offset`` (None: the options); return where to continue."""
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.kernels.runtime.gate import expect
    from tidelog.records.isolation import ReadUpTo

    args, selection, form, write = printing
    end = log.end_offset(ReadUpTo(args.up_to))
    wanted = end if args.start_offset == "end" else args.start_offset
    if not (args.follow or _is_rescue(args)):
        _explain_omissions(log, end, wanted)
    if args.isolation == READ_COMMITTED:
        end = log.last_stable_offset(ReadUpTo(args.up_to))
    stop = end if args.end_offset is None else min(args.end_offset, end)
    first = wanted or 0 if next_offset is None else next_offset
    if next_offset is None:
        first = max(first, log.log_start_offset)
        if args.last is not None:
            first = selection.wanted.start_of_last(
                log.directory, first, stop, args.last, fs=SYSTEM_FILES
            )
    elif next_offset < log.log_start_offset:
        _report_lost(log, (next_offset, log.log_start_offset), "deleted before")
    elif next_offset > log.log_end_offset and log.damage is None:
        _report_lost(log, (log.log_end_offset, next_offset), "truncated after")
        first = log.log_end_offset
    printer = form.printer(place.topic, place.partition)
    sys.stdout.flush()
    is_whole = next_offset is None and wanted is None and args.limit is None and args.last is None
    if is_whole and args.end_offset is None:
        expect(log.size_bytes)
    begin = max(first, log.log_start_offset)
    is_empty = True
    for piece in chain.from_iterable(map(printer, selection.records(log, begin, stop))):
        is_empty = False
        write(piece)
    if is_empty:
        _explain_gaps(args, log, begin, stop)
    return max(first, end)


def _explain_gaps(args: Namespace, log: ReadOnlyLog, start: int, end: int) -> None:
    """Print on stderr why ``[start, end)`` has no records, if all in such a range is asked for."""
    from tidelog.cli.cat.empty_ranges import report_gaps

    filters = (args.since, args.until, args.key, args.grep, args.limit, args.last)
    is_whole = filters == (None,) * len(filters) and not (args.follow or args.skip_damage)
    if is_whole and args.end_offset is not None and start < end <= log.log_end_offset:
        report_gaps(args.command, log, start, end, committed=args.isolation == READ_COMMITTED)


def _report_lost(log: ReadOnlyLog, offsets: tuple[int, int], what: str) -> None:
    """Print on stderr what happened to ``[start, end)`` while ``--follow`` printed records."""
    start, end = offsets
    text = f"offsets {start:,} to {end - 1:,} were {what} they were printed"
    print_message("cat", f"{log.topic}-{log.partition}: {text}")


def _explain_omissions(log: ReadOnlyLog, end: int, start: int | None) -> None:
    """Print to standard error why there may be fewer records than expected."""
    name = f"{log.topic}-{log.partition}"
    above = log.log_end_offset - end
    if above:
        print_message(
            "cat",
            f"{name} has {above:,} offsets above its high watermark {end:,};"
            " use --up-to logEnd to print them",
        )
    if start is None:
        return
    if start > log.log_end_offset:
        print_message("cat", f"{name} ends at {log.log_end_offset:,}, before offset {start:,}")
    elif start < log.log_start_offset:
        first = log.log_start_offset
        print_message("cat", f"{name} begins at {first:,}; earlier offsets were deleted")
