"""What a reader does not get: damage that it skips, gaps and holes in the offsets, what was cut."""
