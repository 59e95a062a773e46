"""What each command prints as JSON: the kinds of lines, each with a JSON schema.

``tidelog schema`` prints these, ``tools/json_doc.py`` writes docs/json.md from them, and tests hold
real output against them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

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
    MISSING,
    NEW_RECORD,
    PARTITION,
    PARTITIONS,
    PLACE,
    RECORD,
    SHRUNK_LOG,
    SPARK_COMPACTION,
    TOPIC,
)
from tidelog.codec.rows import fields_of
from tidelog.datadir.log_dir_description import LogDirDescription
from tidelog.env.overlay_files import FileChange
from tidelog.explain.describe import LogFacts
from tidelog.explain.groups import GroupPosition
from tidelog.explain.listed_partition import ListedPartition
from tidelog.explain.pictures.log_picture import LogPicture
from tidelog.explain.verify.checked import Checked
from tidelog.explain.verify.findings import Finding
from tidelog.log.loading.lost_records import LostBytes, ReadableContent
from tidelog.log.producers.abort_plan import AbortPlan
from tidelog.log.producers.reader_transactions import DecidedTransaction
from tidelog.log.record_count import RecordCount
from tidelog.manager.lifecycle.move_status import MoveStatus
from tidelog.manager.metrics.health import OfflineDirectory
from tidelog.manager.mirror import MirroredPartition
from tidelog.readonly.read_only_log import Offsets
from tidelog.readonly.replayed_transactions import OpenTransaction

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


_LOG_DIR: Final = row(
    LogDirDescription,
    {
        "offlineDirectories": array(
            row(OfflineDirectory), "Those of the service that holds the directory."
        )
    },
)
_DESCRIBED: Final = row(LogFacts)
_OFFSETS: Final = fields(Offsets)
_REPARTITIONED: Final = line(
    "What was written or, with `--dry-run`, would be.",
    {
        "topic": string("The topic that is read."),
        "to": string("The topic that is written."),
        "fromPartitions": integer("Partitions of the topic that is read."),
        "partitions": integer("Partitions of the topic that is written."),
        "records": integer("Number of records."),
        "keyless": nullable(
            integer("How many of them have no key; null: not counted, without `--dry-run`.")
        ),
        "sizeBytes": integer("About the size of what is read in the logs, in bytes."),
        "txn": string("Id of the transaction."),
        "nextOffsets": mapping(
            integer("Where the read of a partition ended, exclusive."),
            "By partition of the topic that is read.",
        ),
        "retentionBytes": nullable(
            integer("The new topic's `retention.bytes`, if enlarged for fewer partitions, or null.")
        ),
        "isDryRun": boolean("Whether nothing was to be written."),
        "wasDone": boolean("Whether the transaction was committed before."),
    },
)
_ALL_OFFSETS: Final = line(
    "One partition.",
    {**PLACE, **_OFFSETS},
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
_OFFSET_AT: Final = line(
    "One partition, with `--at`.",
    {
        **PLACE,
        "offset": nullable(integer("The offset; null: there is none.")),
        "timestamp": nullable(
            integer("Timestamp of its record, in ms since 1970-01-01; null: not asked for.")
        ),
        "leaderEpoch": nullable(integer("Leader epoch of its batch; null: not known.")),
    },
)
_TRANSACTIONS: Final = line(
    "One partition.",
    {
        **PLACE,
        "highWatermark": _OFFSETS["highWatermark"],
        "lastStableOffset": _OFFSETS["lastStableOffset"],
        "open": array(row(OpenTransaction), "Its open transactions, oldest first."),
        "aborted": nullable(
            array(row(DecidedTransaction), "Its aborted transactions; null with `--open`.")
        ),
        "damage": nullable(string("What hides further transactions; null: nothing.")),
    },
)
_FINDING: Final = line(
    "One finding.",
    {
        "topic": nullable(string("Name of the topic; null: it is about the data directory.")),
        "partition": nullable(integer("Number of the partition; null as the topic.")),
        **fields(Finding),
    },
)
_RECOVERED: Final = line(
    "One partition.",
    {
        **PLACE,
        "logStartOffset": _OFFSETS["logStartOffset"],
        "logEndOffset": integer("Offset that the next record gets afterwards."),
        "highWatermark": nullable(
            integer("Offset below which readers have seen records; null: not known.")
        ),
        "checkedBytes": integer("Bytes of records that were read and checked."),
        "uncheckedBytes": integer("Bytes of records below the recovery point, not checked."),
        "lostBytes": integer("Bytes that are cut off."),
        "lostRecords": integer("Records in them that can be read."),
        "firstLostOffset": nullable(
            integer("First offset that is lost; null: none is known to be.")
        ),
        "lastLostOffset": nullable(
            integer("Last offset that is lost, inclusive; null: none is known to be.")
        ),
        "holes": array(
            line(
                "Offsets that no segment holds.",
                {
                    "startOffset": integer("First offset that is missing."),
                    "endOffset": integer("Next offset that is there."),
                },
            ),
            "Offsets that no segment holds: a file seems to be lost.",
        ),
        "losses": array(row(LostBytes), "What is cut off, file by file."),
        "files": array(
            row(FileChange),
            "Files that a plan would change; empty for a recovery that is carried out.",
        ),
    },
)
_CUT: Final = line(
    "A file that keeps what a recovery has cut off.",
    {
        "topic": nullable(string("Name of the topic; null: not known.")),
        "partition": PARTITION,
        "file": string("Its path."),
        "fileBytes": integer("Its size, in bytes."),
        "fromOffset": integer("First offset that was cut off."),
        "cutAtMs": integer("When, in ms since 1970-01-01."),
        "sourceFile": nullable(string("Name of the file that it was cut off; null: not known.")),
        "sourceByte": nullable(integer("Where in that file, in bytes; null: not known.")),
        "bytes": integer("How many bytes were cut off."),
        "reason": string("Why."),
        **fields(ReadableContent),
    },
)
_STAGED: Final = line(
    "A transaction, or the staged files that no transaction names.",
    {
        "txn": nullable(string("Id of the transaction; null: none names these files.")),
        "state": string(
            "committed: not applied yet; waiting: for the process that holds the directory;"
            " staged: not committed.",
            "committed",
            "waiting",
            "staged",
        ),
        "timeMs": nullable(
            integer("When it was committed, in ms since 1970-01-01; null: it is not.")
        ),
        "records": mapping(integer("Number of records."), "Records by topic."),
        "partitions": array(
            {"type": "array", "items": {"type": ["string", "integer"]}},
            "Partitions that it writes to, each a list of topic and number.",
        ),
        "files": array(string("Name of a file."), "Files that hold its records."),
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
    "freedBytes": "Size of their `.log` files, in bytes.",
    "missing": MISSING,
}
_RECOVERY_COUNTS: Final = counts(
    partitions=PARTITIONS,
    damaged=DAMAGED,
    refused="Partitions that could not be recovered; standard error has the reasons.",
    missing=MISSING,
)
_COMPACTION_COUNTS: Final = {
    "partitions": PARTITIONS,
    "freedBytes": "Bytes that are dropped.",
    "missing": MISSING,
}
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
_LOOK_COUNTS: Final = counts(partitions=PARTITIONS, damaged=DAMAGED, missing=MISSING)

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
OUTPUTS: Final[dict[str, Output]] = {
    "create": Output(
        "tidelog create --json",
        "The topic that was created: one line.",
        (
            line(
                "The topic.",
                {
                    "topic": TOPIC,
                    "partitions": integer("Number of its partitions."),
                    "id": string("Its id, in Kafka's base64 form."),
                },
            ),
        ),
    ),
    "list": Output(
        "tidelog list --json", "A line a partition.", (row(ListedPartition), _LOOK_COUNTS)
    ),
    "delete": Output(
        "tidelog delete --json",
        "A line a topic that was deleted, or with `--dry-run` would be.",
        (
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
        ),
    ),
    "alter": Output(
        "tidelog alter --json",
        "The topic as it is now: one line.",
        (
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
        ),
    ),
    "move": Output(
        "tidelog move --json",
        "A line a partition that was moved.",
        (
            line(
                "One partition.",
                {**PLACE, "directory": string("Path of the data directory that it is in now.")},
            ),
            counts(partitions=PARTITIONS),
        ),
    ),
    "move list": Output(
        "tidelog move --list --json",
        "A line a move in flight.",
        (row(MoveStatus), counts(moves="Lines before this one: moves.")),
    ),
    "move cancel": Output(
        "tidelog move --cancel --json",
        "A line a partition whose move was cancelled.",
        (line("One partition.", PLACE), counts(partitions=PARTITIONS)),
    ),
    "move throttle": Output(
        "tidelog move --throttle RATE --json",
        "The limit: one line.",
        (
            line(
                "The limit of all moves.",
                {"limitBytesPerSecond": fields(MoveStatus)["limitBytesPerSecond"]},
            ),
        ),
    ),
    "append": Output(
        "tidelog append --format json",
        "The input: a line a record. A member with another name is an error.",
        (NEW_RECORD,),
    ),
    "staged list": Output(
        "tidelog staged list --json",
        "A line a transaction that is not applied yet.",
        (
            _STAGED,
            counts(
                committed="Transactions that are committed and not applied yet.",
                waiting="Transactions that wait for the process that holds the directory.",
                files="Files that hold their records, and those that no transaction names.",
            ),
        ),
    ),
    "cat": Output(
        "tidelog cat, tidelog salvage --records",
        "A line a record, without counts at the end: the input of `append --format json`.",
        (RECORD,),
    ),
    "offsets": Output(
        "tidelog offsets",
        "A line a partition, without counts at the end.",
        (_ALL_OFFSETS, _OFFSET_AT),
    ),
    "txns": Output("tidelog txns --json", "A line a partition.", (_TRANSACTIONS, _LOOK_COUNTS)),
    "txns abort": Output(
        "tidelog txns abort --producer-id N --json",
        "The marker that is written with `--execute`: one line.",
        (
            row(
                AbortPlan,
                {
                    "records": integer("Records of the transaction that are in the log."),
                    "executed": boolean("Whether it was written."),
                },
            ),
        ),
    ),
    "txns abort undo": Output(
        "tidelog txns abort --undo --json",
        "The marker that is truncated with `--execute`: one line.",
        (
            line(
                "An abort marker that was written before.",
                {**fields(AbortPlan), "executed": boolean("Whether it was truncated.")},
            ),
        ),
    ),
    "groups": Output(
        "tidelog groups --json",
        "A line a position.",
        (
            row(GroupPosition),
            counts(groups="Groups that have positions.", positions="Lines before this one."),
        ),
    ),
    "dump": Output(
        "tidelog dump",
        "A line an entry of a file, without counts at the end; names are those of Kafka's dump"
        " tool. A file that ends in damage ends with an error on standard error.",
        DUMP_LINES,
    ),
    "describe": Output(
        "tidelog describe --json",
        "A line a partition; `contents` are there with `--segments`.",
        (_DESCRIBED, _LOOK_COUNTS),
    ),
    "describe log-dirs": Output(
        "tidelog describe --log-dirs --json", "The data directory: one line.", (_LOG_DIR,)
    ),
    "picture": Output(
        "tidelog picture --json",
        "A line a partition: what `describe` prints, and what is drawn besides.",
        (row(LogPicture), _LOOK_COUNTS),
    ),
    "verify": Output(
        "tidelog verify --json",
        "A line a finding: none, if all is sound.",
        (
            _FINDING,
            counts(
                partitions="Partitions that were checked.",
                damaged=DAMAGED,
                **{field.name: field.shape.text for field in fields_of(Checked)},
            ),
        ),
    ),
    "spark verify": Output(
        "tidelog spark verify --json",
        "A line a finding: none, if all is sound.",
        (
            _FINDING,
            counts(findings="Lines before this one.", damage="How many of them are damage."),
        ),
    ),
    "spark repartition": Output(
        "tidelog spark repartition --json",
        "One line: what was written.",
        (_REPARTITIONED, counts(records="Records that were written, or would be.")),
    ),
    "spark compact": Output(
        "tidelog spark compact --json",
        "A line a partition.",
        (SPARK_COMPACTION, counts(**_COMPACTION_COUNTS)),
    ),
    "recover": Output(
        "tidelog recover --json", "A line a partition.", (_RECOVERED, _RECOVERY_COUNTS)
    ),
    "salvage": Output(
        "tidelog salvage --json",
        "A line a file that keeps what a recovery has cut off.",
        (
            _CUT,
            counts(
                files="Such files.",
                unreadable="How many of them a newer release wrote; they have no line.",
            ),
        ),
    ),
    "retain": Output(
        "tidelog retain --json", "A line a partition.", (SHRUNK_LOG, counts(**_SHRUNK_COUNTS))
    ),
    "compact": Output(
        "tidelog compact --json",
        "A line a partition.",
        (COMPACTION, counts(**_COMPACTION_COUNTS)),
    ),
    "cleaner status": Output(
        "tidelog cleaner status --json",
        "A line a partition that is compacted; what a cleaning would find is null.",
        (COMPACTION, _CLEANER),
    ),
    "delete-records": Output(
        "tidelog delete-records --json",
        "A line a partition.",
        (SHRUNK_LOG, counts(**_SHRUNK_COUNTS)),
    ),
    "mirror": Output("tidelog mirror --json", "A line a partition.", _MIRRORED),
    "spark mirror": Output("tidelog spark mirror --json", "A line a partition.", _MIRRORED),
    "to-kafka": Output(
        "tidelog to-kafka --json",
        "A line a topic, and one for the broker.",
        (
            line("One topic, as the broker gets it.", _KAFKA_TOPIC),
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
                },
            ),
            counts(topics="Lines of topics.", partitions="Partitions of all topics."),
        ),
    ),
    "from-kafka": Output(
        "tidelog from-kafka --json",
        "A line a topic.",
        (
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
        ),
    ),
    "plan recovery": Output(
        "tidelog plan recovery --json, tidelog recover --dry-run --json",
        "A line a partition.",
        (_RECOVERED, _RECOVERY_COUNTS),
    ),
    "plan retention": Output(
        "tidelog plan retention --json",
        "A line a partition.",
        (SHRUNK_LOG, counts(**_SHRUNK_COUNTS)),
    ),
    "plan compaction": Output(
        "tidelog plan compaction --json",
        "A line a partition.",
        (COMPACTION, counts(**_COMPACTION_COUNTS)),
    ),
    "run": Output(
        "GET /health of tidelog run --http",
        "The state of the service: one line.",
        (
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
        ),
    ),
    "metrics": Output(
        "tidelog metrics --json",
        "A line a metric.",
        (_METRIC, counts(metrics="Lines before this one.")),
    ),
    "warm": Output(
        "tidelog warm --json",
        "Seconds that each group of kernels took: one line, empty without numba.",
        (mapping(number("Seconds."), "Seconds by group of kernels."),),
    ),
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
