"""Segments copied without what compaction drops, and swapped in for the old ones."""
