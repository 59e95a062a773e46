"""The data directories that a manager has, with their locks and their room."""
