"""Transactions of clients, and the ids of their producers."""
