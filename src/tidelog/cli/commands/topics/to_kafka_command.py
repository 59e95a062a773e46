"""``tidelog to-kafka``: make a data directory one that a broker of Kafka starts on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import Command, argument, broker_options
from tidelog.cli.terminal import print_counts, print_line
from tidelog.explain.printable_text import counted

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.env.files import FileSystem
    from tidelog.manager.to_kafka import HandOver


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
    if args.json:
        _print_json(args, plan)
    else:
        _print_text(plan, is_plan=args.dry_run)
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


def _rows(plan: HandOver) -> list[dict[str, Any]]:
    from tidelog.codec.uuid_text import format_uuid

    return [
        {
            "topic": topic.name,
            "id": format_uuid(topic.topic_id),
            "partitions": len(topic.partitions),
            "settings": dict(sorted(topic.config.items())),
        }
        for topic in plan.topics
    ]


def _print_json(args: Namespace, plan: HandOver) -> None:
    for row in _rows(plan):
        print(json.dumps(row))
    broker = {
        "clusterId": plan.cluster_id,
        "nodeId": plan.node_id,
        "directories": list(plan.data_dirs),
        "nextProducerId": plan.next_producer_id,
        "serverProperties": plan.properties_path,
        "files": list(plan.files),
    }
    print(json.dumps(broker))
    partitions = sum(len(topic.partitions) for topic in plan.topics)
    print_counts(args, topics=len(plan.topics), partitions=partitions)


def _print_text(plan: HandOver, *, is_plan: bool) -> None:
    """Print the plan; settings that are Kafka's defaults are written down, and left out here."""
    from tidelog.datadir.cluster_metadata.broker_settings import is_default

    for row in _rows(plan):
        shown = {k: one for k, one in row["settings"].items() if not is_default(k, one)}
        settings = "".join(f", {key}={value}" for key, value in shown.items())
        print_line(f"{row['topic']}: {counted(row['partitions'], 'partition')}{settings}")
    for path in plan.files:
        print_line(f"{'would write' if is_plan else 'wrote'} {path}")
    if not plan.files:
        print_line("nothing to write: a broker that starts here knows these topics")
    print_line(
        f"cluster {plan.cluster_id}, node {plan.node_id};"
        f" start it with: kafka-server-start.sh {plan.properties_path}"
    )
