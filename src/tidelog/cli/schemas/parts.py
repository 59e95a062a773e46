"""Fields that the JSON of several commands shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.cli.schemas.forms import array, boolean, integer, line, mapping, nullable, string

if TYPE_CHECKING:
    from tidelog.cli.schemas.forms import Schema

TOPIC: Final = string("Name of the topic.")
PARTITION: Final = integer("Number of the partition.")
PLACE: Final = {"topic": TOPIC, "partition": PARTITION}
LOG_START: Final = integer("First offset that readers may read.")
HIGH_WATERMARK: Final = integer("Offset at which reading ends, exclusive.")
LAST_STABLE: Final = integer(
    "Offset at which reading with `read_committed` ends, exclusive: no transaction is open below."
)
LOG_END: Final = integer("Offset that the next record will get.")
OFFSETS: Final = {
    "logStartOffset": LOG_START,
    "lastStableOffset": LAST_STABLE,
    "highWatermark": HIGH_WATERMARK,
    "logEndOffset": LOG_END,
}
LOG_BYTES: Final = integer("Size of the `.log` files, in bytes.")
DAMAGE: Final = nullable(
    string("What is damaged or missing at the end of what can be read; null: nothing.")
)
PARTITIONS: Final = "Lines before this one: partitions."
DAMAGED: Final = "How many of them are damaged."
MISSING: Final = "Partitions that the catalogue lists and whose directories are missing."

MIRRORED_LOG: Final = line(
    "What is copied of one partition, or with `--dry-run` would be.",
    {
        **PLACE,
        "newTopic": boolean("Whether the mirror gets the topic by this run."),
        "startOffset": integer("First offset that is copied."),
        "endOffset": integer("Log end of the mirror afterwards."),
        "logStartOffset": integer("Log start of the mirror afterwards."),
        "batches": integer("Batches that are copied."),
        "sizeBytes": integer("Their size, in bytes."),
        "settingsLeftOut": array(
            string("Name."), "Settings of tiered storage that the new topic does not get."
        ),
    },
)
_HOLE: Final = line(
    "Offsets that no segment holds.",
    {
        "startOffset": integer("First offset that is missing."),
        "endOffset": integer("Next offset that is there."),
        "mayBeCompacted": boolean(
            "Whether compaction may have removed them: the cleanup policy is unknown."
        ),
    },
)
_HOLDER: Final = line(
    "The open transaction at the last stable offset.",
    {
        "producerId": integer("Its producer.", least=-1),
        "producerEpoch": integer("Epoch of the producer; -1: not known.", least=-1),
        "firstOffset": integer("Offset of its first record."),
        "firstTimestamp": integer(
            "Timestamp of its first record, in ms since 1970-01-01; -1: not known.", least=-1
        ),
    },
)
CONTENTS: Final = line(
    "What the batches hold, by their headers.",
    {
        "batches": integer("Number of batches, control batches included."),
        "records": integer(
            "Number of records without markers; a compressed batch of an old format counts as one."
        ),
        "controlBatches": integer("Number of batches of markers."),
        "transactionalBatches": integer("Number of batches of transactions, without markers."),
        "minTimestamp": integer(
            "Least base timestamp of a batch, in ms since 1970-01-01; -1: none.", least=-1
        ),
        "maxTimestamp": integer("Greatest timestamp, in ms since 1970-01-01; -1: none.", least=-1),
        "codecs": mapping(integer("Number of batches."), "Batches by codec."),
        "isWhole": boolean("Whether all batches were counted: false behind damage."),
    },
)
_SEGMENT: Final = line(
    "One segment.",
    {
        "baseOffset": integer("First offset that it may hold."),
        "endOffset": integer("Base offset of the next segment, or the log end offset."),
        "logBytes": integer("Size of the `.log` file, in bytes."),
        "indexBytes": integer("Size of the `.index` file, in bytes; 0: there is none."),
        "timeIndexBytes": integer("Size of the `.timeindex` file, in bytes; 0: there is none."),
        "txnIndexBytes": integer("Size of the `.txnindex` file, in bytes; 0: there is none."),
        "isActive": boolean("Whether it is the last one, to which records are appended."),
        "contents": nullable(CONTENTS | {"description": "What it holds; null: not asked for."}),
    },
)
_INHERITED: Final = line(
    "A setting.",
    {
        "value": string("Its value."),
        "source": string(
            "Where it is set.",
            "BIRTH_CONFIG",
            "DYNAMIC_TOPIC_CONFIG",
            "DYNAMIC_BROKER_CONFIG",
            "DYNAMIC_DEFAULT_BROKER_CONFIG",
            "STATIC_BROKER_CONFIG",
            "DEFAULT_CONFIG",
        ),
    },
)

DESCRIBED_LOG: Final[Schema] = line(
    "One partition.",
    {
        **PLACE,
        "directory": string("Path of the partition directory."),
        "topicId": nullable(string("Id of the topic, in Kafka's base64 form; null: not known.")),
        "config": mapping(string("Value."), "The topic's own settings, by name."),
        "unknownSettings": array(
            string("Name of a setting."),
            "Settings that decide what is deleted and are not known: nothing is deleted by them.",
        ),
        "inheritedSettings": mapping(
            _INHERITED,
            "Settings that the topic has since its creation, or those of the broker that wrote it,"
            " by name.",
        ),
        **OFFSETS,
        "sizeBytes": LOG_BYTES,
        "segments": array(_SEGMENT, "The segments, oldest first."),
        "damage": DAMAGE,
        "lastStableOffsetHeldBy": nullable(
            _HOLDER
            | {
                "description": "The open transaction that keeps the last stable offset below the"
                " high watermark; null: none does."
            }
        ),
        "holes": array(_HOLE, "Offsets that no segment holds: a file seems to be lost."),
    },
)

ENCODINGS: Final = ("utf8", "base64", "hex")
MARKS: Final[dict[str, Schema]] = {
    f"{part}Encoding": string(f"How its {part} is written; only if not as plain text.", *ENCODINGS)
    for part in ("key", "value")
}
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
        "value": nullable(string("Its value.")),
        "headers": array(
            {"type": "array", "items": {"type": ["string", "null"]}},
            "Its headers, each a list of name and value, and of how the value is written, if not"
            " as plain text.",
        ),
        "leaderEpoch": integer("Leader epoch of its batch; -1: none.", least=-1),
    },
    MARKS,
)
NEW_RECORD: Final = line(
    "One record to append.",
    {},
    {
        "key": nullable(string("Its key (default: null).")),
        "value": nullable(string("Its value (default: null).")),
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
            string("How the value is written (default: as `--encoding` says).", *ENCODINGS)
        ),
        **{
            name: {"description": f"Ignored: `{name}` of a record that `cat` has printed."}
            for name in ("topic", "offset", "timestampType", "leaderEpoch")
        },
    },
)

RULES: Final = ("log start offset", "size", "time", "share of the disk")
_DELETED: Final = line(
    "One segment.",
    {
        "baseOffset": integer("First offset that it may hold."),
        "endOffset": integer("Base offset of the next segment, or the log end offset."),
        "sizeBytes": integer("Size of its `.log` file, in bytes."),
        "reason": string("Why it is deleted."),
        "rule": string("The rule that deletes it.", *RULES),
    },
)
_KEPT: Final = line(
    "One segment.",
    {
        "baseOffset": integer("First offset that it may hold."),
        "endOffset": integer("Base offset of the next segment, or the log end offset."),
        "sizeBytes": integer("Size of its `.log` file, in bytes."),
        "dueMs": nullable(
            integer(
                "When retention by time deletes it, in ms since 1970-01-01; null: never.",
                least=None,
            )
        ),
        "moreBytes": nullable(
            integer(
                "Bytes by which the log has to grow until retention by size deletes it;"
                " null: never.",
                least=None,
            )
        ),
        "heldBy": nullable(string("What else prevents that it is deleted; null: nothing.")),
        "rule": nullable(string("The first rule that will delete it; null: none.", *RULES)),
    },
)
_LATE: Final = line(
    "A segment that keeps records past `retention.ms`, as its newest record is not; null: none.",
    {
        "baseOffset": integer("First offset that it may hold."),
        "endOffset": integer("Base offset of the next segment, or the log end offset."),
        "oldestMs": integer("Timestamp of its first batch, in ms since 1970-01-01.", least=None),
        "dueMs": integer(
            "When it can be deleted, if nothing is appended to it, in ms since 1970-01-01.",
            least=None,
        ),
        "closingMs": nullable(
            integer(
                "An append after this time, in ms since 1970-01-01, closes it; null: it is closed.",
                least=None,
            )
        ),
    },
)
SHRUNK_LOG: Final = line(
    "One partition.",
    {
        **PLACE,
        "logStartOffset": integer("First offset that readers may read, afterwards."),
        "logEndOffset": LOG_END,
        "sizeBytes": integer("Size of the `.log` files afterwards, in bytes."),
        "freedBytes": integer("Size of the `.log` files that are deleted, in bytes."),
        "deleted": array(_DELETED, "The segments that are deleted, oldest first."),
        "kept": array(_KEPT, "The segments that stay, oldest first; empty if not asked for."),
        "late": nullable(_LATE),
    },
)

COMPACTION: Final = line(
    "One partition.",
    {
        **PLACE,
        "isCompacted": boolean("Whether its `cleanup.policy` is known and has `compact`."),
        "firstDirtyOffset": integer("First offset that is not cleaned yet."),
        "firstUncleanableOffset": integer("Offset at which a cleaning has to end, exclusive."),
        "heldBy": string("What keeps the rest from being cleaned."),
        "cleanBytes": integer("Size of what is clean, in bytes."),
        "cleanableBytes": integer("Size of what is dirty and may be cleaned, in bytes."),
        "dirtyRatio": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "Share of `cleanableBytes` in the bytes that are clean or cleanable.",
        },
        "sizeBytes": integer("Size of the `.log` files before, in bytes."),
        "failure": nullable(string("Error of its last cleaning; null: it has not failed.")),
        "endOffset": nullable(
            integer("Offset up to which it is clean afterwards; null: nothing is cleaned.")
        ),
        "trueDirtyRatio": nullable(
            {
                "type": "number",
                "description": "Share of the bytes read that is dropped; null: nothing was read.",
            }
        ),
        "recordsRead": nullable(integer("Records that the cleaning reads; null: none.")),
        "recordsKept": nullable(integer("Records that it keeps; null: nothing is cleaned.")),
        "bytesRead": nullable(integer("Bytes that it reads; null: none.")),
        "bytesKept": nullable(integer("Bytes that it writes; null: nothing is cleaned.")),
        "oldestTombstone": nullable(
            integer(
                "Least timestamp of the tombstones that stay, in ms since 1970-01-01; null: there"
                " is none, or it was not looked for.",
                least=None,
            )
        ),
        "dropped": mapping(integer("Number of records."), "Records that it drops, by their cause."),
    },
)
SPARK_COMPACTION: Final = line(
    "One partition.",
    {
        **COMPACTION["properties"],
        "whyLocal": nullable(
            string("Why it is not cleaned by Spark's tasks; null: it is cleaned by them.")
        ),
    },
)
