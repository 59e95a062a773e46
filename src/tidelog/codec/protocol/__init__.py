"""The messages that Kafka's clients and brokers exchange."""
