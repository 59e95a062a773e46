"""``tidelog metrics``: print a running service's metrics, or gauges read from the files."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import DIRECTORIES, Command, json_option
from tidelog.cli.terminal import print_counts, print_line, print_message
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.errors import KafkaStorageError
from tidelog.explain.printable_text import printable

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.manager.metrics.metric import Metric


COMMAND: Final = Command(
    "metrics",
    "print a running service's metrics in Prometheus' format, or else gauges from the files",
    (*DIRECTORIES, json_option("print JSON lines instead")),
)


def run(args: Namespace) -> int:
    """Print the metrics as Prometheus text, or as JSON lines.

    Without a running service, returns 1 if a partition is damaged or missing, and 3 if its
    archive's store does not answer.
    """
    from tidelog.env.paths import absolute_place
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.service_metrics import metrics_of_service
    from tidelog.manager.metrics.metric import as_prometheus, parse_prometheus
    from tidelog.readonly.read_files import reading

    paths = [absolute_place(path) for path in args.directories]
    try:
        text = metrics_of_service(reading(SYSTEM_FILES), paths, SYSTEM_CLOCK.now_ms())
    except KafkaStorageError:
        from tidelog.embedded.doors import check_no_files  # slow to import

        check_no_files(SYSTEM_FILES, paths)
        raise
    code = 0
    if text is None:
        metrics, code = _metrics_of_files(args)
        text = as_prometheus(metrics)
    if not args.json:
        for line in text.split("\n")[:-1]:  # a name may have other ends of lines
            print_line(line if line.isprintable() else "".join(map(_in_label, line)))
        return code
    count = 0
    for name, tags, value in parse_prometheus(text):
        print(json.dumps({"name": name, "tags": tags, "value": _number(value)}))
        count += 1
    print_counts(args, metrics=count)
    return code


def _in_label(sign: str) -> str:
    """Return a sign of Prometheus' text as it is, or escaped, for a terminal, where unprintable.

    The format knows no such escapes: the backslash is one of the value.
    """
    return sign if sign.isprintable() else "\\" + printable(sign)


def _number(value: float) -> float | None:
    """Return an int for a whole number; None for infinity and NaN, which JSON lacks."""
    if value.is_integer():
        return int(value)
    return value if math.isfinite(value) else None


def _metrics_of_files(args: Namespace) -> tuple[list[Metric], int]:
    """Return what is known without a running service: the gauges of each log and each stream.

    Also return the exit code: logs that are damaged, missing or without an answer of their store
    are named on stderr.
    """
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.listed_partition import list_partition
    from tidelog.manager.metrics.collect import bounds_metrics, commit_metrics
    from tidelog.manager.metrics.metric import tags_of

    chosen = choose_partitions(
        *(SYSTEM_FILES, args.directories), may_be_empty=True, allow_partial=args.allow_partial
    )
    fs, paths = chosen.directory.fs, chosen.directory.paths
    metrics = [metric for path in paths for metric in commit_metrics(fs, path)]
    has_loss = chosen.report_missing("metrics")
    for place, one in chosen.look_into("metrics", list_partition):
        if one.damage is not None:
            has_loss = True
            print_message("metrics", one.damage)
        bounds = one.log_start_offset, one.log_end_offset
        metrics += bounds_metrics(tags_of(place.key), one.segments, *bounds, one.size_bytes)
    return metrics, chosen.exit_code(has_loss=has_loss)
