"""Commands that show or check files, and change nothing."""
