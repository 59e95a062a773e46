"""``tidelog plan``: print what recovery, retention or compaction would do, by their own rules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import whole
from tidelog.cli.options import (
    FULL,
    JSON,
    LOGS,
    NOW,
    SERVER_PROPERTIES,
    SETTINGS,
    Command,
    argument,
    encoding_option,
)
from tidelog.cli.terminal import print_message
from tidelog.codec.shown_rows import as_json
from tidelog.errors import InvalidArgument
from tidelog.explain.printable_text import format_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from tidelog.cli.partition_choice import ChosenPartitions
    from tidelog.config.log_config import LogConfig
    from tidelog.explain.plans.plan_terms import PlanTerms
    from tidelog.log.retention.shrunk_log import ShrunkLog


_OPERATIONS: Final = ("recovery", "retention", "compaction")
COMMAND: Final = Command(
    "plan",
    "print what an operation would do, without changing anything",
    (
        argument("operation", choices=_OPERATIONS, metavar=f"{{{','.join(_OPERATIONS)}}}"),
        argument(
            "--disk-percent",
            type=whole(1, 100),
            metavar="N",
            help="retention of a whole directory: also what tidelog.retention.disk.percent=N of a"
            " service would delete",
        ),
        argument(
            "--records",
            action="store_true",
            help="compaction: also each record that would be dropped, and why: the offset of the"
            " record that supersedes it, or another cause",
        ),
        argument(
            "--key",
            metavar="KEY",
            help="compaction: also each record with this key, whether it would be dropped or stay,"
            " and why",
        ),
        encoding_option("how the KEY of --key is written (default utf8)", None),
        *LOGS,
        FULL,
        NOW,
        SETTINGS,
        SERVER_PROPERTIES,
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """Print the plan; that of a recovery returns 1 if something would be lost."""
    from tidelog.cli.commands.upkeep import compact_command, recover_command

    is_part = args.topics or args.partition is not None
    if args.disk_percent is not None and (args.operation != "retention" or is_part):
        raise InvalidArgument("--disk-percent is for plan retention of a whole data directory")
    for option in ("records", "key"):
        if getattr(args, option) not in {None, False} and args.operation != "compaction":
            raise InvalidArgument(f"--{option} is for plan compaction")
    if args.full and args.operation != "recovery":
        raise InvalidArgument("--full is for plan recovery")
    if args.records and args.key is not None:
        raise InvalidArgument("--records names the records of all keys, --key those of one")
    if args.encoding is not None and args.key is None:
        raise InvalidArgument("--encoding says how the KEY of --key is written")
    if args.operation == "recovery":
        args.dry_run = args.keep = True
        return recover_command.run(args)
    if args.operation == "compaction":
        return compact_command.print_plan(args)
    return _plan_retention(args)


def _plan_retention(args: Namespace) -> int:
    """Print what ``tidelog retain`` would delete; the logs are only read."""
    from tidelog.cli.operations import plan_terms, print_shrunk, print_shrunk_total
    from tidelog.cli.partition_choice import chosen_by

    chosen = chosen_by(args, only_named=True)
    has_loss = chosen.report_missing(args.command)
    terms = plan_terms(args, chosen.directory, is_lenient=True)
    _report_unknown({place.topic: terms.retention_config(place.topic) for place in chosen.places})
    logs = [as_json(log) for log in _plans(args, chosen, terms)]
    for log in logs:
        print_shrunk(args, "would delete", log)
    print_shrunk_total(args, logs, "would delete", missing=len(chosen.missing))
    return chosen.exit_code(has_loss=has_loss)


def _plans(args: Namespace, chosen: ChosenPartitions, terms: PlanTerms) -> list[ShrunkLog]:
    """Return the plans of the chosen logs; with ``--disk-percent``, found out from all logs."""
    if args.disk_percent is None:
        found = chosen.look_past_damage(
            args.command, lambda place: terms.retention_of(place.key, partial(chosen.open, place))
        )
        return [log for _, log in found]
    from tidelog.explain.plans.directory_retention import DirectoryRetention

    logs: list[ShrunkLog] = []
    for part in chosen.directory.parts:
        share = DirectoryRetention(terms, part, args.disk_percent).share
        logs += share.logs
        if share.excess_bytes:
            size = format_bytes(share.excess_bytes)
            text = f"the logs in {part.path} would still take {size} more than their share"
            print_message(args.command, text)
    return logs


def _report_unknown(configs: Mapping[str, LogConfig]) -> None:
    """Print of which topics the policy is unknown, and no limit is given with ``-o``."""
    from tidelog.config.deletion_settings import say_unknown

    unknown = [name for name, config in configs.items() if not config.is_policy_known]
    if unknown:
        print_message("plan", f"{say_unknown(unknown)}; until then nothing is deleted")
