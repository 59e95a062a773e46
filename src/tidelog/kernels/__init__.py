"""Compiled loops over arrays, each with a plain-Python equivalent elsewhere in tidelog."""
