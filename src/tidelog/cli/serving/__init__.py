"""What tidelog run does besides keeping logs open, and what commands ask of it."""
