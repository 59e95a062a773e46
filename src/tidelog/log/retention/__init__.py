"""The oldest segments of a log: which may be deleted, when, and deleting them."""
