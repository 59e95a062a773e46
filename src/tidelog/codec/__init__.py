"""Bytes to values and back, one at a time. Must not know what a log is."""
