"""What compaction, retention and recovery would do, told before they do it."""
