"""The files of a data directory that record its partitions and their offsets."""
