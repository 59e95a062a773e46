"""The line of ``tidelog picture --json``: what ``describe`` prints, and what is drawn besides."""

from __future__ import annotations

from typing import Final

from tidelog.cli.schemas.forms import array, boolean, integer, line, mapping, nullable, string
from tidelog.cli.schemas.parts import COMPACTION, CONTENTS, DESCRIBED_LOG, SHRUNK_LOG

_POSITION: Final = integer(
    "Where it begins, in bytes from the begin of the first `.log` file, the files one behind the"
    " other."
)
_SIZE: Final = integer("Its size, in bytes.")
_MIN: Final = integer("Least timestamp, in ms since 1970-01-01; -1: none.", least=-1)
_MAX: Final = integer("Greatest timestamp, in ms since 1970-01-01; -1: none.", least=-1)

_BLOCK: Final = line(
    "A segment, or neighbours joined.",
    {
        "baseOffset": integer("First offset that it may hold."),
        "endOffset": integer("Base offset of the next block, or the log end offset."),
        "position": _POSITION,
        "sizeBytes": _SIZE,
        "segments": integer("Number of segments that it joins."),
        "isActive": boolean("Whether the last segment is among them."),
        "contents": nullable(CONTENTS | {"description": "What it holds; null with `--brief`."}),
    },
)
_SPAN: Final = line(
    "A batch, or neighbours joined.",
    {
        "startOffset": integer("First offset."),
        "endOffset": integer("Offset behind the last one."),
        "position": _POSITION,
        "sizeBytes": _SIZE,
        "batches": integer("Number of batches that it joins."),
        "records": integer("Number of records."),
        "markers": integer("Number of control batches."),
        "transactional": integer("Number of batches of transactions, without markers."),
        "codecs": mapping(integer("Number of batches."), "Batches by codec."),
        "producers": mapping(integer("Number of batches."), "Batches by id of the producer."),
        "minTimestamp": _MIN,
        "maxTimestamp": _MAX,
        "dropped": integer("Number of records that a compaction would drop."),
    },
)
_TRANSACTION: Final = line(
    "A transaction, or several aborted ones joined.",
    {
        "producerId": integer("Its producer; -2: several.", least=-2),
        "firstOffset": integer("Offset of its first record."),
        "lastOffset": nullable(integer("Offset of its marker; null: it is open.")),
        "producerEpoch": integer("Epoch of the producer; -1: not known.", least=-1),
        "firstTimestamp": integer(
            "Timestamp of its first record, in ms since 1970-01-01; -1: not known.", least=-1
        ),
        "count": integer("Number of transactions that it joins."),
    },
)
_DAMAGED: Final = line(
    "Bytes without a valid batch.",
    {
        "position": _POSITION,
        "sizeBytes": integer("How many bytes they are."),
        "startOffset": integer("First offset that is lost with them."),
        "endOffset": integer("Offset behind the last one that is."),
        "path": string("Path of the file."),
        "byte": integer("Where they begin in it, in bytes."),
        "reason": string("What is wrong there."),
    },
)
PICTURE: Final = line(
    "One partition.",
    {
        **DESCRIBED_LOG["properties"],
        "recoveryPoint": nullable(
            integer("Offset below which records were flushed; null: not known.")
        ),
        "blocks": array(_BLOCK, "Its segments as they are drawn: neighbours are joined if many."),
        "batchSpans": array(_SPAN, "Its batches as they are drawn; empty with `--brief`."),
        "transactions": array(_TRANSACTION, "Its open and aborted transactions as they are drawn."),
        "abortedTransactions": integer("Number of its aborted transactions."),
        "openTransactions": integer("Number of its open transactions."),
        "tailBytes": integer("Bytes behind the last batch, which a recovery would cut off."),
        "damagedRanges": array(_DAMAGED, "Bytes without a valid batch, in the middle of the log."),
        "retention": nullable(
            SHRUNK_LOG | {"description": "As of `plan retention`; null: not planned."}
        ),
        "retentionError": nullable(string("Why it could not be planned; null: no error.")),
        "compaction": nullable(
            COMPACTION | {"description": "As of `plan compaction`; null: not planned."}
        ),
        "compactionError": nullable(string("Why it could not be planned; null: no error.")),
    },
)
