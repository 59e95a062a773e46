"""``tidelog serve``: the service, with a door for Kafka's clients."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import listen_address
from tidelog.cli.commands.upkeep import run_command
from tidelog.cli.options import Command, argument

if TYPE_CHECKING:
    from argparse import Namespace
    from collections import ChainMap

    from tidelog.broker.server import BrokerServer

COMMAND: Final = Command(
    "serve",
    "run the service, and let Kafka's clients produce to it and consume from it",
    (
        *run_command.ARGUMENTS,
        argument(
            "--listen",
            action="append",
            type=listen_address,
            metavar="HOST:PORT",
            help="where clients connect to; repeatable; port 0: on a free one (default: listeners"
            " of the settings, else 127.0.0.1:9092)",
        ),
        argument(
            "--insecure",
            action="store_true",
            help="listen also where other machines can connect: every client that reaches the"
            " port may read, write and delete everything, since there are no passwords yet",
        ),
    ),
    epilog=f"{run_command.EPILOG} Those of the listeners take effect after a restart.",
    printed_events=None,
)


def run(args: Namespace) -> int:
    """Do as ``run``, and serve clients."""
    args.serves = True
    if args.listen:
        args.options = [*args.options, ("listeners", ",".join(args.listen))]
    return run_command.run(args, partial(_open_door, args))


def _open_door(args: Namespace, given: ChainMap[str, str]) -> BrokerServer:
    from tidelog.broker.server import BrokerServer
    from tidelog.cli.serving.listen_addresses import check_loopback
    from tidelog.cli.serving.service_settings import serve_config

    config = serve_config(given)
    if not args.insecure:
        check_loopback(config.endpoints, "read, write and delete everything")
    return BrokerServer(config)
