"""``tidelog to-kafka``: make a data directory one that a broker of Kafka starts on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import Command, argument, broker_options
from tidelog.cli.terminal import print_counts, print_row
from tidelog.codec.one_line import first_names
from tidelog.explain.printable_text import counted, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.env.files import FileSystem
    from tidelog.manager.to_kafka import BegunLater, HandOver


COMMAND: Final = Command(
    "to-kafka",
    "write the metadata and settings that a new Kafka broker needs to serve a directory",
    (
        *broker_options("only print what would be written"),
        argument(
            "--local-only",
            action="store_true",
            help="hand over logs that begin in an archive from their first offset on the disk on",
        ),
    ),
)


def run(args: Namespace) -> int:
    """Hand the directories over, or print what that would write."""
    from tidelog.cli.operations import broker_directories

    with broker_directories(args) as (paths, fs):
        plan = _hand_over(args, paths, fs)
    _print(args, plan)
    return 0


def _hand_over(args: Namespace, paths: list[str], fs: FileSystem) -> HandOver:
    from tidelog.cli.progress import ShownWork
    from tidelog.cli.server_properties import broker_properties
    from tidelog.embedded.doors import open_to_change
    from tidelog.manager.to_kafka import plan_hand_over, write_hand_over

    given = broker_properties(args)
    with open_to_change(*paths, fs=fs, watcher=ShownWork(), server_properties=given) as manager:
        plan = plan_hand_over(manager, is_local_only=args.local_only)
        write_hand_over(manager, plan)
    return plan


def _print(args: Namespace, plan: HandOver) -> None:
    """Print the plan; settings that are Kafka's defaults are written down, and left out as text."""
    from tidelog.cli.commands.topics.mirror_command import left_out
    from tidelog.codec.uuid_text import format_uuid
    from tidelog.datadir.cluster_metadata.broker_settings import is_default

    for topic in plan.topics:
        settings = dict(sorted(topic.config.items()))
        row = {
            "topic": topic.name,
            "id": format_uuid(topic.topic_id),
            "partitions": len(topic.partitions),
            "settings": settings,
            "settingsLeftOut": list(plan.left_out[topic.name]),
        }
        shown = [
            f", {key}={value}" for key, value in settings.items() if not is_default(key, value)
        ]
        partitions = counted(len(topic.partitions), "partition")
        lines = [f"{topic.name}: {partitions}{''.join(shown)}"]
        if plan.left_out[topic.name]:
            lines.append(left_out(topic.name, plan.left_out[topic.name], is_plan=args.dry_run))
        print_row(args, row, "\n".join(map(printable, lines)))
    broker = {
        "clusterId": plan.cluster_id,
        "nodeId": plan.node_id,
        "directories": list(plan.data_dirs),
        "nextProducerId": plan.next_producer_id,
        "serverProperties": plan.properties_path,
        "files": list(plan.files),
        "begunLater": [_as_json(one) for one in plan.begun_later],
        "groupsBelow": list(plan.groups_below),
    }
    print_row(args, broker, "\n".join(map(printable, _lines(plan, is_plan=args.dry_run))))
    partitions_in_all = sum(len(topic.partitions) for topic in plan.topics)
    print_counts(args, topics=len(plan.topics), partitions=partitions_in_all)


def _as_json(one: BegunLater) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "logStartOffset": one.log_start_offset,
        "localLogStartOffset": one.local_log_start_offset,
    }


def _lines(plan: HandOver, *, is_plan: bool) -> Iterator[str]:
    for one in plan.begun_later:
        archived = f"[{one.log_start_offset:,}, {one.local_log_start_offset:,})"
        yield (
            f"{one.topic}-{one.partition} begins at {one.local_log_start_offset:,} for Kafka, since"
            f" {archived} is only in its archive"
        )
    if plan.groups_below:
        names = first_names(plan.groups_below)
        yield f"groups with positions before that, so auto.offset.reset counts: {names}"
    for path in plan.files:
        yield f"{'would write' if is_plan else 'wrote'} {path}"
    if not plan.files:
        yield "nothing to write: a broker that starts here knows these topics"
    yield (
        f"cluster {plan.cluster_id}, node {plan.node_id};"
        f" start it with: kafka-server-start.sh {plan.properties_path}"
    )
