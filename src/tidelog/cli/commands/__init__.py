"""The commands of ``tidelog``: a module for each, with its options and what it runs."""
