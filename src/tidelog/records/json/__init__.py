"""Records as lines of JSON and back."""
