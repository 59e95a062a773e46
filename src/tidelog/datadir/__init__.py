"""The files of a data directory that tell which partitions it has, and their offsets."""
