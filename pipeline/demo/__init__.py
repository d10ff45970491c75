"""The demo: flights from CSV files into a topic, read back and compared."""
