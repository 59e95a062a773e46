"""Damaged bytes, and offsets that contradict each other: what is still sound."""
