"""Compaction: the last record of each key stays. Must not know data directories or threads."""
