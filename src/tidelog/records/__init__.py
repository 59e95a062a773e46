"""Record batches in memory and in files. Must not know segments or offsets of a log."""
