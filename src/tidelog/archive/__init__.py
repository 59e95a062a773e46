"""Closed segments on an object store: what is there, by a chain of immutable versions."""
