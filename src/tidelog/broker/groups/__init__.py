"""Consumer groups of clients: Kafka's classic protocol."""
