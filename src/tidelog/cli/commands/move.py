"""``tidelog move``: move partitions to another data directory, here or by the running service."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import directory_name
from tidelog.cli.options import add_directory, add_partition, add_topic, new_parser
from tidelog.errors import DirectoryLocked, InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands
    from tidelog.cli.partition_choice import Place

_POLL_MS: Final = 100
_TIMEOUT_MS: Final = 15_000
"""How long to wait for the process that holds the directory to accept the request."""


def add_parser(commands: Commands) -> None:
    """Add ``tidelog move`` to the command line."""
    parser = new_parser(
        commands,
        "move",
        "move partitions of a topic to another data directory",
        run,
        epilog="If a service is running on the directory, it moves them itself, while it serves\n"
        "reads and appends.",
    )
    add_topic(parser)
    add_directory(parser)
    parser.add_argument(
        "--to",
        required=True,
        type=directory_name,
        metavar="DIR",
        dest="target",
        help="data directory to move to; a running service must have it in its log.dirs",
    )
    add_partition(parser)


def run(args: Namespace) -> int:
    """Move the partitions, one after another; a running service is asked to do it."""
    from tidelog.cli.partition_choice import find_places
    from tidelog.cli.terminal import print_line
    from tidelog.env.system_files import SYSTEM_FILES

    source, target = os.path.abspath(args.directory), os.path.abspath(args.target)
    places = find_places(SYSTEM_FILES, source, [args.topic], args.partition)
    if source == target:
        raise InvalidArgument(f"--to {args.target}: the partitions are there already")
    try:
        _move_here(places, source, target)
    except DirectoryLocked as error:
        for place in places:
            _ask_service(place, source, target, error.pid)
    for place in places:
        print_line(f"{place.topic}-{place.partition}: moved to {target}")
    return 0


def _move_here(places: list[Place], source: str, target: str) -> None:
    """Move them in this process, which locks the directories; delete the originals at once."""
    from dataclasses import replace

    from tidelog.config.sources import broker_config
    from tidelog.embedded.doors import start_logs

    settings = {"log.dirs": f"{source},{target}", "log.segment.delete.delay.ms": "0"}
    config = replace(broker_config(settings), log_cleaner_enable=False)
    with start_logs(config) as logs:
        for place in places:
            logs.move_partition(place.topic, place.partition, target)
        logs.manager.delete_renamed_logs()


def _ask_service(place: Place, source: str, target: str, pid: int) -> None:
    """Ask the process ``pid``, which holds the directory, and wait until it has moved it.

    Raises KafkaStorageError if it refuses or gives up, does not answer, or ends.
    """
    import random

    from tidelog.env.clock import SYSTEM_CLOCK
    from tidelog.env.signals import is_alive
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.env.waiting import sleep_ms
    from tidelog.manager.lifecycle import move_requests
    from tidelog.manager.lifecycle.move_requests import MoveRequest

    fs = SYSTEM_FILES
    request = MoveRequest(place.topic, place.partition, target)
    path = move_requests.ask(fs, random.SystemRandom(), source, request)
    asked_ns = SYSTEM_CLOCK.monotonic_ns()
    while move_requests.is_waiting(fs, path):
        is_late = SYSTEM_CLOCK.monotonic_ns() - asked_ns > _TIMEOUT_MS * 1_000_000
        has_ended = not is_alive(pid)
        if (is_late or has_ended) and move_requests.withdraw(fs, path):
            raise KafkaStorageError(f"the process that holds {source} does not answer")
        if has_ended:
            break
        sleep_ms(_POLL_MS)
    if reason := move_requests.take_refusal(fs, path):
        raise KafkaStorageError(reason)
    _wait_for_move(place, target, pid)


def _wait_for_move(place: Place, target: str, pid: int) -> None:
    """Wait until process ``pid``, which has begun to move the partition, is done with that."""
    from tidelog.env.signals import is_alive
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.env.waiting import sleep_ms
    from tidelog.segment.filenames import log_directory_name

    fs = SYSTEM_FILES
    name = log_directory_name(place.topic, place.partition)
    while not fs.exists(os.path.join(target, name)):
        if not any(_is_copy_of(other, name) for other in fs.list(target)):
            if fs.exists(os.path.join(target, name)):
                return
            raise KafkaStorageError(f"{name} was not moved; see the log of the service")
        if not is_alive(pid) and not fs.exists(os.path.join(target, name)):
            raise KafkaStorageError(
                f"process {pid} ended before {name} was moved; the next start continues the move"
            )
        sleep_ms(_POLL_MS)


def _is_copy_of(other: str, name: str) -> bool:
    from tidelog.segment.filenames import is_future_directory

    return is_future_directory(other) and other.startswith(f"{name}.")
