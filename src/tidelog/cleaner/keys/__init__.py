"""The keys of a log's dirty part, with the last offset of each."""
