"""Record batches in memory and in files: read, built, and validated for an append."""
