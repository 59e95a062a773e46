"""One partition's log: its segments, offsets, producers and epochs."""
