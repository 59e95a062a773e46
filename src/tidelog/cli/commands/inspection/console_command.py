"""``tidelog console``: pages about data directories in a browser, beside a writer."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import listen_address
from tidelog.cli.options import SERVER_PROPERTIES, WHOLE_DIRECTORIES, Command, argument
from tidelog.cli.terminal import print_line
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    from argparse import Namespace


_USUAL: Final = ("127.0.0.1:0",)

COMMAND: Final = Command(
    "console",
    "show topics, records, groups and plans in a browser, reading only",
    (
        *WHOLE_DIRECTORIES,
        argument(
            "--listen",
            action="append",
            type=listen_address,
            metavar="HOST:PORT",
            help="where the browser connects to; repeatable; port 0: a free one (default:"
            " 127.0.0.1:0)",
        ),
        argument(
            "--insecure",
            action="store_true",
            help="listen also where other machines can connect: every one that learns the token may"
            " read everything, and so may everyone who listens in, since nothing is encrypted",
        ),
        SERVER_PROPERTIES,
    ),
    epilog="Open the printed address: it carries a token, another one at each start. Needs the\n"
    "extra tidelog[console]. Nothing is locked or changed. Ctrl-C ends it.",
    printed_events=None,
)


def run(args: Namespace) -> int:
    """Serve the pages until a signal."""
    from tidelog.cli.extras import needs_extra
    from tidelog.cli.partition_choice import data_directories
    from tidelog.cli.server_properties import broker_properties
    from tidelog.cli.serving.listen_addresses import check_loopback
    from tidelog.config.serve_config import parse_endpoint
    from tidelog.env.system_files import SYSTEM_FILES

    listen = [parse_endpoint(text) for text in args.listen or _USUAL]
    if not args.insecure:
        check_loopback(listen, "read everything once it learns the token")
    with needs_extra("console"):
        from tidelog.console.console_server import serve_pages
    # The directory of a partition stands for the data directory above it.
    paths, _ = data_directories(SYSTEM_FILES, args.directories)
    # Pages show what is damaged, again and again: warnings would repeat it line by line.
    logging.getLogger("tidelog").setLevel(logging.ERROR)
    serve_pages(
        SYSTEM_FILES,
        list(dict.fromkeys(paths)),
        listen,
        SYSTEM_CLOCK,
        server_properties=broker_properties(args),
        on_address=_print_address,
    )
    return ExitCode.OK


def _print_address(address: str) -> None:
    print_line(address)
    sys.stdout.flush()  # it may be a pipe, and what reads it waits for the address
