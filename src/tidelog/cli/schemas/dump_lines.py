"""The lines of ``tidelog dump``: one kind for each kind of file, two for a ``.log``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.schemas.forms import (
    boolean,
    integer,
    line,
    mapping,
    nullable,
    string,
)
from tidelog.cli.schemas.parts import ANY_VALUE, MARKS, PLACE, RECORD, TOPIC

if TYPE_CHECKING:
    from tidelog.cli.schemas.forms import Schema

_number: Final = partial(integer, least=None)
"""Of a damaged file any number is printed as it is."""
_FILE: Final = {"file": string("The file, as it was named; only if several files are dumped.")}
_ERROR: Final = {"error": string("Why it cannot be decoded; only if it cannot.")}
_PRODUCER_ID: Final = _number("Id of the producer; -1: none.")
_PRODUCER_EPOCH: Final = _number("Epoch of the producer; -1: none.")
_TIMESTAMP_TYPE: Final = RECORD["properties"]["timestampType"]


def _entry(
    text: str, fields: dict[str, Schema], optional: dict[str, Schema] | None = None
) -> Schema:
    return line(text, fields, {**_FILE, **(optional or {})})


_BATCH: Final = _entry(
    "A batch of a `.log` file, without its records.",
    {
        "position": _number("Where it begins in the file, in bytes."),
        "size": _number("Its size, in bytes."),
        "baseOffset": _number("Its first offset."),
        "lastOffset": _number("Its last offset, inclusive."),
        "count": nullable(
            _number("Records that it holds; in old formats, where they were not counted, -1.")
        ),
        "magic": _number("Version of the format."),
        "compression": string("Codec: none, gzip, snappy, lz4 or zstd."),
        "timestampType": _TIMESTAMP_TYPE,
        "maxTimestamp": _number("Greatest timestamp, in ms since 1970-01-01; -1: none."),
        "producerId": _number("Id of the producer; -1: none."),
        "producerEpoch": _number("Epoch of the producer; -1: none."),
        "baseSequence": _number("Sequence of the first record; -1: none."),
        "lastSequence": _number("Sequence of the last record; -1: none."),
        "leaderEpoch": _number("Leader epoch; -1: none."),
        "transactional": boolean("Whether it is part of a transaction."),
        "control": boolean("Whether it holds markers instead of records."),
        "controlType": nullable(_number("Number of the marker's type; null: not a marker.")),
        "deleteHorizonMs": nullable(
            _number("When its tombstones may be dropped, in ms since 1970-01-01; null: not set.")
        ),
        "crc": _number("The checksum in the header."),
        "valid": boolean("Whether it is the checksum of the bytes."),
    },
    _ERROR,
)
_RECORD_HEAD: Final[dict[str, Schema]] = {
    "offset": _number("Its offset."),
    "timestamp": RECORD["properties"]["timestamp"],
    "timestampType": _TIMESTAMP_TYPE,
    "keySize": _number("Size of the key, in bytes; -1: null."),
    "valueSize": _number("Size of the value, in bytes; -1: null."),
    "sequence": _number("Its sequence; -1: none."),
}
_DECODED: Final = {
    "type": ["string", "object", "null"],
    "description": "As text; of an internal topic of Kafka's, an object as Kafka's dump tool prints"
    " it.",
}
_DUMPED_RECORD: Final = _entry(
    "A record of a `.log` file, with `--records`.",
    {
        **_RECORD_HEAD,
        "key": _DECODED,
        "value": {
            "type": list(ANY_VALUE),
            "description": f"{_DECODED['description']} With the `valueEncoding` `json`, any value"
            " of JSON but null.",
        },
        "headers": RECORD["properties"]["headers"],
    },
    {
        **MARKS,
        **_ERROR,
        "crc": _number("The record's own checksum; only in old formats."),
        "valid": boolean("Whether it is the checksum of the bytes; only in old formats."),
    },
)
_MARKER: Final = _entry(
    "A control record of a `.log` file, with `--records`.",
    {**_RECORD_HEAD, "headers": RECORD["properties"]["headers"]},
    {
        "controlType": string("Kafka's name of its type."),
        "coordinatorEpoch": _number(
            "Epoch of the transaction coordinator; only of the end of a transaction."
        ),
        "control": {
            "type": "object",
            "description": "The fields of a control record of KRaft, under Kafka's names.",
        },
        **_ERROR,
    },
)
_SNAPSHOT: Final = _entry(
    "A producer of a `.snapshot` file.",
    {
        "producerId": _PRODUCER_ID,
        "producerEpoch": _PRODUCER_EPOCH,
        "coordinatorEpoch": _number(
            "Epoch of the coordinator that wrote its last marker; -1: none."
        ),
        "currentTxnFirstOffset": nullable(
            _number("First offset of its open transaction; null: none is open.")
        ),
        "lastTimestamp": _number("The same as `timestamp`, under Kafka's name."),
        "firstSequence": _number("First sequence of its last batch; -1: none."),
        "lastSequence": _number("Last sequence of its last batch; -1: none."),
        "lastOffset": _number("Last offset of its last batch; -1: none."),
        "offsetDelta": _number("Offsets from the first to the last of that batch."),
        "timestamp": _number("Timestamp of its last batch, in ms since 1970-01-01; -1: none."),
    },
)
_META: Final = line(
    "The properties of a `meta.properties`; others than these are text.",
    {
        "version": _number("Version of the file."),
        "clusterId": nullable(string("Id of the cluster; null: none.")),
        "nodeId": nullable(_number("Id of the broker; null: none.")),
        "directoryId": nullable(string("Id of the directory, in Kafka's base64 form; null: none.")),
    },
    _FILE,
) | {"additionalProperties": {"type": "string", "description": "The value of another property."}}
_CATALOGUE: Final = _entry(
    "A topic of a `tidelog.topics.json`.",
    {
        "topic": TOPIC,
        "topicId": string("Its id, in Kafka's base64 form."),
        "partitions": mapping(
            string("Id of a directory, in Kafka's base64 form."),
            "The directory of each partition, by number.",
        ),
        "config": mapping(string("Value."), "Its own settings, by name."),
        "revision": _number("How often it was changed."),
    },
)

DUMP_LINES: Final = (
    _BATCH,
    _DUMPED_RECORD,
    _MARKER,
    _entry(
        "An entry of an `.index` file.",
        {
            "offset": _number("An offset."),
            "position": _number("Where its batch begins in the `.log` file, in bytes."),
        },
    ),
    _entry(
        "An entry of a `.timeindex` file.",
        {
            "timestamp": _number("Greatest timestamp up to this offset, in ms since 1970-01-01."),
            "offset": _number("Offset of the record that has it."),
        },
    ),
    _entry(
        "An aborted transaction of a `.txnindex` file.",
        {
            "version": _number("Version of the entry."),
            "producerId": _PRODUCER_ID,
            "firstOffset": _number("Its first offset."),
            "lastOffset": _number("Offset of its marker."),
            "lastStableOffset": _number("The last stable offset when it was aborted."),
        },
    ),
    _SNAPSHOT,
    _entry(
        "A line of an offset checkpoint.",
        {**PLACE, "offset": _number("The offset that is kept for it.")},
    ),
    _entry(
        "A line of a `leader-epoch-checkpoint`.",
        {
            "epoch": _number("A leader epoch."),
            "startOffset": _number("First offset of the epoch."),
        },
    ),
    _entry(
        "A `partition.metadata`.",
        {"topicId": nullable(string("Id of the topic, in Kafka's base64 form; null: none."))},
    ),
    _META,
    _entry(
        "A `.kafka_cleanshutdown`.",
        {"brokerEpoch": _number("Epoch of the broker; -1: none.")},
    ),
    _CATALOGUE,
    _entry(
        "A topic that was deleted, of a `tidelog.topics.json`.",
        {"deletedTopicId": string("Its id, in Kafka's base64 form.")},
    ),
)
