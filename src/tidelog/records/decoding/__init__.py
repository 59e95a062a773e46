"""The records of batches, decompressed and decoded to columns or one at a time."""
