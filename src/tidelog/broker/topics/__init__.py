"""What clients ask of topics and their settings."""
