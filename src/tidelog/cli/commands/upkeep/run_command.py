"""``tidelog run``: the service, which keeps logs open until it is stopped."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import directory_name, log_level, whole
from tidelog.cli.options import (
    DIRECTORY_VARIABLE,
    SERVER_PROPERTIES,
    SETTINGS,
    Command,
    argument,
    directory_option,
)
from tidelog.cli.terminal import print_message
from tidelog.errors import KafkaStorageError, StartAborted, TidelogError
from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections import ChainMap
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.broker.server import BrokerServer
    from tidelog.cli.serving.service_log_levels import LogLevels
    from tidelog.cli.serving.service_status import ServiceStatus
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.embedded.logs import Logs
    from tidelog.service.log_service import LogService

_LOGGER: Final = "tidelog.run"


ARGUMENTS: Final = (
    argument("words", metavar="DIR", nargs="*", type=directory_name, help="the same as -d DIR"),
    directory_option(
        "data directory; repeatable (default: log.dirs of the settings, else"
        f" ${DIRECTORY_VARIABLE})"
    ),
    argument(
        "--config", metavar="FILE", help="a properties file, such as Kafka's server.properties"
    ),
    SETTINGS,
    SERVER_PROPERTIES,
    argument(
        "--http",
        type=whole(0, 65535),
        metavar="PORT",
        dest="http_port",
        help="serve /metrics and /health on this port of 127.0.0.1; 0: on a free one",
    ),
    argument(
        "--log-level",
        action="append",
        type=log_level,
        default=[],
        metavar="[LOGGER=]LEVEL",
        dest="log_levels",
        help="lowest level that is logged to standard error, of all loggers or of one: ALL,"
        " TRACE, DEBUG, INFO, WARNING, ERROR, FATAL or OFF; repeatable; takes precedence over"
        " the setting tidelog.log.levels (default INFO)",
    ),
)
EPILOG: Final = (
    "Settings come from -o, from variables TIDELOG_<KEY> and from the file, in this order.\nSIGTERM"
    " and SIGINT stop the service; SIGHUP makes it reload its settings."
)
COMMAND: Final = Command(
    "run",
    "run the service, which keeps logs open and flushes, retains and compacts them",
    ARGUMENTS,
    epilog=EPILOG,
    printed_events=None,
)


def run(args: Namespace, listen: Callable[[ChainMap[str, str]], BrokerServer] | None = None) -> int:
    """Keep the logs open until SIGTERM or SIGINT, then close them; SIGHUP reloads the settings.

    A directory that a short-lived writer holds is waited for. ``listen`` returns, given the
    settings, what lets clients in meanwhile; None: only programs of this machine can join.

    A signal while logs are loaded ends that, with what was recovered kept. Returns 1 if the last
    directory has failed.
    """
    from tidelog.cli.serving.service_settings import given_settings, service_config
    from tidelog.cli.serving.service_status import ServiceStatus
    from tidelog.embedded.doors import start_logs
    from tidelog.embedded.lock_wait import wait_here
    from tidelog.env.signals import Signals

    given = given_settings(args)
    config = service_config(args, given)
    levels = _configure_logging(config.tidelog_log_levels, args.log_levels)
    lost: list[bool] = []
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())

        def halt() -> None:
            lost.append(True)
            signals.stop()

        # Before the logs are loaded: an address in use need not wait for that.
        server = None if listen is None else listen(given)
        if server is not None:
            server.on_failed = halt
            stack.callback(server.close)
        stack.enter_context(suppress(StartAborted))
        status = ServiceStatus(args.http_port)
        stack.callback(status.close)

        def should_stop() -> bool:
            is_requested = signals.is_stop_requested()
            if is_requested:
                status.stopping()
            return is_requested

        start = partial(
            start_logs,
            config,
            on_halt=halt,
            on_locked=partial(_begin, args.command, status, _missing(config)),
            should_stop=should_stop,
            make_door=None if server is None else server.start,
        )
        with _without_garbage_collection():
            logs = wait_here(should_stop=should_stop).opened(start)
            stack.callback(_close, logs)
        status.ready()
        _log_ready(logs)
        while signals.wait():
            given = _reload(args, logs, given, levels)
        status.stopping()
        _warn_of_pending(logs)
    return ExitCode.DAMAGED if lost else ExitCode.OK


def _missing(config: BrokerConfig) -> list[str]:
    from tidelog.env.system_files import SYSTEM_FILES

    return [path for path in config.data_directories if not SYSTEM_FILES.exists(path)]


def _begin(command: str, status: ServiceStatus, missing: list[str], manager: LogService) -> None:
    """Show the state of a service, and say which directories it has created, as ``create`` does.

    A mistyped path shows here, at any level of the log.
    """
    status.begin(manager)
    for path in manager.live_dirs:
        if path in missing:
            print_message(command, f"created data directory {path}")


def _close(logs: Logs) -> None:
    """Close the directories; what could not be closed is in the service's own log by then."""
    with suppress(KafkaStorageError):
        logs.close()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Exempt the objects created in the body from garbage collection: they live until the end.

    Loading a thousand logs takes a fifth less time this way.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _log_ready(logs: Logs) -> None:
    import logging

    manager = logs.manager
    logging.getLogger(_LOGGER).info(
        "ready pid=%d directories=%s logs=%d",
        *(os.getpid(), ",".join(manager.live_dirs), len(manager.all_logs())),
    )


def _warn_of_pending(logs: Logs) -> None:
    """Log the transactions of which another program, such as Kafka, would show a part."""
    import logging

    for (path, txn), (_, reason) in sorted(logs.manager.staged_commits.pending.items()):
        text = "transaction-left directory=%s txn=%s reason=%s"
        logging.getLogger(_LOGGER).warning(text, path, txn, reason)


def _reload(
    args: Namespace, logs: Logs, given: ChainMap[str, str], levels: LogLevels
) -> ChainMap[str, str]:
    """Apply the settings that changed, all or none; return those in effect."""
    import logging

    from tidelog.cli.serving.service_settings import given_settings, service_config
    from tidelog.config.sources import changes, check_dynamic

    of_broker = logs.manager.config.server_properties or {}
    events, counters = logging.getLogger(_LOGGER), logs.manager.shared.registry.counters
    try:
        new = given_settings(args)
        config = service_config(args, new)
        check_dynamic(given, new)
        logs.manager.update_config(config)
    except (TidelogError, OSError) as error:
        counters.has_refused_settings = True  # first: who sees the line may ask for the health
        events.error("settings-not-taken reason=%s", error)
        return given
    counters.has_refused_settings = False
    levels.apply(config.tidelog_log_levels, args.log_levels)
    changed = changes(given, new) + changes(of_broker, config.server_properties or {})
    events.info("settings-taken changed=%s", "; ".join(changed) or "nothing")
    return new


def _configure_logging(*texts: Sequence[str]) -> LogLevels:
    """Send log lines to standard error; that is for programs to decide, not for the library.

    ``texts``: see ``LogLevels.apply``.
    """
    import logging

    from tidelog.cli.notices import LINE, OneLine
    from tidelog.cli.serving.service_log_levels import LogLevels

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(LINE))
    logger = logging.getLogger("tidelog")
    logger.handlers = [handler]
    logger.propagate = False
    levels = LogLevels()
    levels.apply(*texts)
    return levels
