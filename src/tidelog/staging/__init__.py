"""Bulk batches that wait to be committed to logs. Must not know who holds the directory."""
