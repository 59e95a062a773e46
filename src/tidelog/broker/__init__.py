"""The door for Kafka's clients: a broker over the logs that this process has open."""
