"""One partition's log: its segments, offsets, producers and epochs. Must not know other logs."""
