"""Data directories and the logs in them."""
