"""Settings with Kafka's names, defaults and checks, each declared once."""
