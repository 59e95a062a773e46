"""Compiled loops over arrays. Must not know files, objects or errors."""
