"""The search for damage and contradictions in partitions and directories."""
