"""Logs opened to be read without a lock, while others may write them."""
