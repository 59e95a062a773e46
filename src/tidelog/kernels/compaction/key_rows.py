"""Rows of the arrays that the cleaner's kernels fill, and the marks they take and give.

Owns the numbers that those kernels and their callers share. Compiles nothing, so it may be imported
at any time. Arrays are 2-D, int64 and C-contiguous: a row holds one field, a column one record.
"""

from __future__ import annotations

from typing import Final

# One column a record: what ``walk_keys`` fills, but for the last two rows.
OFFSET: Final = 0
TIMESTAMP: Final = 1
"""As readers see it."""
REST_AT: Final = 2
"""Byte after the offset delta: from here on a record is copied as it is."""
KEY_AT: Final = 3
KEY_SIZE: Final = 4
"""Bytes, -1 for null."""
VALUE_SIZE: Final = 5
"""Bytes, -1 for null."""
END: Final = 6
"""Byte after the record."""
AREA: Final = 7
"""Index of the record's batch."""
LATEST: Final = 8
"""What the offset map says of the key: its last offset, -1 if there is none."""
VERDICT: Final = 9
KEY_COLUMNS: Final = 10

# Marks of a batch: what is to be done with it. Without KEEP and JUDGE its records go unseen.
JUDGE: Final = 1
"""Each record is judged by its key."""
KEEP: Final = 2
"""All records stay, as those of control batches do."""
RETAIN_EMPTY: Final = 4
"""If no record stays, the header does."""
MARK_EMPTIED: Final = 8
"""A marker whose transaction has no records left: it needs a delete horizon."""
SUPERSEDED_WHOLE: Final = 16
"""All its records are superseded, by the bits of the map alone."""

# What ``look_over`` says of some batches, a bit each.
HAS_OLD: Final = 1
"""Batches of magic 0 or 1."""
HAS_COMPRESSED: Final = 2
HAS_SPECIAL: Final = 4
"""Control batches, or batches of transactions."""

# Verdicts on a record.
STAYS: Final = 0
SUPERSEDED: Final = 1
EXPIRED: Final = 2
"""A tombstone whose delete horizon has passed."""
KEYLESS: Final = 3

# What became of a batch.
DROPPED: Final = 0
EMPTIED: Final = 1
COPIED: Final = 2
REWRITTEN: Final = 3

# What ``count_outcome`` counts: records, but for the last three.
SEEN_RECORDS: Final = 0
SEEN_STAYING: Final = 1
SEEN_SUPERSEDED: Final = 2
SEEN_EXPIRED: Final = 3
SEEN_KEYLESS: Final = 4
SEEN_ABORTED: Final = 5
SEEN_MARKERS: Final = 6
SEEN_EMPTY: Final = 7
"""Batches that held no record and went."""
SEEN_REWRITTEN: Final = 8
"""Batches."""
SEEN_BYTES: Final = 9
"""Of whole batches, as read."""
SEEN_COLUMNS: Final = 10

# Words of an offset map's state.
KEY_LOW: Final = 0
"""The hash's random key, lower half."""
KEY_HIGH: Final = 1
ENTRIES: Final = 2
"""Keys in the map."""
CAPACITY: Final = 3
"""Keys that it may hold."""
BITS_START: Final = 4
"""First offset that has a bit for "superseded"."""
BITS_END: Final = 5
"""Offset after the last one that has a bit."""
LATEST_OFFSET: Final = 6
"""Records above it are not in the map; -1 at first."""
STATE_WORDS: Final = 7

SLOT_WORDS: Final = 3
"""Words of a slot: both halves of the hash, and offset + 1; 0 there means empty."""
