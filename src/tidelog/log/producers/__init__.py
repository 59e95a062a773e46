"""What a log knows of its producers, their transactions and their snapshots."""
