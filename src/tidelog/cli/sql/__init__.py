"""What ``tidelog sql`` consists of."""
