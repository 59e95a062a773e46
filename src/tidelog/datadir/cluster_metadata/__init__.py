"""What Kafka's ``__cluster_metadata`` says of topics and settings."""
