"""``tidelog txns``: list open and aborted transactions, from the files; abort an open one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import whole
from tidelog.cli.options import JSON, LOG_END, LOGS, UP_TO, Command, argument, exclusive
from tidelog.cli.terminal import print_message, print_row
from tidelog.codec.shown_rows import as_json
from tidelog.errors import InvalidArgument, UnknownTopicOrPartition
from tidelog.explain.printable_text import begun_by, producer

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.partition_choice import Place
    from tidelog.explain.log_transactions import ShownTransactions
    from tidelog.records.isolation import ReadUpTo


COMMAND: Final = Command(
    "txns",
    "list open and aborted transactions, and who holds the last stable offset",
    (
        *LOGS,
        exclusive(
            argument(
                "--producer-id",
                type=whole(),
                metavar="N",
                help="abort: the producer whose transaction is open",
            ),
            argument(
                "--undo", action="store_true", help="abort: take the last marker written so back"
            ),
        ),
        argument(
            "--execute",
            action="store_true",
            help="abort: do it, instead of printing what would be done",
        ),
        argument(
            "--open",
            action="store_true",
            dest="only_open",
            help="only open transactions; reads the log from the newest producer snapshot on",
        ),
        UP_TO,
        JSON,
    ),
    epilog="Transactions are listed up to the log end. The high watermark, which limits the last\n"
    "stable offset, is read from the checkpoint: a tidelog process that writes the log renews\n"
    "it when it is read, Kafka every 5 s. With --up-to logEnd the log end takes its place.\n"
    "txns abort TOPIC-PARTITION --producer-id N: print the marker that would abort the\n"
    "open transaction of a producer, and what readers see from then on; --execute writes it.\n"
    "txns abort TOPIC-PARTITION --undo: print whether that marker can be taken back, as long\n"
    "as nothing is appended after it; --execute does so.",
    printed_events={"truncated-below-high-watermark"},
)


def run(args: Namespace) -> int:
    """Print the transactions of each partition; return 1 if damage hides some of them.

    With ``abort`` as the first word, plan or carry out the abort of one of them.
    """
    is_abort = args.producer_id is not None or args.undo
    if args.topics[:1] == ["abort"] and is_abort:
        if args.up_to == LOG_END:
            raise InvalidArgument("--up-to is for the list of transactions")
        if args.only_open:
            raise InvalidArgument("--open is for the list of transactions")
        if args.partition is not None:
            raise InvalidArgument("txns abort takes TOPIC-PARTITION: leave -p out")
        from tidelog.cli.commands.records.txns_abort import run_abort

        return run_abort(args)
    if is_abort or args.execute:
        raise InvalidArgument("--producer-id, --undo and --execute belong to txns abort")
    return _list(args)


def _list(args: Namespace) -> int:
    """List them; the logs are only read, up to their ends, so a writer may be at work."""
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.explain.log_transactions import show_transactions
    from tidelog.explain.transactional_ids import TransactionalIds
    from tidelog.records.isolation import ReadUpTo

    up_to = ReadUpTo(args.up_to)
    try:
        chosen = chosen_by(args)
    except UnknownTopicOrPartition:
        if args.topics[1:] and args.topics[0] == "abort":
            raise InvalidArgument(
                "txns abort needs --producer-id N, as the list shows it, or --undo"
            ) from None
        raise
    ids = TransactionalIds(chosen.directory)
    chosen.report_missing(args.command)

    look = partial(show_transactions, ids=ids, up_to=up_to, aborted=not args.only_open)

    def show(_: Place, found: ShownTransactions) -> bool:
        print_row(args, as_json(found), "\n".join(_lines(found, up_to)))
        if found.damage is not None:
            print_message(args.command, found.damage)
        return found.damage is not None

    return chosen.show_each(args, chosen.look_into(args.command, look), show)


def _lines(found: ShownTransactions, up_to: ReadUpTo) -> list[str]:
    """Return a title and a line for each transaction."""
    title = f"{found.topic}-{found.partition}: last stable offset {found.last_stable_offset:,}"
    if up_to == LOG_END:
        title += f", log end {found.log_end_offset:,}"
    else:
        title += f", high watermark {found.high_watermark:,}"
    opened = [f"  open     {begun_by(*txn)}" for txn in found.open]
    aborted = [
        f"  aborted  {producer(txn.producer_id, txn.transactional_id)} from offset"
        f" {txn.first_offset:,}, marker at {txn.last_offset:,}"
        for txn in found.aborted or ()
    ]
    return [title, *opened, *aborted]
