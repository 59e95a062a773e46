"""Commands that only the process that holds a data directory may carry out.

It may be a running service, which is then asked to; the result is the same.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.cli.operations import manager_of
from tidelog.cli.progress import ShownWork, current_line
from tidelog.cli.server_properties import broker_properties
from tidelog.cli.terminal import ToTheEnd, print_message
from tidelog.datadir.lock_file import writer_of
from tidelog.embedded.doors import open_to_change
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import start_threads
from tidelog.env.signals import program_of
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.unix_sockets import ring_in
from tidelog.env.waiting import sleep_ms
from tidelog.errors import RequestFailed
from tidelog.mailbox.wait import Desk
from tidelog.segment.filenames import numbers_by_topic
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home
from tidelog.service.requests.request_client import WAIT_MS, Asker, here_or_there

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tidelog.cli.partition_choice import Place
    from tidelog.cli.progress import Task
    from tidelog.manager.log_manager import LogManager

    Opened = Callable[[], AbstractContextManager[LogManager]]


def perform(
    command: str,
    data_dir: str,
    arguments: Mapping[str, Any],
    opened: Opened | None = None,
    *,
    show: Callable[[Any], None] | None = None,
    is_plan: bool = False,
) -> Any:  # noqa: ANN401 - each command has a result of its own
    """Carry a command out, here or by the service that holds ``data_dir``; return its result.

    ``opened`` locks and opens the directory; by default it is opened to be changed. ``show`` is
    called once with each row of the result, as they come; if the command fails, with the rows of
    what it had done, before the error is raised. If it cannot print, the command is carried out all
    the same, and that error raised at the end. ``is_plan``: no service is asked. Errors as
    ``here_or_there``, and of the command.
    """
    shown = 0
    rest: Sequence[Any] = ()
    printing = ToTheEnd()

    def report(row: Any) -> None:  # noqa: ANN401 - as above
        nonlocal shown
        shown += 1
        if show is not None:
            current_line().erase()
            printing.print(show, row)

    def here() -> Any:  # noqa: ANN401 - as above
        with (opened or partial(open_to_change, data_dir, watcher=ShownWork()))() as manager:
            machine = manager.machine._replace(start_threads=start_threads)
            return carry_out(Home(manager, machine, data_dir, report), command, arguments)

    try:
        result = here() if is_plan else asked(command, data_dir, arguments, here)
        rest = () if show is None else _rows_of(result)[shown:]
    except RequestFailed as error:
        rest = error.done
        raise
    finally:
        for row in rest:
            report(row)
    printing.finish()
    return result


def perform_on(
    args: Namespace,
    places: list[Place],
    arguments: Mapping[str, Any],
    show: Callable[[Any], None],
    opened: Opened | None = None,
) -> list[dict[str, Any]]:
    """Carry a command out on logs, as ``perform``; print its notes, return its rows.

    ``arguments``: all but the ``partitions``, which are those of ``places``. ``opened``: by default
    a manager of their directories. Nothing is done without any.
    """
    if not places:
        return []
    opened = opened or partial(manager_of, args, places)
    data_dir = os.path.dirname(places[0].path)
    given = {"partitions": numbers_by_topic(place.key for place in places), **arguments}
    done = perform(args.command, data_dir, given, opened, show=show)
    for note in done["notes"] if isinstance(done, dict) else ():
        print_message(args.command, note)
    return list(_rows_of(done))


def _rows_of(result: Any) -> Sequence[Any]:  # noqa: ANN401 - as above
    rows: Sequence[Any] = result["logs"] if isinstance(result, dict) else result
    return rows


def asked(
    command: str,
    data_dir: str,
    arguments: Mapping[str, Any],
    here: Callable[[], Any],
    look: Callable[[Task], None] | None = None,
) -> Any:  # noqa: ANN401 - as above
    """Return what ``here`` returns, or the result of the service that holds ``data_dir``.

    ``look`` shows how far the service is, ten times a second; None: how long it takes.
    """

    def report_left() -> None:
        print_message(command, "the service has taken the request and carries it out; see its log")

    def report_waiting(pid: int) -> None:
        holder = f"process {pid}" if pid else "the process"
        seconds = WAIT_MS // 1000
        text = f"waiting up to {seconds} s for {holder}, which holds {data_dir}"
        print_message(command, text)

    with current_line().task(f"waiting for the process that holds {data_dir}") as task:

        def wait_ms(ms: int) -> None:
            if look is None:
                task.show(0)
            else:
                look(task)
            sleep_ms(ms)

        rng = random.SystemRandom()
        desk = Desk(SYSTEM_FILES, SYSTEM_CLOCK, rng, wait_ms, program_of, ring_in)
        asker = Asker(desk, holder_of=writer_of, on_left=report_left, on_waiting=report_waiting)
        return here_or_there(asker, data_dir, here, command, arguments)


def terms_of(args: Namespace) -> dict[str, Any]:
    """Return what the requests of several commands have in common: on which terms they act."""
    return {
        "settings": dict(args.options),
        "now_ms": args.now,
        "server_properties": broker_properties(args),
    }
