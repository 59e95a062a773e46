"""How a log is opened, and recovered after a crash."""
