"""What Kafka's clients write through a gateway: batches as they sent them, and transactions."""
