"""Validation of batches before they are appended to a log, and the fields a leader sets."""
