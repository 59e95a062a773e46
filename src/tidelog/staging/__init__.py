"""Batches of records that are staged in files until they are committed to logs."""
