"""Pictures and explanations of logs. Looks, never changes."""
