"""The topics that a manager serves, and the rules for new ones."""
