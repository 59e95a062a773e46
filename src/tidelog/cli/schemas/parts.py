"""Fields that the JSON of several commands shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.cleaner.compaction_facts import CompactionFacts
from tidelog.cli.schemas.forms import array, fields, integer, line, nullable, row, string
from tidelog.explain.listed_partition import ListedPartition
from tidelog.log.retention.shrunk_log import ShrunkLog
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.cli.schemas.forms import Schema

PLACE: Final = fields(TopicPartition)
TOPIC, PARTITION = PLACE.values()
LOG_BYTES: Final = fields(ListedPartition)["sizeBytes"]
PARTITIONS: Final = "Lines before this one: partitions."
DAMAGED: Final = "How many of them are damaged."
MISSING: Final = "Partitions that the catalogue lists and whose directories are missing."
UNANSWERED: Final = "Partitions without a line, whose object store gave no answer."

SHRUNK_LOG: Final = row(ShrunkLog)
COMPACTION: Final = row(CompactionFacts)

ENCODINGS: Final = ("utf8", "base64", "hex")
VALUE_ENCODINGS: Final = (*ENCODINGS, "json")
MARKS: Final[dict[str, Schema]] = {
    "keyEncoding": string("How its key is written; only if not as plain text.", *ENCODINGS),
    "valueEncoding": string(
        "How its value is written; only if not as plain text, or with `--encoding json`.",
        *VALUE_ENCODINGS,
    ),
}
ANY_VALUE: Final = ("string", "number", "boolean", "array", "object", "null")
RECORD: Final = line(
    "One record.",
    {
        **PLACE,
        "offset": integer("Its offset."),
        "timestamp": integer("Its timestamp, in ms since 1970-01-01; -1: none.", least=None),
        "timestampType": string(
            "What the timestamp is.", "CreateTime", "LogAppendTime", "NoTimestampType"
        ),
        "key": nullable(string("Its key.")),
        "value": {
            "type": list(ANY_VALUE),
            "description": "Its value: text or null; with the `valueEncoding` `json`, any value of"
            " JSON but null.",
        },
        "headers": array(
            {"type": "array", "items": {"type": ["string", "null"]}},
            "Its headers, each a list of name and value, and of how the value is written, if not"
            " as plain text.",
        ),
        "leaderEpoch": nullable(integer("Leader epoch of its batch; null: none.")),
    },
    MARKS,
)
NEW_RECORD: Final = line(
    "One record to append.",
    {},
    {
        "key": nullable(string("Its key (default: null).")),
        "value": {
            "type": list(ANY_VALUE),
            "description": "Its value (default: null): text; with the `valueEncoding` `json`, any"
            " value of JSON. Null is a tombstone.",
        },
        "headers": nullable(RECORD["properties"]["headers"]),
        "timestamp": {
            "type": ["integer", "string", "null"],
            "description": "In ms since 1970-01-01, or an ISO 8601 date and time, in UTC unless it"
            " names a zone (default: the time of the append).",
        },
        "partition": nullable(
            integer("Number of the partition (default: chosen by the key, as Kafka does).")
        ),
        "keyEncoding": nullable(
            string("How the key is written (default: as `--encoding` says).", *ENCODINGS)
        ),
        "valueEncoding": nullable(
            string("How the value is written (default: as `--encoding` says).", *VALUE_ENCODINGS)
        ),
        **{
            name: {"description": f"Ignored: `{name}` of a record that `cat` has printed."}
            for name in ("topic", "offset", "timestampType", "leaderEpoch")
        },
    },
)

SPARK_COMPACTION: Final = row(
    CompactionFacts,
    {
        "whyLocal": nullable(
            string("Why it is not cleaned by Spark's tasks; null: it is cleaned by them.")
        )
    },
)
