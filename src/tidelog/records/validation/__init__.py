"""Checks and stamps that batches get before a log takes them."""
