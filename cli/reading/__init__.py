"""Commands that read: records, offsets, segments as Kafka's tools print them, verification."""
