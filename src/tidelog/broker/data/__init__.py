"""Records in and out: Produce, Fetch and ListOffsets."""
