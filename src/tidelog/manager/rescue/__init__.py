"""A healthy data directory of all that can be read in a broken one."""
