"""What each command prints as JSON: the kinds of lines, each with a JSON schema.

``tidelog schema`` prints these, ``tools/json_doc.py`` writes docs/json.md from them, and tests hold
real output against them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cleaner.stats import DropCause
from tidelog.cli.schemas.dump_lines import DUMP_LINES
from tidelog.cli.schemas.forms import (
    array,
    boolean,
    counts,
    fields,
    integer,
    line,
    mapping,
    nullable,
    number,
    row,
    string,
)
from tidelog.cli.schemas.parts import (
    COMPACTION,
    DAMAGED,
    LOG_BYTES,
    MARKS,
    MISSING,
    NEW_RECORD,
    PARTITIONS,
    PLACE,
    RECORD,
    SHRUNK_LOG,
    SPARK_COMPACTION,
    TOPIC,
    UNANSWERED,
)
from tidelog.codec.shown_rows import fields_of
from tidelog.datadir.log_dir_description import LogDirDescription
from tidelog.env.overlay_files import FileChange
from tidelog.explain.describe import LogFacts
from tidelog.explain.groups import ChangedPosition, GroupPosition, ShownMember
from tidelog.explain.kept_cuts import KeptCut
from tidelog.explain.listed_partition import ListedPartition, ListedTopic
from tidelog.explain.log_transactions import ShownTransactions
from tidelog.explain.offset_at import OffsetAt
from tidelog.explain.pictures.log_picture import LogPicture
from tidelog.explain.plans.kept_records import StaysAs
from tidelog.explain.staged_transactions import StagedTransaction
from tidelog.explain.verify.checked import Checked
from tidelog.explain.verify.findings import Finding
from tidelog.log.loading.lost_records import ReadableContent
from tidelog.log.producers.abort_plan import AbortPlan
from tidelog.log.reading.record_count import RecordCount
from tidelog.manager.archiving import LogInArchive
from tidelog.manager.lifecycle.move_status import MoveStatus
from tidelog.manager.metrics.health import OfflineDirectory
from tidelog.manager.mirror import MirroredPartition
from tidelog.manager.on_demand import RolledLog
from tidelog.manager.recovered_log import RecoveredLog
from tidelog.manager.rescue.rescued_partition import LeftOut, RescuedPartition
from tidelog.manager.restore import RestoredPartition
from tidelog.readonly.read_only_log import Offsets
from tidelog.spark.jobs.repartitioned import Repartitioned

if TYPE_CHECKING:
    from tidelog.cli.schemas.forms import Schema

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Output(NamedTuple):
    """The JSON of a command.

    ``usage`` are the command lines that print it, ``text`` is a sentence about it, ``lines`` are
    the kinds of lines that it consists of.
    """

    usage: str
    text: str
    lines: tuple[Schema, ...]

    def schema(self, name: str) -> Schema:
        """Return the schema of each line."""
        what = {"$schema": DIALECT, "title": f"tidelog {name}", "description": self.text}
        return {**what, "anyOf": list(self.lines)}


def _output(*lines: Schema, text: str = "A line a partition.", usage: str = "") -> Output:
    return Output(usage, text, lines)


_LOG_DIR: Final = row(
    LogDirDescription,
    {
        "offlineDirectories": array(
            row(OfflineDirectory), "Those of the service that holds the directory."
        )
    },
)
_DESCRIBED: Final = row(LogFacts)
_ALL_OFFSETS: Final = line(
    "One partition.",
    {**PLACE, **fields(Offsets)},
    {
        "count": nullable(
            line(
                "With `--count`: what the offsets of a range hold; null: damage hides it.",
                {
                    "startOffset": integer("First offset of the range."),
                    "endOffset": integer("End of the range, exclusive."),
                    **fields(RecordCount),
                },
            )
        )
    },
)
_OFFSET_AT: Final = line("One partition, with `--at`.", {**PLACE, **fields(OffsetAt)})
_FINDING: Final = line(
    "One finding.",
    {
        "topic": nullable(string("Name of the topic; null: it is about the data directory.")),
        "partition": nullable(integer("Number of the partition; null as the topic.")),
        **fields(Finding),
    },
)
_RECOVERED: Final = row(
    RecoveredLog,
    {
        "files": array(
            row(FileChange),
            "Files that a plan would change; empty for a recovery that is carried out.",
        )
    },
)
_METRIC: Final = line(
    "One metric.",
    {
        "name": string("Its name in Prometheus' form; docs/monitoring.md has units and meaning."),
        "tags": mapping(string("Value."), "Its tags."),
        "value": {
            "type": ["number", "null"],
            "description": "Its value; null: infinite, or not a number.",
        },
    },
)
_SHRUNK_COUNTS: Final = {
    "partitions": PARTITIONS,
    "deletedSegments": "Segments that are deleted.",
    "deletedOffsets": "Offsets in them: they have as many records at most.",
    "freedBytes": "Size of their `.log` files, in bytes.",
    "missing": MISSING,
}
_RECOVERY_COUNTS: Final = counts(
    partitions=PARTITIONS,
    damaged=DAMAGED,
    refused="Partitions that could not be recovered; standard error has the reasons.",
    missing=MISSING,
    checkedBytes="Bytes of records that were read and checked.",
    lostBytes="Bytes that are cut off.",
    lostRecords="Records in them that can be read.",
    removedSegments="Segments that are removed whole.",
)
_COMPACTION_COUNTS: Final = {
    "partitions": PARTITIONS,
    "recordsRead": "Records that the cleanings read.",
    "droppedRecords": "Records of these that are dropped.",
    "bytesRead": "Bytes that the cleanings read.",
    "freedBytes": "Bytes that are dropped.",
    "missing": MISSING,
}
_DROPPED: Final = line(
    "One record that would be dropped, or one batch without records.",
    {
        **PLACE,
        "offset": integer("Its offset; of a batch, the first one."),
        "cause": string("Why it is dropped.", *(cause.value for cause in DropCause)),
        "supersededBy": nullable(
            integer("Last offset of its key in what would be cleaned; null: another cause.")
        ),
        "key": nullable(string("Its key; null also of a marker or a batch.")),
    },
    {"keyEncoding": MARKS["keyEncoding"]},
)
_STAYING: Final = line(
    "One record with the key of `--key` that would stay.",
    {
        **PLACE,
        "offset": integer("Its offset."),
        "staysAs": string("Why it stays.", *(reason.value for reason in StaysAs)),
        "until": nullable(
            integer("Time in ms from which on a cleaning drops the tombstone; null: unknown.")
        ),
        "key": nullable(string("Its key.")),
    },
    {"keyEncoding": MARKS["keyEncoding"]},
)
_CLEANER: Final = line(
    "The last line.",
    {
        "service": nullable(
            line(
                "What the running service last wrote of its cleaner; null: no service runs.",
                {
                    "timeSinceLastRunMs": integer("Time in ms since its last cleaning."),
                    "maxCleanTimeSeconds": integer("Longest last cleaning of a thread, in s."),
                    "maxBufferUtilizationPercent": integer(
                        "How full the offset map of a thread was at most, in percent."
                    ),
                    "recopyPercent": integer(
                        "Share of the bytes read that was written again, in percent."
                    ),
                    "deadThreads": integer("Threads that have ended with an error."),
                },
            )
        ),
        **counts(
            partitions="Lines before this one: partitions that are compacted.",
            failed="How many of them could not be cleaned the last time.",
            missing=MISSING,
        )["properties"],
    },
)
_LOOK_COUNTS: Final = counts(
    partitions=PARTITIONS, damaged=DAMAGED, missing=MISSING, unanswered=UNANSWERED
)

_MIRRORED: Final = (
    row(MirroredPartition),
    counts(
        partitions="Lines before this one: partitions.",
        batches="Batches that are copied.",
        sizeBytes="Their size, in bytes.",
    ),
)
_KAFKA_TOPIC: Final = {
    "topic": TOPIC,
    "id": string("Id of the topic, as Kafka prints it."),
    "partitions": integer("Number of its partitions."),
    "settings": mapping(string("Value."), "Its own settings, by name."),
}
_OUTPUTS: Final = {
    "create": _output(
        line(
            "The topic.",
            {
                "topic": TOPIC,
                "partitions": integer("Number of its partitions."),
                "id": string("Its id, in Kafka's base64 form."),
            },
        ),
        text="The topic that was created: one line.",
    ),
    "list": _output(row(ListedPartition), _LOOK_COUNTS),
    "list topics": _output(
        row(ListedTopic),
        counts(
            partitions="Partitions of these topics.",
            damaged=DAMAGED,
            missing=MISSING,
            unanswered=UNANSWERED,
        ),
        text="A line a topic.",
        usage="tidelog list --topics --json",
    ),
    "delete": _output(
        line(
            "One topic.",
            {
                "topic": TOPIC,
                "partitions": integer("Number of its partitions."),
                "sizeBytes": LOG_BYTES,
            },
        ),
        counts(
            topics="Lines before this one: topics.",
            freedBytes="Size of their `.log` files, in bytes.",
        ),
        text="A line a topic that was deleted, or with `--dry-run` would be.",
    ),
    "alter": _output(
        line(
            "The topic.",
            {
                "topic": TOPIC,
                "settings": nullable(
                    mapping(
                        string("Value."),
                        "Its own settings, by name; null: no setting was to be changed.",
                    )
                ),
                "unknown": nullable(
                    array(
                        string("Name of a setting."),
                        "Settings about deletion that are not known; null as above.",
                    )
                ),
                "partitions": nullable(
                    integer("Number of its partitions; null: none was to be added.")
                ),
            },
        ),
        text="The topic as it is now: one line.",
    ),
    "move": _output(
        line(
            "One partition.",
            {**PLACE, "directory": string("Path of the data directory that it is in now.")},
        ),
        counts(partitions=PARTITIONS),
        text="A line a partition that was moved.",
    ),
    "move list": _output(
        row(MoveStatus),
        counts(moves="Lines before this one: moves."),
        text="A line a move in flight.",
        usage="tidelog move --list --json",
    ),
    "move cancel": _output(
        line("One partition.", PLACE),
        counts(partitions=PARTITIONS),
        text="A line a partition whose move was cancelled.",
        usage="tidelog move --cancel --json",
    ),
    "move throttle": _output(
        line(
            "The limit of all moves.",
            {"limitBytesPerSecond": fields(MoveStatus)["limitBytesPerSecond"]},
        ),
        text="The limit: one line.",
        usage="tidelog move --throttle RATE --json",
    ),
    "append": _output(
        NEW_RECORD,
        text="The input: a line a record. A member with another name is an error.",
        usage="tidelog append --format json",
    ),
    "staged list": _output(
        row(StagedTransaction),
        counts(
            committed="Transactions that are committed and not applied yet.",
            waiting="Transactions that wait for the process that holds the directory.",
            files="Files that hold their records, and those that no transaction names.",
        ),
        text="A line a transaction that is not applied yet.",
    ),
    "cat": _output(
        RECORD,
        text="A line a record, without counts at the end: the input of `append --format json`.",
        usage="tidelog cat, tidelog salvage --records",
    ),
    "offsets": _output(
        _ALL_OFFSETS,
        _OFFSET_AT,
        text="A line a partition, without counts at the end.",
        usage="tidelog offsets",
    ),
    "txns": _output(row(ShownTransactions), _LOOK_COUNTS),
    "txns abort": _output(
        row(
            AbortPlan,
            {
                "records": integer("Records of the transaction that are in the log."),
                "executed": boolean("Whether it was written."),
            },
        ),
        text="The marker that is written with `--execute`: one line.",
        usage="tidelog txns abort --producer-id N --json",
    ),
    "txns abort undo": _output(
        line(
            "An abort marker that was written before.",
            {**fields(AbortPlan), "executed": boolean("Whether it was truncated.")},
        ),
        text="The marker that is truncated with `--execute`: one line.",
        usage="tidelog txns abort --undo --json",
    ),
    "groups": _output(
        row(GroupPosition),
        counts(groups="Groups that have positions.", positions="Lines before this one."),
        text="A line a position.",
    ),
    "groups members": _output(
        row(ShownMember),
        text="A line a member, or a group without members.",
        usage="tidelog groups --members --json",
    ),
    "groups reset": _output(
        row(ChangedPosition, {"executed": boolean("Whether it was changed.")}),
        text="A line a position, of `groups reset` and `groups delete`.",
        usage="tidelog groups reset --to WHERE --json",
    ),
    "dump": _output(
        *DUMP_LINES,
        text=(
            "A line an entry of a file, without counts at the end; names are those of Kafka's dump"
            " tool. A file that ends in damage ends with an error on standard error."
        ),
        usage="tidelog dump",
    ),
    "describe": _output(
        _DESCRIBED, _LOOK_COUNTS, text="A line a partition; `contents` are there with `--segments`."
    ),
    "describe log-dirs": _output(
        _LOG_DIR, text="The data directory: one line.", usage="tidelog describe --log-dirs --json"
    ),
    "picture": _output(
        line("One partition.", {**fields(LogFacts), **fields(LogPicture)}),
        _LOOK_COUNTS,
        text="A line a partition: what `describe` prints, and what is drawn besides.",
    ),
    "verify": _output(
        _FINDING,
        counts(
            partitions="Partitions that were checked.",
            damaged=DAMAGED,
            unanswered=UNANSWERED,
            **{field.name: field.shape.text for field in fields_of(Checked)},
        ),
        text="A line a finding: none, if all is sound.",
    ),
    "spark verify": _output(
        _FINDING,
        counts(findings="Lines before this one.", damage="How many of them are damage."),
        text="A line a finding: none, if all is sound.",
    ),
    "spark repartition": _output(
        row(Repartitioned),
        counts(records="Records that were written, or would be."),
        text="One line: what was written.",
    ),
    "spark compact": _output(SPARK_COMPACTION, counts(**_COMPACTION_COUNTS)),
    "recover": _output(_RECOVERED, _RECOVERY_COUNTS),
    "salvage": _output(
        row(KeptCut, fields(ReadableContent)),
        counts(
            files="Such files.",
            unreadable="How many of them a newer release wrote; they have no line.",
        ),
        text="A line a file that keeps what a recovery has cut off.",
    ),
    "rescue": _output(
        row(RescuedPartition),
        row(LeftOut),
        counts(
            partitions=PARTITIONS,
            damaged="How many of them are not whole.",
            entries="Files and directories beside partitions that were left out: the other lines.",
            batches="Batches that were copied.",
            records="Records in them, without markers of transactions.",
            markers="Batches of these that are markers of transactions.",
            sizeBytes="Their size, in bytes.",
            leftOut="What was left out of the partitions, in pieces.",
        ),
        text="A line a partition, then a line an entry of the directories that was left out.",
    ),
    "retain": _output(SHRUNK_LOG, counts(**_SHRUNK_COUNTS)),
    "roll": _output(
        row(RolledLog),
        counts(partitions=PARTITIONS, segments="Segments that were closed.", missing=MISSING),
    ),
    "compact": _output(COMPACTION, counts(**_COMPACTION_COUNTS)),
    "archive": _output(
        row(LogInArchive),
        counts(
            partitions=PARTITIONS,
            segments="Segments that were copied.",
            copiedBytes="Size of their `.log` files, in bytes.",
            swept="Objects that were deleted.",
            missing=MISSING,
        ),
    ),
    "restore": _output(
        row(RestoredPartition),
        counts(
            partitions=PARTITIONS,
            segments="Segments that were restored.",
            sizeBytes="Size of their `.log` files, in bytes.",
        ),
    ),
    "cleaner status": _output(
        COMPACTION,
        _CLEANER,
        text="A line a partition that is compacted; what a cleaning would find is null.",
    ),
    "delete-records": _output(
        SHRUNK_LOG,
        counts(
            **_SHRUNK_COUNTS,
            hiddenOffsets="Offsets that readers no longer see: as many records at most.",
        ),
    ),
    "mirror": _output(*_MIRRORED),
    "spark mirror": _output(*_MIRRORED),
    "to-kafka": _output(
        line(
            "One topic, as the broker gets it.",
            {
                **_KAFKA_TOPIC,
                "settingsLeftOut": array(
                    string("Name."), "Settings of its archive, which the broker does not get."
                ),
            },
        ),
        line(
            "The broker.",
            {
                "clusterId": string("`cluster.id` of the directories."),
                "nodeId": integer("`node.id` of the broker."),
                "directories": array(string("Path."), "The data directories."),
                "nextProducerId": integer(
                    "First producer id that the broker may assign; 0: no log has a producer."
                ),
                "serverProperties": string("Path of the settings to start it with."),
                "files": array(string("Path."), "Files that are written, in order."),
                "begunLater": array(
                    line(
                        "A partition.",
                        {
                            **PLACE,
                            "logStartOffset": integer("Where it begins in its archive."),
                            "localLogStartOffset": integer("Where it begins for the broker."),
                        },
                    ),
                    "Logs that begin in an archive, with `--local-only`.",
                ),
                "groupsBelow": array(
                    string("Name."), "Groups with positions that the broker's logs do not have."
                ),
            },
        ),
        counts(topics="Lines of topics.", partitions="Partitions of all topics."),
        text="A line a topic, and one for the broker.",
    ),
    "from-kafka": _output(
        line(
            "One topic, as the catalogue has it now.",
            {
                **_KAFKA_TOPIC,
                "unknown": array(
                    string("Name of a setting."),
                    "Settings about deletion that are not known.",
                ),
                "change": string(
                    "What this did to the topic in the catalogue.",
                    *("same", "changed", "new", "deleted"),
                ),
            },
        ),
        counts(
            topics="Lines before this one: topics.",
            changed="Of these, topics that are not the same as before.",
        ),
        text="A line a topic.",
    ),
    "plan recovery": _output(
        _RECOVERED,
        _RECOVERY_COUNTS,
        usage="tidelog plan recovery --json, tidelog recover --dry-run --json",
    ),
    "plan retention": _output(SHRUNK_LOG, counts(**_SHRUNK_COUNTS)),
    "plan compaction": _output(
        COMPACTION,
        _DROPPED,
        _STAYING,
        counts(**_COMPACTION_COUNTS),
        text="A line a partition; with `--records` or `--key`, lines of records follow it.",
    ),
    "run": _output(
        line(
            "The service.",
            {
                "status": string(
                    "Its state; while it starts or stops, the HTTP status is 503.",
                    "starting",
                    "ready",
                    "degraded",
                    "stopping",
                ),
                "reasons": array(string("A sentence."), "Why it is degraded."),
            },
        ),
        text="The state of the service: one line.",
        usage="GET /health of tidelog run --http",
    ),
    "metrics": _output(_METRIC, counts(metrics="Lines before this one."), text="A line a metric."),
    "warm": _output(
        mapping(number("Seconds."), "Seconds by group of kernels."),
        text="Seconds that each group of kernels took: one line, empty without numba.",
    ),
}
OUTPUTS: Final[dict[str, Output]] = {
    name: one if one.usage else one._replace(usage=f"tidelog {name} --json")
    for name, one in _OUTPUTS.items()
}
"""By the words of the command, in the order of ``--help``."""


def all_outputs() -> dict[str, Output]:
    """Return ``OUTPUTS`` with those of ``tidelog table``, made from the columns of its tables."""
    from tidelog.cli.schemas.table_lines import table_line
    from tidelog.explain.tables.system_tables import SYSTEM_TABLES

    tables = {
        f"table {name}": Output(
            f"tidelog table {name} --json",
            f"A line a row, which is {table.text}.",
            (table_line(table), counts(rows="Lines before this one.")),
        )
        for name, table in SYSTEM_TABLES.items()
    }
    return OUTPUTS | tables
