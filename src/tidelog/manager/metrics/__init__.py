"""Figures about all logs, and the file that holds them."""
