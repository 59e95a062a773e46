"""Rows of the arrays that the log cleaner's kernels fill, and the constants they share.

The module compiles nothing, so it may be imported at any time. Arrays are 2-D, int64 and
C-contiguous: a row holds one field, a column one record.
"""

from __future__ import annotations

from typing import Final

# One column per record, filled by ``walk_keys`` except for the last two rows.
OFFSET: Final = 0
TIMESTAMP: Final = 1
"""In ms, as readers see it."""
REST_AT: Final = 2
"""Byte after the offset delta: a rewritten record is copied unchanged from here on."""
KEY_AT: Final = 3
KEY_SIZE: Final = 4
"""In bytes, -1 for null."""
VALUE_SIZE: Final = 5
"""In bytes, -1 for null."""
END: Final = 6
"""Byte after the record."""
AREA: Final = 7
"""Index of the record's batch."""
LATEST: Final = 8
"""The key's last offset in the offset map, -1 if the key is not in the map."""
VERDICT: Final = 9
KEY_COLUMNS: Final = 10

# Actions for a batch, one bit each. Without KEEP and FILTER its records are dropped unread.
FILTER: Final = 1
"""Each record is retained or removed according to its key."""
KEEP: Final = 2
"""All records are retained, as in control batches."""
READ: Final = FILTER | KEEP
"""Either of them: its records are read."""
RETAIN_EMPTY: Final = 4
"""If no record is retained, the header is."""
MARK_EMPTIED: Final = 8
"""A marker whose transaction has no records left: it needs a delete horizon."""
SUPERSEDED_WHOLE: Final = 16
"""All its records are superseded according to the map's bits alone."""
UNMAPPED: Final = 32
"""The map was full before it: what its tombstones delete is still there."""

# Results of ``summarize_headers``, one bit each.
HAS_OLD: Final = 1
"""Batches of magic 0 or 1."""
HAS_COMPRESSED: Final = 2
HAS_SPECIAL: Final = 4
"""Control batches or transactional batches."""

# Verdicts on a record.
STAYS: Final = 0
SUPERSEDED: Final = 1
EXPIRED: Final = 2
"""A tombstone whose delete horizon has passed."""
KEYLESS: Final = 3

# The result for a batch.
DROPPED: Final = 0
EMPTIED: Final = 1
COPIED: Final = 2
REWRITTEN: Final = 3

# Counts of ``collect_stats``: records, except for the last two.
SEEN_RECORDS: Final = 0
SEEN_STAYING: Final = 1
SEEN_SUPERSEDED: Final = 2
SEEN_EXPIRED: Final = 3
SEEN_KEYLESS: Final = 4
SEEN_ABORTED: Final = 5
SEEN_MARKERS: Final = 6
SEEN_EMPTY: Final = 7
"""Batches without records that were dropped."""
SEEN_BYTES: Final = 8
"""Size in bytes of the batches as read."""
SEEN_COLUMNS: Final = 9

# Elements of an offset map's state.
KEY_LOW: Final = 0
"""The hash's random key, lower half."""
KEY_HIGH: Final = 1
ENTRIES: Final = 2
"""Number of keys in the map."""
CAPACITY: Final = 3
"""Greatest number of keys that the map may hold."""
BITS_START: Final = 4
"""First offset that has a bit for "superseded"."""
BITS_END: Final = 5
"""Offset after the last one that has a bit."""
LATEST_OFFSET: Final = 6
"""Records above this offset are not in the map; initially -1."""
STATE_WORDS: Final = 7

SLOT_WORDS: Final = 3
"""Words of a slot: both halves of the hash, and offset + 1, where 0 means empty."""
