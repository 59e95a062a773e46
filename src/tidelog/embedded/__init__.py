"""Logs that a program opens, reads and appends to in its own process, without a broker."""
