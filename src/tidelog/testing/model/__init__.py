"""Models of protocols, separate from their code, and an explorer that checks every state."""
