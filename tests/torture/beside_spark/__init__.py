"""Random queries and streams beside Spark's Kafka source, over one broker and its directory."""
