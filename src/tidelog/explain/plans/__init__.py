"""What compaction, retention and recovery would do, before they do it."""
